"""Observation spaces of Gymnasium as arrays: how an observation is read.

observation space                  what a model sees
Box with three dimensions          the same shape, channels last, as bytes where it is made of bytes
Box, four dimensions (a stack)     the channels of all pictures of the stack in one picture
Box, two dimensions of bytes       a picture with one channel
any other Box                      a vector of 32-bit floats; bounds from 10 to 10,000 are brought to 1
Discrete, MultiDiscrete            one-hot
MultiBinary                        as it is
Dict, Tuple                        all parts in one vector; text is left out
Dict with one picture and one-hot  the picture, with a plane for each number beside it
Dict with `action_mask`            what the rest is (`observation`, if that is all), and the legal actions
"""

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from abreast.errors import GameError, log, short
from abreast.integrations.adapted.boxes import MOST_NUMBERS, View, box_view
from abreast.models.observation import PlainObservation
from abreast.processes.child import parent_pid

MASK = "action_mask"
"""What PettingZoo and Gymnasium call the legal actions, in an observation or in `info`."""


def view_of(space: spaces.Space[Any]) -> View:
    """How observations of a space are seen; one that cannot be is refused with the words after "its observations are"."""
    if isinstance(space, spaces.Dict) and MASK in space.spaces:
        rest = {key: inner for key, inner in space.spaces.items() if key != MASK}
        if not rest:
            raise GameError(f"an {MASK} alone: put what the agent sees beside it, as `observation`")
        is_alone = list(rest) == ["observation"]
        inner = view_of(rest["observation"] if is_alone else spaces.Dict(rest))
        return inner._replace(read=_beside_mask(inner.read, is_alone), has_mask=True)
    if isinstance(space, spaces.Box):
        return box_view(space)
    found = list(_parts(space, ""))
    left_out = [part for part in found if isinstance(part, str)]
    parts = [part for part in found if isinstance(part, _Part)]
    if not parts:
        raise GameError("text alone: a network sees numbers; wrap the environment to turn the text into some")
    pictures = [part for part in parts if part.is_picture]
    if len(pictures) == 1 and all(part.is_picture or part.view is None for part in parts):
        return _planes_view(pictures[0], [part for part in parts if not part.is_picture], left_out)
    return _flat_view(parts, left_out)


def _beside_mask(read: Callable[[Any], NDArray[Any]], is_alone: bool) -> Callable[[Any], NDArray[Any]]:
    """The same for a dictionary that holds a mask too; `is_alone`: beside it is `observation`, and nothing else."""

    def look_inside(given: Any) -> NDArray[Any]:
        try:
            seen, _ = given["observation"] if is_alone else given, given[MASK]
        except (KeyError, TypeError, IndexError):
            what = f"`observation` and `{MASK}`" if is_alone else f"`{MASK}`"
            raise GameError(f"{short(given)}: expected a dictionary with {what}, as its space says.") from None
        return read(seen)

    return look_inside


class _Part(NamedTuple):
    """A simple space inside others."""

    path: str
    """Where it is, for messages."""
    steps: tuple[Any, ...]
    """The keys that lead there."""
    size: int
    write: Callable[[Any, NDArray[Any]], None]
    """Puts what was observed into an array of zeros."""
    dtype: Any = np.uint8
    view: View | None = None
    """Of a Box; what has none is one-hot."""

    @property
    def is_picture(self) -> bool:
        return self.view is not None and len(self.view.observation.input_size) == 3 and self.dtype == np.uint8


