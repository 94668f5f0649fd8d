"""Spaces of Gymnasium as arrays and numbers: how an observation is read, and what an action's number stands for.

observation space                  what a model sees
Box with three dimensions          the same shape (channels last), as bytes where it is made of bytes
Box, two dimensions of bytes       a picture with one channel
any other Box                      a vector of 32-bit floats; bounds from 10 to 10,000 are brought to 1
Discrete, MultiDiscrete            one-hot
MultiBinary                        as it is
Dict, Tuple                        all parts in one vector; text is left out
Dict with one picture and one-hot  the picture, with a plane for each number beside it
Dict with `action_mask`            what `observation` is, and the legal actions
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from abreast.errors import GameError, short
from abreast.models.base import PlainObservation

MOST_ACTIONS = 4096
"""Combinations of a MultiDiscrete action that are enumerated: each is an output of the network."""
MOST_NUMBERS = 2**24
"""Numbers in an observation."""
SMALL_GRID = 16
"""Cells a side up to which bytes are codes of things, not brightness; codes are small, whatever their bounds are."""
CODE = 0.1
"""What such codes are multiplied with."""
SCALED = (10.0, 10_000.0)
"""Bounds from here to there are brought to 1. Larger ones usually stand for none."""
BYTES = (np.uint8, np.int8, np.bool_)


class View(NamedTuple):
    """What an agent sees."""

    observation: PlainObservation
    read: Callable[[Any], NDArray[Any]]
    """Makes a new array of an observation; raises `GameError` with words that follow "observes"."""
    has_mask: bool = False
    """Whether the observation holds `action_mask`."""
    left_out: Sequence[str] = ()
    """Parts of the observation that are not seen, in words."""
    bounds: tuple[NDArray[Any] | None, NDArray[Any] | None] = (None, None)
    """The lowest and highest values that a Box says, as `read` returns them."""


class Actions(NamedTuple):
    """What an agent can do."""

    number: int
    """How many actions there are."""
    is_plain: bool
    """Whether an action is its number."""
    of: Callable[[int], Any]
    """The environment's action with a number."""


# ---- observations


def view_of(space: spaces.Space[Any]) -> View:
    """How observations of a space are seen; one that cannot be is refused with the words after "its observations are"."""
    if isinstance(space, spaces.Dict) and {"observation", "action_mask"} <= space.spaces.keys():
        inner = view_of(space["observation"])
        others = [key for key in space.spaces if key not in ("observation", "action_mask")]
        return View(inner.observation, _inside(inner.read), True, [*inner.left_out, *others], inner.bounds)
    if isinstance(space, spaces.Box):
        return _box_view(space)
    parts = list(_parts(space, ""))
    left_out = [part.path for part in parts if part.is_text]
    parts = [part for part in parts if not part.is_text]
    if not parts:
        raise GameError("text alone: a network sees numbers; wrap the environment to turn the text into some")
    pictures = [part for part in parts if part.is_picture]
    if len(pictures) == 1 and all(part.is_picture or part.is_one_hot for part in parts):
        return _planes_view(pictures[0], [part for part in parts if not part.is_picture], left_out)
    return _flat_view(parts, left_out)


def _inside(read: Callable[[Any], NDArray[Any]]) -> Callable[[Any], NDArray[Any]]:
    """The same for a dictionary that holds a mask too."""

    def look_inside(given: Any) -> NDArray[Any]:
        try:
            observation, _ = given["observation"], given["action_mask"]
        except (KeyError, TypeError, IndexError):
            raise GameError(
                f"{short(given)}: expected a dictionary with `observation` and `action_mask`, as its space says."
            ) from None
        return read(observation)

    return look_inside


def _box_view(space: spaces.Box) -> View:
    shape, dtype = space.shape, space.dtype
    of_bytes = dtype in BYTES
    kind = (np.dtype(np.uint8) if dtype == np.bool_ else np.dtype(dtype)) if of_bytes else np.dtype(np.float32)
    if math.prod(shape) > MOST_NUMBERS or not math.prod(shape):
        raise GameError(f"of shape {shape}: expected 1 to {MOST_NUMBERS:,} numbers")
    order: tuple[int, ...] | None = None
    seen = shape if len(shape) == 3 else (math.prod(shape),)
    if len(shape) == 2 and of_bytes:
        seen = (*shape, 1)
    elif len(shape) == 3 and of_bytes and shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4) and min(shape[1:]) > 4:
        order, seen = (1, 2, 0), (shape[1], shape[2], shape[0])  # channels last, as networks here have them
    factor = None if of_bytes else _factor(space)
    scale = _scale_of_bytes(space, seen) if of_bytes else 1.0

    def read(given: Any) -> NDArray[Any]:
        try:
            array = np.array(given, dtype=kind)  # a copy: the environment may write into its own array
        except (TypeError, ValueError):
            raise GameError(f"{short(given)}: expected an array of shape {shape}, as its space says.") from None
        if array.shape != shape:
            raise GameError(
                f"an array of shape {array.shape}, but its space says {shape}: give every observation the shape of the"
                " space; pad what is not there."
            )
        if factor is not None:
            array = array * factor
        if order is not None:
            return np.ascontiguousarray(array.transpose(order))
        return array if shape == seen else array.reshape(seen)

    return View(PlainObservation(seen, kind, scale), read, bounds=(read(space.low), read(space.high)))


