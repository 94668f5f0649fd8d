"""What is a parallel run worth? Agent-steps per second of each schedule, as a multiple of the sequential run with as many
lanes, and as a share of what this machine could do if nothing but matrix products were computed.

The limit: one update per agent and epoch, and the choices that are not made at random, at the speed that the products of
these shapes have on one core in the same run, times the cores. (What all cores reach at once, when each computes products of
its own, is in a row of its own: no run can be faster than that.)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from abreast.bench.bare import OF_LEARNERS, BareProcesses
from abreast.bench.planned import LONG, plan_of
from abreast.bench.products import computing, products_of_choice, products_of_update
from abreast.bench.reference import TURNS, build, learner, speed
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, median_seconds
from abreast.models.lane_streams import LANES_TOGETHER
from abreast.processes.cores import cores
from abreast.training.devices import compute_threads

SHARE_ON_TWO_CORES = 0.6
"""The bar of pipelined with 5 agents and 8 lanes: its share of the limit."""
NEVER_SLOWER = 0.95
PLANNED = "as planned"
PLANNED_ON_16_CORES = {5: 5.5, 16: 9.0}
"""The bars of the planned run, by agents: multiples of sequential."""


@dataclass(frozen=True)
class Size:
    """What is run."""

    agents: tuple[int, ...]
    passes: int
    """Passes of a run; the first and the last are not measured."""
    repeats: int
    lanes: int | None = None
    """None: 8 for up to 7 cores, and as many more as there are actors worth having, to 32."""
    hidden: int = 250
    product_calls: int = 15
    seconds: float = 0.15
    """For which all cores compute products at once."""


SMALL, FULL = Size((5,), 4, 2), Size((5, 16), 6, 3)


def measure(size: Size) -> Iterator[Row]:
    """For each number of agents, all schedules in turns."""
    for agents in size.agents:
        yield from _measure(agents, size)


def lanes_for(count: int) -> int:
    """Lanes for so many cores: an actor plays whole groups of lanes that choose together."""
    return LANES_TOGETHER * max(1, min(4, count // 4))


def _measure(agents: int, size: Size) -> Iterator[Row]:
    lanes, model = size.lanes or lanes_for(cores()), {"hidden_size": size.hidden}
    base, together = f"sequential, {lanes} lanes", min(lanes, LANES_TOGETHER)
    workers = {"workers": "processes", "num_workers": min(agents, cores()), "num_actors": 1}
    planned = plan_of(build(lanes, LONG, agents, model=model))
    kinds: dict[str, tuple[int, dict[str, Any] | None]] = {
        "sequential, 1 lane": (1, None),
        base: (lanes, None),
        "lockstep": (lanes, {"schedule": "lockstep", **workers}),
        "pipelined": (lanes, {"schedule": "pipelined", **workers}),
        PLANNED: (lanes, {"schedule": "pipelined", **planned.parallel}),
    }
    variants: dict[str, Callable[[], float]] = {}
    for name, (width, parallel) in kinds.items():
        epochs = size.passes * lanes if width > 1 else size.passes * LANES_TOGETHER // 2
        env = build(width, epochs, agents, model=model, parallel=parallel or {})
        variants[name] = partial(speed, env, parallel is not None)
    reference = learner(model)
    update, choice = products_of_update(reference), products_of_choice(reference, together)
    with compute_threads(1), BareProcesses(computing, [(update,)] * cores(), OF_LEARNERS) as processes:
        variants |= {
            "update": partial(median_seconds, computing(update), size.product_calls),
            "choice": partial(median_seconds, computing(choice), size.product_calls),
            "one core": partial(processes.rate, size.seconds, 1),
            "all cores": partial(processes.rate, size.seconds),
        }
        in_turns({"lockstep": variants["lockstep"], "all cores": variants["all cores"]}, 1)  # the fork server, caches
        found = in_turns(variants, size.repeats)
    chosen = (1 - reference.config.epsilon) / together
    pairs = zip(found["update"], found["choice"], strict=True)
    limits = [cores() / (an_update / TURNS + chosen * a_choice) for an_update, a_choice in pairs]
    together_at_once = quotients(found["all cores"], found["one core"])
    speeds = {name: found[name] for name in kinds}
    for row in rows(speeds, base, limits, together_at_once, agents, lanes, cores()):
        yield replace(row, what=f"{row.what} ({planned.told})") if PLANNED in row.what else row


def rows(
    speeds: dict[str, list[float]],
    base: str,
    limits: list[float],
    at_once: list[float],
    agents: int,
    lanes: int,
    count: int,
) -> Iterator[Row]:
    """The rows of speeds; `limits` in agent-steps/s, `at_once`: all cores against one."""
    unit = "agent-steps/s"
    for name, values in speeds.items():
        bar, bar_of = bar_for(name, agents, lanes, count)
        ratios, of_limit = quotients(values, speeds[base]), quotients(limits, speeds[base])
        what = (
            f"{agents} agents, {name}" if name.startswith("sequential") else f"{agents} agents, {name}, {lanes} lanes"
        )
        yield Row(what, unit, values, ratios, "itself" if name == base else "sequential", of_limit, "more", bar, bar_of)
    yield Row(
        f"{agents} agents, limit of the products, one core times {count}",
        unit,
        limits,
        quotients(limits, speeds[base]),
        "sequential",
    )
    reached = [limit * ratio / count for limit, ratio in zip(limits, at_once, strict=True)]
    yield Row(
        f"{agents} agents, the same with all cores at once",
        unit,
        reached,
        quotients(reached, limits),
        "the limit",
        [1.0],
    )


def bar_for(name: str, agents: int, lanes: int, count: int) -> tuple[float | None, Any]:
    """The bar of a schedule, and what it is for. (Issue 13: two cores and 16 cores.)"""
    if name == "pipelined" and count == 2 and agents == 5 and lanes == 8:
        return SHARE_ON_TWO_CORES, "share"
    if name == PLANNED:
        return (PLANNED_ON_16_CORES.get(agents, NEVER_SLOWER) if count >= 16 else NEVER_SLOWER), "ratio"
    return None, "ratio"
