"""What does the timeline cost? Each run with it and without, in turns, as a ratio within one run of this program (bar 1.01).

    python benchmarks/timeline.py [--repeats 15] [span] [training] [rollouts]

span        one span, and the same call where nothing is recorded
training    the reference configuration, sequential and pipelined, 8 lanes; random agents in a small world, 1 lane
rollouts    batches of 16 environments of 0 and 100 µs, in the main process and in two workers

Times are of the processor where one thread does it all, and of the clock on the wall where processes do. The rows and the
table are those of `abreast bench`.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from abreast.bench.busy import rounds_for
from abreast.bench.reference import build, speed
from abreast.bench.report import table
from abreast.bench.rollouts import Endless, settings
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, seconds_of
from abreast.processes.spans import span
from abreast.processes.timeline import Timeline
from abreast.rollouts import EnvStateManager
from abreast.training.collect import collect_pass

SWITCHES = {"off": False, "on": True}


def timeline(is_on: bool) -> AbstractContextManager[object]:
    """A timeline, written to a folder that is removed."""
    if not is_on:
        return nullcontext()
    stack = ExitStack()
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    stack.enter_context(Timeline(Path(folder) / "timeline.json", "main process"))
    return stack


def compare(what: str, unit: str, cost: Callable[[bool], float], repeats: int, scale: float = 1e6) -> Iterator[Row]:
    """The cost of something with a timeline and without."""
    in_turns({name: partial(cost, is_on) for name, is_on in SWITCHES.items()}, 1)
    found = in_turns({name: partial(cost, is_on) for name, is_on in SWITCHES.items()}, repeats)
    for name, values in found.items():
        ratios = quotients(values, found["off"]) if name == "on" else ()
        yield Row(f"{what}, {name}", unit, [each * scale for each in values], ratios, "off" if ratios else "")


def one_span() -> None:
    with span("span"):
        pass


def spans(repeats: int) -> Iterator[Row]:
    def cost(is_on: bool) -> float:
        with timeline(is_on):
            return seconds_of(one_span, 20_000, time.thread_time)

    yield from compare("span", "ns", cost, repeats, 1e9)


def training(repeats: int) -> Iterator[Row]:
    sequential = build(8, 16)

    def of_sequential(is_on: bool) -> float:
        with timeline(is_on):
            return seconds_of(partial(sequential.run_experiment, False, False), 1, time.thread_time)

    yield from compare("reference, sequential, 8 lanes", "ms", of_sequential, repeats, 1e3)
    workers = {"workers": "processes", "num_workers": 2, "schedule": "pipelined"}
    pipelined = build(8, 64, parallel=workers)

    def of_pipelined(is_on: bool) -> float:
        with timeline(is_on):
            return 1 / speed(pipelined, is_parallel=True)

    yield from compare("reference, pipelined, 8 lanes, an agent-step", "µs", of_pipelined, repeats)
    cheap = build(1, 1, agents=2, size=6)
    cheap.act_at_random()

    def of_cheap(is_on: bool) -> float:
        with timeline(is_on):
            return seconds_of(partial(collect_pass, cheap.game, 0), 40, time.thread_time)

    yield from compare("2 random agents, 1 lane, a pass of 50 turns", "µs", of_cheap, repeats)


def rollouts(repeats: int) -> Iterator[Row]:
    for microseconds in (0, 100):
        for where, use, clock in (("here", False, time.thread_time), ("in 2 workers", True, time.perf_counter)):

            def cost(is_on: bool, use: Any = use, clock: Any = clock, of: float = microseconds) -> float:
                with timeline(is_on), EnvStateManager(settings(rounds_for(of) if of else 0, 16, 2)) as manager:
                    manager.use_multiprocessing = use
                    batch = Endless(manager, 16).batch
                    seconds_of(batch, 20)
                    return seconds_of(batch, 300, clock)

            yield from compare(f"16 environments of {microseconds} µs {where}, a batch", "µs", cost, repeats)


PARTS = {"span": spans, "training": training, "rollouts": rollouts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--repeats", type=int, default=15)
    asked = parser.parse_args()
    for name in asked.names or PARTS:
        Console(width=200).print(table(name, list(PARTS[name](asked.repeats))))


if __name__ == "__main__":
    main()
