"""What can this machine do? Its own floors and limits, by which the other figures are to be judged.

One core and all cores take turns, in the same bare processes: how the machine itself scales, when nothing is shared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from abreast.bench.bare import OF_LEARNERS, BareProcesses, Task, nothing, seconds_to_start
from abreast.bench.products import LARGEST, computing, flop
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, seconds_of
from abreast.processes.cores import cores

COPIED_MB = 64
"""More than caches hold."""
MESSAGES = 50


@dataclass(frozen=True)
class Size:
    """How long it is measured."""

    repeats: int
    seconds: float
    """Of each repeat of each figure."""
    processes: int | None = None
    """None: one a core."""


SMALL, FULL = Size(3, 0.1), Size(9, 0.5)


def measure(size: Size) -> Iterator[Row]:
    """Products, copies, a message, the start of a worker."""
    count = size.processes or cores()
    with BareProcesses(computing, [([LARGEST],)] * count, OF_LEARNERS) as processes:
        yield from _scaling("matrix products", "GFLOP/s", processes, flop([LARGEST]) / 1e9, count, size)
    with BareProcesses(copying, [(COPIED_MB,)] * count) as processes:
        yield from _scaling("memory copied", "GB/s", processes, COPIED_MB / 1e3, count, size)
    with BareProcesses(nothing, [()]) as processes:
        processes.batch()
        trips = [seconds_of(processes.batch, MESSAGES) * 1e6 for _ in range(size.repeats)]
    yield Row("a message to a process and its answer", "µs", trips)
    yield Row("start of a worker process", "ms", [seconds_to_start() * 1e3 for _ in range(size.repeats)])


def _scaling(what: str, unit: str, processes: BareProcesses, each: float, count: int, size: Size) -> Iterator[Row]:
    """One core alone, and all at once; a call does `each` of the unit."""
    variants = {"one": partial(processes.rate, size.seconds, 1), "all": partial(processes.rate, size.seconds)}
    in_turns(variants, 1)  # caches, the clock of the cores
    rates = in_turns(variants, size.repeats)
    yield Row(f"{what}, one core", unit, [rate * each for rate in rates["one"]])
    together = f"{what}, {count} core{'' if count == 1 else 's'} at once"
    ratios = quotients(rates["all"], rates["one"])
    yield Row(together, unit, [rate * each for rate in rates["all"]], ratios, "one core", [count])


def copying(megabytes: int) -> Task:
    """Copies so many megabytes."""
    source, target = (np.ones(megabytes * 10**6 // 8) for _ in range(2))
    return partial(np.copyto, target, source)
