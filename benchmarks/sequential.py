"""How fast is the sequential run? Agent-steps per second in the reference configuration, and where the time goes.

    python benchmarks/sequential.py [--epochs 60] [--algorithm iqn]

The reference: 5 agents, 10x10 treasure hunt with gems, 50 turns an epoch, one update per agent per epoch, one compute
thread. The limit counts only the multiplications of IQN, at the speed this machine's matrix products reach in this run.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld

WARM_UP = 25
TURNS = 50


def reference(algorithm: str, epochs: int) -> dict[str, Any]:
    """The reference configuration."""
    return {
        "experiment": {"epochs": epochs, "max_turns": TURNS, "num_agents": 5, "seed": 0},
        "model": {"algorithm": algorithm, "epsilon_decay": 0.0001, "gradient_steps": 1},
        "world": {"height": 10, "width": 10, "gem_value": 10.0, "spawn_prob": 0.02},
    }


class Stopwatch:
    """Adds up the time spent in the calls it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - started
                self.calls += 1

        return timed


def product_speed() -> float:
    """Floating-point operations per second of the largest product of an update, on one thread."""
    left, right = torch.rand(768, 250), torch.rand(250, 250)
    best = float("inf")
    for _ in range(200):
        started = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - started)
    return 2 * 768 * 250 * 250 / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--algorithm", default="iqn")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    flops = product_speed()

    config = reference(arguments.algorithm, WARM_UP)
    env = TreasurehuntEnv(TreasurehuntWorld(config), config)
    env.run_experiment(animate=False, logging=False)  # fill the replay, warm the caches
    inference, update = Stopwatch(), Stopwatch()
    for agent in env.agents:
        agent.model.take_actions = inference.wrap(agent.model.take_actions)
        agent.model.train_step = update.wrap(agent.model.train_step)
    env.config = env.config.model_copy(
        update={"experiment": env.config.experiment.model_copy(update={"epochs": arguments.epochs})}
    )
    started = time.perf_counter()
    env.run_experiment(animate=False, logging=False)
    whole = time.perf_counter() - started

    steps = arguments.epochs * TURNS * len(env.agents)
    world = whole - inference.seconds - update.seconds
    print(f"{arguments.algorithm}: {steps / whole:,.0f} agent-steps/s, epsilon {env.agents[0].model.epsilon:.2f}")
    for name, seconds in (("world", world), ("inference", inference.seconds), ("update", update.seconds)):
        print(f"  {name:10} {seconds / whole:5.0%}   {seconds / steps * 1e6:6.1f} us an agent-step")
    action, learning = inference.seconds / inference.calls, update.seconds / update.calls
    print(f"  one action {action * 1e6:.0f} us, one update {learning * 1e3:.2f} ms")
    if arguments.algorithm == "iqn":
        seconds_a_step = (732e6 / TURNS + 2.3e6) / flops
        print(
            f"  limit of one core (732 MFLOP an update, 2.3 an action, {flops / 1e9:.0f} GFLOP/s):"
            f" {1 / seconds_a_step:,.0f} agent-steps/s; reached: {steps / whole * seconds_a_step:.0%}"
        )


if __name__ == "__main__":
    main()
