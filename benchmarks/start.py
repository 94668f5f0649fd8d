"""When is a run under way? Seconds from the start of the program to the first turn, sequential and parallel.

    python benchmarks/start.py [--repeats 5] [--epochs 3] [PATH of another worktree's src]

Treasure hunt with its own settings, in fresh programs that take turns: a script that calls `run_experiment` or
`run_experiment_mp`, the same where the package is found through `sys.path.insert`, and `abreast train`. A parallel run's
fork server is cold each time. Beside the first turn: when the first round of training was recorded. The difference is the
median over the repeats of parallel minus sequential. The bar: at most 1 s to the first turn.
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
SCRIPT = """
import sys

sys.path[:0] = {path!r}
from hunt import GAME

env = GAME.build(GAME.configure(None, ["experiment.epochs={epochs}"]))
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
        command = [*MODULE, "--epochs", str(epochs), *(["--parallel"] if is_parallel else [])]
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
        program = subprocess.Popen([sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        recorded = 0.0
        while program.poll() is None:
            time.sleep(0.005)
            metrics = folder / "run" / "metrics.jsonl"
            if not recorded and metrics.exists() and metrics.stat().st_size:
                recorded = time.time()
        assert program.returncode == 0, f"exit code {program.returncode}"
        return Seconds(float((folder / "turn").read_text()) - started, recorded - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", default=str(Path(abreast.__file__).parent.parent))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; seconds, median (lowest to highest)")
    worst = 0.0
    for way in ("script", "sys.path.insert", "abreast train"):
        both: list[tuple[Seconds, Seconds]] = []
        for _ in range(arguments.repeats):
            one, other = (
                measure(way, is_parallel, arguments.epochs, arguments.source) for is_parallel in (False, True)
            )
            both.append((one, other))
        for what in Seconds._fields:
            pairs = [(getattr(one, what), getattr(other, what)) for one, other in both]
            later = [there - here for here, there in pairs]
            print(
                f"  {way:16} first {what:7} sequential {median(here for here, _ in pairs):5.2f}"
                f"   parallel {median(there for _, there in pairs):5.2f}"
                f"   later by {median(later):5.2f} ({min(later):.2f} to {max(later):.2f})"
            )
            if what == "turn":
                worst = max(worst, median(later))
    print(f"  bar {BAR_S:g} s to the first turn: {'reached' if worst <= BAR_S else 'MISSED'}")


if __name__ == "__main__":
    main()
