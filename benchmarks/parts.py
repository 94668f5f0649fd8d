"""Where does the time of a run go, and what do its parts cost? Ratios within one run, on this machine.

    python benchmarks/parts.py [--repeats 5] [update] [parts] [agents] [map]

update        an update of the reference learner against its matrix products, which it cannot do without (bar 1.3)
parts         world, choosing and update, as shares of the sequential run with one lane
agents        an agent-step with 200 small agents against one with 5, both as planned (bar 1)
map           a turn on a 200x200 map against one on a 20x20 map, with as many things that change (bar 2)

What a checkpoint takes is in the log.txt of each run. The rows and the table are those of `abreast bench`.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from abreast.bench.floors import Shape, computing, flop
from abreast.bench.planned import LONG, plan_of
from abreast.bench.reference import TURNS, build, speed
from abreast.bench.report import table
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, seconds_of
from abreast.games import find_game
from abreast.models.iqn import IQN
from abreast.training import Environment
from abreast.training.devices import compute_threads

UPDATES: dict[str, dict[str, Any]] = {
    "update": {},
    "update, bf16": {"precision": "bf16"},
    "update, 12 choosing quantiles": {"choosing_quantiles": 12},
}
SMALL_LEARNER = {"hidden_size": 32, "batch_size": 16, "buffer_capacity": 256, "n_frames": 1}


def row(what: str, unit: str, seconds: list[float], base: list[float], of: str, scale: float = 1e6) -> Row:
    """Times, and their ratios to others of the same repeats."""
    return Row(what, unit, [each * scale for each in seconds], quotients(seconds, base), of)


# ---- update


def learner(**model: Any) -> IQN:
    """A model of the reference with a full memory."""
    found = build(8, 8, agents=1, model=model).agents[0].model
    assert isinstance(found, IQN)
    rng, memory = np.random.default_rng(0), found.memory
    for number in range(memory.rows_per_lane):
        for lane in range(memory.lanes):
            state = rng.integers(0, 2, memory.obs_shape).astype(memory.dtype)
            memory.add(state, int(rng.integers(4)), float(rng.random()), number % TURNS == TURNS - 1, lane)
    return found


def products_of_update(model: IQN) -> list[Shape]:
    """Every product of an update: forward for two networks and the double-Q choice, and backward."""
    config = model.config
    batch, wide, inputs, cosines = config.batch_size, config.hidden_size, model.input_size, config.n_cosines
    rows, outputs, ranked = batch * config.n_quantiles, 1 + model.n_actions, batch * config.choosing_quantiles
    choice = [(batch, inputs, wide), (ranked, wide, wide), (batch, wide, outputs)]
    forward = [(batch, inputs, wide), (rows, cosines, wide), (rows, wide, wide), (rows, wide, outputs)]
    backward = [(rows, outputs, wide), (rows, wide, wide)]  # through dueling and trunk
    weights = [(wide, rows, wide), (wide, rows, cosines), (wide, batch, inputs), (outputs, rows, wide)]
    return [*choice, *forward, *forward, *backward, *weights]


def update(repeats: int) -> Iterator[Row]:
    models = {name: learner(**settings) for name, settings in UPDATES.items()}
    shapes = products_of_update(models["update"])
    kinds: dict[str, Callable[[], object]] = {"products": computing(shapes)}
    kinds |= {name: model.train_step for name, model in models.items()}
    with compute_threads(1):
        seconds = in_turns({name: partial(seconds_of, run, 10) for name, run in kinds.items()}, repeats)
    mflop = sum(map(flop, shapes)) / 1e6
    yield Row(f"products of an update ({mflop:.0f} MFLOP)", "ms", [each * 1e3 for each in seconds["products"]])
    for name in UPDATES:
        yield row(name, "ms", seconds[name], seconds["products"], "its products", 1e3)


# ---- parts


def parts(repeats: int, epochs: int = 40) -> Iterator[Row]:
    env = build(1, epochs)
    env.run_experiment(animate=False, logging=False)  # fills the replay and the caches
    spent = {"whole": 0.0, "choosing": 0.0, "update": 0.0}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] += time.perf_counter() - started

        return call

    for agent in env.agents:
        model: Any = agent.model
        model.take_actions = timed("choosing", model.take_actions)
        model.train_step = timed("update", model.train_step)
    run, steps = timed("whole", env.run_experiment), epochs * TURNS * len(env.agents)
    found: dict[str, list[float]] = {"whole": [], "world": [], "choosing": [], "update": []}
    for _ in range(repeats):
        spent.update(whole=0.0, choosing=0.0, update=0.0)
        run(animate=False, logging=False)
        parts_s = {**spent, "world": spent["whole"] - spent["choosing"] - spent["update"]}
        for name, seconds in parts_s.items():
            found[name].append(seconds / steps)
    for name, values in found.items():
        yield row(name, "µs an agent-step", values, found["whole"], "the whole")


# ---- agents, map


def agents(repeats: int, few: int = 5, many: int = 200, lanes: int = 2) -> Iterator[Row]:
    variants = {}
    for number in (few, many):
        planned = plan_of(build(lanes, LONG, number, TURNS, 30, SMALL_LEARNER))
        passes = 2 + 4 * many // number  # about as many agent-steps; the first and the last pass are not measured
        env = build(lanes, passes * lanes, number, TURNS, 30, SMALL_LEARNER, planned.parallel)
        variants[f"{number} small agents ({planned.told})"] = partial(speed, env, True)
    found = {name: [1 / each for each in speeds] for name, speeds in in_turns(variants, repeats).items()}
    for name, seconds in found.items():
        yield row(name, "µs an agent-step", seconds, next(iter(found.values())), f"{few} agents")


def map_(repeats: int, turns: int = 200) -> Iterator[Row]:
    def seconds_a_turn(env: Environment) -> float:
        env.reset()
        return seconds_of(env.take_turn, turns)

    for name in ("treasurehunt", "staghunt"):
        variants, game = {}, find_game(name)
        for size in (20, 200):
            changing = [f"world.spawn_prob={4 / (size - 2) ** 2}"]
            given = ["experiment.num_agents=5", "model.algorithm=random", f"world.height={size}", f"world.width={size}"]
            given += changing if name == "treasurehunt" else ["world.stags=20", "world.hares=20"]
            variants[f"{name}, {size}x{size}"] = partial(seconds_a_turn, game.build(game.configure(None, given)))
        found = in_turns(variants, repeats)
        for what, seconds in found.items():
            yield row(what, "µs a turn", seconds, next(iter(found.values())), "20x20")


PARTS = {"update": update, "parts": parts, "agents": agents, "map": map_}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    for name in arguments.names or PARTS:
        Console(width=200).print(table(name, list(PARTS[name](arguments.repeats))))


if __name__ == "__main__":
    main()
