"""Runs of random shapes end with the same bits, whichever way they are run.

Rounding depends on shapes: batch, width, agents, lanes, actions, frames. A friendly shape hid that the stacked update of SAC
rounds otherwise than that of one agent. `make chaos` draws a thousand (`ABREAST_SHAPES=N` others), the suite a few. Each
seed is in the name of its test.
"""

import os
import random

import pytest

from abreast.games import find_game
from fakes import outcome
from promises.cover import IS_FULL

COUNT = int(os.environ.get("ABREAST_SHAPES", "1000" if IS_FULL else "4"))
SHARE_OF_PROCESSES = 0.3
"""Share of the shapes that also run in processes, which take a second to start and compute as threads do."""
FIRST_SEED = int(os.environ.get("ABREAST_FIRST_SHAPE", "0" if IS_FULL else "4"))
FOUND = [] if IS_FULL else [230]
"""Shapes that once ended with other bits: a stacked update of SAC."""


def drawn(seed):
    """Return settings of a run, drawn by this seed."""
    draw = random.Random(seed)
    algorithm = draw.choice(["sac", "sac", "dqn", "iqn", "ppo"])
    continuous = algorithm == "sac" or (algorithm == "ppo" and draw.random() < 0.5)
    lanes, actors, turns = draw.choice([1, 1, 2, 3, 9]), draw.choice([1, 1, 1, 2]), draw.randint(3, 12)
    model = {
        "algorithm": algorithm, "batch_size": draw.randint(1, 70), "hidden_size": draw.randint(1, 70),
        "n_frames": draw.randint(1, 3), "gradient_steps": draw.randint(1, 3), "buffer_capacity": 2000,
        "learning_rate": draw.choice([0.01, 0.001]), "epsilon": 0.3,
    }  # fmt: skip
    if algorithm != "ppo":
        model["n_step"] = draw.randint(1, 3)
    if algorithm == "iqn":
        model |= {"n_quantiles": draw.randint(1, 9), "n_cosines": draw.randint(1, 20)}
    if algorithm != "iqn" and draw.random() < 0.1:
        model["network"] = "lstm"
    agents = draw.randint(1, 6)
    if draw.random() < 0.2 and agents > 1:
        model["per_agent"] = {draw.randrange(agents): {"hidden_size": draw.randint(1, 30)}}
    world = {
        "agents": agents, "size": draw.randint(1, 9), "actions": draw.randint(1 if continuous else 2, 7),
        "continuous": continuous, "turns": turns, "random_lengths": draw.random() < 0.3,
    }  # fmt: skip
    passes = -(-(model["batch_size"] + 5) // (turns * lanes * actors)) + 3
    run = {"epochs": passes * lanes * actors, "max_turns": 50}
    if draw.random() < 0.7:  # updates counted in rows, a run in steps, schedules
        passes += 3
        run["epochs"] += 3 * lanes * actors
        if algorithm == "ppo":
            model |= {"n_steps": draw.randint(2, 60), "anneal": draw.choice([[], ["clip"], ["learning_rate", "clip"]])}
            model["buffer_capacity"] = 2000 + lanes * actors * 120
        else:
            model |= {"train_freq": draw.randint(1, 9), "gradient_steps": draw.choice([-1, 1, 2, 3])}
            model |= {"learning_starts": draw.randint(0, 20), "anneal": draw.choice([[], ["learning_rate"]])}
        if draw.random() < 0.5:
            model["exploration_fraction"] = draw.choice([0.1, 0.7])
        if draw.random() < 0.5:
            run = {"max_steps": draw.randint(1, passes * turns * lanes * actors) + 20, "max_turns": 50}
    else:
        run["train_interval"] = 1
    return {
        "experiment": run,
        "model": model,
        "world": world,
        "multiprocessing": {"num_envs": lanes * actors, **({"num_actors": actors} if actors > 1 else {})},
    }


def end_of(settings, schedule, workers, how="run_experiment_mp"):
    where = {**settings["multiprocessing"], "schedule": schedule, "workers": workers}
    if workers != "inline":
        where["num_workers"] = min(2, settings["world"]["agents"])
    game = find_game("pettingzoo:shape_envs:AnyShape")
    experiment = game.build(game.configure({**settings, "multiprocessing": where}))
    return outcome(experiment, getattr(experiment, how))


@pytest.mark.parametrize("seed", [*range(FIRST_SEED, FIRST_SEED + COUNT), *FOUND])
def test_a_run_of_any_shape_ends_with_the_same_bits(seed):
    settings, draw = drawn(seed), random.Random(seed)
    workers = ["threads", "processes"] if draw.random() < SHARE_OF_PROCESSES else ["threads"]
    sequential = end_of(settings, "lockstep", "inline", "run_experiment")
    for where in workers:
        assert end_of(settings, "lockstep", where) == sequential, f"lockstep in {where}: {settings}"
    if draw.random() < 0.5:
        pipelined = end_of(settings, "pipelined", "inline")
        for where in workers:
            assert end_of(settings, "pipelined", where) == pipelined, f"pipelined in {where}: {settings}"