def _parts(space: spaces.Space[Any], path: str, steps: tuple[Any, ...] = ()) -> Iterator[_Part | str]:
    """The simple spaces in a space, in its order; of text, of which nothing is seen, only where it is."""
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _parts(inner, f"{path}[{key!r}]", (*steps, key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _parts(inner, f"{path}[{index}]", (*steps, index))
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        size = spaces.utils.flatdim(space)
        _check_size(size)
        yield _Part(path, steps, size, _flattened(space))
    elif isinstance(space, spaces.Box):
        view = box_view(space)
        size = math.prod(view.observation.input_size)
        yield _Part(path, steps, size, _seen_by(view), view.observation.dtype, view)
    elif isinstance(space, spaces.Text) or _holds_text(space):
        yield path
    else:
        raise GameError(f"of the space {type(space).__name__}{f' at {path}' if path else ''}")


def _check_size(size: int) -> None:
    if size > MOST_NUMBERS:
        raise GameError(f"{size:,} different values: expected at most {MOST_NUMBERS:,}")


def _holds_text(space: spaces.Space[Any]) -> bool:
    """Whether a space of a library's own is one of texts, as MiniGrid's missions are."""
    try:
        return isinstance(copy.deepcopy(space).sample(), str)
    except Exception:
        return False


def _flattened(space: spaces.Space[Any]) -> Callable[[Any, NDArray[Any]], None]:
    """Writes whole numbers as Gymnasium flattens them: those of a Discrete one-hot."""

    def write(given: Any, out: NDArray[Any]) -> None:
        numbers = np.asarray(given)
        numbers = numbers.reshape(()) if numbers.size == 1 and space.shape == () else numbers
        whole = numbers.astype(space.dtype)
        if numbers.shape != space.shape or (whole != numbers).any() or not space.contains(whole):
            raise GameError(f"{short(given)}: its space says {space}, in whole numbers.")
        out[:] = spaces.utils.flatten(space, whole)

    return write


def _seen_by(view: View) -> Callable[[Any, NDArray[Any]], None]:
    scale = view.observation.scale

    def write(given: Any, out: NDArray[Any]) -> None:
        seen = view.read(given).ravel()
        out[:] = seen if scale == 1.0 else seen * np.float32(scale)

    return write


def _reached(given: Any, part: _Part) -> Any:
    try:
        for step in part.steps:
            given = given[step]
    except (KeyError, IndexError, TypeError):
        raise GameError(f"{short(given)}, which lacks {part.path}, a part of its space.") from None
    return given


def _write_parts(given: Any, parts: Sequence[_Part], out: NDArray[Any]) -> None:
    """Put what was observed of these parts into an array of zeros, one after the other."""
    begin = 0
    for part in parts:
        try:
            part.write(_reached(given, part), out[begin : begin + part.size])
        except (TypeError, ValueError):
            raise GameError(f"{short(given)}, which does not fit its space.") from None
        begin += part.size


def _flat_view(parts: Sequence[_Part], left_out: Sequence[str]) -> View:
    """All parts in one vector; of bytes where all of them are."""
    size = sum(part.size for part in parts)
    _check_size(size)
    for part in parts:
        if part.is_picture and parent_pid() is None:  # of other processes, it was told here
            _tell_of_picture(part.path)
    kind = np.dtype(np.uint8 if all(part.view is None for part in parts) else np.float32)

    def read(given: Any) -> NDArray[Any]:
        out = np.zeros(size, dtype=kind)
        _write_parts(given, parts, out)
        return out

    return View(PlainObservation((size,), kind, 1.0), read, left_out=left_out)


@functools.cache
def _tell_of_picture(path: str) -> None:
    log.warning(
        "the picture %s of an observation goes into one row with the numbers beside it, because it is not the only one or"
        " these are not one-hot: a network does not know which pixels are neighbours then; observe one picture alone, or"
        " beside Discrete numbers.",
        path,
    )


def _planes_view(picture: _Part, others: Sequence[_Part], left_out: Sequence[str]) -> View:
    """A picture; and for each number beside it, a plane that is set all over if the number is."""
    assert picture.view is not None
    seen, scale = picture.view.observation, picture.view.observation.scale
    height, width, channels = seen.input_size
    more = sum(part.size for part in others)
    _check_size(height * width * (channels + more))
    lit, look = round(1 / scale), picture.view.read

    def read(given: Any) -> NDArray[Any]:
        out = np.empty((height, width, channels + more), dtype=np.uint8)
        out[:, :, :channels] = look(_reached(given, picture))
        numbers = np.zeros(more, dtype=np.uint8)
        _write_parts(given, others, numbers)
        out[:, :, channels:] = numbers * lit
        return out

    return View(PlainObservation((height, width, channels + more), np.dtype(np.uint8), scale), read, left_out=left_out)
