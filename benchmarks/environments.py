"""Do agents learn in environments of other libraries, through `abreast train` as it is?

    python benchmarks/environments.py [--seeds 4] [--jobs 2] [--only NAME ...] [--output DIR]     minutes a run
    python benchmarks/environments.py --plot DIR/environments.json                                needs matplotlib

Prints, per environment, the command that does the same, what trained agents get in 100 episodes that nobody learns from, one
number for each seed, what random agents get, and the bar:

    CartPole-v1        475, at which Gymnasium calls it solved
    simple_spread_v3   -66.3, the sum of the three agents: what published independent learners reach (EPyMARL's benchmark,
                       Papoudakis et al. 2021: IQL -132.6, counted without the halving by local_ratio = 0.5, which is the
                       default here; random agents get -161.0 by that count and -80.5 by this one)
    connect four       0.9 of the games won against an opponent that plays at random
    MiniGrid           0.9 of at most 0.96, with the cnn
"""

import argparse
import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean

from abreast.games import find_game
from abreast.training.evaluate import evaluate
from treasurehunt import smooth

EPISODES = 100
RANDOM_OPPONENT = "model.per_agent.1.algorithm=random"


@dataclass(frozen=True)
class Task:
    """What is trained, and what counts: the reward of all agents, or how often the first one wins."""

    target: str
    overrides: tuple[str, ...]
    bar: float
    counts_wins: bool = False

    @property
    def command(self) -> str:
        return " ".join(["abreast train", self.target, *self.overrides])

    @property
    def unit(self) -> str:
        return "games won by the learner" if self.counts_wins else "reward of all agents"


TASKS = {
    "cartpole": Task("gymnasium:CartPole-v1", ("experiment.epochs=300",), 475.0),
    "simple_spread": Task(
        "pettingzoo:mpe2.simple_spread_v3",
        ("model.algorithm=dqn", "experiment.epochs=3000", "multiprocessing.num_envs=8"),
        -66.3,
    ),
    "connect_four": Task(
        "pettingzoo:classic/connect_four-v3",
        (
            RANDOM_OPPONENT,
            "experiment.epochs=8000",
            "multiprocessing.num_envs=16",
            "model.learning_rate=0.0004",
            "model.entropy_weight=0.02",
        ),
        0.9,
        counts_wins=True,
    ),
    "minigrid": Task(
        "gymnasium:MiniGrid-Empty-5x5-v0",
        ("experiment.epochs=600", "multiprocessing.num_envs=8", "model.gradient_steps=4", "model.entropy_weight=0.02"),
        0.9,
    ),
}


@dataclass
class Learned:
    """One run: the score of every epoch, and of trained and random agents in the evaluation."""

    name: str
    seed: int
    curve: list[float]
    trained: float
    random: float


def train(name: str, seed: int) -> Learned:
    """One run of a task, sequential, on one core."""
    task = TASKS[name]
    game = find_game(task.target)
    more = [f"experiment.seed={seed}", "multiprocessing.device=cpu"]
    env = game.build(game.configure(None, [*task.overrides, *more]))
    epochs = env.run_experiment(animate=False, logging=False).epochs
    curve = [_score(task, record["reward_per_agent"]) for record in epochs]
    without = [each for each in task.overrides if not each.startswith("model.")]
    at_random = game.build(game.configure(None, [*without, *more, "model.algorithm=random"]))
    trained, random = (
        fmean(_score(task, rewards) for rewards in evaluate(each, EPISODES, seed, greedy=is_greedy).rewards)
        for each, is_greedy in ((env, name != "minigrid"), (at_random, False))
    )
    return Learned(name, seed, curve, trained, random)


def _score(task: Task, rewards: list[float]) -> float:
    return float(rewards[0] > 0) if task.counts_wins else sum(rewards)


def report(name: str, runs: list[Learned]) -> None:
    task = TASKS[name]
    trained = [run.trained for run in runs]
    verdict = "reached" if min(trained) >= task.bar else "MISSED"
    print(f"\n{name} ({task.unit}): {task.command}")
    print(f"  trained {', '.join(f'{value:.2f}' for value in trained)}; random {fmean(run.random for run in runs):.2f}")
    print(f"  bar {task.bar:g}: {verdict}")


def plot(runs: list[Learned], path: Path) -> None:
    """All tasks in one picture, a line for each seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(run.name for run in runs))
    figure, all_axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 3.6), dpi=110)
    for name, axes in zip(names, all_axes if len(names) > 1 else [all_axes], strict=True):
        task, own = TASKS[name], [run for run in runs if run.name == name]
        for run in own:
            axes.plot(smooth(run.curve, max(1, len(run.curve) // 30)), color="#2e6f95", linewidth=1.2)
        axes.axhline(task.bar, color="#d1495b", linewidth=1.2, label=f"bar {task.bar:g}")
        chance = fmean(run.random for run in own)
        axes.axhline(chance, color="#8d99ae", linestyle="--", linewidth=1.2, label="random agents")
        axes.set(title=name.replace("_", " "), xlabel="epoch", ylabel=task.unit)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, loc="lower right", fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=TASKS, default=list(TASKS))
    parser.add_argument("--output", type=Path, default=Path("runs") / f"environments_{datetime.now():%Y%m%d_%H%M%S}")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    if arguments.plot is not None:
        runs = [Learned(**each) for each in json.loads(arguments.plot.read_text())]
        plot(runs, arguments.plot.with_suffix(".png"))
        return
    with ProcessPoolExecutor(arguments.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        started = [pool.submit(train, name, seed) for name in arguments.only for seed in range(arguments.seeds)]
        runs = [each.result() for each in started]
    for name in arguments.only:
        report(name, [run for run in runs if run.name == name])
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "environments.json").write_text(json.dumps([asdict(run) for run in runs]))
    print(f"\nEvery epoch: {arguments.output / 'environments.json'}")


if __name__ == "__main__":
    main()
