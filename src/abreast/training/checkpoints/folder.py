"""Checkpoints on disk: one folder each, there as a whole or not at all.

RUN/checkpoints/epoch_000500/   manifest.json   agent_0.safetensors …   one `State` a file (a part)

Who writes holds the run's lock; readers need none.
"""

import hashlib
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from abreast import __version__
from abreast.errors import CheckpointError, StateFileError
from abreast.state import State
from abreast.state_file import pieces, read
from abreast.training.checkpoints.manifest import LARGEST, MANIFEST, PART, SUFFIX, Listed, Manifest, compose, parse
from abreast.training.checkpoints.plain_file import CHUNK, open_folder, open_plain, reason_of, size_of
from abreast.training.checkpoints.renames import HIDDEN, discard, hidden, put_right, remove, swap, sync

log = logging.getLogger("abreast")

FOLDER = "checkpoints"
LOOSE = re.compile(rf"(agent_[0-9]{{1,9}}){re.escape(SUFFIX)}")


class Checkpoint(NamedTuple):
    """A folder whose manifest was read and whose files have the sizes it says."""

    path: Path
    kind: str
    version: str
    """The version of abreast that wrote it."""
    facts: dict[str, Any]
    files: dict[str, Listed]
    """By part."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts, for example `agent_0`, `run`."""
        return tuple(self.files)

    @property
    def epochs(self) -> int:
        """Epochs that had been played."""
        return int(self.facts["epochs"])

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the parts that are agents, in order."""
        return tuple(sorted((part for part in self.files if LOOSE.fullmatch(f"{part}{SUFFIX}")), key=_number))

    def part(self, name: str) -> State:
        """Read a part; it is compared with its checksum."""
        listed = self.files.get(name)
        if listed is None:
            raise CheckpointError(f"{self.path} has no part {name}: it has {', '.join(self.parts)}.")
        file_name = f"{name}{SUFFIX}"
        with (
            _opened(self.path) as folder,
            _named(self.path / file_name),
            open_plain(folder, file_name) as file,
        ):
            if file.size != listed.size:
                raise CheckpointError(_wrong_size(file.size, listed.size))
            state = read(file, file.size)
            if file.readinto(memoryview(bytearray(1))):
                raise CheckpointError("it grew while it was read")
            if listed.sha256 not in (None, file.sha256):
                raise CheckpointError("it does not match its checksum: it was damaged or changed")
            return state

    def check(self) -> None:
        """Read all parts; one that is damaged is a CheckpointError."""
        for name in self.files:
            self.part(name)


def open_checkpoint(folder: Path) -> Checkpoint:
    """Look at a checkpoint: its manifest and the sizes of its files."""
    with _opened(folder) as descriptor:
        with _named(folder / MANIFEST), open_plain(descriptor, MANIFEST) as file:
            if file.size > LARGEST:
                raise CheckpointError(f"it has {file.size:,} bytes, at most {LARGEST:,} are allowed")
            data = bytearray(file.size)
            done = 0
            while done < len(data) and (count := file.readinto(memoryview(data)[done:])):
                done += count
            manifest = parse(bytes(data[:done]))
        for part, listed in manifest.files.items():
            with _named(folder / f"{part}{SUFFIX}"):
                size = size_of(descriptor, f"{part}{SUFFIX}")
                if size != listed.size:
                    raise CheckpointError(_wrong_size(size, listed.size))
    return Checkpoint(folder, manifest.kind, manifest.version, manifest.facts, manifest.files)


def list_checkpoints(run: Path) -> list[Checkpoint | CheckpointError]:
    """The checkpoints of a run by epochs, oldest first (`final` after one of equal epochs); an error for each that cannot
    be used, where its name says that it belongs."""
    return [found for _, found in _listed(run / FOLDER)]


def newest_agents(path: Path) -> Checkpoint:
    """The newest checkpoint with agents that are whole, of a run, of its folder of checkpoints, or this one itself.

    A run from before there were checkpoints has only model files; they are read as the parts of one.
    """
    is_missing = not os.path.lexists(path)
    if os.path.lexists(path / MANIFEST) or (is_missing and os.path.lexists(hidden(path, "old"))):
        return _with_agents(open_checkpoint(path))
    if not _is_folder(path):
        raise CheckpointError(f"{path} is no run folder: {'there is none' if is_missing else 'it is not a folder'}.")
    folder = path / FOLDER if os.path.lexists(path / FOLDER) else path
    faults = []
    for _, found in reversed(_listed(folder)):
        try:
            if isinstance(found, CheckpointError):
                raise found
            newest = _with_agents(found)
        except CheckpointError as error:
            faults.append(error)
            continue
        for fault in faults:
            log.warning("%s The one before is used, %s.", fault, newest.path)
        return newest
    if loose := _loose(folder) if not faults else None:
        return _with_agents(loose)
    is_run = folder != path or path.name == FOLDER or os.path.lexists(path / "config.yaml")
    if not is_run:  # what else is in it says nothing
        raise CheckpointError(f"{path} is no run folder: it has neither config.yaml nor checkpoints.")
    if faults:
        raise CheckpointError(f"{path} has no checkpoint that can be used: {faults[0]}")
    raise CheckpointError(f"{path} has no checkpoint yet: it was stopped, or is still, before its first one.")


def write_checkpoint(
    folder: Path, kind: Literal["run", "agents"], facts: dict[str, Any], parts: Mapping[str, State]
) -> int:
    """Write a checkpoint, which replaces one of the same name, and return its bytes. The caller holds the run's lock.

    At any moment there is the old one or the new one. What fails leaves nothing of the new one.
    """
    beside, old = hidden(folder, "part"), hidden(folder, "old")
    try:
        if not PART.fullmatch(folder.name):
            raise CheckpointError("its name must be small letters, digits and _")
        if not folder.parent.is_dir():
            folder.parent.mkdir(parents=True)
            sync(folder.parent.parent)
        put_right(folder.parent)
        beside.mkdir()
        try:
            size = _write(beside, kind, facts, parts)
            swap(folder, beside, old)
        except BaseException:
            with suppress(OSError):
                discard(beside)
            raise
        with suppress(OSError):  # it is there; what is left of the old one is removed with the next
            remove(old, folder)
    except (OSError, StateFileError, CheckpointError) as error:
        reason = reason_of(error).removesuffix(".")
        raise CheckpointError(f"cannot write the checkpoint {folder}: {reason}.") from error
    return size


def remove_old(run: Path, keep: int, spare: Collection[str]) -> None:
    """Remove the checkpoints to resume from, except the newest few and those named. The caller holds the run's lock."""
    folder = run / FOLDER
    try:
        if _is_folder(folder):
            put_right(folder)
        found = [each for each in list_checkpoints(run) if isinstance(each, Checkpoint) and each.kind == "run"]
        for each in found[: max(0, len(found) - keep)]:
            if each.name not in spare:
                remove(each.path, each.path)
    except OSError as error:
        raise CheckpointError(f"cannot remove old checkpoints of {run}: {reason_of(error)}.") from error


