"""Folders that replace others of the same name, or go, such that a crash leaves nothing in half under a name.

.NAME.part   is being written
.NAME.old    was NAME until a new one took its place; counts as NAME while there is no NAME
.NAME.gone   is being removed

What a crash leaves of these is put right by the next one that writes, who holds the run's lock.
"""

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

HIDDEN = re.compile(r"\.([a-z0-9_]{1,100})\.(part|old|gone)")


def swap(folder: Path, new: Path, old: Path) -> None:
    """Put a new folder in the place of the old one, or leave all as it was."""
    try:
        with suppress(FileNotFoundError):
            folder.rename(old)  # a folder cannot be renamed over one that is not empty
        new.rename(folder)
        sync(folder.parent)
    except BaseException:
        with suppress(OSError):
            if not os.path.lexists(new):
                folder.rename(new)
        with suppress(OSError):
            if os.path.lexists(old) and not os.path.lexists(folder):
                old.rename(folder)
        raise


def put_right(parent: Path) -> None:
    """Remove what a crash left, and give the last whole checkpoint its name back."""
    for entry in list(parent.iterdir()):
        match = HIDDEN.fullmatch(entry.name)
        if match is None:
            continue
        named = parent / match[1]
        with suppress(OSError):  # what cannot be removed is in the way of nothing, or is met again where it is
            if match[2] == "old" and not os.path.lexists(named):
                entry.rename(named)
            elif match[2] == "old":
                remove(entry, named)
            else:
                discard(entry)


def remove(path: Path, named: Path) -> None:
    """Remove a folder so that no half of it is ever seen under its name."""
    gone = hidden(named, "gone")
    discard(gone)
    with suppress(FileNotFoundError):
        path.rename(gone)
    discard(gone)


def discard(path: Path) -> None:
    """Remove whatever is there; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync(folder: Path) -> None:
    """Flush to disk which names a folder has."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot do this for folders
            raise
    finally:
        os.close(descriptor)


def hidden(folder: Path, suffix: str) -> Path:
    return folder.parent / f".{folder.name}.{suffix}"
