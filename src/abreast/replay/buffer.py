"""Replay: one agent's experience, row by row, and batches drawn from it.

    lane 0   ┌ row ┬ row ┬ row ┐┌ row ┬ row …        a row: state, action, reward, done, last, age (+ extras)
    lane 1   ┌ row ┬ row ┐┌ row ┬ row ┬ row …        one lane per environment copy; ┐┌ marks the end of an episode

Rows of a lane stand in a ring, in the order they were lived. A row holds one frame; stacks of frames and n-step returns
are put together when a batch is drawn, and neither crosses a lane, the end of an episode, or the write head.

Shapes: B batch, N rows of a trajectory, T stacked frames, K steps of an n-step return, … one frame.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from abreast.errors import ReplayError, StateError
from abreast.files import write_whole
from abreast.processes.memory import fence, poison
from abreast.processes.ring import Ring, ring_layout
from abreast.replay.batch import Batch, Trajectory
from abreast.state import State, check_arrays, fit

Rows = NDArray[np.int64]
MOST = 2**62
"""Rows ever written to a lane: more can still be counted."""


class Buffer:
    """A ring of rows per lane. Ask `sample` for a batch, `trajectory` for everything since a given row.

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
        self._room = self._allocate(slack)  # costs no memory before it is used; too much is refused now
        self._age = np.zeros(lanes, dtype=np.int64)
        self._window_end: NDArray[np.int64] | None = None
        self.discounts: NDArray[np.float64] = gamma ** np.arange(n_step + 1, dtype=np.float64)
        """By the number of steps that a return sums up."""

    def row_layout(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """What a row holds: shape and element type by name."""
        return {
            "states": (self.obs_shape, self.dtype),
            "actions": ((), np.int64),
            "rewards": ((), np.float32),
            "dones": ((), np.bool_),
            "last": ((), np.bool_),
            "age": ((), np.int64),
            **{name: (kind.shape, kind.base) for name, kind in self.extras_dtypes.items()},
        }

    @cached_property
    def ring(self) -> Ring:
        """Where the rows are. Filled when it is first used: a buffer whose rows lie elsewhere (`use`) never fills one."""
        return _empty_ring(self._room)

    def layout(self, slack: int) -> dict[str, Any]:
        """The arrays of a ring for these rows."""
        return ring_layout(self.rows_per_lane + slack, self.lanes, self.row_layout())

    def _allocate(self, slack: int) -> dict[str, NDArray[Any]]:
        return {name: np.empty(shape, dtype) for name, (shape, dtype) in self.layout(slack).items()}

    def make_ring(self, slack: int) -> Ring:
        """An empty ring in private memory."""
        return _empty_ring(self._allocate(slack))

    def use(self, ring: Ring | None) -> Ring | None:
        """Keep rows in this ring from now on (None: in one made when it is needed); returns the one before, if any.

        For a time between episodes: none is open in the other ring.
        """
        before: Ring | None = self.__dict__.pop("ring", None)
        self._age[:] = 0
        if ring is not None:
            self.ring = ring
        return before

    def move_rows(self, ring: Ring) -> Ring:
        """As `use`, at any time, with the newest rows taken along."""
        before, self.ring = self.ring, ring
        ends = before.written()
        for lane, end in enumerate(ends.tolist()):
            rows = np.arange(max(0, end - min(ring.rows, before.rows)), end)
            for name, array in before.fields.items():
                ring.fields[name][lane, rows % ring.rows] = array[lane, rows % before.rows]
        ring.start(ends)
        return before

    # ---- writing

    def add(self, state: NDArray[Any], action: int, reward: float, done: bool, lane: int = 0, **extras: Any) -> None:
        """Remember one step. `done` says that the episode ended for good; a cut episode ends by `end_episode`."""
        self._check_extras(extras)
        if getattr(state, "dtype", None) is not self.dtype:
            self._check_type(np.asarray(state))
        age = self._age[lane]
        row = {"states": state, "actions": action, "rewards": reward, "dones": done, "last": done, "age": age, **extras}
        self.ring.write(lane, row)
        self._age[lane] = 0 if done else age + 1

    def add_all(
        self,
        states: Sequence[NDArray[Any]],
        actions: Sequence[int],
        rewards: Sequence[float],
        dones: Sequence[bool],
        lanes: Sequence[int],
        **extras: Any,
    ) -> None:
        """Remember one step in each of several lanes, as `add` does."""
        self._check_extras(extras)
        for state in states:
            if getattr(state, "dtype", None) is not self.dtype:
                self._check_type(np.asarray(state))
        index = np.array(lanes)
        ages = self._age[index]
        self.ring.write_all(
            lanes,
            {
                "states": states,
                "actions": actions,
                "rewards": rewards,
                "dones": dones,
                "last": dones,
                "age": ages,
                **extras,
            },
        )
        self._age[index] = np.where(dones, 0, ages + 1)

    def add_episodes(
        self, states: NDArray[Any], actions: NDArray[Any], rewards: NDArray[Any], **extras: NDArray[Any]
    ) -> None:
        """Remember a whole episode, which was cut at its end, in each of the first lanes: as `add` of every step, and then
        `end_episode`. Arrays of shape (lanes, steps, …).
        """
        self._check_extras(extras)
        if states.dtype != self.dtype:
            self._check_type(states)
        lanes, steps = actions.shape
        for lane in self.open_lanes():
            self.end_episode(lane)
        number = np.broadcast_to(np.arange(steps), (lanes, steps))
        self.ring.write_block(
            {
                "states": states,
                "actions": actions,
                "rewards": rewards,
                "dones": np.broadcast_to(np.False_, (lanes, steps)),
                "last": number == steps - 1,
                "age": number,
                **extras,
            }
        )

    def open_lanes(self) -> list[int]:
        """Lanes in which an episode is under way."""
        return np.flatnonzero(self._age).tolist()

    def _check_extras(self, extras: Mapping[str, Any]) -> None:
        if extras.keys() != self.extras_dtypes.keys():
            raise ReplayError(f"a row came with extras {sorted(extras)}, expected {sorted(self.extras_dtypes)}.")

    def _check_type(self, state: NDArray[Any]) -> None:
        """Refuse a state of another element type that would not be the same in this one."""
        if not np.array_equal(state, state.astype(self.dtype), equal_nan=state.dtype.kind == "f"):
            raise ReplayError(
                f"a state of {state.dtype} does not fit into rows of {self.dtype} without loss, for example"
                f" {state.reshape(-1)[:4].tolist()}: let the observation spec say its dtype."
            )

    def end_episode(self, lane: int = 0, done: bool = False) -> None:
        """The episode in this lane ended with the newest row: for good (`done`), or cut, say, by its turn limit."""
        if self._age[lane]:
            self.cut(lane, done)
        self._age[lane] = 0

    def cut(self, lane: int, done: bool = False) -> None:
        """The newest row of this lane is the last of its episode, also if another process wrote it."""
        at = lane, (int(self.ring.written()[lane]) - 1) % self.ring.rows
        # Readers may see the row already, but not a next one, so they take its episode for unfinished until then.
        self.ring.fields["dones"][at] |= done
        self.ring.fields["last"][at] = True

    def amend(self, lane: int, reward: float) -> None:
        """Add a reward that came late to the newest row. Readers use a row only once it is followed or done."""
        self.ring.fields["rewards"][lane, (int(self.ring.written()[lane]) - 1) % self.ring.rows] += reward

    def rewind(self, lane: int, written: int) -> None:
        """Forget the newest rows of a lane, down to this many ever written; while no reader looks at them."""
        self.ring.rewind(lane, written)
        self._age[lane] = 0

    def clear(self) -> None:
        """Forget everything."""
        for array in self.ring.fields.values():
            poison(array)
        self.ring.start()
        self._age[:] = 0

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

    @property
    def sampleable(self) -> int:
        """How many rows `sample` draws from: in a ring that has gone round, the oldest cannot be stacked any more."""
        return int(self.sampling_window(self.written)[1].sum())

    def sample(self, batch_size: int) -> Batch:
        """A batch of rows drawn uniformly, with replacement, from all lanes."""
        while True:
            written = self.written
            pick = self.draw(batch_size, written)
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
        while True:
            written = self.written
            end = int(written[lane])
            oldest = max(0, end - self.ring.rows)
            needed = start
            if oldest <= start < end:  # the first stack reaches back into the rows before it
                needed -= min(int(self.ring.fields["age"][lane, start % self.ring.rows]), self.n_frames - 1)
            if needed < oldest:
                raise ReplayError(
                    f"rows {needed} to {oldest - 1} of lane {lane} are overwritten: a replay of {self.rows_per_lane} rows a"
                    f" lane cannot hold the {end - needed} asked for; raise buffer_capacity or train more often."
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
        ends = self.written[:lanes].tolist()
        rows = [np.arange(max(0, end - min(count, self.rows_per_lane)), end) % self.ring.rows for end in ends]
        return np.concatenate([self.ring.fields["states"][lane, at] for lane, at in enumerate(rows)])

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
        frames[missing] = 0
        return frames

    # ---- keeping

    def empty_copy(self, capacity: int | None = None) -> "Buffer":
        """An empty buffer in private memory for rows of the same kind, with room for `capacity` rows."""
        return Buffer(capacity or self.capacity, self.obs_shape, **self.options())

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

    def state(self) -> State:
        """The newest `rows_per_lane` rows (lane after lane, oldest first), cursors, episodes under way, and where the random
        stream of sampling is. Older rows in the slack are read by nobody between two passes.
        """
        written = self.ring.written()
        lanes, rows = self._rows_there(written)
        fields = {name: field[lanes, rows % self.ring.rows] for name, field in self.ring.fields.items()}
        facts = {"sampling": self.rng.bit_generator.state, "rows_per_lane": self.rows_per_lane}
        return State(facts, {"written": written, "open": self._age.copy(), **fields})

    def _rows_there(self, written: Rows, most: int | None = None) -> tuple[Rows, Rows]:
        """Lane and number of the newest rows; of each lane, at most so many."""
        count = min(most or self.rows_per_lane, self.rows_per_lane)
        numbers = [np.arange(max(0, end - count), end) for end in written.tolist()]
        return np.repeat(np.arange(len(numbers)), [len(each) for each in numbers]), np.concatenate(numbers)

    def set_state(self, state: State) -> None:
        """Hold what another buffer of the same shape held, and go on as it would."""
        written, age = np.empty_like(self._age), np.empty_like(self._age)
        fit({"written": written, "open": age}, state, "the replay")
        if (written < 0).any() or (age < 0).any() or (age > written).any() or (written > MOST).any():
            raise StateError(f"the replay does not fit: written is {written} and open {age}, expected counts.")
        if state.facts.get("rows_per_lane") != self.rows_per_lane:
            raise StateError(
                f"the replay does not fit: it has {state.facts.get('rows_per_lane')} rows a lane, expected"
                f" {self.rows_per_lane}."
            )
        count = sum(min(end, self.rows_per_lane) for end in written.tolist())
        layout = self.row_layout().items()
        check_arrays({name: ((count, *shape), np.dtype(dtype)) for name, (shape, dtype) in layout}, state, "the replay")
        if (state.arrays["age"] < 0).any():
            raise StateError("the replay does not fit: the age of some rows in their episodes is negative.")
        self.rng.bit_generator.state = state.facts.get("sampling", self.rng.bit_generator.state)
        lanes, numbers = self._rows_there(written)
        for name, field in self.ring.fields.items():
            field[lanes, numbers % self.ring.rows] = state.arrays[name]
        self._age[:] = age
        self.ring.start(written)

    def save(self, path: Path) -> None:
        """Write the state to a NumPy `.npz` file (no pickle)."""
        data, state = io.BytesIO(), self.state()
        facts = np.frombuffer(json.dumps(state.facts).encode(), np.uint8)
        np.savez_compressed(data, allow_pickle=False, facts=facts, **state.arrays)
        write_whole(path, data.getvalue())

    def load(self, path: Path) -> Self:
        """Take the state from a file that `save` wrote from a buffer of the same shape."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
                facts = json.loads(arrays.pop("facts", np.frombuffer(b"{}", np.uint8)).tobytes())
        except (OSError, ValueError, EOFError, KeyError, TypeError, NotImplementedError, zipfile.BadZipFile) as error:
            raise ReplayError(f"cannot read the replay file {path}: {error}.") from None
        try:
            self.set_state(State(facts, arrays))
        except StateError as error:
            raise ReplayError(f"the replay file {path} holds rows of another shape: {error}") from None
        except (KeyError, ValueError, TypeError) as error:  # the random stream is not one
            raise ReplayError(f"cannot read the replay file {path}: {error}.") from None
        return self


def _empty_ring(arrays: dict[str, NDArray[Any]]) -> Ring:
    for array in arrays.values():
        poison(array)
    ring = Ring(arrays)
    ring.start()
    return ring