def _write(folder: Path, kind: str, facts: dict[str, Any], parts: Mapping[str, State]) -> int:
    """Write all files of a checkpoint and flush them to disk."""
    files = {}
    for name, state in parts.items():
        try:
            files[name] = _write_file(folder / f"{name}{SUFFIX}", state)
        except StateFileError as error:
            raise StateFileError(f"{name}: {error}") from None
    manifest = compose(Manifest(__version__, kind, facts, files))
    with (folder / MANIFEST).open("xb") as file:
        file.write(manifest)
        file.flush()
        os.fsync(file.fileno())
    sync(folder)
    return len(manifest) + sum(listed.size for listed in files.values())


def _write_file(path: Path, state: State) -> Listed:
    if not PART.fullmatch(path.name.removesuffix(SUFFIX)):
        raise StateFileError("the name of a part must be small letters, digits and _.")
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in pieces(state):
            for start in range(0, len(piece), CHUNK):
                chunk = bytes(piece[start : start + CHUNK])  # a copy: an array in shared memory may change meanwhile
                digest.update(chunk)
                file.write(chunk)
                size += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return Listed(size, digest.hexdigest())


def _opened(folder: Path) -> AbstractContextManager[int]:
    """The descriptor of a checkpoint that is in its place or, between two renames or after a crash there, under its
    hidden name; by then it may be in its place again."""
    return open_folder(folder, hidden(folder, "old"), folder)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name no file can have
        return False


def _listed(folder: Path) -> list[tuple[tuple[int, bool], Checkpoint | CheckpointError]]:
    """Checkpoints and errors with what they are sorted by. What has another kind of name is none of ours."""
    names = _entries(folder)
    names |= {match[1] for name in names if (match := HIDDEN.fullmatch(name)) and match[2] == "old"}
    found: list[tuple[tuple[int, bool], Checkpoint | CheckpointError]] = []
    for name in sorted(name for name in names if PART.fullmatch(name)):
        try:
            checkpoint = open_checkpoint(folder / name)
            found.append(((checkpoint.epochs, checkpoint.kind == "agents"), checkpoint))
        except CheckpointError as error:
            found.append(((_number(name), False), error))
    return sorted(found, key=lambda each: each[0])


def _entries(folder: Path) -> set[str]:
    """The names in a folder; none if there is no such folder."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read the checkpoints in {folder}: {reason_of(error)}.") from None


def _number(name: str) -> int:
    """The number at the end of a name; one without is the last."""
    match = re.search(r"[0-9]+$", name)
    return int(match[0]) if match else sys.maxsize


def _with_agents(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint whose agents are whole."""
    if not checkpoint.agents:
        raise CheckpointError(f"{checkpoint.path} holds no agents: it has {', '.join(checkpoint.parts)}.")
    for agent in checkpoint.agents:
        checkpoint.part(agent)
    return checkpoint


def _loose(folder: Path) -> Checkpoint | None:
    """The model files of a run from before there were checkpoints."""
    folder = folder.resolve()  # a run may keep its checkpoints elsewhere
    names = sorted(match[1] for entry in _entries(folder) if (match := LOOSE.fullmatch(entry)))
    files = {}
    with open_folder(folder) as descriptor:
        for name in names:
            with _named(folder / f"{name}{SUFFIX}"):
                files[name] = Listed(size_of(descriptor, f"{name}{SUFFIX}"), None)
    return Checkpoint(folder, "agents", "unknown", {"epochs": 0}, files) if files else None


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file an error is about."""
    try:
        yield
    except (CheckpointError, StateFileError) as error:
        raise CheckpointError(f"{path} cannot be used: {str(error).removesuffix('.')}.") from None


def _wrong_size(size: int, listed: int) -> str:
    return f"it has {size:,} bytes instead of {listed:,}: it was cut, added to or changed"
