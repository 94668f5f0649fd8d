"""Files of a folder that may hold anything: only plain files are opened, no link is followed, nothing is waited for."""

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from abreast.errors import CheckpointError

CHUNK = 1 << 22
"""Bytes that are hashed and read or written in one go."""


class HashedFile:
    """An open file that is read once and in order; `sha256` is that of what was read."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self.size = descriptor, size
        self._hash = hashlib.sha256()

    def readinto(self, place: memoryview, /) -> int:
        """Fill a place, or the beginning of it, and return how many bytes there were."""
        count = os.readv(self._descriptor, [place[:CHUNK]])
        self._hash.update(place[:count])
        return count

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


@contextmanager
def open_folder(path: Path) -> Iterator[int]:
    """The descriptor of a folder that is not a link; its files are opened through it, wherever its name leads by then."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except (OSError, ValueError) as error:  # ValueError: a name no file can have
        raise CheckpointError(f"{path} is no checkpoint: {_reason(path, error)}.") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def size_of(folder: int, name: str) -> int:
    """The size of a plain file."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError) as error:
        raise CheckpointError(getattr(error, "strerror", None) or str(error)) from None
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError("it is a link" if stat.S_ISLNK(found.st_mode) else "it is not a plain file")
    return found.st_size


@contextmanager
def open_plain(folder: int, name: str) -> Iterator[HashedFile]:
    """A plain file, opened for reading."""
    size_of(folder, name)  # before it is opened: opening a device may do something
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise CheckpointError("it is not a plain file")
            yield HashedFile(descriptor, found.st_size)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise CheckpointError(error.strerror or str(error)) from None


def _reason(path: Path, error: Exception) -> str:
    """Why a folder could not be opened."""
    try:
        if path.is_symlink():
            return "it is a link; give the folder itself"
    except (OSError, ValueError):
        pass
    if isinstance(error, FileNotFoundError):
        return "there is no such folder"
    if isinstance(error, NotADirectoryError):
        return "it is not a folder"
    return getattr(error, "strerror", None) or str(error)
