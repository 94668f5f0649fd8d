"""The reference configuration: 5 agents, 10x10 treasure hunt with gems, 50 turns an epoch, five stacked views; IQN,
250 wide, 64 rows, 12 quantiles, one update per agent per epoch, one compute thread, on the CPU.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld

AGENTS, TURNS = 5, 50
DEFAULT: Mapping[str, Any] = MappingProxyType({})
"""The settings of the reference as they are."""
LEARNER = {
    "algorithm": "iqn",
    "gradient_steps": 1,
    "n_step": 3,
    "n_frames": 5,
    "n_quantiles": 12,
    "hidden_size": 250,
    "batch_size": 64,
    "buffer_capacity": 1024,
    "epsilon": 0.6,
    "epsilon_decay": 0.0001,
}


def build(
    lanes: int,
    epochs: int,
    agents: int = AGENTS,
    turns: int = TURNS,
    size: int = 10,
    model: Mapping[str, Any] = DEFAULT,
    parallel: Mapping[str, Any] = DEFAULT,
    world: type[TreasurehuntWorld] = TreasurehuntWorld,
) -> TreasurehuntEnv:
    """The reference environment, on a map of `size` x `size` cells."""
    config = {
        "experiment": {"epochs": epochs, "max_turns": turns, "num_agents": agents},
        "model": {**LEARNER, **model},
        "world": {"height": size, "width": size, "gem_value": 10.0, "spawn_prob": 0.02},
        "multiprocessing": {"num_envs": lanes, "device": "cpu", **parallel},
    }
    return TreasurehuntEnv(world(config), config)


def speed(env: TreasurehuntEnv, is_parallel: bool) -> float:
    """Agent-steps per second of one more run, from the record of its first pass to that of its last but one.

    In between, as many passes are played as rounds are trained, in every schedule. Left out are the start of the workers
    (0.3 s, which a run of minutes does not feel and one of 4 s does) and the last round of a pipelined run, beside which
    nothing is played.
    """
    run = env.run_experiment_mp if is_parallel else env.run_experiment
    epochs, lanes = run(animate=False, logging=False).epochs, env.config.multiprocessing.lanes
    first, last = epochs[lanes - 1], epochs[-1 - lanes]
    steps = last["agent_steps"] - first["agent_steps"]
    return float(steps / (last["time"]["elapsed_s"] - first["time"]["elapsed_s"]))
