"""Replay in shared memory: the same batches as a private one, and readers that the writer overtakes."""

import pickle

import numpy as np
import pytest

from abreast.errors import ReplayError
from abreast.replay import Buffer, SharedReplayBuffer


def fill(buffer, rows, start=0):
    """Row r holds r in its state, its reward and its action."""
    for number in range(start, start + rows):
        buffer.add(np.array([number]), number, float(number), False)


def test_the_same_seed_draws_the_same_batches_as_in_private_memory():
    options = {"dtype": np.int64, "n_frames": 2, "n_step": 2, "seed": 3}
    private, shared = Buffer(50, (1,), **options), SharedReplayBuffer(50, (1,), **options)
    for buffer in (private, shared):
        fill(buffer, 120)
    for mine, theirs in zip(private.sample(64), shared.sample(64), strict=True):
        assert np.array_equal(mine, theirs)


def test_another_handle_on_the_same_block_sees_the_same_rows():
    buffer = SharedReplayBuffer(50, (1,), dtype=np.int64, slack=4)
    fill(buffer, 20)
    other = SharedReplayBuffer.like(buffer, 4, buffer.block, "")
    assert other.written.tolist() == [20]
    fill(other, 5, start=20)
    assert buffer.trajectory(0, 18).actions.tolist() == [18, 19, 20, 21, 22, 23, 24]
    state = buffer.__getstate__()
    assert "ring" not in state and state["block"] is buffer.block  # what is pickled is the way to the memory


def test_a_private_buffer_pickles_with_its_rows():
    buffer = Buffer(50, (1,), dtype=np.int64)
    fill(buffer, 20)
    assert pickle.loads(pickle.dumps(buffer)).trajectory(0, 0).actions.tolist() == list(range(20))


class WritesMeanwhile:
    """A random stream during whose draws the writer goes on: the worst moment, between looking and reading."""

    def __init__(self, buffer, rows, times):
        self._buffer, self._rows, self._left = buffer, rows, times
        self._rng = np.random.default_rng(0)

    def integers(self, *arguments, **options):
        if self._left:
            self._left -= 1
            fill(self._buffer, self._rows, int(self._buffer.ring.written()[0]))
        return self._rng.integers(*arguments, **options)


@pytest.mark.parametrize("kind", [Buffer, SharedReplayBuffer])
def test_rows_that_the_writer_overtakes_are_drawn_again(kind):
    """Defect (a): with slack 20 and a writer 60 rows ahead, rows were paired with successors from another lap."""
    reader = kind(100, (1,), dtype=np.int64, n_step=1, slack=20, n_frames=2)
    fill(reader, 1000)
    for _ in range(50):
        reader.rng = WritesMeanwhile(reader, 60, times=2)
        batch = reader.sample(64)
        number = batch.states[:, -1, 0]
        assert (batch.actions == number).all() and (batch.states[:, 0, 0] == number - 1).all()
        assert (batch.next_states[batch.valid, -1, 0] == number[batch.valid] + 1).all()
        assert (batch.rewards[batch.valid] == number[batch.valid].astype(np.float32)).all()


def test_a_writer_within_the_slack_changes_nothing_for_a_fixed_window():
    buffer, calm = (SharedReplayBuffer(100, (1,), dtype=np.int64, slack=20) for _ in range(2))
    for each in (buffer, calm):
        fill(each, 300)
        each.rng = np.random.default_rng(0)
    buffer.rng = WritesMeanwhile(buffer, 19, times=1)
    with buffer.window([300]), calm.window([300]):
        for mine, theirs in zip(buffer.sample(64), calm.sample(64), strict=True):
            assert np.array_equal(mine, theirs)
    assert buffer.written.tolist() == [319]


def test_a_fixed_window_that_is_overwritten_is_an_error_not_a_wrong_batch():
    buffer = SharedReplayBuffer(100, (1,), dtype=np.int64, slack=20)
    fill(buffer, 300)
    buffer.rng = WritesMeanwhile(buffer, 60, times=1)
    with (
        pytest.raises(ReplayError, match="60 rows came meanwhile, but there is slack for 20"),
        buffer.window([300]),
    ):
        buffer.sample(64)
    assert buffer.written.tolist() == [360], "the window outlives an error"


def test_the_newest_row_has_no_successor_even_if_another_episode_begins_meanwhile():
    buffer = SharedReplayBuffer(100, (1,), dtype=np.int64, slack=200)
    fill(buffer, 10)

    class CutsMeanwhile(WritesMeanwhile):
        def integers(self, *arguments, **options):
            if self._left:
                buffer.end_episode()
            return super().integers(*arguments, **options)

    buffer.rng = CutsMeanwhile(buffer, 5, times=1)
    batch = buffer.sample(200)
    assert not batch.valid[batch.actions == 9].any() and batch.valid[batch.actions < 9].all()


def test_a_late_reward_is_added_to_the_newest_row():
    buffer = SharedReplayBuffer(20, (1,), dtype=np.int64)
    fill(buffer, 30)
    buffer.amend(0, 0.25)
    assert buffer.trajectory(0, 28).rewards.tolist() == [28.0, 29.25]


@pytest.mark.parametrize(("old", "new"), [(0, 13), (13, 0), (5, 5)])
@pytest.mark.parametrize("rows", [7, 40, 53, 1000])
def test_moved_rows_are_the_newest_and_stand_where_they_should(rows, old, new):
    buffer = Buffer(40, (1,), dtype=np.int64, slack=old, seed=0)
    fill(buffer, rows)
    before = buffer.move_rows(buffer.make_ring(new))
    assert buffer.written.tolist() == [rows] == before.written().tolist()
    kept = min(rows, 40)
    assert buffer.trajectory(0, rows - kept).actions.tolist() == list(range(rows - kept, rows))
    fill(buffer, 5, start=rows)
    assert buffer.trajectory(0, rows).states[:, -1, 0].tolist() == list(range(rows, rows + 5))


def test_a_real_end_is_not_undone_by_a_cut():
    buffer = Buffer(20, (1,), dtype=np.int64)
    buffer.add(np.array([0]), 0, 0.0, True)
    buffer.cut(0)
    assert buffer.trajectory(0, 0).dones.tolist() == [True]
