"""Files that are either whole or not there, the folder that a run leaves behind, and its lock."""

import errno
import logging
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple

from abreast.errors import RunFolderError, printable

LEFT_BEHIND = ("config.yaml", "rollout.yaml", "metrics.jsonl", "trajectories.jsonl", "replays", "checkpoints")
"""What marks a folder as one that holds a run."""
RUN_OF_THREAD: ContextVar[int | None] = ContextVar("run", default=None)
"""Which of several runs in this process a thread is of, if there are several."""
LOCK = ".lock"
WRITTEN = (
    *(*LEFT_BEHIND, "images", "plan.json", "timeline.json", "curves.png", "log.txt", "pool", LOCK),
    *("metrics.csv", "tensorboard", "wandb"),
)
"""All that a run writes, and its loggers."""
FOLDERS = frozenset({"replays", "checkpoints", "pool", "images", "tensorboard", "wandb"})
APPENDED = frozenset({"metrics.jsonl", "metrics.csv", "log.txt"})
"""Files that are written where they are; others are written anew and renamed."""
_HELD: set[tuple[int, int]] = set()
"""Lock files that runs of this process hold (device, inode): a file system may have no locks."""
CAREFUL: int = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""Flags with which files that others may have made are opened, as far as the system has them."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place, flush it to disk and rename it: a crash leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    beside.unlink(missing_ok=True)
    try:
        with beside.open("xb") as file:  # never through a link that somebody put there
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


class RunFolder(NamedTuple):
    """The folder of a run that begins."""

    path: Path
    made: tuple[Path, ...]
    """Folders that were made for it, the innermost first."""
    before: frozenset[str]
    """Names of what was in it already."""

    def take_back(self) -> None:
        """Remove what a run that came to nothing wrote, and the folders made for it if nothing else is in them.

        The run has released its lock. If another run holds it, what is in the folder belongs to that one and stays.
        """
        try:
            with locked(self.path):
                for name in WRITTEN:
                    path = self.path / name
                    if name not in self.before and path.is_dir():
                        shutil.rmtree(path)
                    elif name not in self.before:
                        path.unlink(missing_ok=True)
        except RunFolderError:
            return
        for folder in self.made:
            if any(folder.iterdir()):
                return
            folder.rmdir()


def make_run_folder(name: str, wanted: Path | str | None) -> RunFolder:
    """The folder wanted for a run, or a new one in runs/ that bears the run's name and the time.

    It is made now, so that one that cannot be written is refused before anything has run.
    """
    try:
        if wanted is None:
            stem = f"{re.sub(r'[^a-z0-9_]+', '-', name.lower()).strip('-')}-{datetime.now():%Y%m%d-%H%M%S}"
            folder = next(path for number in count(1) if not (path := Path("runs") / f"{stem}-{number}").exists())
        else:
            folder = Path(wanted)
            if any((folder / name).exists() for name in LEFT_BEHIND):
                raise RunFolderError(
                    f"{folder} already holds a run or its files, which would be lost: give another folder."
                )
        made = tuple(path for path in (folder, *folder.parents) if not path.exists())
        folder.mkdir(parents=True, exist_ok=True)
        before = frozenset(path.name for path in folder.iterdir())
        _check_own(folder)
    except OSError as error:
        raise RunFolderError(f"cannot write the run folder {wanted or 'runs'}: {error.strerror or error}.") from None
    return RunFolder(folder, made, before)


def open_run_folder(folder: Path) -> RunFolder:
    """The folder of a run that goes on: whatever becomes of it, nothing in it is taken back."""
    try:
        before = frozenset(path.name for path in folder.iterdir())
    except OSError as error:
        raise RunFolderError(f"{folder} is not a run folder: {error.strerror or error}.") from None
    if "config.yaml" not in before or "rollout.yaml" in before:
        has = "is one of `abreast rollout`" if "rollout.yaml" in before else "has no config.yaml"
        raise RunFolderError(
            f"{folder} is not a run folder of `abreast train`: it {has}. `abreast train` prints its own."
        )
    _check_own(folder)
    return RunFolder(folder, (), before)


