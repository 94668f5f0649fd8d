"""What can this machine do? Its own floors and limits, by which the other figures are to be judged.

One core and all cores take turns, in the same bare processes: how the machine itself scales, when nothing is shared.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch

from abreast.bench.bare import OF_LEARNERS, BareProcesses, Task, nothing, seconds_to_start
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, seconds_of
from abreast.processes.cores import cores

Shape = tuple[int, int, int]
"""Rows, inner size and columns of a product."""
LARGEST: Shape = (768, 250, 250)
"""The product that an update of the reference learner spends most of its time in."""
MESSAGES = 50


class Size(NamedTuple):
    """How long it is measured."""

    repeats: int
    seconds: float
    """Of each repeat of each figure."""
    processes: int | None = None
    """None: one a core."""


SMALL, FULL = Size(3, 0.1), Size(9, 0.5)


def measure(size: Size) -> Iterator[Row]:
    """Products, a message, the start of a worker."""
    count = size.processes or cores()
    with BareProcesses(computing, [([LARGEST],)] * count, OF_LEARNERS) as processes:
        variants = {"one": partial(processes.rate, size.seconds, 1), "all": partial(processes.rate, size.seconds)}
        in_turns(variants, 1)  # caches, the clock of the cores
        rates = in_turns(variants, size.repeats)
    speeds = {name: [rate * flop(LARGEST) / 1e9 for rate in each] for name, each in rates.items()}
    yield Row("matrix products, one core", "GFLOP/s", speeds["one"])
    together = f"matrix products, {count} core{'' if count == 1 else 's'} at once"
    ratios = quotients(rates["all"], rates["one"])
    yield Row(together, "GFLOP/s", speeds["all"], ratios, "one core", [count] * size.repeats)
    with BareProcesses(nothing, [()]) as processes:
        processes.batch()
        trips = [seconds_of(processes.batch, MESSAGES) * 1e6 for _ in range(size.repeats)]
    yield Row("a message to a process and its answer", "µs", trips)
    yield Row("start of a worker process", "ms", [seconds_to_start() * 1e3 for _ in range(size.repeats)])


def computing(shapes: Sequence[Shape]) -> Task:
    """Computes these products, one after the other, by one thread, into memory that is there."""
    torch.set_num_threads(1)
    operands = [(torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)) for m, k, n in shapes]

    def run() -> None:
        for left, right, out in operands:
            torch.mm(left, right, out=out)

    return run


def flop(shape: Shape) -> int:
    """Floating-point operations of a product."""
    rows, inner, columns = shape
    return 2 * rows * inner * columns
