"""Where environments go, given what their turns cost."""

import pytest

from abreast.rollouts.workers.placement import LOSSES, SHARE_S, Placement

COUNT, WORKERS = 16, 4


def spread(placement, now=None, tags=("A",)):
    return placement.spread({env_id: tags[env_id % len(tags)] for env_id in range(COUNT)}, now or {}, set())


def measured(turn_s, start_s=0.0):
    placement = Placement(WORKERS)
    placement.note_turns({"A": [turn_s]})
    placement.note_starts({"A": [start_s]}, start_s)
    return placement


def loads(homes):
    return sorted(list(homes.values()).count(worker) for worker in set(homes.values()))


def test_what_is_not_yet_known_is_spread_over_all():
    assert loads(spread(Placement(WORKERS))) == [4, 4, 4, 4]


@pytest.mark.parametrize(
    ("turn_s", "expected"),
    [(1e-6, [16]), (SHARE_S / COUNT, [16]), (2 * SHARE_S / COUNT, [8, 8]), (SHARE_S, [4] * 4), (1.0, [4] * 4)],
)
def test_as_many_workers_as_there_is_work_for(turn_s, expected):
    assert loads(spread(measured(turn_s))) == expected


def test_what_is_dear_to_begin_is_spread_however_cheap_its_turns():
    assert loads(spread(measured(1e-6, start_s=0.01))) == [4, 4, 4, 4]


def test_nobody_moves_for_little():
    homes = spread(measured(2 * SHARE_S / COUNT))
    for turn_s in (1.2 * SHARE_S / COUNT, 3.5 * SHARE_S / COUNT):
        assert spread(measured(turn_s), homes) == homes
    for turn_s in (0.5 * SHARE_S / COUNT, 5 * SHARE_S / COUNT):
        assert loads(spread(measured(turn_s), homes)) != loads(homes)


def test_one_dear_environment_has_a_worker_for_itself():
    placement = measured(0.001)
    placement.note_turns({"B": [0.1]})
    tags = {env_id: "B" if env_id == 5 else "A" for env_id in range(COUNT)}
    homes = placement.spread(tags, {}, set())
    assert [env_id for env_id, worker in homes.items() if worker == homes[5]] == [5]


# ---- auto


def play(placement, turn_s, wall_s, batches=40):
    placement.begin_episodes()
    for taken in range(batches):
        turns = {"A": [turn_s] * COUNT}
        placement.note_turns(turns)
        placement.note_batch(turns, wall_s, taken)


def auto(monkeypatch):
    monkeypatch.setattr("abreast.rollouts.workers.placement.cores", lambda: 4)
    return Placement(WORKERS)


def test_dear_environments_go_to_workers_and_stay_though_a_batch_now_and_then_is_slow(monkeypatch):
    placement = auto(monkeypatch)
    for _ in range(5):
        play(placement, 0.001, wall_s=0.005)
        play(placement, 0.001, wall_s=0.1, batches=2)
        assert placement.dear == {"A"}


def test_what_is_not_worth_it_comes_back_with_a_reset_and_is_tried_again_after_many(monkeypatch):
    placement = auto(monkeypatch)
    for _ in range(LOSSES):
        play(placement, 0.001, wall_s=0.02)
        assert placement.dear == {"A"}  # once is no reason, and nobody moves in mid-episode
    play(placement, 0.001, wall_s=0.02, batches=1)
    assert not placement.dear
    resets = 0
    while not placement.dear:
        play(placement, 0.001, wall_s=0.016)
        resets += 1
    assert 5 < resets < 50


def test_cheap_environments_stay_here(monkeypatch):
    placement = auto(monkeypatch)
    play(placement, 20e-6, wall_s=COUNT * 20e-6)
    assert not placement.dear


def test_what_becomes_dear_later_follows_with_the_next_reset(monkeypatch):
    placement = auto(monkeypatch)
    play(placement, 0.001, wall_s=0.005)
    placement.note_turns({"B": [0.002], "C": [1e-6]})
    placement.begin_episodes()
    assert placement.dear == {"A", "B"}


def test_lost_workers_get_nothing_and_without_any_nobody_has_one():
    tags = dict.fromkeys(range(COUNT), "A")
    for turn_s in (1e-6, 1.0):
        placement = measured(turn_s)
        homes = placement.spread(tags, {}, {0, 2})
        assert set(homes.values()) <= {1, 3} and homes.keys() == tags.keys()
        assert placement.spread(tags, homes, {0, 2}) == homes
        assert 1 not in placement.spread(tags, homes, {0, 1, 2}).values()
        assert placement.spread(tags, homes, {0, 1, 2, 3}) == {}
    assert placement.spread({}, {}, set()) == {}


def test_resets_tell_about_workers_under_auto_only(monkeypatch):
    placement = auto(monkeypatch)
    play(placement, 0.001, wall_s=0.005)
    for _ in range(3 * LOSSES * COUNT):
        placement.begin_episodes()
        placement.note_starts({"A": [0.001] * COUNT}, None)  # forced, here or there: says nothing of workers
    assert placement.dear == {"A"}
    for _ in range(3 * LOSSES * COUNT):
        placement.begin_episodes()
        placement.note_starts({"A": [0.001] * COUNT}, 1.0)
    assert not placement.dear
