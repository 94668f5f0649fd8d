"""What happens to a model while its agent plays, as rows of a replay of ours: its learner lives through the same.

    row    START epoch 7 │ ADD state, action, reward, done │ ADD … │ END epoch 7, digest │ DECAY │ START epoch 8 …

sorrel's loop has one model that plays and learns. Here they may be apart, so every call by which playing changes a model
(`memory.add`, its epoch actions, `reset`, the decay of epsilon) is a row, and the copy that learns is called in the same
way.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.errors import ModelError, short
from abreast.replay import Buffer

MOST_PARTS = 8
"""Numbers that an action may be made of. (PPO: an action and its log probability.)"""
GIVEN = "given_"
EXTRA = "extra_"


class Event(IntEnum):
    """What was called."""

    ADD = 0
    START = 1
    END = 2
    DECAY = 3
    RESET = 4
    ADD_EMPTY = 5
    CLEAR = 6
    SET_EPSILON = 7


MODEL_CALLS = {"reset": Event.RESET, "set_epsilon": Event.SET_EPSILON}
MEMORY_CALLS = {"add": Event.ADD, "add_empty": Event.ADD_EMPTY, "clear": Event.CLEAR}
"""Methods that an agent or an environment may call while it plays, beside epoch actions."""


class Layout(NamedTuple):
    """What a row holds, as the model's own memory would keep it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    extra: Mapping[str, np.dtype[Any]]
    """What the memory calls `extra_data`: positions, say."""

    @classmethod
    def of(cls, memory: Any) -> "Layout | str":
        """The layout for a memory of sorrel's; or why it has none."""
        states = getattr(memory, "states", None)
        if not isinstance(states, np.ndarray) or states.dtype.kind not in "biuf" or states.ndim < 1:
            return f"{type(memory).__name__} keeps no array of numbers called `states`"
        extra = {}
        for name, array in dict(getattr(memory, "extra_data", {})).items():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                return f"{type(memory).__name__}.extra_data[{name!r}] is no array of numbers"
            extra[name] = np.dtype((array.dtype, array.shape[1:]))
        return cls(states.shape[1:], states.dtype, extra)

    def columns(self) -> dict[str, np.dtype[Any]]:
        """The columns beside the state."""
        extras = {f"{EXTRA}{name}": dtype for name, dtype in self.extra.items()}
        given = {f"{GIVEN}{name}": np.dtype(np.bool_) for name in self.extra}
        return {
            "event": np.dtype(np.int8),
            "number": np.dtype(np.float64),
            "got": np.dtype(np.float64),
            "is_done": np.dtype(np.bool_),
            "parts": np.dtype((np.float64, (MOST_PARTS,))),
            "kinds": np.dtype((np.int8, (MOST_PARTS,))),
            "is_tuple": np.dtype(np.bool_),
            "digest": np.dtype((np.int64, (2,))),
            **extras,
            **given,
        }


class EventLog:
    """Writes events into a replay, and reads them again."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._nothing = {name: np.zeros((), dtype)[()] for name, dtype in layout.columns().items()}
        self._no_state = np.zeros(layout.shape, layout.dtype)
        self._state = np.zeros(layout.shape, layout.dtype)

    def note(self, memory: Buffer, event: Event, number: float = 0.0, digest: bytes = bytes(16)) -> None:
        """Write that something without a state was called."""
        row = {"event": int(event), "number": number, "digest": np.frombuffer(digest, np.int64)}
        memory.add(self._no_state, 0, 0.0, False, 0, **{**self._nothing, **row})

    def add(self, memory: Buffer, obs: Any, action: Any, reward: Any, done: Any, **extra: Any) -> None:
        """Write a call of `memory.add`."""
        is_tuple = isinstance(action, tuple | list)
        parts, kinds = np.zeros(MOST_PARTS), np.zeros(MOST_PARTS, dtype=np.int8)
        try:
            for index, part in enumerate(action if is_tuple else [action]):
                number = part.item() if hasattr(part, "item") else part
                parts[index] = number
                kinds[index] = KINDS[type(number)]
        except (KeyError, IndexError, ValueError, TypeError, RuntimeError):
            raise ModelError(
                f"an action put into memory is {short(action)}: expected a number, or up to {MOST_PARTS} of them in a tuple."
            ) from None
        unknown = extra.keys() - self._layout.extra.keys()
        if unknown:
            raise ModelError(
                f"memory.add was given {', '.join(sorted(unknown))}, which its extra_data did not have when the run began."
            )
        row: dict[str, Any] = {"event": int(Event.ADD), "got": float(reward), "is_done": bool(done)}
        row |= {"parts": parts, "kinds": kinds, "is_tuple": is_tuple}
        for name, value in extra.items():
            row |= {f"{EXTRA}{name}": value, f"{GIVEN}{name}": True}
        self._state[...] = obs
        memory.add(self._state, 0, 0.0, False, 0, **{**self._nothing, **row})

    def replay(self, model: Any, memory: Buffer, start: int, check: Callable[[bytes], None]) -> int:
        """Call a model in the way that the rows from `start` on say; returns the number of the row after the last.

        `check` is told the digest that a model had at the end of each epoch.
        """
        if start >= int(memory.written[0]):
            return start
        rows = memory.trajectory(0, start)
        columns, states = rows.extras, rows.states.reshape(len(rows.actions), *self._layout.shape)
        for index, event in enumerate(columns["event"].tolist()):
            number = float(columns["number"][index])
            if event == Event.ADD:
                model.memory.add(*self._arguments(columns, index, states[index]), **self._extra(columns, index))
            elif event == Event.START:
                model.start_epoch_action(epoch=int(number))
            elif event == Event.END:
                check(columns["digest"][index].tobytes())
                model.end_epoch_action(epoch=int(number))
            elif event == Event.DECAY:
                model.epsilon_decay(number)
            elif event == Event.SET_EPSILON:
                model.set_epsilon(number)
            elif event == Event.RESET:
                model.reset()
            elif event == Event.ADD_EMPTY:
                model.memory.add_empty()
            else:
                model.memory.clear()
        return start + len(rows.actions)

    def _arguments(self, columns: Mapping[str, NDArray[Any]], index: int, state: NDArray[Any]) -> tuple[Any, ...]:
        numbers = zip(columns["parts"][index].tolist(), columns["kinds"][index].tolist(), strict=True)
        parts = [TYPES[kind](number) for number, kind in numbers if kind]
        action = tuple(parts) if columns["is_tuple"][index] else parts[0]
        return state.copy(), action, float(columns["got"][index]), bool(columns["is_done"][index])

    def _extra(self, columns: Mapping[str, NDArray[Any]], index: int) -> dict[str, Any]:
        return {
            name: columns[f"{EXTRA}{name}"][index] for name in self._layout.extra if columns[f"{GIVEN}{name}"][index]
        }


TYPES: dict[int, type] = {1: int, 2: float, 3: bool}
KINDS = {kind: number for number, kind in TYPES.items()}
