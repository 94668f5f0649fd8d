"""What is the parallel run worth? Agent-steps per second of each schedule, as a multiple of the sequential run.

    python benchmarks/training.py [--lanes 8] [--actors 1] [--agents 5] [--workers 2] [--device cpu] [--passes 12]

The reference configuration (5 agents, 10x10 treasure hunt, IQN 250 wide, one update per agent per 50-turn epoch). All
runs take turns within one process, so that a slow moment of the machine hits them alike; the ratio is the median over the
repeats. The bar: pipelined with 8 lanes at least 1.7 times the sequential run with 8 lanes, on two cores.
"""

import argparse
import os
from statistics import median
from typing import Any

from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld

BAR = 1.7


def build(lanes: int, epochs: int, agents: int, **parallel: Any) -> TreasurehuntEnv:
    """The reference environment."""
    config = {
        "experiment": {"epochs": epochs, "max_turns": 50, "num_agents": agents},
        "model": {"algorithm": "iqn", "epsilon_decay": 0.0001, "gradient_steps": 1, "n_step": 3},
        "world": {"height": 10, "width": 10, "gem_value": 10.0, "spawn_prob": 0.02},
        "multiprocessing": {"num_envs": lanes} | parallel,
    }
    return TreasurehuntEnv(TreasurehuntWorld(config), config)


def speed(env: TreasurehuntEnv, is_parallel: bool) -> float:
    """Agent-steps per second of one more run, from the record of its first pass to that of its last but one.

    In between, as many passes are played as rounds are trained, in every schedule. Left out are the start of the workers
    (0.3 s, which a run of minutes does not feel and one of 4 s does) and the last round of a pipelined run, beside which
    nobody plays.
    """
    run = env.run_experiment_mp if is_parallel else env.run_experiment
    epochs, lanes = run(animate=False, logging=False).epochs, env.config.multiprocessing.lanes
    first, last = epochs[lanes - 1], epochs[-1 - lanes]
    return (last["agent_steps"] - first["agent_steps"]) / (last["time"]["elapsed_s"] - first["time"]["elapsed_s"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--actors", type=int, default=1, help="the lanes are spread over so many actors")
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    lanes, epochs = arguments.lanes, arguments.lanes * arguments.passes
    settings = {"num_workers": arguments.workers, "device": arguments.device}
    each = {"num_envs": lanes // arguments.actors, "num_actors": arguments.actors}
    variants: dict[str, dict[str, Any] | None] = {
        "sequential": None,
        "lockstep": {"schedule": "lockstep", "workers": "processes", **each},
        "pipelined": {"schedule": "pipelined", "workers": "processes", **each},
        "pipelined, double_buffer": {"schedule": "pipelined", "mode": "double_buffer", "workers": "processes", **each},
        "pipelined, threads": {"schedule": "pipelined", "workers": "threads", **each},
        "pipelined, as planned": {"schedule": "pipelined", "num_envs": lanes, "num_workers": None},
    }
    envs = {
        name: build(lanes, epochs, arguments.agents, **{**settings, **(what or {})}) for name, what in variants.items()
    }
    for name, env in envs.items():
        speed(env, variants[name] is not None)  # fill the replay, start the fork server
    speeds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(arguments.repeats):
        for name, env in envs.items():
            speeds[name].append(speed(env, variants[name] is not None))
    print(
        f"{os.cpu_count()} cores, {arguments.agents} agents, {lanes} lanes, {arguments.actors} actors,"
        f" device {arguments.device}, {epochs} epochs a run"
    )
    for name, values in speeds.items():
        ratio = median(value / base for value, base in zip(values, speeds["sequential"], strict=True))
        print(f"  {name:26} {median(values):8,.0f} agent-steps/s   {ratio:.2f} times sequential")
    ratio = median(a / b for a, b in zip(speeds["pipelined"], speeds["sequential"], strict=True))
    print(f"  bar {BAR:g} times: {'reached' if ratio >= BAR else 'MISSED'}")


if __name__ == "__main__":
    main()
