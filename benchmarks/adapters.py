"""What does it cost to train an environment of another library here? Against a loop written by hand around the same one.

    python benchmarks/adapters.py [--epochs 60] [--repeats 5]

Both play with the same models, seeds and settings, so they must see the same rewards; that is checked. The loop by hand does
what a careful researcher would write: reset, choose, step, remember, learn, and nothing else. CPU times of whole epochs, in
turns within one run; the median of the pairs' ratios counts. The bar, for training: at most 10 % over the loop by hand.
Playing alone, and playing at random, which costs next to nothing itself, show where the rest goes.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from mpe2 import simple_spread_v3

from abreast.games import find_game
from abreast.integrations.adapted.lanes import as_seed
from abreast.models import BaseModel
from abreast.training.collect import collect_pass
from abreast.training.devices import compute_threads

BAR = 1.1
Epoch = Callable[[int], list[float]]
"""Plays the epoch of this number; returns what each agent got."""


class Subject(NamedTuple):
    name: str
    target: str
    by_hand: Callable[[list[BaseModel]], Epoch]


def seed_of(epoch: int) -> int:
    """As an experiment with seed 0 draws it for its first lane."""
    return as_seed(np.random.SeedSequence(0, spawn_key=(0, 0, epoch + 1)))


def cartpole(models: list[BaseModel]) -> Epoch:
    (model,), env = models, gymnasium.make("CartPole-v1")

    def play(epoch: int) -> list[float]:
        total, seen = 0.0, env.reset(seed=seed_of(epoch))[0]
        model.start_epoch_action(epoch=epoch)
        while True:
            action = model.take_action(seen)
            then, reward, terminated, truncated, _ = env.step(action)
            model.remember(seen, action, float(reward), terminated)
            seen, total = then, total + float(reward)
            if terminated or truncated:
                break
        model.end_epoch_action(epoch=epoch)
        return [total]

    return play


def spread(models: list[BaseModel]) -> Epoch:
    env = simple_spread_v3.parallel_env()

    def play(epoch: int) -> list[float]:
        seen, _ = env.reset(seed=seed_of(epoch))
        names, totals = list(env.agents), [0.0] * len(env.agents)
        for model in models:
            model.start_epoch_action(epoch=epoch)
        while env.agents:
            actions = {name: model.take_action(seen[name]) for name, model in zip(names, models, strict=True)}
            then, rewards, terminated, _, _ = env.step(actions)
            for number, (name, model) in enumerate(zip(names, models, strict=True)):
                model.remember(seen[name], actions[name], float(rewards[name]), terminated[name])
                totals[number] += float(rewards[name])
            seen = then
        for model in models:
            model.end_epoch_action(epoch=epoch)
        return totals

    return play


SUBJECTS = [
    Subject("CartPole-v1", "gymnasium:CartPole-v1", cartpole),
    Subject("simple_spread_v3", "pettingzoo:mpe2.simple_spread_v3", spread),
]


def compare(subject: Subject, algorithm: str, learns: bool, epochs: int, repeats: int) -> None:
    """Print one line."""
    game = find_game(subject.target)
    config = game.configure(None, [f"model.algorithm={algorithm}", "model.epsilon=0.1", "multiprocessing.device=cpu"])
    here, there = game.build(config), game.build(config)
    play_here: Epoch = lambda epoch: collect_pass(here.game, epoch)[0].reward_per_agent  # noqa: E731
    play_there = subject.by_hand([player.model for player in there.game.players])
    taken: dict[str, list[float]] = {"here": [], "by hand": []}
    steps, epoch = 0, 0
    for _ in range(repeats):
        rewards: dict[str, list[Any]] = {}
        for name, play in (("here", play_here), ("by hand", play_there)):
            models = [player.model for player in (here if name == "here" else there).game.players]
            started, rewards[name] = time.process_time(), []
            for number in range(epochs):
                rewards[name].append(play(epoch + number))
                for model in models if learns else ():
                    model.train_step()
            taken[name].append(time.process_time() - started)
        assert np.allclose(rewards["here"], rewards["by hand"]), "the loop by hand plays another game"
        epoch += epochs
    steps = sum(int(player.model.memory.written.sum()) for player in here.game.players) // repeats
    ratio = min(taken["here"]) / min(taken["by hand"])
    pairs = sorted(one / other for one, other in zip(taken["here"], taken["by hand"], strict=True))
    middle = pairs[len(pairs) // 2]
    print(
        f"  {subject.name:18} {algorithm:7}{'learns' if learns else 'plays':7}"
        f" {1e6 * min(taken['by hand']) / steps:7.1f} µs an agent-step by hand,"
        f" {1e6 * min(taken['here']) / steps:7.1f} here: {ratio:.3f} (median of pairs {middle:.3f})"
        + (f"  {'reached' if middle <= BAR else 'MISSED'}" if learns else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; CPU time; bar {BAR:g}")
    with compute_threads(1):
        for subject in SUBJECTS:
            for algorithm, learns in (("ppo", True), ("dqn", True), ("dqn", False), ("random", False)):
                compare(subject, algorithm, learns, arguments.epochs, arguments.repeats)


if __name__ == "__main__":
    main()
