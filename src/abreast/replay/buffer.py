"""Replay: one agent's experience, row by row, and batches drawn from it.

    lane 0   ┌ row ┬ row ┬ row ┐┌ row ┬ row …        a row: state, action, reward, done, last, age (+ extras)
    lane 1   ┌ row ┬ row ┐┌ row ┬ row ┬ row …        one lane per environment copy; ┐┌ marks the end of an episode

Rows of a lane stand in a ring, in the order they were lived. A row holds one frame (`rows.py` puts batches together).
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from abreast.errors import ReplayError, StateError, StateFileError
from abreast.files import write_whole
from abreast.processes.ring import Ring
from abreast.replay.rows import LAST_CHARACTER, ReplayRows, as_numbers, emptied
from abreast.state import State, check_arrays, fit
from abreast.state_file import dumps, loads

MOST = 2**62
"""Rows ever written to a lane: more can still be counted."""


class Buffer(ReplayRows):
    """A ring of rows per lane. Ask `sample` for a batch, `trajectory` for everything since a given row."""

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
        self._check_rows([state], extras)
        age = self._age[lane]
        self.ring.write(
            lane,
            {
                "states": state,
                "actions": action,
                "rewards": reward,
                "dones": done,
                "last": done,
                "age": age,
                **extras,
            },
        )
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
        self._check_rows(states, extras)
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
        self._check_rows([states], extras)
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

    def _check_rows(self, states: Iterable[Any], extras: Mapping[str, Any]) -> None:
        """Refuse other extras than expected, and states of another element type that would not be the same in this one."""
        if extras.keys() != self.extras_dtypes.keys():
            raise ReplayError(f"a row came with extras {sorted(extras)}, expected {sorted(self.extras_dtypes)}.")
        for given in states:
            if getattr(given, "dtype", None) is not self.dtype:
                state = np.asarray(given)
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
        emptied(self.ring)
        self._age[:] = 0

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
            "actions": self.action_dtype,
        }

    def state(self) -> State:
        """The newest `rows_per_lane` rows (lane after lane, oldest first), cursors, episodes under way, and where the random
        stream of sampling is. Older rows in the slack are read by nobody between two passes.
        """
        written = self.ring.written()
        lanes, rows = self._rows_there(written)
        fields = {name: as_numbers(field[lanes, rows % self.ring.rows]) for name, field in self.ring.fields.items()}
        facts = {"sampling": self.rng.bit_generator.state, "rows_per_lane": self.rows_per_lane}
        return State(facts, {"written": written, "open": self._age.copy(), **fields})

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
        empty = ((name, as_numbers(np.empty((count, *shape), dtype))) for name, (shape, dtype) in layout)
        check_arrays({name: (each.shape, each.dtype) for name, each in empty}, state, "the replay")
        if (state.arrays["age"] < 0).any():
            raise StateError("the replay does not fit: the age of some rows in their episodes is negative.")
        if self.dtype.kind == "U" and (state.arrays["states"] > LAST_CHARACTER).any():
            raise StateError("the replay does not fit: some numbers of its text are no characters.")
        self.rng.bit_generator.state = state.facts.get("sampling", self.rng.bit_generator.state)
        lanes, numbers = self._rows_there(written)
        for name, field in self.ring.fields.items():
            as_numbers(field)[lanes, numbers % self.ring.rows] = state.arrays[name]
        self._age[:] = age
        self.ring.start(written)

    def save(self, path: Path) -> None:
        """Write the state to a safetensors file."""
        write_whole(path, dumps(self.state()))

    def load(self, path: Path) -> Self:
        """Take the state from a file that `save` wrote from a buffer of the same shape."""
        try:
            self.set_state(loads(path.read_bytes()))
        except StateError as error:
            raise ReplayError(f"the replay file {path} holds rows of another shape: {error}") from None
        except (OSError, StateFileError, ValueError, KeyError, TypeError) as error:
            raise ReplayError(f"cannot read the replay file {path}: {error}") from None
        return self
