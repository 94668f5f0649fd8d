"""Does an agent-step cost more when there are many agents? 200 small agents against 5, as planned, on the same cores.

Both have the same map, the same lanes and the same learner (IQN, 32 wide, 16 rows); runs of few agents are longer, so that
both play about as many agent-steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from abreast.bench.planned import LONG, plan_of
from abreast.bench.reference import build, speed
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns

BAR = 1.0
LEARNER = {"hidden_size": 32, "batch_size": 16, "buffer_capacity": 256, "n_frames": 1}
MAP = 30


@dataclass(frozen=True)
class Size:
    """What is run."""

    repeats: int
    few: int = 5
    many: int = 200
    lanes: int = 2
    turns: int = 20
    passes: int = 3
    """Passes of the run with many agents."""


SMALL, FULL = Size(2), Size(5, turns=50, passes=6)


def measure(size: Size) -> Iterator[Row]:
    """Both numbers in turns."""
    variants = {}
    for agents in (size.few, size.many):
        planned = plan_of(build(size.lanes, LONG, agents, size.turns, MAP, LEARNER))
        passes = 2 + (size.passes - 2) * size.many // agents  # the first and the last are not measured
        env = build(size.lanes, passes * size.lanes, agents, size.turns, MAP, LEARNER, planned.parallel)
        variants[f"{agents} small agents, as planned ({planned.told})"] = partial(speed, env, True)
    speeds = in_turns(variants, size.repeats)
    few, many = ([1 / each for each in values] for values in speeds.values())
    yield from rows(few, many, tuple(variants), f"{size.few} agents")


def rows(few: list[float], many: list[float], names: tuple[str, ...], of: str) -> Iterator[Row]:
    """The rows of seconds an agent-step of few and many agents."""
    yield Row(names[0], "µs an agent-step", [each * 1e6 for each in few])
    ratios = quotients(many, few)
    yield Row(names[1], "µs an agent-step", [each * 1e6 for each in many], ratios, of, (), "less", BAR)
