"""Checkpoints on disk: one folder each, there as a whole or not at all.

RUN/checkpoints/epoch_000500/   manifest.json   agent_0.safetensors …   one `State` a file (a part)
               .NAME.part       is being written, or removed
               .NAME.old        was NAME until a new one took its place; still a checkpoint

Who writes holds the run's lock, and puts right what a crash has left; readers need no lock. A folder may hold anything: only
plain files are opened, no link is followed, nothing is waited for.
"""

import errno
import hashlib
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from abreast.errors import CheckpointError, StateFileError, log
from abreast.files import CAREFUL
from abreast.state import State
from abreast.state_file import loads, pieces, read_header
from abreast.training.checkpoints.manifest import LARGEST, PART, SUFFIX, Facts, FileFacts, Kind, compose, parse

FOLDER, MANIFEST = "checkpoints", "manifest.json"
CHUNK = 1 << 22
"""Bytes that are hashed and written in one go."""
HIDDEN = re.compile(rf"\.({PART})\.(part|old)")
LISTED = re.compile(rf"{PART}|\.{PART}\.old")
AGENT = re.compile("agent_[0-9]{1,9}")


class Checkpoint(NamedTuple):
    """A folder whose manifest was read and whose files have the sizes it says."""

    path: Path
    kind: Kind
    version: str
    """The version of abreast that wrote it."""
    facts: Facts
    files: dict[str, FileFacts]

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts, for example `agent_0`, `run`."""
        return tuple(name.removesuffix(SUFFIX) for name in self.files)

    @property
    def epochs(self) -> int:
        """Epochs that had been played."""
        return self.facts.epochs

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the parts that are agents."""
        return tuple(filter(AGENT.fullmatch, self.parts))

    def part(self, name: str) -> State:
        """Read a part; it is compared with its checksum."""
        path = self.path / f"{name}{SUFFIX}"
        if path.name not in self.files:
            raise CheckpointError(f"{self.path} has no part {name}: it has {', '.join(self.parts)}.")
        listed = self.files[path.name]
        with _named(path), _open_plain(path) as file:
            read_header(file, listed.bytes)  # before memory is taken for all of it
            file.seek(0)
            data = file.read(listed.bytes + 1)
            if hashlib.sha256(data).hexdigest() != listed.sha256:
                raise CheckpointError("it does not match its checksum: it was damaged or changed")
            return loads(data)

    def check(self) -> None:
        """Read all parts; one that is damaged is a CheckpointError."""
        for name in self.parts:
            self.part(name)


# ---- reading


def open_checkpoint(folder: Path) -> Checkpoint:
    """Look at a checkpoint: its manifest and the sizes of its files."""
    with _named(folder):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise CheckpointError("it is a link or not a folder")
    with _named(folder / MANIFEST), _open_plain(folder / MANIFEST) as file:
        manifest = parse(file.read(min(_plain_size(folder / MANIFEST), LARGEST) + 1))
    for name, listed in manifest.files.items():
        with _named(folder / name):
            size = _plain_size(folder / name)
            if size != listed.bytes:
                raise CheckpointError(f"it has {size:,} bytes instead of {listed.bytes:,}: it was cut or added to")
    return Checkpoint(folder, manifest.kind, manifest.version, manifest.facts, manifest.files)


def list_checkpoints(run: Path) -> list[Checkpoint | CheckpointError]:
    """The checkpoints of a run by epochs, oldest first (`final` after one of equal epochs); an error for each that cannot
    be used, where its name says that it belongs. What has another kind of name is none of ours."""
    folder = run / FOLDER
    try:
        names = sorted(entry.name for entry in folder.iterdir() if LISTED.fullmatch(entry.name))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read the checkpoints in {folder}: {_reason(error)}.") from None
    found: list[tuple[tuple[int, bool], Checkpoint | CheckpointError]] = []
    for name in names:
        try:
            checkpoint = open_checkpoint(folder / name)
            found.append(((checkpoint.epochs, checkpoint.kind == "agents"), checkpoint))
        except CheckpointError as error:
            error.path = folder / name
            found.append(((_number(name), False), error))
    return [each for _, each in sorted(found, key=lambda each: each[0])]


def best_of(found: Sequence[Checkpoint]) -> Checkpoint | None:
    """Return the checkpoint with the highest reward in training, the newest of equal ones; None if none has a reward.

    Where agents have sides (`headline.groups_of`), the newest is returned.
    """
    if found and found[-1].facts.has_sides:
        return found[-1]
    rated = [each for each in reversed(found) if each.facts.reward is not None]
    return max(rated, key=lambda each: each.facts.reward or 0.0, default=None)


def newest_agents(path: Path) -> Checkpoint:
    """The newest checkpoint of a run whose agents are whole, or this one itself, if it is a checkpoint."""
    if os.path.lexists(path / MANIFEST):
        return _with_agents(open_checkpoint(path))
    faults = []
    for found in reversed(list_checkpoints(path)):
        try:
            newest = _with_agents(found)
        except CheckpointError as error:
            faults.append(error)
            continue
        for fault in faults:
            log.warning("%s The one before is used, %s.", fault, newest.path)
        return newest
    if faults:
        raise CheckpointError(f"{path} has no checkpoint that can be used: {faults[0]}")
    raise CheckpointError(f"{path} has no checkpoint yet, or is no run folder: the first one is written after a while.")


