"""Rows of experience in rings, one for each lane, and how they are read: batches, trajectories, windows.

Stacks of frames and n-step returns are put together when a batch is drawn, and neither crosses a lane, the end of an
episode, or the write head.

Shapes: B batch, N rows of a trajectory, T stacked frames, K steps of an n-step return, … one frame.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from abreast.errors import ReplayError
from abreast.processes.memory import fence, poison
from abreast.processes.ring import Ring, ring_layout
from abreast.processes.spans import span
from abreast.replay.batch import Batch, Trajectory
from abreast.state_file import TENSORS

Rows = NDArray[np.int64]
LAST_CHARACTER = 0x10FFFF
Draw = Callable[[int, Rows], Rows]
"""From the number of rows of a batch, and of those written per lane, to which rows these are: see `ReplayRows.draw`."""


def as_numbers(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of an array that files can hold: of text, the code points."""
    return array.view(np.uint32) if array.dtype.kind == "U" else array


class ReplayRows:
    """The rows and what is read of them; `Buffer` writes them.

    Sampling looks at the last `capacity` rows. `slack` is room beyond that, per lane, for rows that are written while a
    round of training looks at a fixed window. Where there is no fixed window, the writer may be faster than the slack
    allows: a read looks at the cursors once more when it is done, and begins again if it was overtaken.
    """

    def __init__(
        self,
        capacity: int,
        obs_shape: tuple[int, ...],
        *,
        dtype: DTypeLike = np.uint8,
        n_frames: int = 1,
        n_step: int = 1,
        gamma: float = 0.99,
        lanes: int = 1,
        slack: int = 0,
        extras: Mapping[str, DTypeLike] | None = None,
        actions: DTypeLike = np.int64,
        seed: np.random.SeedSequence | int | None = None,
    ) -> None:
        rows = capacity // lanes
        if rows <= n_frames + n_step:
            raise ReplayError(
                f"a replay of {capacity} rows in {lanes} lane(s) is too small for {n_frames} stacked frames and"
                f" {n_step}-step returns: raise buffer_capacity above {(n_frames + n_step) * lanes}."
            )
        self.capacity, self.lanes, self.rows_per_lane, self.slack = capacity, lanes, rows, slack
        self.obs_shape, self.n_frames, self.n_step, self.gamma = tuple(obs_shape), n_frames, n_step, gamma
        self.extras_dtypes = {name: np.dtype(kind) for name, kind in (extras or {}).items()}
        self.dtype, self.action_dtype = np.dtype(dtype), np.dtype(actions)
        for name, (_, kind) in self.row_layout().items():
            if np.dtype(kind).kind != "U" and np.dtype(kind).str not in TENSORS:
                raise ReplayError(
                    f"{name} of type {np.dtype(kind)} cannot be stored in a checkpoint: let the dtype of the observation"
                    " spec (or of the model's extras) be one of whole numbers, floats, truth values or text."
                )
        self.rng = np.random.default_rng(seed)
        self._room = self._allocate(slack)  # costs no memory before it is used; too much is refused now
        self._age = np.zeros(lanes, dtype=np.int64)
        self._window_end: NDArray[np.int64] | None = None
        self.discounts: NDArray[np.float64] = gamma ** np.arange(n_step + 1, dtype=np.float64)
        """By the number of steps that a return sums up."""

    def row_layout(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """What a row holds: shape and element type by name."""
        return {
            "states": (self.obs_shape, self.dtype),
            "actions": (self.action_dtype.shape, self.action_dtype.base),
            "rewards": ((), np.float32),
            "dones": ((), np.bool_),
            "last": ((), np.bool_),
            "age": ((), np.int64),
            **{name: (kind.shape, kind.base) for name, kind in self.extras_dtypes.items()},
        }

    @cached_property
    def ring(self) -> Ring:
        """Where the rows are. Filled when it is first used: a buffer whose rows lie elsewhere (`use`) never fills one."""
        return emptied(Ring(self._room))

    def layout(self, slack: int) -> dict[str, Any]:
        """The arrays of a ring for these rows."""
        return ring_layout(self.rows_per_lane + slack, self.lanes, self.row_layout())

    def _allocate(self, slack: int) -> dict[str, NDArray[Any]]:
        return {name: np.empty(shape, dtype) for name, (shape, dtype) in self.layout(slack).items()}

    def make_ring(self, slack: int) -> Ring:
        """An empty ring in private memory."""
        return emptied(Ring(self._allocate(slack)))

    # ---- reading

    @property
    def written(self) -> NDArray[np.int64]:
        """Rows ever written, per lane, as far as this buffer looks."""
        return self.ring.written() if self._window_end is None else self._window_end

    @contextmanager
    def window(self, written: Sequence[int]) -> Iterator[None]:
        """Inside, look no further than these many rows per lane, whatever is written meanwhile."""
        self._window_end = np.array(written, dtype=np.int64)
        try:
            yield
        finally:
            self._window_end = None

    def __len__(self) -> int:
        return int(np.minimum(self.written, self.rows_per_lane).sum())

    def sample(self, batch_size: int, draw: Draw | None = None) -> Batch:
        """A batch of rows drawn uniformly, with replacement, from all lanes; or by a `draw` of your own, as the one here."""
        with span("sample"):
            while True:
                written = self.written
                pick = (draw or self.draw)(batch_size, written)
                first, count = self.sampling_window(written)
                ends = np.cumsum(count)
                lane = np.searchsorted(ends, pick, side="right")
                row = first[lane] + pick - (ends[lane] - count[lane])
                batch = self._batch(lane, row, written)
                if not self._was_overtaken(written, np.maximum(written - self.rows_per_lane, 0)):
                    return batch

    def draw(self, shape: int | tuple[int, ...], written: Rows) -> Rows:
        """Which rows batches consist of, out of all that may be drawn, counted from 0, lane after lane. Every batch is drawn
        here, those that are put together on a device too (models/stacked/rows.py).
        """
        total = int(self.sampling_window(written)[1].sum())
        if total == 0:
            raise ReplayError("sample called on an empty replay: add rows first.")
        return self.rng.integers(total, size=shape)

    def trajectory(self, lane: int, start: int) -> Trajectory:
        """Every row of a lane from row number `start` (counted from the first ever written) to the newest, in order."""
        with span("sample"):
            while True:
                written = self.written
                end = int(written[lane])
                oldest = max(0, end - self.ring.rows)
                needed = start
                if oldest <= start < end:  # the first stack reaches back into the rows before it
                    needed -= min(int(self.ring.fields["age"][lane, start % self.ring.rows]), self.n_frames - 1)
                if needed < oldest:
                    raise ReplayError(
                        f"rows {needed} to {oldest - 1} of lane {lane} are overwritten: a replay of {self.rows_per_lane}"
                        f" rows a lane cannot hold the {end - needed} asked for; raise buffer_capacity or train more often."
                    )
                trajectory = self._trajectory(lane, np.arange(start, end, dtype=np.int64), written)
                if not self._was_overtaken(written[lane : lane + 1], np.array([needed]), lane):
                    return trajectory

    def _trajectory(self, lane: int, row: Rows, written: Rows) -> Trajectory:
        lanes = np.full_like(row, lane)
        at = (lanes, row % self.ring.rows)
        fields = self.ring.fields
        return Trajectory(
            states=self._stack(lanes, row),
            actions=fields["actions"][at],
            rewards=fields["rewards"][at],
            dones=fields["dones"][at],
            valid=self._usable(lanes, row, written),
            last=fields["last"][at],
            extras={name: fields[name][at] for name in self.extras_dtypes},
        )

    def _was_overtaken(self, written: Rows, oldest: Rows, lane: int = 0) -> bool:
        """Whether the writer has come as far as the oldest rows that were just read.

        (Costs 4 of the 119 µs of a batch.)
        """
        fence()  # the rows were read before the cursors
        now = self.ring.written()[lane : lane + len(written)]
        overtaken = (now > written) & (now - self.ring.rows >= oldest)
        if self._window_end is not None and overtaken.any():
            raise ReplayError(
                f"rows of a fixed window were overwritten while they were read: {int((now - written).max())} rows came"
                f" meanwhile, but there is slack for {self.ring.rows - self.rows_per_lane}."
            )
        return bool(overtaken.any())

    def oldest_row(self, lane: int) -> int:
        """The oldest row that `trajectory` can begin with; 0 in a fixed window, whose rows are all expected to be there.

        Without one, a reader that is slower than the writer has to leave rows out.
        """
        gone = int(self.ring.written()[lane]) - self.ring.rows
        return 0 if self._window_end is not None or gone < 0 else gone + self.slack + self.n_frames

    def newest_states(self, count: int, lanes: int | None = None) -> NDArray[Any]:
        """Single frames of the newest rows, up to `count` of each lane, or of the first `lanes`."""
        lane, row = self._rows_there(self.written[:lanes], count)
        return self.ring.fields["states"][lane, row % self.ring.rows]  # type: ignore[no-any-return]

    def find_fault(self, n_actions: int) -> str | None:
        """What is wrong with the first row, of those that batches are drawn from, that is not whole or not possible."""
        lanes, rows = self._rows_there(self.written)
        at = lanes, rows % self.ring.rows
        states, actions, rewards, ages = (
            self.ring.fields[name][at] for name in ("states", "actions", "rewards", "age")
        )
        is_seen = np.isfinite(states).all(axis=tuple(range(1, states.ndim))) if states.dtype.kind == "f" else True
        faults = {
            "the row was never written whole": ages < 0,
            **_impossible(actions, n_actions),
            "the reward is not finite": ~np.isfinite(rewards),
            "the observation is not finite": ~np.broadcast_to(is_seen, ages.shape),
        }
        for fault, found in faults.items():
            for row in np.flatnonzero(found)[:1]:
                return f"turn {ages[row]} of an episode in lane {lanes[row]} (row {rows[row]}): {fault}"
        return None

    def has_outcomes(self, count: int) -> bool:
        """Whether the outcome of any of the newest rows, up to `count` of each lane, is known."""
        written = self.written
        return bool(self._usable(*self._rows_there(written, count), written).any())

    def sampling_window(self, written: Rows) -> tuple[Rows, Rows]:
        """First row number and count of the rows that may be drawn, per lane."""
        oldest = np.maximum(written - self.rows_per_lane, 0)
        first = np.where(oldest > 0, oldest + self.n_frames - 1, 0)
        return first, written - first

    def _batch(self, lane: Rows, row: Rows, written: Rows) -> Batch:
        fields = self.ring.fields
        rewards = np.zeros(len(row), dtype=np.float64)
        steps = np.zeros(len(row), dtype=np.int64)
        ended = np.zeros(len(row), dtype=np.bool_)
        going = np.ones(len(row), dtype=np.bool_)
        for k in range(self.n_step):
            at = (lane, (row + k) % self.ring.rows)
            going &= self._usable(lane, row + k, written)
            rewards += np.where(going, fields["rewards"][at] * self.discounts[k], 0.0)
            steps += going
            ended |= going & fields["dones"][at]
            going &= ~ended
        next_row = np.where(ended, row, row + steps)
        return Batch(
            states=self._stack(lane, row),
            actions=fields["actions"][lane, row % self.ring.rows],
            rewards=rewards.astype(np.float32),
            next_states=self._stack(lane, next_row),
            discounts=np.where(ended, 0.0, self.discounts[steps]).astype(np.float32),
            valid=steps > 0,
            extras={name: fields[name][lane, row % self.ring.rows] for name in self.extras_dtypes},
            next_extras={name: fields[name][lane, next_row % self.ring.rows] for name in self.extras_dtypes},
        )

    def _usable(self, lane: Rows, row: Rows, written: Rows) -> NDArray[np.bool_]:
        """Rows whose outcome is known: the episode ended for good there, or the next row goes on from it.

        `written` is one look at the cursors for the whole read: a row that was the newest then has no successor, even if
        one, perhaps of another episode, has been written since.
        """
        at = (lane, row % self.ring.rows)
        followed = ~self.ring.fields["last"][at] & (row + 1 < written[lane])
        known: NDArray[np.bool_] = self.ring.fields["dones"][at] | followed
        return known & (row < written[lane])

    def _stack(self, lane: Rows, row: Rows) -> NDArray[Any]:
        """The frames of each row and of the rows before it, oldest first; zero before the start of the episode."""
        back = np.arange(self.n_frames - 1, -1, -1)
        wanted = row[:, None] - back
        frames: NDArray[Any] = self.ring.fields["states"][lane[:, None], wanted % self.ring.rows]
        missing = back > self.ring.fields["age"][lane, row % self.ring.rows][:, None]
        frames[missing] = np.zeros((), self.dtype)  # of text, nothing: a 0 would be a character
        return frames

    def _rows_there(self, written: Rows, most: int | None = None) -> tuple[Rows, Rows]:
        """Lane and number of the newest rows; of each lane, at most so many."""
        count = min(most or self.rows_per_lane, self.rows_per_lane)
        numbers = [np.arange(max(0, end - count), end) for end in written.tolist()]
        return np.repeat(np.arange(len(numbers)), [len(each) for each in numbers]), np.concatenate(numbers)


def _impossible(actions: NDArray[Any], n_actions: int) -> dict[str, NDArray[np.bool_]]:
    """In words, where actions are none: of so many, or, of continuous ones, not finite."""
    if actions.dtype.kind == "f":
        return {"the action is not finite": ~np.isfinite(actions).all(axis=1)}
    return {f"the action is none of {n_actions}": (actions < 0) | (actions >= n_actions)}


def emptied(ring: Ring) -> Ring:
    """The ring, without any rows."""
    for array in ring.fields.values():
        poison(array)
    ring.start()
    return ring
