"""When is a run under way? Seconds from the start of the program to the first turn, sequential and parallel.

    python benchmarks/start.py [--repeats 5] [--epochs 3] [PATH of another worktree's src]

Treasure hunt with its own settings and, where it is parallel, learners in processes (three epochs would be planned inline),
in fresh programs that take turns: a script that calls `run_experiment` or `run_experiment_mp`, the same where the package is
found through `sys.path.insert`, and `abreast train`. A parallel run's fork server is cold each time. Beside the first turn:
when the first round of training was recorded. What a busy machine adds is never negative, so the lowest counts.
The bar: the first turn at most 1 s later than in a sequential run.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import abreast

BAR_S = 1.0
GAME = '''
import time
from pathlib import Path

from abreast.games import Game
from abreast.games.treasurehunt import GAME as ORIGINAL
from abreast.games.treasurehunt import TreasurehuntEnv


class Hunt(TreasurehuntEnv):
    """Treasure hunt, which tells when its first turn was played."""

    def after_turn(self):
        if not Path("turn").exists():
            Path("turn").write_text(repr(time.time()))


GAME = Game(Hunt, folder=ORIGINAL.folder)
'''
PROCESSES = "multiprocessing.workers=processes"
SCRIPT = """
import sys

sys.path[:0] = {path!r}
from hunt import GAME

env = GAME.build(GAME.configure(None, ["experiment.epochs={epochs}", "multiprocessing.workers=processes"]))
env.{run}(animate=False, output_dir="run")
"""
MODULE = ["-m", "abreast", "train", "hunt.py", "--no-animate", "--output", "run"]


class Seconds(NamedTuple):
    """Since the program was started."""

    turn: float
    record: float


def measure(way: str, is_parallel: bool, epochs: int, source: str) -> Seconds:
    """A fresh program."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hunt.py").write_text(GAME)
        command = [*MODULE, "--epochs", str(epochs), *(["--parallel", PROCESSES] if is_parallel else [])]
        environment = {**os.environ, "PYTHONPATH": source}
        if way != "abreast train":
            run = "run_experiment_mp" if is_parallel else "run_experiment"
            is_inserted = way == "sys.path.insert"
            path = [source] if is_inserted else []
            (folder / "script.py").write_text(SCRIPT.format(path=path, epochs=epochs, run=run))
            command = ["script.py"]
            if is_inserted:
                del environment["PYTHONPATH"]
        started = time.time()
        metrics, recorded = folder / "run" / "metrics.jsonl", 0.0
        with (folder / "printed").open("w") as out:
            program = subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stdout=out, stderr=out)
        while program.poll() is None:
            time.sleep(0.005)
            if not recorded and metrics.exists() and metrics.stat().st_size:
                recorded = time.time()
        assert program.returncode == 0, (folder / "printed").read_text()
        return Seconds(float((folder / "turn").read_text()) - started, recorded - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default=str(Path(abreast.__file__).parent.parent))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; seconds, lowest (and median) of {arguments.repeats}")
    ways = ("script", "sys.path.insert", "abreast train")
    taken: dict[tuple[str, bool], list[Seconds]] = {(way, kind): [] for way in ways for kind in (False, True)}
    for _ in range(arguments.repeats):
        for (way, is_parallel), seconds in taken.items():
            seconds.append(measure(way, is_parallel, arguments.epochs, arguments.source))
    worst = 0.0
    for way in ways:
        for what in Seconds._fields:
            here, there = ([getattr(each, what) for each in taken[way, kind]] for kind in (False, True))
            later = min(there) - min(here)
            print(
                f"  {way:16} first {what:7} sequential {min(here):5.2f} ({median(here):5.2f})"
                f"   parallel {min(there):5.2f} ({median(there):5.2f})   later by {later:5.2f}"
            )
            worst = max(worst, later) if what == "turn" else worst
    print(f"  bar {BAR_S:g} s to the first turn: {'reached' if worst <= BAR_S else 'MISSED'}")


if __name__ == "__main__":
    main()