def _check_own(folder: Path) -> None:
    """Refuse a folder in which something else is in the place of a file that a run writes: what is written through a link
    is outside of the folder, and a pipe is waited for."""
    for name in (each for each in WRITTEN if each != LOCK and os.path.lexists(folder / each)):
        path, kind = folder / name, "folder" if name in FOLDERS else "file"
        is_right = path.is_dir() if kind == "folder" else path.is_file()
        if path.is_symlink() or not is_right or (name in APPENDED and path.stat().st_nlink > 1):
            raise RunFolderError(
                f"{path} is no {kind} of the run's own, but a link or something else: put a copy there."
            )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Refuse a folder that another run writes to, in this process or another; keep others out meanwhile.

    The system releases the lock when the process dies, so a lock file that is merely there means nothing. It is not
    removed: a process that has just opened it would lock a file that the next one does not see.
    """
    try:
        descriptor, file = _take_lock(folder)
    except OSError as error:
        raise RunFolderError(f"cannot lock the run folder {folder}: {error.strerror or error}.") from None
    owner = os.getpid()
    _HELD.add(file)
    try:
        yield
    finally:
        _HELD.discard(file)
        if os.getpid() == owner:  # a forked child has the same lock: what ends there does not end here
            _flock(descriptor, take=False)
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Whether a run writes to a folder now, in this process or another. Where a file system has no locks, only this process
    is known.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | CAREFUL)
    except OSError:
        return False
    try:
        found = os.fstat(descriptor)
        return (found.st_dev, found.st_ino) in _HELD or not _flock(descriptor, take=True, shared=True)
    finally:
        os.close(descriptor)  # which releases the lock


def _take_lock(folder: Path) -> tuple[int, tuple[int, int]]:
    """The descriptor of the lock file, locked, and the file's identity."""
    path = folder / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | CAREFUL, 0o644)
        try:
            found = os.fstat(descriptor)
            file = found.st_dev, found.st_ino
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # another name of a file elsewhere
                raise RunFolderError(
                    f"cannot lock the run folder {folder}: {path} is not a file of its own; remove it."
                )
            if file in _HELD or not (_flock(descriptor, take=True) or _flock_after_a_look(descriptor)):
                raise RunFolderError(
                    f"{_holder(descriptor)} is writing to {folder}: wait for its end, or stop it, or give another folder."
                )
            if path.exists() and os.path.samestat(path.lstat(), found):
                with suppress(OSError):  # a full disk: the lock holds without a note of who has it
                    os.ftruncate(descriptor, 0)
                    os.write(descriptor, f"{os.getpid()}\n".encode())
                return descriptor, file
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was removed between opening and locking, with a run that came to nothing


def _flock(descriptor: int, take: bool, shared: bool = False) -> bool:
    """Whether a lock was taken (or released); also true where the file system, or the system, knows none."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB if take else fcntl.LOCK_UN)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN)
    return True


def _flock_after_a_look(descriptor: int) -> bool:
    """Try once more for a lock, because `is_locked` of another process has it for some microseconds."""
    time.sleep(0.05)
    return _flock(descriptor, take=True)


def _holder(descriptor: int) -> str:
    """Who holds a lock, for a sentence."""
    note = os.read(descriptor, 20).strip()
    if not note.isdigit():
        return "another process"
    return "another run of this process" if int(note) == os.getpid() else f"another process (pid {int(note)})"


def seen_from_here(path: Path | str) -> str:
    """A path relative to the current folder, if it is inside: what names it can then be moved together with it."""
    whole, here = Path(path).resolve(), Path.cwd()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else path)


def target_of(thing: object) -> str | None:
    """Where a class or a function is found again: MODULE:NAME, or FILE.py:NAME if it comes from the user's main script; None
    if it cannot be.
    """
    place, name = str(getattr(thing, "__module__", "")), str(getattr(thing, "__qualname__", ""))
    if place == "__main__":
        script = getattr(sys.modules["__main__"], "__file__", None)
        place = "" if script is None else seen_from_here(script)
    return f"{place}:{name}" if place and name.isidentifier() else None


class _LogFile(logging.FileHandler):
    """A log that ends where the disk is full: the run says itself what it could not write, and without a stack."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class LogLine(logging.Formatter):
    """A line of a log: when, how grave, the process (or the thread of this one, if it has a name) that says it, what."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(who)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        is_here, thread = record.processName in (None, "MainProcess"), str(record.threadName)
        record.who = record.processName if not is_here else "main" if thread == "MainThread" else thread
        return printable(super().format(record))


@contextmanager
def logged_to(path: Path) -> Iterator[None]:
    """Keep what abreast logs meanwhile in a file; but not what another of several runs in this process logs."""
    log, run = logging.getLogger("abreast"), RUN_OF_THREAD.get()
    handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(LogLine())
    handler.addFilter(lambda record: RUN_OF_THREAD.get() in (None, run))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        handler.close()
