"""Files that are either whole or not there, and the folder that a run leaves behind."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import NamedTuple

from abreast.errors import RunFolderError

LEFT_BEHIND = ("config.yaml", "rollout.yaml", "metrics.jsonl", "trajectories.jsonl", "replays", "checkpoints")
"""What marks a folder as one that holds a run."""
WRITTEN = (*LEFT_BEHIND, "images", "log.txt")
"""All that a run writes."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file beside its place, flush it to disk and rename it: a crash leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
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
        """Remove what a run that came to nothing wrote, and the folders made for it if nothing else is in them."""
        for name in WRITTEN:
            path = self.path / name
            if name not in self.before and path.is_dir():
                shutil.rmtree(path)
            elif name not in self.before:
                path.unlink(missing_ok=True)
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
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise RunFolderError(f"cannot write the run folder {wanted or 'runs'}: {error.strerror or error}.") from None
    return RunFolder(folder, made, before)


def seen_from_here(path: Path | str) -> str:
    """A path relative to the current folder, if it is inside: what names it can then be moved together with it."""
    whole, here = Path(path).resolve(), Path.cwd()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else path)


class _LogFile(logging.FileHandler):
    """A log that ends where the disk is full: the run says itself what it could not write, and without a stack."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def logged_to(path: Path) -> Iterator[None]:
    """Keep what abreast logs meanwhile in a file."""
    log = logging.getLogger("abreast")
    handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        handler.close()
