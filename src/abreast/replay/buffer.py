"""Replay: one agent's experience, row by row, and batches drawn from it.

    lane 0   ┌ row ┬ row ┬ row ┐┌ row ┬ row …        a row: state, action, reward, done, last, age (+ extras)
    lane 1   ┌ row ┬ row ┐┌ row ┬ row ┬ row …        one lane per environment copy; ┐┌ marks the end of an episode

Rows of a lane stand in a ring, in the order they were lived. A row holds one frame; stacks of frames and n-step returns
are put together when a batch is drawn, and neither crosses a lane, the end of an episode, or the write head.

Shapes: B batch, N rows of a trajectory, T stacked frames, K steps of an n-step return, … one frame.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from abreast.errors import ReplayError
from abreast.files import write_whole
from abreast.processes.memory import poison
from abreast.processes.ring import Ring, ring_layout

Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """What an off-policy update needs. `target = rewards + discounts * value(next_states)`, where `valid`."""

    states: NDArray[Any]
    """(B, T, …) stacked frames, oldest first; frames before the start of the episode are zero."""
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    """True n-step returns: discounted sums of the next rewards, up to n of them, fewer where the episode ends."""
    next_states: NDArray[Any]
    """(B, T, …) the state to bootstrap from."""
    discounts: NDArray[np.float32]
    """Discount per sample to the power of the steps summed; 0 where the episode ended for good."""
    valid: NDArray[np.bool_]
    """False where a row has no successor (its episode was cut, or it is the newest): leave it out of the loss."""


class Trajectory(NamedTuple):
    """Consecutive rows of one lane, for on-policy updates."""

    states: NDArray[Any]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    dones: NDArray[np.bool_]
    """The episode ended for good after this row."""
    valid: NDArray[np.bool_]
    """The row is `done`, or the next row goes on from it."""
    extras: dict[str, NDArray[Any]]


class Buffer:
    """A ring of rows per lane. Ask `sample` for a batch, `trajectory` for everything since a given row.

    Sampling looks at the last `capacity` rows. `slack` is room beyond that, per lane, for rows that are written while a
    round of training looks at a fixed window.
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
        self.dtype = np.dtype(dtype)
        self.rng = np.random.default_rng(seed)
        self._ring = self._make_ring()
        self._age = np.zeros(lanes, dtype=np.int64)
        self._window_end: NDArray[np.int64] | None = None
        self._discount_K = gamma ** np.arange(n_step + 1, dtype=np.float64)

    def row_layout(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """What a row holds: shape and element type by name."""
        return {
            "states": (self.obs_shape, self.dtype),
            "actions": ((), np.int64),
            "rewards": ((), np.float32),
            "dones": ((), np.bool_),
            "last": ((), np.bool_),
            "age": ((), np.int64),
            **{name: ((), kind) for name, kind in self.extras_dtypes.items()},
        }

    def _make_ring(self) -> Ring:
        layout = ring_layout(self.rows_per_lane + self.slack, self.lanes, self.row_layout())
        arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in layout.items()}
        for array in arrays.values():
            poison(array)
        ring = Ring(arrays)
        ring.start()
        return ring

    # ---- writing

    def add(self, state: NDArray[Any], action: int, reward: float, done: bool, lane: int = 0, **extras: Any) -> None:
        """Remember one step. `done` says that the episode ended for good; a cut episode ends by `end_episode`."""
        if extras.keys() != self.extras_dtypes.keys():
            raise ReplayError(f"a row came with extras {sorted(extras)}, expected {sorted(self.extras_dtypes)}.")
        age = self._age[lane]
        row = {"states": state, "actions": action, "rewards": reward, "dones": done, "last": done, "age": age, **extras}
        self._ring.write(lane, row)
        self._age[lane] = 0 if done else age + 1

    def end_episode(self, lane: int = 0, done: bool = False) -> None:
        """The episode in this lane ended with the newest row: for good (`done`), or cut, say, by its turn limit."""
        if self._age[lane]:
            self.cut(lane, done)
        self._age[lane] = 0

    def cut(self, lane: int, done: bool = False) -> None:
        """The newest row of this lane, whoever wrote it, is the last of its episode."""
        at = lane, (int(self._ring.written()[lane]) - 1) % self._ring.rows
        # Readers may see the row already, but not a next one, so they take its episode for unfinished until then.
        self._ring.fields["dones"][at] = done
        self._ring.fields["last"][at] = True

    def rewind(self, lane: int, written: int) -> None:
        """Forget the newest rows of a lane, down to this many ever written; while nobody looks at them."""
        self._ring.rewind(lane, written)
        self._age[lane] = 0

    def clear(self) -> None:
        """Forget everything."""
        for array in self._ring.fields.values():
            poison(array)
        self._ring.start()
        self._age[:] = 0

    # ---- reading

    @property
    def written(self) -> NDArray[np.int64]:
        """Rows ever written, per lane, as far as this buffer looks."""
        return self._ring.written() if self._window_end is None else self._window_end

    def fix_window(self, written: Sequence[int] | None) -> None:
        """Look no further than these many rows per lane, whatever is written meanwhile; None: at everything again."""
        self._window_end = None if written is None else np.array(written, dtype=np.int64)

    def __len__(self) -> int:
        return int(np.minimum(self.written, self.rows_per_lane).sum())

    @property
    def sampleable(self) -> int:
        """How many rows `sample` draws from: in a ring that has gone round, the oldest cannot be stacked any more."""
        return int(self._window()[1].sum())

    def sample(self, batch_size: int) -> Batch:
        """A batch of rows drawn uniformly, with replacement, from all lanes."""
        first, count = self._window()
        total = int(count.sum())
        if total == 0:
            raise ReplayError("sample called on an empty replay: add rows first.")
        pick = self.rng.integers(total, size=batch_size)
        ends = np.cumsum(count)
        lane = np.searchsorted(ends, pick, side="right")
        row = first[lane] + pick - (ends[lane] - count[lane])
        return self._batch(lane, row)

    def trajectory(self, lane: int, start: int) -> Trajectory:
        """Every row of a lane from row number `start` (counted from the first ever written) to the newest, in order."""
        end = int(self.written[lane])
        oldest = max(0, end - self._ring.rows)
        needed = start
        if oldest <= start < end:  # the first stack reaches back into the rows before it
            needed -= min(int(self._ring.fields["age"][lane, start % self._ring.rows]), self.n_frames - 1)
        if needed < oldest:
            raise ReplayError(
                f"rows {needed} to {oldest - 1} of lane {lane} are overwritten: a replay of {self.rows_per_lane} rows a"
                f" lane cannot hold the {end - needed} asked for; raise buffer_capacity or train more often."
            )
        row: Rows = np.arange(start, end, dtype=np.int64)
        lanes = np.full_like(row, lane)
        at = (lanes, row % self._ring.rows)
        fields = self._ring.fields
        return Trajectory(
            states=self._stack(lanes, row),
            actions=fields["actions"][at],
            rewards=fields["rewards"][at],
            dones=fields["dones"][at],
            valid=self._usable(lanes, row),
            extras={name: fields[name][at] for name in self.extras_dtypes},
        )

    def newest_states(self, count: int) -> NDArray[Any]:
        """Single frames of the newest rows, up to `count` of each lane."""
        ends = self.written.tolist()
        rows = [np.arange(max(0, end - min(count, self.rows_per_lane)), end) % self._ring.rows for end in ends]
        return np.concatenate([self._ring.fields["states"][lane, at] for lane, at in enumerate(rows)])

    def _window(self) -> tuple[Rows, Rows]:
        """First row number and count of the rows that may be drawn, per lane."""
        written = self.written
        oldest = np.maximum(written - self.rows_per_lane, 0)
        first = np.where(oldest > 0, oldest + self.n_frames - 1, 0)
        return first, written - first

    def _batch(self, lane: Rows, row: Rows) -> Batch:
        fields = self._ring.fields
        rewards = np.zeros(len(row), dtype=np.float64)
        steps = np.zeros(len(row), dtype=np.int64)
        ended = np.zeros(len(row), dtype=np.bool_)
        going = np.ones(len(row), dtype=np.bool_)
        for k in range(self.n_step):
            at = (lane, (row + k) % self._ring.rows)
            going &= self._usable(lane, row + k)
            rewards += np.where(going, fields["rewards"][at] * self._discount_K[k], 0.0)
            steps += going
            ended |= going & fields["dones"][at]
            going &= ~ended
        return Batch(
            states=self._stack(lane, row),
            actions=fields["actions"][lane, row % self._ring.rows],
            rewards=rewards.astype(np.float32),
            next_states=self._stack(lane, np.where(ended, row, row + steps)),
            discounts=np.where(ended, 0.0, self._discount_K[steps]).astype(np.float32),
            valid=steps > 0,
        )

    def _usable(self, lane: Rows, row: Rows) -> NDArray[np.bool_]:
        """Rows whose outcome is known: the episode ended for good there, or the next row goes on from it."""
        at = (lane, row % self._ring.rows)
        followed = ~self._ring.fields["last"][at] & (row + 1 < self.written[lane])
        known: NDArray[np.bool_] = self._ring.fields["dones"][at] | followed
        return known & (row < self.written[lane])

    def _stack(self, lane: Rows, row: Rows) -> NDArray[Any]:
        """The frames of each row and of the rows before it, oldest first; zero before the start of the episode."""
        back = np.arange(self.n_frames - 1, -1, -1)
        wanted = row[:, None] - back
        frames: NDArray[Any] = self._ring.fields["states"][lane[:, None], wanted % self._ring.rows]
        missing = back > self._ring.fields["age"][lane, row % self._ring.rows][:, None]
        frames[missing] = 0
        return frames

    # ---- keeping

    def empty_copy(self, capacity: int | None = None, slack: int = 0) -> "Buffer":
        """An empty buffer in private memory for rows of the same kind, with room for `capacity` rows."""
        return Buffer(capacity or self.capacity, self.obs_shape, slack=slack, **self.options())

    def options(self) -> dict[str, Any]:
        """What makes buffers alike, their size aside."""
        return {
            "dtype": self.dtype,
            "n_frames": self.n_frames,
            "n_step": self.n_step,
            "gamma": self.gamma,
            "lanes": self.lanes,
            "extras": self.extras_dtypes,
        }

    def take_over(self, other: "Buffer") -> Self:
        """Hold what another buffer for rows of the same kind holds, and go on as it would."""
        written = other.written
        for lane, end in enumerate(written.tolist()):
            rows = np.arange(max(0, end - min(self._ring.rows, other._ring.rows)), end)
            for name, array in other._ring.fields.items():
                self._ring.fields[name][lane, rows % self._ring.rows] = array[lane, rows % other._ring.rows]
        self._ring.start(written)
        self._age = other._age.copy()
        self.rng.bit_generator.state = other.rng.bit_generator.state
        return self

    def save(self, path: Path) -> None:
        """Write the rows to a NumPy `.npz` file (no pickle)."""
        data = io.BytesIO()
        np.savez_compressed(data, allow_pickle=False, written=self.written, open=self._age, **self._ring.fields)
        write_whole(path, data.getvalue())

    def load(self, path: Path) -> Self:
        """Fill this buffer with the rows of a file that `save` wrote from a buffer of the same shape."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                fields = {name: stored[name] for name in stored.files}
        except (OSError, ValueError, EOFError, KeyError, TypeError, NotImplementedError, zipfile.BadZipFile) as error:
            raise ReplayError(f"cannot read the replay file {path}: {error}.") from None
        mine = {"written": self.written, "open": self._age, **self._ring.fields}
        expected, found = ({name: (a.shape, a.dtype) for name, a in each.items()} for each in (mine, fields))
        if expected != found:
            raise ReplayError(f"the replay file {path} holds rows of another shape: {found}, expected {expected}.")
        for name, array in self._ring.fields.items():
            array[...] = fields[name]
        self._ring.start(fields["written"])
        self._age = fields["open"]
        return self