def _with_agents(found: Checkpoint | CheckpointError) -> Checkpoint:
    """A checkpoint whose agents are whole."""
    if isinstance(found, CheckpointError):
        raise found
    if not found.agents:
        raise CheckpointError(f"{found.path} holds no agents: it has {', '.join(found.parts)}.")
    for agent in found.agents:
        found.part(agent)
    return found


def _number(name: str) -> int:
    """The number at the end of a name; one without is the last."""
    match = re.search(r"[0-9]+$", name.removesuffix(".old"))
    return int(match[0]) if match else sys.maxsize


def _plain_size(path: Path) -> int:
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointError("it is a link" if stat.S_ISLNK(found.st_mode) else "it is not a plain file")
    return found.st_size


def _open_plain(path: Path) -> BinaryIO:
    _plain_size(path)  # before it is opened: opening a device may do something, and a pipe would be waited for
    return os.fdopen(os.open(path, os.O_RDONLY | CAREFUL), "rb")


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file or folder an error is about."""
    try:
        yield
    except (OSError, ValueError, MemoryError, StateFileError, CheckpointError) as error:
        raise CheckpointError(f"{path} cannot be used: {_reason(error)}.") from None


def _reason(error: BaseException) -> str:
    """Why a file or folder could not be read or written."""
    if isinstance(error, MemoryError):
        return "it does not fit into memory"
    return str(getattr(error, "strerror", None) or error).removesuffix(".")


# ---- writing


def write_checkpoint(folder: Path, kind: Kind, facts: dict[str, Any], parts: Mapping[str, State]) -> int:
    """Write a checkpoint, which replaces one of the same name, and return its bytes. The caller holds the run's lock.

    At any moment there is the old one or the new one. What fails leaves nothing of the new one.
    """
    beside, old = (folder.with_name(f".{folder.name}.{suffix}") for suffix in ("part", "old"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _put_right(folder.parent)
        beside.mkdir()
        try:
            size = _write_files(beside, kind, facts, parts)
            with suppress(FileNotFoundError):
                folder.rename(old)  # a folder cannot be renamed over one that is not empty
            beside.rename(folder)
            _sync(folder.parent)
        except BaseException:
            with suppress(OSError):
                if not os.path.lexists(beside):  # it is in its place already
                    folder.rename(beside)
                _put_right(folder.parent)
            raise
        with suppress(OSError):  # what is left of the old one is removed with the next
            _put_right(folder.parent)
    except (OSError, StateFileError, CheckpointError) as error:
        raise CheckpointError(f"cannot write the checkpoint {folder}: {_reason(error)}.") from error
    return size


def remove_old(run: Path, keep: int) -> None:
    """Remove the checkpoints to resume from, except the newest few and the one with the highest reward. The caller holds
    the run's lock."""
    try:
        _put_right(run / FOLDER)
        found = [each for each in list_checkpoints(run) if isinstance(each, Checkpoint) and each.kind == "run"]
        best = best_of(found)
        for each in found[: max(0, len(found) - keep)]:
            if each != best:
                _remove(each.path)
    except (OSError, CheckpointError) as error:
        raise CheckpointError(f"cannot remove old checkpoints of {run}: {_reason(error)}.") from error


def _write_files(folder: Path, kind: Kind, facts: dict[str, Any], parts: Mapping[str, State]) -> int:
    """Write all files of a checkpoint and flush them to disk."""
    files = {}
    for name, state in parts.items():
        try:
            files[f"{name}{SUFFIX}"] = _write_file(folder / f"{name}{SUFFIX}", pieces(state))
        except StateFileError as error:
            raise StateFileError(f"{name}: {error}") from None
    manifest = _write_file(folder / MANIFEST, [compose(kind, facts, files)])
    _sync(folder)
    return sum(each["bytes"] for each in [manifest, *files.values()])


def _write_file(path: Path, data: Iterable[memoryview | bytes]) -> dict[str, Any]:
    """Write a file and flush it to disk; returns what the manifest says of it."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in data:
            for start in range(0, len(piece), CHUNK):
                chunk = bytes(piece[start : start + CHUNK])  # a copy: an array in shared memory may change meanwhile
                digest.update(chunk)
                size += file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": size, "sha256": digest.hexdigest()}


def _put_right(parent: Path) -> None:
    """Remove what a crash left, and give the last whole checkpoint its name back."""
    if parent.is_symlink():  # nothing outside a run's folder is written or removed, wherever the folder comes from
        raise CheckpointError(f"{parent} is a link to a folder elsewhere; put the folder itself there")
    for entry in sorted(parent.iterdir()):
        match = HIDDEN.fullmatch(entry.name)
        with suppress(OSError):  # what cannot be removed is in the way of nothing, or is met again where it is
            if match and match[2] == "old" and not os.path.lexists(parent / match[1]):
                entry.rename(parent / match[1])
            elif match:
                _remove(entry)


def _remove(path: Path) -> None:
    """Remove a folder so that no half of it is ever seen as a checkpoint."""
    match = HIDDEN.fullmatch(path.name)
    beside = path.with_name(f".{match[1] if match else path.name}.part")
    _discard(beside)
    if path != beside:
        path.rename(beside)
        _discard(beside)


def _discard(path: Path) -> None:
    """Remove whatever is there; links are not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Flush to disk which names a folder has, where folders can be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that cannot do this for folders
            raise
    finally:
        os.close(descriptor)
