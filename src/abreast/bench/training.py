"""What is a parallel run worth? Agent-steps per second of each schedule, as a multiple of the sequential run with as many
lanes.

The limit: what all cores reach at once, if each of them computes products and nothing is shared, as a multiple of one core.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from abreast.bench.bare import OF_LEARNERS, BareProcesses
from abreast.bench.floors import LARGEST, computing
from abreast.bench.planned import LONG, plan_of
from abreast.bench.reference import build, speed
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns
from abreast.models.lane_streams import LANES_TOGETHER
from abreast.processes.cores import cores

SEQUENTIAL = "sequential"


class Size(NamedTuple):
    """What is run."""

    agents: tuple[int, ...]
    passes: int
    """Passes of a run; the first and the last are not measured."""
    repeats: int
    lanes: int | None = None
    """None: 8 for up to 7 cores, and as many more as there are actors worth having, to 32."""
    hidden: int = 250
    seconds: float = 0.15
    """For which all cores compute products at once."""


SMALL, FULL = Size((5,), 4, 2), Size((5, 16), 6, 3)


def measure(size: Size) -> Iterator[Row]:
    """For each number of agents, all schedules in turns."""
    lanes, model = size.lanes or lanes_for(cores()), {"hidden_size": size.hidden}
    for agents in size.agents:
        workers = {"workers": "processes", "num_workers": min(agents, cores()), "num_actors": 1}
        planned = plan_of(build(lanes, LONG, agents, model=model))
        schedules: dict[str, dict[str, Any] | None] = {
            SEQUENTIAL: None,
            "lockstep": {"schedule": "lockstep", **workers},
            "pipelined": {"schedule": "pipelined", **workers},
            f"as planned ({planned.told})": {"schedule": "pipelined", **planned.parallel},
        }
        variants: dict[str, Callable[[], float]] = {}
        for name, parallel in schedules.items():
            env = build(lanes, size.passes * lanes, agents, model=model, parallel=parallel or {})
            variants[name] = partial(speed, env, parallel is not None)
        with BareProcesses(computing, [([LARGEST],)] * cores(), OF_LEARNERS) as processes:
            variants["one core"] = partial(processes.rate, size.seconds, 1)
            variants["all cores"] = partial(processes.rate, size.seconds)
            in_turns({name: variants[name] for name in ("lockstep", "all cores")}, 1)  # the fork server, caches
            found = in_turns(variants, size.repeats)
        limits = quotients(found["all cores"], found["one core"])
        yield from rows({name: found[name] for name in schedules}, limits, agents, lanes)


def lanes_for(count: int) -> int:
    """Lanes for so many cores: an actor plays whole groups of lanes that choose together."""
    return LANES_TOGETHER * max(1, min(4, count // 4))


def rows(speeds: dict[str, list[float]], limits: list[float], agents: int, lanes: int) -> Iterator[Row]:
    """The rows of speeds; `limits`: all cores against one."""
    base = speeds[SEQUENTIAL]
    for name, values in speeds.items():
        what = f"{agents} agents, {lanes} lanes, {name}"
        ratios = () if values is base else quotients(values, base)
        yield Row(what, "agent-steps/s", values, ratios, SEQUENTIAL if ratios else "", limits if ratios else ())