def _scale_of_bytes(space: spaces.Box, seen: tuple[int, ...]) -> float:
    largest = float(max(abs(float(space.low.min())), abs(float(space.high.max()))))
    if largest > SMALL_GRID and len(seen) == 3 and max(seen[:2]) <= SMALL_GRID:
        return CODE
    return 1.0 if largest <= 1 else 1.0 / largest


def _factor(space: spaces.Box) -> NDArray[np.float32] | None:
    bounds = np.maximum(np.abs(space.low.astype(np.float64)), np.abs(space.high.astype(np.float64)))
    is_scaled = np.isfinite(bounds) & (bounds > SCALED[0]) & (bounds <= SCALED[1])
    if not is_scaled.any():
        return None
    return np.where(is_scaled, 1.0 / np.where(is_scaled, bounds, 1.0), 1.0).astype(np.float32)


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
    is_one_hot: bool = False
    is_text: bool = False

    @property
    def is_picture(self) -> bool:
        return self.view is not None and len(self.view.observation.input_size) == 3 and self.dtype == np.uint8


def _parts(space: spaces.Space[Any], path: str, steps: tuple[Any, ...] = ()) -> Iterator[_Part]:
    """The simple spaces in a space, in its order."""
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _parts(inner, f"{path}[{key!r}]", (*steps, key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _parts(inner, f"{path}[{index}]", (*steps, index))
    elif isinstance(space, spaces.Discrete):
        start, count = int(space.start), int(space.n)
        _check_size(count)
        yield _Part(path, steps, count, _one_hot([start], [count]), is_one_hot=True)
    elif isinstance(space, spaces.MultiDiscrete):
        counts = [int(count) for count in space.nvec.flat]
        _check_size(sum(counts))
        starts = [int(start) for start in space.start.flat]
        yield _Part(path, steps, sum(counts), _one_hot(starts, counts), is_one_hot=True)
    elif isinstance(space, spaces.MultiBinary):
        size = math.prod(space.shape)
        _check_size(size)
        yield _Part(path, steps, size, _copied(space.shape), is_one_hot=True)
    elif isinstance(space, spaces.Box):
        view = _box_view(space)
        size = math.prod(view.observation.input_size)
        yield _Part(path, steps, size, _seen_by(view), view.observation.dtype, view)
    elif isinstance(space, spaces.Text) or _holds_text(space):
        yield _Part(path, steps, 0, _nothing, is_text=True)
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


def _nothing(given: Any, out: NDArray[Any]) -> None:
    """Of text, nothing is seen."""


def _one_hot(starts: Sequence[int], counts: Sequence[int]) -> Callable[[Any, NDArray[Any]], None]:
    offsets = [0, *itertools.accumulate(counts)]

    def write(given: Any, out: NDArray[Any]) -> None:
        values = [int(given)] if len(counts) == 1 and np.ndim(given) == 0 else np.asarray(given).ravel().tolist()
        if len(values) != len(counts):
            raise GameError(f"{short(given)}: expected {len(counts)} whole numbers, as its space says.")
        for value, start, count, offset in zip(values, starts, counts, offsets, strict=False):
            if not 0 <= value - start < count:
                raise GameError(f"{value}: its space says {start} to {start + count - 1}.")
            out[offset + value - start] = 1

    return write


def _copied(shape: tuple[int, ...]) -> Callable[[Any, NDArray[Any]], None]:
    def write(given: Any, out: NDArray[Any]) -> None:
        array = np.asarray(given)
        if array.shape != shape:
            raise GameError(f"an array of shape {array.shape}, but its space says {shape}.")
        out[:] = array.ravel()

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


def _flat_view(parts: Sequence[_Part], left_out: Sequence[str]) -> View:
    """All parts in one vector; of bytes where all of them are."""
    offsets = [0, *itertools.accumulate(part.size for part in parts)]
    _check_size(offsets[-1])
    of_bytes = all(part.view is None for part in parts)
    kind = np.dtype(np.uint8) if of_bytes else np.dtype(np.float32)
    places = [(part, slice(begin, begin + part.size)) for part, begin in zip(parts, offsets, strict=False)]

    def read(given: Any) -> NDArray[Any]:
        out = np.zeros(offsets[-1], dtype=kind)
        for part, place in places:
            try:
                part.write(_reached(given, part), out[place])
            except (TypeError, ValueError):
                raise GameError(f"{short(given)}, which does not fit its space.") from None
        return out

    return View(PlainObservation((offsets[-1],), kind, 1.0), read, left_out=left_out)


def _planes_view(picture: _Part, others: Sequence[_Part], left_out: Sequence[str]) -> View:
    """A picture; and for each number beside it, a plane that is set all over if the number is."""
    assert picture.view is not None
    seen, scale = picture.view.observation, picture.view.observation.scale
    height, width, channels = seen.input_size
    more = sum(part.size for part in others)
    _check_size(height * width * (channels + more))
    lit = round(1 / scale)
    offsets = [0, *itertools.accumulate(part.size for part in others)]
    look = picture.view.read

    def read(given: Any) -> NDArray[Any]:
        out = np.empty((height, width, channels + more), dtype=np.uint8)
        out[:, :, :channels] = look(_reached(given, picture))
        numbers = np.zeros(more, dtype=np.uint8)
        for part, begin in zip(others, offsets, strict=False):
            try:
                part.write(_reached(given, part), numbers[begin : begin + part.size])
            except (TypeError, ValueError):
                raise GameError(f"{short(given)}, which does not fit its space.") from None
        out[:, :, channels:] = numbers * lit
        return out

    return View(PlainObservation((height, width, channels + more), np.dtype(np.uint8), scale), read, left_out=left_out)


# ---- actions


def actions_of(space: spaces.Space[Any]) -> Actions:
    """What the numbers of actions stand for; spaces that cannot be enumerated are refused, with the words after
    "its actions are".
    """
    if isinstance(space, spaces.Discrete):
        count, start = int(space.n), int(space.start)
        if count > MOST_ACTIONS:
            raise GameError(f"{count:,} in number, and at most {MOST_ACTIONS:,} are supported")
        return Actions(count, not start, int if not start else (lambda action: action + start))
    count = _count(space)
    if count > MOST_ACTIONS:
        raise GameError(
            f"combined ({type(space).__name__}), {count:,} in number, and at most {MOST_ACTIONS:,} are supported: wrap the"
            " environment to offer fewer"
        )
    table = list(_values(space))
    return Actions(count, False, lambda action: copy.deepcopy(table[action]))  # the environment may write into it


def _count(space: spaces.Space[Any]) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(math.prod(int(count) for count in space.nvec.flat))
    if isinstance(space, spaces.MultiBinary):
        return int(2 ** min(math.prod(space.shape), 64))
    if isinstance(space, spaces.Tuple):
        return int(math.prod(_count(inner) for inner in space.spaces))
    if isinstance(space, spaces.Dict):
        return int(math.prod(_count(inner) for inner in space.spaces.values()))
    what = "continuous" if isinstance(space, spaces.Box) else "not numbered"
    raise GameError(
        f"{what} ({short(space)}), but models choose among numbered actions: Discrete, MultiDiscrete, MultiBinary, and Dict"
        " or Tuple of these; wrap the environment to offer a few values of each"
    )


def _values(space: spaces.Space[Any]) -> Iterator[Any]:
    """Every action of a space, in order."""
    if isinstance(space, spaces.Discrete):
        yield from range(int(space.start), int(space.start) + int(space.n))
    elif isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        counts = (
            space.nvec.ravel().tolist() if isinstance(space, spaces.MultiDiscrete) else [2] * math.prod(space.shape)
        )
        starts = space.start if isinstance(space, spaces.MultiDiscrete) else 0
        for values in itertools.product(*map(range, counts)):
            yield np.array(values, dtype=space.dtype).reshape(space.shape) + np.asarray(starts, dtype=space.dtype)
    elif isinstance(space, spaces.Tuple):
        yield from itertools.product(*map(list, map(_values, space.spaces)))
    elif isinstance(space, spaces.Dict):
        inner: Mapping[str, Any] = space.spaces
        for values in itertools.product(*(list(_values(each)) for each in inner.values())):
            yield dict(zip(inner, values, strict=True))
