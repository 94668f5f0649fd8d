"""Do the agents learn? Reward against random agents in the same world.

    python benchmarks/learning.py [--epochs 300] [--seeds 1] [--output DIR]    IQN, DQN and PPO in 5-agent treasure hunt
    python benchmarks/learning.py --games [--jobs 2] [--seeds 3]               every game with its own settings
    python benchmarks/learning.py --plot DIR/curves.json                       pictures of either; needs matplotlib

The first two print, per algorithm or game, the mean reward of the last tenth of the epochs beside that of random agents (of
algorithms as a multiple, the bar: 3), and write the reward of every epoch to `curves.json` in the run folder.
"""

import argparse
import json
import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean

from abreast.games import find_game, list_games

BAR = 3.0
RANDOM_EPOCHS = 100
ALGORITHMS = {"iqn": [], "dqn": [], "ppo": ["experiment.train_interval=2"]}
COLOURS = {"iqn": "#d1495b", "dqn": "#2e6f95", "ppo": "#3c7a57"}
# The rewards of tag add up to nearly the same however well one plays, so agent 0 learns among agents that act at random.
LONE_LEARNERS = {"tag": [f"model.per_agent.{agent}.algorithm=random" for agent in range(1, 4)]}


@dataclass
class Curves:
    """One picture: the rewards of every epoch of every run, by label, and what random agents get."""

    name: str
    game: str
    runs: dict[str, list[list[float]]]
    random: list[list[float]]

    @property
    def title(self) -> str:
        agents = find_game(self.game).configure().experiment.num_agents
        alone = f"one learner among {agents - 1} random agents"
        return f"{self.game}, {alone if self.game in LONE_LEARNERS else f'{agents} agents'}"

    @property
    def chance(self) -> float:
        """What random agents get in an epoch."""
        return fmean(fmean(run) for run in self.random)


def rewards(game: str, overrides: list[str]) -> list[float]:
    """The reward of every epoch of one run: of all agents, or of the only learner."""
    found = find_game(game)
    config = found.configure(None, [*overrides, "multiprocessing.device=cpu"])
    epochs = found.build(config).run_experiment(animate=False, logging=False).epochs
    return [record["reward_per_agent"][0] if game in LONE_LEARNERS else record["reward"] for record in epochs]


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


def report(curves: Curves, is_bar_shown: bool) -> None:
    """The last tenth of each label's epochs, against random agents."""
    print(f"\n{curves.title}: random agents get {curves.chance:.1f} an epoch")
    for label, runs in curves.runs.items():
        last = [fmean(run[-max(1, len(run) // 10) :]) for run in runs]
        values = ", ".join(f"{value:.1f}" for value in last)
        print(f"  {label}: {values} in the last tenth of {len(runs[0])} epochs, per seed")
        if is_bar_shown:
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
    who = "the learner" if curves.game in LONE_LEARNERS else "all agents"
    axes.set(xlabel="epoch", ylabel=f"reward of {who}, mean of 20 epochs", title=curves.title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", action="store_true", help="train every game with its own settings")
    parser.add_argument("--plot", type=Path, metavar="CURVES", help="draw learning-<name>.png beside a curves.json")
    parser.add_argument("--epochs", type=int, help="epochs of a run (300; with --games as many as the game says)")
    parser.add_argument("--seeds", type=int, help="runs each, with other seeds (1; with --games 3)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--output", type=Path, default=Path("runs") / f"learning-{datetime.now():%Y%m%d-%H%M%S}")
    arguments = parser.parse_args()
    if arguments.plot:
        for values in json.loads(arguments.plot.read_text()):
            plot(Curves(**values), arguments.plot.parent / f"learning-{values['name']}.png")
        return
    if arguments.games:
        epochs = [f"experiment.epochs={arguments.epochs}"] if arguments.epochs else []
        pictures = {name: (name, {_algorithm(name): [*LONE_LEARNERS.get(name, []), *epochs]}) for name in list_games()}
    else:
        epochs = [f"experiment.epochs={arguments.epochs or 300}"]
        labels = {name: [f"model.algorithm={name}", *more, *epochs] for name, more in ALGORITHMS.items()}
        pictures = {"algorithms": ("treasurehunt", labels)}
    arguments.output.mkdir(parents=True, exist_ok=True)
    measured = measure(pictures, arguments.seeds or (3 if arguments.games else 1), arguments.jobs)
    for curves in measured:
        report(curves, is_bar_shown=not arguments.games)
    path = arguments.output / "curves.json"
    path.write_text(json.dumps([asdict(curves) for curves in measured]))
    print(f"\ncurves: {path}; pictures: python benchmarks/learning.py --plot {path}")


def _algorithm(game: str) -> str:
    return str(find_game(game).configure().model.algorithm)


if __name__ == "__main__":
    main()
