"""What does a checkpoint cost? The actor's time for one, against a plain write, and as a share of a run at one a minute.

Treasure hunt with its default settings is trained sequentially, in lockstep and pipelined with 8 lanes, with a checkpoint
every so many epochs. The actor waits while a checkpoint is written (learners do not, in pipelined), so its seconds, over the
60 between two, are the share. The limit is the time that the disk takes to write and flush as many bytes in one plain file.
"""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from abreast.bench.rows import Row
from abreast.bench.turns import seconds_of
from abreast.games import find_game

LOGGED = re.compile(r"checkpoint \w+: ([0-9.]+) MB in ([0-9.]+) s")
MINUTE_S = 60.0
WAYS = {
    "sequential": (False, []),
    "lockstep": (True, ["multiprocessing.schedule=lockstep", "multiprocessing.workers=processes"]),
    "pipelined, 8 lanes": (True, ["multiprocessing.num_envs=8", "multiprocessing.workers=processes"]),
}


@dataclass(frozen=True)
class Size:
    """What is run."""

    ways: tuple[str, ...]
    epochs: int
    interval: int
    """Epochs between two checkpoints."""
    overrides: tuple[str, ...] = ()


SMALL, FULL = Size(("sequential", "pipelined, 8 lanes"), 24, 8), Size(tuple(WAYS), 160, 16)


class Told(logging.Handler):
    """Keeps megabytes and seconds of every checkpoint that is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: list[tuple[float, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        match = LOGGED.fullmatch(record.getMessage())
        if match:
            self.found.append((float(match[1]), float(match[2])))


class Quiet:
    """Shows nothing."""

    def record_epoch(self, *_: object, **__: object) -> None:
        pass


@contextmanager
def checkpoints_told() -> Iterator[list[tuple[float, float]]]:
    """Megabytes and seconds of the checkpoints meanwhile."""
    told, log = Told(), logging.getLogger("abreast")
    log.addHandler(told)
    try:
        yield told.found
    finally:
        log.removeHandler(told)


def measure(size: Size) -> Iterator[Row]:
    """One way after the other."""
    for way in size.ways:
        with TemporaryDirectory() as folder:
            found = checkpoints_of(Path(folder) / "run", way, size)
            megabytes = median(each for each, _ in found)
            plain = median(seconds_of_plain_write(Path(folder) / "plain", megabytes) for _ in range(5))
        yield from rows(way, found, plain)


def rows(way: str, found: list[tuple[float, float]], plain: float) -> Iterator[Row]:
    """The rows of megabytes and seconds, and of the seconds of a plain write."""
    seconds = [each for _, each in found]
    size = median(each for each, _ in found)
    what = f"{way}, {size:.1f} MB"
    yield Row(
        what, "ms", [each * 1e3 for each in seconds], [each / plain for each in seconds], "a plain write", [1.0], "less"
    )
    yield Row(f"{way}, at one a minute", "% of the run", [100 * each / MINUTE_S for each in seconds])


def checkpoints_of(folder: Path, way: str, size: Size) -> list[tuple[float, float]]:
    """Megabytes and seconds of each checkpoint of a run."""
    game, (is_parallel, overrides) = find_game("treasurehunt"), WAYS[way]
    given = [f"experiment.epochs={size.epochs}", f"experiment.checkpoint_interval={size.interval}"]
    given += ["experiment.num_agents=5", "multiprocessing.device=cpu", *size.overrides]
    env = game.build(game.configure(None, [*given, *overrides]))
    run = env.run_experiment_mp if is_parallel else env.run_experiment
    with checkpoints_told() as found:
        run(animate=False, logger=Quiet(), output_dir=folder)
    return found


def seconds_of_plain_write(path: Path, megabytes: float) -> float:
    """Seconds to write and flush as many bytes in one file."""
    data = os.urandom(int(megabytes * 1e6))

    def write() -> None:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    return seconds_of(write)
