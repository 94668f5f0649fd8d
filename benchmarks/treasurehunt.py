"""Do the agents learn? Reward against random agents in the same world.

    python benchmarks/treasurehunt.py [--epochs 300] [--seeds 1] [--output DIR]    IQN, DQN and PPO in 5-agent treasure hunt
    python benchmarks/treasurehunt.py --study [--seeds 5] [--only NAME ...]        what makes agents learn sooner
    python benchmarks/treasurehunt.py --plot DIR/curves.json                       a picture of the first; needs matplotlib

The first prints, per algorithm, the mean reward of the last tenth of the epochs beside that of random agents, and as a
multiple of it (the bar: 3), and writes the reward of every epoch to `curves.json` in the run folder. Every game with its own
settings: `games.py`.

The study prints, per variant and as means over the seeds: the epoch at which the mean of the last 10 reaches 3 times the
reward of random agents, the CPU seconds of the run until then, and the mean reward of epochs 100 to 149. Its first variant
has the hyperparameters of the public framework that it is compared with; the bars hold for it and for `defaults`.
"""

import argparse
import json
import math
import multiprocessing
import time
from collections.abc import Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abreast.games import find_game
from abreast.games.treasurehunt.agents import TreasurehuntAgent
from abreast.games.treasurehunt.env import GROUND, KINDS, TreasurehuntEnv
from abreast.models import IQN
from abreast.models.iqn import IQNConfig
from abreast.worlds import ActionSpec, EmptyEntity, Gridworld, OneHotObservationSpec

BAR = 3.0
RANDOM_EPOCHS = 100
ALGORITHMS = {"iqn": [], "dqn": [], "ppo": ["experiment.train_interval=2"]}
COLOURS = {"iqn": "#d1495b", "dqn": "#2e6f95", "ppo": "#3c7a57"}


@dataclass
class Curves:
    """One picture: the rewards of every epoch of every run, by label, and what random agents get."""

    name: str
    game: str
    runs: dict[str, list[list[float]]]
    random: list[list[float]]

    @property
    def title(self) -> str:
        return f"{self.game}, {find_game(self.game).configure().experiment.num_agents} agents"

    @property
    def chance(self) -> float:
        """What random agents get in an epoch."""
        return fmean(fmean(run) for run in self.random)


def rewards(game: str, overrides: list[str]) -> list[float]:
    """The reward of every epoch of one run."""
    found = find_game(game)
    config = found.configure(None, [*overrides, "multiprocessing.device=cpu"])
    epochs = found.build(config).run_experiment(animate=False, logging=False).epochs
    return [record["reward"] for record in epochs]


def measure(pictures: dict[str, tuple[str, dict[str, list[str]]]], seeds: int, jobs: int) -> list[Curves]:
    """Run every label of every picture (its game, and the overrides of each label) with every seed, and random agents."""
    at_random = ["model.algorithm=random", f"experiment.epochs={RANDOM_EPOCHS}"]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:

        def start(game: str, overrides: list[str]) -> list[Future[list[float]]]:
            return [pool.submit(rewards, game, [*overrides, f"experiment.seed={seed}"]) for seed in range(seeds)]

        started = [
            (name, game, {label: start(game, given) for label, given in labels.items()}, start(game, at_random))
            for name, (game, labels) in pictures.items()
        ]
        return [
            Curves(name, game, {label: _results(each) for label, each in runs.items()}, _results(random))
            for name, game, runs, random in started
        ]


def _results(futures: list[Future[list[float]]]) -> list[list[float]]:
    return [future.result() for future in futures]


