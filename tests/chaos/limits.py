"""Training with too little of something: each case is a command in a process of its own, under a limit."""

import contextlib
import io
import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from abreast.cli import run
from abreast.training.checkpoints.folder import list_checkpoints

SMALL = [
    "experiment.epochs=20", "experiment.max_turns=6", "model.algorithm=dqn", "model.hidden_size=16", "model.batch_size=8",
    "model.n_frames=1", "model.gradient_steps=1", "model.buffer_capacity=256", "--agents", "2", "--no-animate",
]  # fmt: skip
COMMAND = [sys.executable, "-c", "from abreast.cli import main; main()"]
LIMIT_S = 120


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    said: str


def train(
    folder: Path,
    *arguments: str,
    limit: Callable[[], None] | None = None,
    before: str = "",
    inside: Sequence[str] = (),
    **environment: str,
) -> Ended:
    """Train in `folder`/run under a limit; `before` is code that runs first in the process, `inside` a command that runs
    another. A hang raises."""
    command = [sys.executable, "-c", f"{before}\nfrom abreast.cli import main; main()"] if before else COMMAND
    process = subprocess.Popen(
        [*inside, *command, "train", "treasurehunt", *SMALL, "--output", "run", *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        preexec_fn=limit,  # noqa: PLW1509 (sets a limit, and nothing else)
        env={**os.environ, **environment},
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"hangs: {process.communicate()[0][-2000:]}") from None
    return Ended(process.returncode, said)


def train_here(folder: Path, *arguments: str, limit: Callable[[], None]) -> Ended:
    """The same in this process, under a limit on the size of files."""
    before, said = resource.getrlimit(resource.RLIMIT_FSIZE), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        limit()
        try:
            code = run(["train", "treasurehunt", *SMALL, "--output", "run", *arguments])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return Ended(code, said.getvalue())


def at_most(kind: int, value: int) -> Callable[[], None]:
    """A limit of the process and its children."""
    return lambda: resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def one_core() -> None:
    """Give the process one core, and the least share of it."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.nice(19)


def clear(ended: Ended) -> Ended:
    """Fail unless the run worked, or said in a sentence why not."""
    told = [line for line in ended.said.splitlines() if line.startswith("abreast: ")]
    assert "Traceback" not in ended.said, ended.said
    assert ended.code == 0 or (ended.code in (1, 2) and told), f"exit code {ended.code}: {ended.said[-1500:]}"
    return ended


JUMPING_CLOCK = """
import time, random
_time, _chance = time.time, random.Random(1)
time.time = lambda: _time() + _chance.choice([0, 1e9, -1e9, -3600, 3600])
"""
LITTLE_SHM = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"', "sh"]
"""Runs a command where /dev/shm has 64 MB."""
LARGE_REPLAY = ("model.buffer_capacity=500000",)
"""Two of these take more than that."""
GROWING = (
    "experiment.epochs=8", "experiment.max_turns=45", "experiment.checkpoint_interval=4", "model.hidden_size=8",
    "model.buffer_capacity=1024",
)  # fmt: skip
"""The first checkpoint has no file of more than `BETWEEN` bytes; in the second, the replay has grown, and does not fit."""
BETWEEN = 40_000
PARALLEL = ("--parallel", "multiprocessing.num_envs=2", "multiprocessing.num_actors=2", "multiprocessing.num_workers=2")


def may_mount() -> bool:
    """Whether this user may have a /dev/shm of its own."""
    try:
        return subprocess.run([*LITTLE_SHM, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def full_in_a_checkpoint(folder: Path, *arguments: str, train: Callable[..., Ended] = train) -> Ended:
    """A disk that has room for metrics and agents, and for the first checkpoint, but not for the second.

    Fails unless the run goes on and says so, and the first checkpoint is whole.
    """
    ended = clear(train(folder, *GROWING, *arguments, limit=at_most(resource.RLIMIT_FSIZE, BETWEEN)))
    assert ended.code == 0, ended.said
    told = "cannot write the checkpoint run/checkpoints/epoch_000008: File too large. The run goes on without it."
    assert told in " ".join(ended.said.split()), ended.said
    found = list_checkpoints(folder / "run")
    assert [each.path.name for each in found] == ["epoch_000004", "final"], found
    for each in found:
        each.check()
    assert not list((folder / "run/checkpoints").glob(".*")), "a part of a checkpoint is left"
    assert (folder / "run/metrics.jsonl").read_text().count("\n") == 8
    return ended


def any_limit(folder: Path, chance: random.Random) -> str:
    """One limit, drawn at random; returns how the run ended."""
    parallel = chance.random() < 0.5
    name, value = chance.choice(
        [
            ("FSIZE", int(10 ** chance.uniform(2, 5))),
            ("NOFILE", chance.randrange(8, 64)),
            ("AS", int(chance.uniform(0.8, 4) * 2**30)),
            ("one core", 0),
            ("clock", 0),
            ("checkpoint", BETWEEN),
            *([("little /dev/shm", 0)] if may_mount() else []),
        ]
    )
    arguments = PARALLEL if parallel else ()
    if name == "clock":
        ended = train(folder, *arguments, before=JUMPING_CLOCK)
    elif name == "checkpoint":
        ended = full_in_a_checkpoint(folder, *arguments)
    elif name == "little /dev/shm":
        ended = train(folder, *arguments, *LARGE_REPLAY, inside=LITTLE_SHM)
    else:
        limit = one_core if name == "one core" else at_most(getattr(resource, f"RLIMIT_{name}"), value)
        ended = train(folder, *arguments, limit=limit)
    clear(ended)
    return f"{'parallel' if parallel else 'sequential'}, {name} {value or ''}: exit code {ended.code}"
