"""Every exception abreast raises on purpose, and the logger of all that it has to say.

A message is one sentence a user can act on: what was given, what was expected, what follows, what to do.
The command line prints it and exits with code 2, or with 1 where what ran has failed, not what was typed; no traceback,
because the fault is in the input, not the program.
"""

import logging
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Self

log = logging.getLogger("abreast")

OURS = Path(__file__).parent
"""The folder of this package."""
_UNSHOWN = re.compile("[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\u202a-\\u202e\\u2066-\\u2069]")
"""Control characters but for line feeds and tabs, halves of characters, and marks that turn the direction of writing."""
MOST_FAULTS = 100
"""Faults of a configuration that a message lists."""


class AbreastError(Exception):
    """Base of all errors below; catch this to catch them all."""


class ConfigError(AbreastError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another.

    `faults` has one sentence for each setting that is wrong; with several of them, the message is a list.
    """

    def __init__(self, text: str, faults: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.faults: tuple[str, ...] = tuple(faults) or (text,)

    @classmethod
    def of(cls, faults: Iterable[str]) -> Self:
        """One error for all of these sentences."""
        told = tuple(dict.fromkeys(fault.replace("\n", " ") for fault in faults))
        if len(told) == 1:
            return cls(told[0])
        lines = [f"- {fault}" for fault in told[:MOST_FAULTS]]
        if len(told) > MOST_FAULTS:
            lines.append(f"- and {len(told) - MOST_FAULTS} more.")
        return cls("\n".join([f"{len(told)} faults in this configuration:", *lines]), told)

    def inside(self, where: str) -> "ConfigError":
        """The same error, with `where` before each of its sentences."""
        return ConfigError.of(f"{where}: {fault}" for fault in self.faults)


class WorldError(AbreastError):
    """The world cannot be laid out or changed as asked."""


class ReplayError(AbreastError):
    """A row does not fit the replay buffer, or the buffer is used against its contract."""


class StateError(AbreastError):
    """A state does not fit the part it is given to."""


class AttributeStateError(StateError):
    """An attribute of a user's class can neither be sent to another process nor be kept in a file."""

    def __init__(self, name: str, value: object, reason: str) -> None:
        super().__init__(f"its attribute {name} ({type(value).__name__}) cannot be sent or kept: {reason}")
        self.name, self._kind, self._reason = name, type(value).__name__, reason

    def of(self, owner: str) -> str:
        """The same, said of an attribute of a class."""
        return f"{owner}.{self.name.rpartition('.')[2]} ({self._kind}) cannot be kept in a file: {self._reason}."


class RewardError(AbreastError):
    """A reward is not a finite number."""


class ModelError(AbreastError):
    """A model does not keep the contract of `BaseModel`."""


class ModelFileError(AbreastError):
    """A model file is missing, damaged, or belongs to another kind of model."""


class StateFileError(AbreastError):
    """A state cannot be written to a file, or a file does not hold one."""


class CheckpointError(AbreastError):
    """A checkpoint is missing, damaged, not one of abreast's, or could not be written."""

    path = Path()
    """The checkpoint it is about, in a list of checkpoints."""


class WorkerError(AbreastError):
    """A worker process could not start, or died once too often; its own stack is the cause of this error."""


class WorkerInputError(WorkerError):
    """A worker could not start with what it was given where it is: its sentence says all. The exit code is 2."""


class RolloutError(AbreastError):
    """The manager of environments was asked for something it cannot do."""


class FailedEpisodesError(RolloutError):
    """Episodes of a rollout could not go on, or came out otherwise than recorded. The exit code is 1."""


class BeginError(RolloutError):
    """A single episode could not begin; others may."""


class GameError(AbreastError):
    """A game is not found, or does not keep the contract of a game."""


class RunFolderError(AbreastError):
    """The run folder cannot be written or is not a run folder."""


class StoppedError(AbreastError):
    """A run was asked to stop (`abreast watch`), and has, with a checkpoint. Nothing is wrong: the exit code is 0."""


def need_posix(what: str, instead: str) -> None:
    """Refuse `what` on a system without POSIX, such as Windows; `instead` says what to do there."""
    if not hasattr(os, "fork"):
        raise WorkerInputError(f"{what} POSIX, which {sys.platform} lacks: {instead}, or use Linux, macOS or WSL.")


def short(value: object) -> str:
    """What was given, cut to what fits into a sentence."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists in lists
        text = f"{type(value).__name__} too long to be shown"
    return text if len(text) <= 80 else f"{text[:77]}..."


def sentence(text: object) -> str:
    """A text that ends with a full stop, or with the question mark that it has."""
    told = str(text).rstrip(".")
    return told if told.endswith("?") else f"{told}."


def words(error: BaseException, folder: Path) -> str:
    """What was raised, and where: the innermost line of the user's own code; without one, the innermost that is not in a
    file of this folder, whose code only called.
    """
    places = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    outside = [(path, line) for path, line in places if path.parent != folder and not path.name.startswith("<")]
    outside = [place for place in outside if _is_users(place[0])] or outside
    where = f" ({outside[-1][0].name}, line {outside[-1][1]})" if outside and not isinstance(error, SyntaxError) else ""
    try:
        text = " ".join(str(error).split())
    except Exception:  # of a user's class
        text = "(its text cannot be told)"
    return f"{type(error).__name__}: {text}{where}"


def users_part(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error from the first line of the user's code on, or None if no such line was executed."""
    part, caller = error.__traceback__, OURS
    while part is not None and not _is_users(path := Path(part.tb_frame.f_code.co_filename), caller):
        part, caller = part.tb_next, path
    return part


def _is_users(path: Path, caller: Path = OURS) -> bool:
    """Return True if a file is neither ours, nor Python's, nor that of an installed package (unless an adapter of ours calls
    it: then it is an environment).
    """
    if not {"site-packages", "dist-packages"}.isdisjoint(path.parts):
        return caller.parent == OURS / "integrations" / "adapted"
    known = OURS, Path(sysconfig.get_path("stdlib"))
    return not path.name.startswith("<") and not any(map(path.is_relative_to, known))


def printable(text: str) -> str:
    """Return a text without what a terminal would take for an order, or could not show; lines stay."""
    return _UNSHOWN.sub("\ufffd", text)


def nearest(given: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """A closing hint that names the closest known spelling, or, when none is close, all of them, or what is given."""
    names = sorted(known)
    for name in get_close_matches(given, names, n=len(names) or 1):
        if get_close_matches(_own_part(given), [_own_part(name)]):
            return f"did you mean {name!r}?"
    return f"known are: {', '.join(names)}." if otherwise is None else otherwise


def _own_part(name: str) -> str:
    """Return a name without its section, package or namespace, and without a version or `.py`: what neighbours share."""
    return re.sub(r"^.*[./](?!py$)|([-_]v\d+|\.py)$", "", name)
