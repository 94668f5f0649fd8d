"""Replay against a plain oracle: whatever was lived, batches say what a human would write down."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abreast.errors import ReplayError, StateError
from abreast.replay import Buffer
from abreast.state import State
from abreast.state_file import dumps, loads

GAMMA = 0.9

# A history: per step (lane, how it ends). The frame of a row holds its lane and its number, so that it names itself.
steps = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["goes on"] * 6 + ["done", "cut"])), min_size=1, max_size=120
)


class Oracle:
    """Remembers everything as lists of episodes and answers slowly but plainly."""

    def __init__(self, lanes):
        self.rows = [[] for _ in range(lanes)]  # (frame, action, reward, done) by number
        self.episode = [[] for _ in range(lanes)]  # episode number by row number
        self.current = [0] * lanes

    def add(self, lane, frame, action, reward, done):
        self.rows[lane].append((frame, action, reward, done))
        self.episode[lane].append(self.current[lane])
        if done:
            self.current[lane] += 1

    def cut(self, lane):
        self.current[lane] += 1

    def followed(self, lane, row):
        later = self.episode[lane]
        return row + 1 < len(later) and later[row + 1] == later[row]

    def stack(self, lane, row, n_frames):
        frames = []
        for number in range(row - n_frames + 1, row + 1):
            inside = number >= 0 and self.episode[lane][number] == self.episode[lane][row]
            frames.append(self.rows[lane][number][0] if inside else np.zeros(3, dtype=np.uint8))
        return np.stack(frames)

    def outcome(self, lane, row, n_step):
        """(n-step return, discount, row to bootstrap from or None), or None where nothing is known."""
        total, discount = 0.0, 1.0
        for number in range(row, row + n_step):
            if number > row and not self.followed(lane, number - 1):
                break
            _, _, reward, done = self.rows[lane][number]
            if done:
                return total + discount * reward, 0.0, None
            if not self.followed(lane, number):
                return None if number == row else (total, discount, number)
            total += discount * reward
            discount *= GAMMA
        return total, discount, row + n_step


def lived(history, capacity=40, lanes=2, **options):
    buffer = Buffer(capacity, (3,), lanes=lanes, gamma=GAMMA, seed=0, **options)
    oracle = Oracle(lanes)
    for number, (lane, end) in enumerate(history):
        frame = np.array([lane + 1, number % 250 + 1, 7], dtype=np.uint8)
        row = (frame, number % 5, float(np.sin(number)), end == "done")
        buffer.add(*row, lane=lane)
        oracle.add(lane, *row)
        if end == "cut":
            buffer.end_episode(lane)
            oracle.cut(lane)
    return buffer, oracle


def number_of(oracle, lane, frame):
    """The newest row of a lane with this frame."""
    rows = oracle.rows[lane]
    return max(number for number in range(len(rows)) if np.array_equal(rows[number][0], frame))


@given(steps, st.integers(1, 4), st.integers(1, 4))
def test_every_sampled_row_is_what_was_lived(history, n_frames, n_step):
    buffer, oracle = lived(history, n_frames=n_frames, n_step=n_step)
    if buffer.sampling_window(buffer.written)[1].sum() == 0:
        return
    batch = buffer.sample(64)
    for index in range(64):
        frame = batch.states[index, -1]
        lane = int(frame[0]) - 1
        row = number_of(oracle, lane, frame)
        assert np.array_equal(batch.states[index], oracle.stack(lane, row, n_frames))
        assert batch.actions[index] == oracle.rows[lane][row][1]
        outcome = oracle.outcome(lane, row, n_step)
        assert batch.valid[index] == (outcome is not None)
        if outcome is not None:
            total, discount, bootstrap = outcome
            assert batch.rewards[index] == pytest.approx(total, abs=1e-5)
            assert batch.discounts[index] == pytest.approx(discount, abs=1e-6)
            if bootstrap is not None:
                assert np.array_equal(batch.next_states[index], oracle.stack(lane, bootstrap, n_frames))


@given(steps, st.integers(1, 4))
def test_trajectories_hold_every_row_in_order(history, n_frames):
    buffer, oracle = lived(history, capacity=400, n_frames=n_frames)
    for lane in range(2):
        rows = oracle.rows[lane]
        trajectory = buffer.trajectory(lane, len(rows) // 2)
        numbers = range(len(rows) // 2, len(rows))
        assert len(trajectory.actions) == len(numbers)
        for index, number in enumerate(numbers):
            _, action, reward, done = rows[number]
            assert np.array_equal(trajectory.states[index], oracle.stack(lane, number, n_frames))
            assert (trajectory.actions[index], bool(trajectory.dones[index])) == (action, done)
            assert trajectory.rewards[index] == np.float32(reward)
            assert trajectory.valid[index] == (done or oracle.followed(lane, number))


def test_every_row_is_drawn_about_equally_often():
    buffer, _ = lived([(number % 2, "goes on") for number in range(36)], n_frames=2)
    drawn = buffer.sample(18_000).states[:, -1, 1]
    counts = np.bincount(drawn, minlength=37)[1:37]
    assert counts.min() > 380 and counts.max() < 620  # 500 each


def test_the_same_seed_draws_the_same_batches_and_another_does_not():
    def batch(seed):
        buffer = Buffer(64, (3,), seed=seed)
        for number in range(50):
            buffer.add(np.full(3, number, dtype=np.uint8), 0, float(number), False)
        return buffer.sample(20).rewards

    assert np.array_equal(batch(1), batch(1))
    assert not np.array_equal(batch(1), batch(2))


def test_storage_keeps_the_observations_own_type():
    for dtype in (np.uint8, np.float32):
        buffer = Buffer(8, (2,), dtype=dtype)
        buffer.add(np.ones(2, dtype=dtype), 0, 0.0, True)
        assert buffer.sample(1).states.dtype == dtype


def test_unwritten_rows_shout():
    assert np.isnan(Buffer(8, (2,), extras={"log_chance": np.float32}).ring.fields["rewards"]).all()


def test_extras_travel_with_their_rows_and_are_neither_forgotten_nor_invented():
    buffer = Buffer(8, (1,), extras={"log_chance": np.float32})
    buffer.add(np.zeros(1), 0, 0.0, False, log_chance=-0.5)
    assert buffer.trajectory(0, 0).extras["log_chance"].tolist() == [-0.5]
    for wrong in ({}, {"log_chance": 0.0, "more": 1}):
        with pytest.raises(ReplayError, match=r"expected \['log_chance'\]"):
            buffer.add(np.zeros(1), 0, 0.0, False, **wrong)


def test_misuse_is_named():
    with pytest.raises(ReplayError, match="a replay of 4 rows in 1 lane"):
        Buffer(4, (1,), n_frames=3, n_step=1)
    buffer = Buffer(8, (1,))
    with pytest.raises(ReplayError, match="empty replay"):
        buffer.sample(1)
    for _ in range(20):
        buffer.add(np.zeros(1), 0, 0.0, False)
    with pytest.raises(ReplayError, match="rows 3 to 11 of lane 0 are overwritten"):
        buffer.trajectory(0, 3)


def test_clear_forgets_everything():
    buffer, _ = lived([(0, "goes on")] * 5)
    buffer.clear()
    assert len(buffer) == 0
    buffer.add(np.ones(3), 0, 0.0, False)
    assert buffer.trajectory(0, 0).states.shape[0] == 1


@given(steps)
def test_a_saved_buffer_comes_back_whole_and_goes_on(tmp_path_factory, history):
    path = tmp_path_factory.mktemp("replay") / "rows.safetensors"
    buffer, _ = lived(history, n_frames=2, n_step=2)
    buffer.save(path)
    back = Buffer(40, (3,), lanes=2, gamma=GAMMA, n_frames=2, n_step=2, seed=0).load(path)
    for each in (buffer, back):
        each.rng = np.random.default_rng(5)
        each.add(np.array([1, 255, 7], dtype=np.uint8), 1, 1.0, False)
    for mine, theirs in zip(buffer.sample(30), back.sample(30), strict=True):
        assert np.array_equal(mine, theirs)


def test_text_comes_back_from_a_file_and_what_no_file_holds_is_refused_at_once(tmp_path):
    buffer = Buffer(8, (2,), dtype="<U3")
    buffer.add(np.array(["äöü", ""]), 0, 0.0, True)
    buffer.save(tmp_path / "rows.safetensors")
    assert Buffer(8, (2,), dtype="<U3").load(tmp_path / "rows.safetensors").sample(1).states.tolist() == [[["äöü", ""]]]
    facts, arrays = buffer.state()
    with pytest.raises(StateError, match="are no characters"):
        buffer.set_state(State(facts, {**arrays, "states": np.full_like(arrays["states"], 2**31)}))
    for dtype in (np.complex64, np.longdouble, "datetime64[s]", object):
        with pytest.raises(ReplayError, match=r"states of type .* cannot be stored in a checkpoint: let the dtype"):
            Buffer(8, (2,), dtype=dtype)


def test_damaged_and_foreign_replay_files_are_refused(tmp_path):
    buffer, _ = lived([(0, "goes on")] * 5)
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes(b"not a replay")
    with pytest.raises(ReplayError, match="cannot read the replay file"):
        buffer.load(damaged)
    other = tmp_path / "other.safetensors"
    Buffer(8, (1,)).save(other)
    with pytest.raises(ReplayError, match="rows of another shape"):
        buffer.load(other)


def test_a_trajectory_whose_first_stack_is_overwritten_is_refused():
    buffer = Buffer(10, (1,), n_frames=3)
    for number in range(20):
        buffer.add(np.array([number]), 0, 0.0, False)
    assert buffer.trajectory(0, 12).states[0, :, 0].tolist() == [10, 11, 12]
    with pytest.raises(ReplayError, match="rows 9 to 9 of lane 0 are overwritten"):
        buffer.trajectory(0, 11)


@pytest.mark.parametrize("content", [b"\x93NUMPY\x01\x00garbage", b"PK\x03\x04" + b"\xff" * 200, b""])
def test_any_damage_to_a_replay_file_is_one_kind_of_error(content, tmp_path):
    path = tmp_path / "rows.safetensors"
    path.write_bytes(content)
    with pytest.raises(ReplayError, match="cannot read the replay file"):
        Buffer(8, (1,)).load(path)


def test_a_replay_file_with_a_damaged_stream_changes_nothing(tmp_path):
    buffer, path = lived([(0, "goes on")] * 5)[0], tmp_path / "rows.safetensors"
    buffer.save(path)
    facts, arrays = loads(path.read_bytes())
    path.write_bytes(dumps(State({**facts, "sampling": {"bit_generator": "PCG64"}}, arrays)))
    other = Buffer(40, (3,), lanes=2, gamma=GAMMA, seed=0)
    with pytest.raises(ReplayError, match="cannot read the replay file"):
        other.load(path)
    assert len(other) == 0


@pytest.mark.parametrize("steps", [1, 4, 7, 11], ids=lambda steps: f"{steps} of 7 rows")
def test_episodes_that_come_in_one_piece_are_as_if_they_had_come_row_by_row(steps):
    rng, lanes = np.random.default_rng(0), 3
    one, other = (Buffer(7 * lanes, (2,), n_frames=2, lanes=lanes, slack=2, extras={"x": np.float32}) for _ in "ab")
    for buffer in (one, other):  # lanes that have not come equally far, and one whose episode was never ended
        for lane, count in enumerate([5, 5, 2]):
            for _ in range(count):
                buffer.add(np.full(2, lane, np.uint8), 1, 0.5, False, lane, x=0.25)
            if lane:
                buffer.end_episode(lane)
    for played in (3, 2, 3):  # across the end of the ring, and with a lane less
        shape = (played, steps)
        states = rng.integers(0, 9, (*shape, 2)).astype(np.uint8)
        actions, rewards = rng.integers(0, 4, shape), rng.normal(size=shape).astype(np.float32)
        extra = rng.normal(size=shape).astype(np.float32)
        one.add_episodes(states, actions, rewards, x=extra)
        for lane in range(lanes):
            other.end_episode(lane)
        for step in range(steps):
            at = (slice(None), step)
            other.add_all(list(states[at]), actions[at], rewards[at], [False] * played, range(played), x=extra[at])
        for lane in range(played):
            other.end_episode(lane)
        assert one.open_lanes() == other.open_lanes() == []
        assert one.ring.written().tolist() == other.ring.written().tolist()
        for name, field in one.ring.fields.items():
            assert field.tobytes() == other.ring.fields[name].tobytes(), name


def test_an_episode_in_one_piece_has_to_have_the_fields_of_a_row():
    buffer = Buffer(16, (2,), extras={"x": np.float32})
    rows = np.zeros((1, 3, 2), np.uint8), np.zeros((1, 3), np.int64), np.zeros((1, 3), np.float32)
    with pytest.raises(ReplayError, match="expected \\['x'\\]"):
        buffer.add_episodes(*rows)
    with pytest.raises(ReplayError, match="does not fit into rows of uint8"):
        buffer.add_episodes(rows[0] + 0.5, *rows[1:], x=rows[2])