def report(curves: Curves) -> None:
    """The last tenth of each label's epochs, against random agents."""
    print(f"\n{curves.title}: random agents get {curves.chance:.1f} an epoch")
    for label, runs in curves.runs.items():
        last = [fmean(run[-max(1, len(run) // 10) :]) for run in runs]
        values = ", ".join(f"{value:.1f}" for value in last)
        print(f"  {label}: {values} in the last tenth of {len(runs[0])} epochs, per seed")
        times = ", ".join(f"{value / curves.chance:.1f}" for value in last)
        verdict = "reached" if min(last) >= BAR * curves.chance else "MISSED"
        print(f"    {times} times random (bar {BAR:g}: {verdict})")


def smooth(values: list[float], width: int) -> list[float]:
    """The running mean of the last `width` values."""
    return [fmean(values[max(0, end - width) : end]) for end in range(1, len(values) + 1)]


def plot(curves: Curves, path: Path) -> None:
    """One line per run, averaged over 20 epochs, and one for random agents."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=110)
    for label, runs in curves.runs.items():
        for number, run in enumerate(runs):
            colour = COLOURS.get(label, "#2e6f95")
            axes.plot(smooth(run, 20), color=colour, linewidth=2, label=label if number == 0 else None)
    axes.axhline(curves.chance, color="#8d99ae", linestyle="--", linewidth=2, label="random agents")
    axes.set(xlabel="epoch", ylabel="reward of all agents, mean of 20 epochs", title=curves.title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


# ---- the study


class Timed(TreasurehuntEnv):
    """Treasure hunt that notes the CPU time of the process at the end of every epoch. `planes`: more kinds that are seen."""

    planes: tuple[str, ...] = ()
    view = OneHotObservationSpec

    def setup_agents(self) -> None:
        actions = ActionSpec(["up", "down", "left", "right"])
        for number in range(self.config.experiment.num_agents):
            radius = self.config.model_of(number).agent_vision_radius
            view = self.view([*KINDS, *self.planes], vision_radius=radius, blank=GROUND)
            model = self.make_model(view, actions.n_actions, number)
            self.agents.append(TreasurehuntAgent(view, actions, model, number))

    def metrics(self) -> Mapping[str, float]:
        return {"cpu_s": time.process_time()}


class EmptySeen(Timed):
    planes = (EmptyEntity.kind,)


class GroundSeen(Timed):
    planes = (*GROUND,)


class EdgePerLayer(OneHotObservationSpec):
    """What is beyond the edge counts once a layer, so twice in treasure hunt, where a wall counts once."""

    def _planes_for(self, world: Gridworld) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        planes, _ = super()._planes_for(world)
        return planes, planes


class EdgeTwice(Timed):
    view = EdgePerLayer


class AsItWas(GroundSeen):
    view = EdgePerLayer


class Noiseless(IQN):
    """Chooses without noise; learns with it."""

    def start_epoch_action(self, *, epoch: int) -> None:
        super().start_epoch_action(epoch=epoch)
        self.policy.leave_out_noise()


class FreshFractions(Noiseless):
    """Chooses without noise, with other random fractions for each action instead of midpoints."""

    def evaluate(self, frames: Tensor) -> Tensor:
        return self.policy.preferences(frames, self.policy.embed(torch.rand(self.config.n_quantiles)))


@dataclass(frozen=True)
class Variant:
    """What is changed, against the settings of the public framework."""

    overrides: tuple[str, ...] = ()
    env: type[Timed] = Timed
    is_default: bool = False
    """Start from the game's own settings instead."""


PUBLIC = [
    f"model.{setting}"
    for setting in (
        "algorithm=iqn", "n_frames=1", "hidden_size=128", "learning_rate=0.001", "gradient_steps=4", "batch_size=64",
        "buffer_capacity=4096", "n_step=1", "gamma=0.99", "target_rate=0.001", "target_interval=200", "n_quantiles=12",
        "epsilon=0.6", "epsilon_min=0.01", "gradient_norm=1",
    )
]  # fmt: skip
"""The hyperparameters that both were compared with. (The public framework takes no notice of n_step: 1-step returns.)"""

VARIANTS = {
    "same": Variant(),
    "defaults": Variant(is_default=True),
    "empty cells seen": Variant(env=EmptySeen),
    "empty cells and sand seen": Variant(env=GroundSeen),
    "edge twice": Variant(env=EdgeTwice),
    "as it was": Variant(env=AsItWas),
    "as it was, n_step 3": Variant(("model.n_step=3",), AsItWas),
    "n_step 2": Variant(("model.n_step=2",)),
    "n_step 3": Variant(("model.n_step=3",)),
    "no hard copies": Variant(("model.target_interval=1000000",)),
    "target_rate 0.01": Variant(("model.target_rate=0.01",)),
    "gamma 0.9": Variant(("model.gamma=0.9",)),
    "gradient_norm 12": Variant(("model.gradient_norm=12",)),
    "epsilon_min 0.05": Variant(("model.epsilon_min=0.05",)),
    "gradient_steps 8": Variant(("model.gradient_steps=8",)),
    "no noise in choosing": Variant((f"model.algorithm={__file__}:Noiseless",)),
    "no noise, fresh fractions": Variant((f"model.algorithm={__file__}:FreshFractions",)),
    "dqn": Variant(("model.algorithm=dqn",)),
    "dqn, gradient_steps 8": Variant(("model.algorithm=dqn", "model.gradient_steps=8")),
    "ppo": Variant(("model.algorithm=ppo",)),
    "ppo, gamma 0.9": Variant(("model.algorithm=ppo", "model.gamma=0.9")),
}
if "precision" in IQNConfig.model_fields:
    VARIANTS["bf16"] = Variant(("model.precision=bf16",))
WINDOW = 10
LATE = slice(100, 150)
STUDY_BARS = {"same": {"epochs": 31.0, "late": 196.0}, "defaults": {"cpu_s": 4.0}}


def study_run(name: str, epochs: int, seed: int) -> tuple[list[float], list[float]]:
    """Reward of every epoch, and the CPU seconds since the beginning at its end."""
    variant, game = VARIANTS[name], find_game("treasurehunt")
    # PPO has no target: settings that an algorithm does not know are left out
    algorithm = next((each.split("=")[1] for each in variant.overrides if "algorithm=" in each), "iqn")
    known = game.configure(None, [f"model.algorithm={algorithm}"]).model.model_dump()
    base = [] if variant.is_default else [each for each in PUBLIC if each[6:].split("=")[0] in known]
    run = [f"experiment.epochs={epochs}", f"experiment.seed={seed}", "multiprocessing.device=cpu"]
    config = game.configure(None, [*base, *variant.overrides, *run])
    env = variant.env(variant.env.make_world(config), config)
    begin = time.process_time()
    records = env.run_experiment(animate=False, logging=False).epochs
    return [record["reward"] for record in records], [record["metrics"]["cpu_s"] - begin for record in records]


def epochs_to(rewards_of_run: list[float], level: float) -> int | None:
    """Epochs until the mean of the last `WINDOW` reaches a level."""
    means = smooth(rewards_of_run, WINDOW)
    return next((epoch + 1 for epoch in range(WINDOW - 1, len(means)) if means[epoch] >= level), None)


def study(names: list[str], epochs: int, seeds: int, jobs: int, output: Path) -> None:
    """Run the variants, print what each is worth, and keep the curves."""
    at_random = ["model.algorithm=random", "experiment.epochs=300"]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        random = [
            pool.submit(rewards, "treasurehunt", [*at_random, f"experiment.seed={seed}"]) for seed in range(seeds)
        ]
        started = {name: [pool.submit(study_run, name, epochs, seed) for seed in range(seeds)] for name in names}
        chance = fmean(fmean(run.result()) for run in random)
        print(f"random agents get {chance:.1f} an epoch; {seeds} seeds; ± is the standard error of the mean\n")
        print(f"{'variant':36} {'epochs to 3x':>14} {'CPU s to 3x':>14} {'reward 100-149':>16}")
        curves = {}
        for name, futures in started.items():
            curves[name] = [future.result() for future in futures]
            print(f"{name:36} {_study_row(name, curves[name], BAR * chance)}", flush=True)
    (output / "study.json").write_text(json.dumps({"random": chance, "runs": curves}))


def _study_row(name: str, runs: list[tuple[list[float], list[float]]], level: float) -> str:
    reached = [epochs_to(run, level) for run, _ in runs]
    columns = {"late": [fmean(run[LATE]) for run, _ in runs]} if len(runs[0][0]) >= LATE.stop else {}
    if None not in reached:
        ends = [epoch for epoch in reached if epoch is not None]
        columns |= {"epochs": [float(epoch) for epoch in ends]}
        columns |= {"cpu_s": [cpu[epoch - 1] for epoch, (_, cpu) in zip(ends, runs, strict=True)]}
    printed = [_with_error(columns[key]) if key in columns else "not reached" for key in ("epochs", "cpu_s", "late")]
    verdicts = []
    for key, bar in STUDY_BARS.get(name, {}).items():
        value = fmean(columns[key]) if key in columns else math.nan
        is_reached = value >= bar if key == "late" else value <= bar
        verdicts.append(f"{key} {bar:g}: {'reached' if is_reached else 'MISSED'}")
    return f"{printed[0]:>14} {printed[1]:>14} {printed[2]:>16}  {', '.join(verdicts)}".rstrip()


def _with_error(values: list[float]) -> str:
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{fmean(values):.1f} ±{error:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", action="store_true", help="what makes agents learn sooner, one change each")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, help="these variants of the study")
    parser.add_argument("--plot", type=Path, metavar="CURVES", help="draw learning-<name>.png beside a curves.json")
    parser.add_argument("--epochs", type=int, help="epochs of a run (300; --study 150)")
    parser.add_argument("--seeds", type=int, help="runs each, with other seeds (1; --study 5)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--output", type=Path, default=Path("runs") / f"learning-{datetime.now():%Y%m%d-%H%M%S}")
    arguments = parser.parse_args()
    if arguments.plot:
        for values in json.loads(arguments.plot.read_text()):
            plot(Curves(**values), arguments.plot.parent / f"learning-{values['name']}.png")
        return
    if arguments.study:
        arguments.output.mkdir(parents=True, exist_ok=True)
        names = arguments.only or list(VARIANTS)
        study(names, arguments.epochs or 150, arguments.seeds or 5, arguments.jobs, arguments.output)
        return
    epochs = [f"experiment.epochs={arguments.epochs or 300}"]
    labels = {name: [f"model.algorithm={name}", *more, *epochs] for name, more in ALGORITHMS.items()}
    pictures = {"algorithms": ("treasurehunt", labels)}
    arguments.output.mkdir(parents=True, exist_ok=True)
    measured = measure(pictures, arguments.seeds or 1, arguments.jobs)
    for curves in measured:
        report(curves)
    path = arguments.output / "curves.json"
    path.write_text(json.dumps([asdict(curves) for curves in measured]))
    print(f"\ncurves: {path}; pictures: python benchmarks/treasurehunt.py --plot {path}")


if __name__ == "__main__":
    main()
