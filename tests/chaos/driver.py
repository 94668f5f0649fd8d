"""Kills, stops, starves and corrupts real runs, at random, from a recorded seed: `make chaos MINUTES=30 SEED=1`.

    seed 1, 30 minutes
    faults 1/0 …            ok    12 s  pipelined, snapshot: {'killed': 14, …}, 41 restarts, identical
    limits 1/1 …            ok     9 s  …
    fuzz 1/2 …              FAILED
      repeat it with: python tests/chaos/driver.py --case fuzz --seed 1/2

Each case runs in a process of its own, under a limit of time, in a folder of its own; its seed is that of the whole and its
number. Exit code 1 if one failed.
"""

import argparse
import importlib
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent.parent
CASE_LIMIT_S = 1800
Case = Callable[[Path, int, float], str]
"""Takes a folder, a seed and how much of the full length is wanted (1.0: all of it); returns what it saw."""


def faults(folder: Path, seed: int, length: float) -> str:
    """Faults against the children of one run."""
    from chaos.faults import faults_in_one_run

    return faults_in_one_run(seed, max(5, int(500 * length)))


def kills(folder: Path, seed: int, length: float) -> str:
    """Whole trees of training are killed and resumed."""
    from chaos.kills import COMBINATIONS, corrupt_newest, kill_and_resume_training

    chance = random.Random(seed)
    combination, corrupt = chance.choice(COMBINATIONS), chance.choice([None, corrupt_newest])
    return kill_and_resume_training(folder, seed, max(3, int(200 * length)), combination, corrupt)


def growth(folder: Path, seed: int, length: float) -> str:
    """A long run stays as large as it is."""
    from chaos.growth import growth as grow

    parallel = random.Random(seed).random() < 0.5
    return f"{'pipelined' if parallel else 'sequential'}: {grow(seed, max(50_000, int(1_000_000 * length)), parallel)}"


def fuzz(folder: Path, seed: int, length: float) -> str:
    """Mutated inputs of training."""
    from chaos.fuzz import fuzz_training

    return str(dict(fuzz_training(folder, seed, max(100, int(10_000 * length)))))


def limits(folder: Path, seed: int, length: float) -> str:
    """Training with too little of something."""
    from chaos.limits import any_limit

    return any_limit(folder, random.Random(seed))


def rollouts(folder: Path, seed: int, length: float) -> str:
    """Rollouts are killed and resumed."""
    told = importlib.import_module("chaos.rollouts").kill_and_resume(folder, seed, max(3, int(200 * length)))
    return str(told or "identical")


CASES: dict[str, Case] = {each.__name__: each for each in (faults, kills, growth, fuzz, limits, rollouts)}
STRESS = [
    "tests/processes",
    "tests/rollouts/test_equal.py",
    "tests/rollouts/test_golden.py",
    "tests/chaos/test_rollouts.py",
    "tests/chaos/test_growth_rollouts.py",
    "tests/chaos/test_limits_rollouts.py",
    "tests/chaos/test_fuzz_rollouts.py",
    "tests/training/test_learning.py",
    "tests/rollouts/episodes/test_guard.py",
    "tests/rollouts/episodes/test_single.py",
    "tests/rollouts/workers/test_worker.py",
]
"""Tests that are longer under ABREAST_CHAOS: millions of rows, 5,000 generated rollouts, all recorded ones."""


def main(arguments: list[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Do harm to real runs, at random, from a recorded seed.")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long to go on; the case under way is finished")
    parser.add_argument("--seed", default="", help="of all that is random; with --case, that of the case (SEED/NUMBER)")
    parser.add_argument("--case", choices=list(CASES), help="only this case, here in this process")
    parser.add_argument("--only", default=",".join(CASES), help="cases to choose from")
    parser.add_argument(
        "--length", type=float, default=0.05, help="of each case; 1.0 is what the figures in the docs are from"
    )
    parser.add_argument("--stress", action="store_true", help="first, the stress tests of the suite at full length")
    given = parser.parse_args(arguments)
    if given.case:
        return _here(given.case, given.seed or "0/0", given.length)
    seed = given.seed or str(random.SystemRandom().randrange(10**6))
    print(f"seed {seed}, {given.minutes:g} minutes", flush=True)
    failed = _stress() if given.stress else 0
    names, chance = given.only.split(","), random.Random(seed)
    deadline, number, waiting = time.monotonic() + 60 * given.minutes, 0, []
    while time.monotonic() < deadline:
        waiting = waiting or chance.sample(names, len(names))  # each once before any comes again
        failed += not _apart(waiting.pop(), f"{seed}/{number}", given.length)
        number += 1
    print(f"{number} cases, {failed} failed (seed {seed})")
    return 1 if failed else 0


def _here(name: str, seed: str, length: float) -> int:
    """Run one case in this process."""
    logging.getLogger("abreast").setLevel(logging.CRITICAL)  # each death is a line
    with tempfile.TemporaryDirectory() as folder:
        print(CASES[name](Path(folder), random.Random(f"{seed} {name}").randrange(2**31), length))
    return 0


def _apart(name: str, seed: str, length: float) -> bool:
    """Run one case in a process of its own; returns whether it went well."""
    print(f"{name} {seed} …".ljust(24), end="", flush=True)
    command = ["--case", name, "--seed", seed, "--length", str(length)]
    started, folder = time.monotonic(), tempfile.mkdtemp()
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS), os.environ.get("PYTHONPATH", "")])
    process = subprocess.Popen(
        [sys.executable, __file__, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": path, "TMPDIR": folder},
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=CASE_LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said = f"{process.communicate()[0]}\nhangs; last.json of a fuzzed input: {_last_input(folder)}"
    shutil.rmtree(folder, ignore_errors=True)
    if process.returncode == 0:
        print(f"ok {time.monotonic() - started:5.0f} s  {(said.strip().splitlines() or [''])[-1]}", flush=True)
        return True
    print(f"FAILED\n{said[-6000:]}\n  repeat it with: python tests/chaos/driver.py {' '.join(command)}", flush=True)
    return False


def _last_input(folder: str) -> str:
    return next((path.read_text()[:2000] for path in Path(folder).rglob("last.json")), "none")


def _stress() -> int:
    command = [sys.executable, "-m", "pytest", *STRESS, "--timeout", "3600"]
    code = subprocess.run(command, cwd=TESTS.parent, env={**os.environ, "ABREAST_CHAOS": "1"}, check=False).returncode
    if code:
        print(f"FAILED\n  repeat it with: ABREAST_CHAOS=1 {' '.join(command)}")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
