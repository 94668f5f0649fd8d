"""What a checkpoint costs: the actor's time for one, its size, and the share of a run at one a minute.

    python benchmarks/checkpoint.py [--agents 5] [--epochs 160]

The reference run (treasure hunt, 5 agents, IQN, its default settings) is trained three ways, with a checkpoint every second
pass: sequentially, in lockstep and pipelined with 8 lanes. The actor waits while a checkpoint is written (learners do not,
in pipelined), so its seconds, over the 60 between two, are the share. Beside it: the time that the disk takes to write and
flush as many bytes in one plain file, which is the limit.
"""

import argparse
import logging
import os
import re
import statistics
import tempfile
import time
from pathlib import Path

from abreast.games import find_game

WAYS = {
    "sequential": (False, []),
    "lockstep": (True, ["multiprocessing.schedule=lockstep"]),
    "pipelined, 8 lanes": (True, ["multiprocessing.num_envs=8"]),
}


class Told(logging.Handler):
    """Keeps size and seconds of every checkpoint that is logged."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.found = []

    def emit(self, record):
        match = re.fullmatch(r"checkpoint \w+: ([0-9.]+) MB in ([0-9.]+) s", record.getMessage())
        if match:
            self.found.append((float(match[1]), float(match[2])))


def checkpoints_of(folder: Path, parallel: bool, overrides: list[str], agents: int, epochs: int):
    game = find_game("treasurehunt")
    given = [f"experiment.epochs={epochs}", f"experiment.num_agents={agents}", "experiment.checkpoint_interval=16"]
    env = game.build(game.configure(None, [*given, *overrides]))
    told = Told()
    log = logging.getLogger("abreast")
    log.addHandler(told)
    try:
        (env.run_experiment_mp if parallel else env.run_experiment)(animate=False, logger=Quiet(), output_dir=folder)
    finally:
        log.removeHandler(told)
    return told.found


class Quiet:
    def record_epoch(self, *_, **__):
        pass


def plain_write(folder: Path, megabytes: float) -> float:
    """Seconds to write and flush as many bytes in one file."""
    data = os.urandom(int(megabytes * 1e6))
    times = []
    for _ in range(5):
        started = time.perf_counter()
        with (folder / "plain").open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=160)
    arguments = parser.parse_args()
    print(f"{'':20}{'MB':>8}{'median s':>10}{'worst s':>10}{'plain write s':>15}{'share at one a minute':>24}")
    with tempfile.TemporaryDirectory() as temporary:
        for way, (parallel, overrides) in WAYS.items():
            folder = Path(temporary) / re.sub(r"\W", "", way)
            found = checkpoints_of(folder, parallel, overrides, arguments.agents, arguments.epochs)
            size = statistics.median(size for size, _ in found)
            seconds = sorted(seconds for _, seconds in found)
            median, worst = statistics.median(seconds), seconds[-1]
            plain = plain_write(Path(temporary), size)
            print(f"{way:20}{size:8.1f}{median:10.2f}{worst:10.2f}{plain:15.2f}{median / 60:23.2%}")


if __name__ == "__main__":
    main()
