"""Do the agents learn? Reward of IQN, DQN and PPO in 5-agent treasure hunt, against random agents in the same world.

    python benchmarks/learning.py [--epochs 300] [--seeds 1] [--output DIR]

Prints, per algorithm, the mean reward of the last tenth of the epochs as a multiple of random play (the bar: 3), and
writes the curves to `learning.png` in the run folder, beside the run of each algorithm.
"""

import argparse
from datetime import datetime
from pathlib import Path
from statistics import fmean

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from abreast.games import find_game

BAR = 3.0
ALGORITHMS = {
    "random": [],
    "iqn": [],
    "dqn": [],
    "ppo": ["experiment.train_interval=2"],
}
COLOURS = {"random": "#8d99ae", "iqn": "#d1495b", "dqn": "#2e6f95", "ppo": "#3c7a57"}


def rewards(algorithm: str, epochs: int, seed: int, folder: Path) -> list[float]:
    """The reward of every epoch of one run."""
    game = find_game("treasurehunt")
    overrides = [f"model.algorithm={algorithm}", f"experiment.epochs={epochs}", f"experiment.seed={seed}"]
    env = game.build(game.configure(None, [*overrides, "experiment.record_period=100000", *ALGORITHMS[algorithm]]))
    result = env.run_experiment(animate=False, output_dir=folder / f"{algorithm}-seed{seed}")
    return [record["reward"] for record in result.epochs]


def smooth(values: list[float], width: int) -> list[float]:
    """The running mean of the last `width` values."""
    return [fmean(values[max(0, end - width) : end]) for end in range(1, len(values) + 1)]


def plot(curves: dict[str, list[list[float]]], path: Path) -> None:
    """One line per run, averaged over 20 epochs."""
    figure, axes = plt.subplots(figsize=(8, 4.5), dpi=110)
    for algorithm, runs in curves.items():
        for number, run in enumerate(runs):
            label = algorithm.upper() if algorithm != "random" else "random agents"
            axes.plot(smooth(run, 20), color=COLOURS[algorithm], linewidth=2, label=label if number == 0 else None)
    axes.set(xlabel="epoch", ylabel="reward of all five agents, mean of 20 epochs", title="Treasure hunt, 5 agents")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("runs") / f"learning-{datetime.now():%Y%m%d-%H%M%S}")
    arguments = parser.parse_args()
    curves = {
        algorithm: [rewards(algorithm, arguments.epochs, seed, arguments.output) for seed in range(arguments.seeds)]
        for algorithm in ALGORITHMS
    }
    plot(curves, arguments.output / "learning.png")
    chance = fmean(fmean(run) for run in curves["random"])
    print(f"\nrandom agents: {chance:.1f} an epoch")
    for algorithm in ("iqn", "dqn", "ppo"):
        last = [fmean(run[-len(run) // 10 :]) for run in curves[algorithm]]
        ratios = ", ".join(f"{value / chance:.1f}" for value in last)
        verdict = "reached" if min(last) >= BAR * chance else "MISSED"
        print(f"{algorithm}: {fmean(last):.1f} an epoch, {ratios} times random per seed (bar {BAR:g}: {verdict})")
    print(f"curves: {arguments.output / 'learning.png'}")


if __name__ == "__main__":
    main()
