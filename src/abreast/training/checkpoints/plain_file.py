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
def open_folder(path: Path, *otherwise: Path) -> Iterator[int]:
    """The descriptor of a folder that is not a link, or of the first of the others if there is none of that name.

    Its files are opened through the descriptor, wherever the name leads by then.
    """
    descriptor = None
    for place in (path, *otherwise):
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            break
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:  # ValueError: a name no file can have
            raise CheckpointError(f"{path} is no checkpoint: {reason_of(error)}.") from None
    if descriptor is None:
        raise CheckpointError(f"{path} is no checkpoint: there is no such folder.")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def size_of(folder: int, name: str) -> int:
    """The size of a plain file."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (OSError, ValueError) as error:
        raise CheckpointError(reason_of(error)) from None
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


def reason_of(error: Exception) -> str:
    """Why a file or folder could not be read or written."""
    if isinstance(error, NotADirectoryError):  # also said of a link to a folder
        return "it is a link or not a folder"
    return getattr(error, "strerror", None) or str(error)
