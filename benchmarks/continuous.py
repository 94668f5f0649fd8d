"""Do agents with continuous actions learn? Gymnasium's Pendulum and PettingZoo's simple_spread, with SAC and PPO.

    python benchmarks/continuous.py [--seeds 3] [--jobs 12] [--only NAME ...] [--output DIR] [--draw]
    python benchmarks/continuous.py --draw DIR/continuous.csv                    the picture alone; needs matplotlib

Prints, per row, the mean reward of 50 episodes of the trained agents, which act without noise, beside that of random
agents. Writes the reward of every epoch to `continuous.csv` in the output folder, and, with --draw, `continuous.png`.
"""

import argparse
import csv
import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from abreast.games import find_game
from abreast.training.evaluate import evaluate

EPISODES = 50
PENDULUM = "gymnasium:Pendulum-v1"
SPREAD = "pettingzoo:mpe2.simple_spread_v3"
IN_SPREAD = ["world.continuous_actions=true"]


class Row(NamedTuple):
    """What is trained, and the reward that counts as learned."""

    target: str
    settings: list[str]
    bar: float


ROWS = {
    "pendulum, sac": Row(PENDULUM, ["model.algorithm=sac", "experiment.epochs=100"], -300.0),
    "pendulum, ppo": Row(PENDULUM, ["experiment.epochs=800", "multiprocessing.num_envs=8", "model.gamma=0.9"], -300.0),
    "spread, sac": Row(
        SPREAD, [*IN_SPREAD, "model.algorithm=sac", "experiment.epochs=600", "multiprocessing.num_envs=4"], -66.3
    ),
    "spread, ppo": Row(
        SPREAD,
        [
            *IN_SPREAD,
            "experiment.epochs=6000",
            "multiprocessing.num_envs=16",
            "model.gamma=0.95",
            "model.gradient_steps=4",
            "model.batch_size=100",
            "model.entropy_weight=0",
        ],
        -66.3,
    ),
}


class Trained(NamedTuple):
    """One run."""

    name: str
    seed: int
    epochs: list[float]
    """The reward of each epoch, of all agents together."""
    evaluated: float
    seconds: float


def train(name: str, seed: int) -> Trained:
    """Train with one seed, here, in one thread; then evaluate."""
    import torch

    torch.set_num_threads(1)
    row, begun = ROWS[name], time.perf_counter()
    game = find_game(row.target)
    settings = [*row.settings, f"experiment.seed={seed}", "multiprocessing.device=cpu"]
    experiment = game.build(game.configure(None, settings))
    records = experiment.run_experiment(animate=False, logging=False).epochs
    score = fmean(sum(rewards) for rewards in evaluate(experiment, EPISODES, seed, greedy=True).rewards)
    return Trained(name, seed, [record["reward"] for record in records], score, time.perf_counter() - begun)


def by_chance(name: str) -> float:
    """The mean reward of an epoch of random agents."""
    row = ROWS[name]
    game = find_game(row.target)
    own = [each for each in row.settings if each.startswith("world.")]
    settings = [*own, "model.algorithm=random", f"experiment.epochs={EPISODES}"]
    experiment = game.build(game.configure(None, settings))
    return fmean(record["reward"] for record in experiment.run_experiment(animate=False, logging=False).epochs)


def measure(names: Sequence[str], seeds: int, jobs: int, output: Path) -> Path:
    """Train everything, say what came of it, and write the curves."""
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        runs = {name: [pool.submit(train, name, seed) for seed in range(seeds)] for name in names}
        chance = {name: pool.submit(by_chance, name) for name in names}
        found = {name: [run.result() for run in each] for name, each in runs.items()}
        random = {name: each.result() for name, each in chance.items()}
    for name, each in found.items():
        bar, scores = ROWS[name].bar, [run.evaluated for run in each]
        told = ", ".join(f"{score:.1f}" for score in scores)
        verdict = "reached" if min(scores) >= bar else "MISSED"
        seconds = max(run.seconds for run in each)
        print(f"{name}: {told}; random {random[name]:.1f}; bar {bar:g} {verdict}; {seconds:.0f} s the longest run")
    output.mkdir(parents=True, exist_ok=True)
    path = output / "continuous.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "seed", "epoch", "reward", "random"])
        for name, each in found.items():
            for run in each:
                curve = enumerate(run.epochs)
                rows.writerows((name, run.seed, epoch, f"{got:.4f}", f"{random[name]:.4f}") for epoch, got in curve)
    print(path)
    return path


def draw(path: Path) -> None:
    """A picture of the curves in a file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    curves: dict[str, dict[str, list[float]]] = {}
    chance: dict[str, float] = {}
    with path.open() as file:
        for row in csv.DictReader(file):
            curves.setdefault(row["name"], {}).setdefault(row["seed"], []).append(float(row["reward"]))
            chance[row["name"]] = float(row["random"])
    figure, places = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.6), dpi=110, squeeze=False)
    for axes, (name, seeds) in zip(places[0], curves.items(), strict=True):
        for number, rewards in enumerate(seeds.values()):
            width = max(1, len(rewards) // 50)
            smooth = [fmean(rewards[max(0, end - width) : end]) for end in range(1, len(rewards) + 1)]
            axes.plot(smooth, color="#2e6f95", linewidth=1.5, label="each seed" if number == 0 else None)
        axes.axhline(chance[name], color="#8d99ae", linestyle="--", label="random agents")
        axes.axhline(ROWS[name].bar, color="#3c7a57", linestyle=":", label="bar")
        axes.set(xlabel="epoch", title=name)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    places[0][0].set_ylabel("reward of all agents, running mean")
    places[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path.with_suffix(".png"))
    print(path.with_suffix(".png"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=min(12, os.cpu_count() or 1))
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--output", type=Path, default=Path("runs/continuous"))
    parser.add_argument("--draw", nargs="?", type=Path, const=Path(), metavar="FILE")
    given = parser.parse_args()
    if given.draw is not None and given.draw != Path():
        draw(given.draw)
        return
    path = measure(given.only, given.seeds, given.jobs, given.output)
    if given.draw is not None:
        draw(path)


if __name__ == "__main__":
    main()
