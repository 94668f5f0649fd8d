"""How many workers, and which environments in them, given what was measured."""

import pytest

from abreast.rollouts.episodes.slot import HERE, Slot
from abreast.rollouts.registry import find_tag
from abreast.rollouts.workers.placement import Placement, PlacementRules

WORKERS = 4
RULES = PlacementRules(turn_message_s=10e-6, order_s=100e-6, gain=0.8, worth_s=300e-6, trial_share=0.02, enough_s=0.0)


def make_slots(tags):
    """A slot for each name; tags of these names differ in nothing else."""
    return [Slot(n, n, find_tag("frozen_lake", {})._replace(name=name)) for n, name in enumerate(tags)]


class Machine:
    """Plays epochs on a machine where everything takes a known time."""

    def __init__(
        self, tags=("A",) * 16, turn_s=None, start_s=0.0, speedup=1.0, overhead_s=0.0, use="auto", rules=RULES
    ):
        self.slots = make_slots(tags)
        self.placement = Placement(self.slots, WORKERS, rules)
        self.turn_s, self.start_s, self.use = turn_s or {}, start_s, use
        self.speedup, self.overhead_s = speedup, overhead_s
        self.living = list(range(WORKERS))

    def epoch(self, batches=10, disturbance_s=0.0):
        """Decide, play the episodes, and return how many workers are used."""
        self.placement.observe()
        places = self.placement.choose(self.slots, self.living, self.use)
        loads = {}
        for slot in self.slots:
            slot.move(places.get(slot.env_id, HERE))
            slot.begin(0)
            slot.tally.seconds += [self.turn_s[slot.tag.name]] * batches
            slot.start_s = self.start_s
            loads[slot.worker] = loads.get(slot.worker, 0.0) + self.turn_s[slot.tag.name]
        here_s = loads.pop(HERE, 0.0)
        away_s = max(loads.values(), default=0.0) / self.speedup + self.overhead_s * len(loads)
        epoch = self.placement.epoch
        epoch.batches = batches
        epoch.busy_s = batches * max(here_s, away_s) + disturbance_s
        epoch.reset_s = len(self.slots) * self.start_s / max(1, len(loads))
        return len(loads)

    def epochs(self, count):
        return [self.epoch() for _ in range(count)]

    def counts(self):
        """How many slots each worker has that has any."""
        workers = [slot.worker for slot in self.slots if slot.worker != HERE]
        return sorted(workers.count(worker) for worker in set(workers))


def test_auto_begins_in_the_main_process_and_uses_workers_from_the_second_epoch_on_where_they_pay():
    assert Machine(turn_s={"A": 0.001}).epochs(4) == [0, 4, 4, 4]


@pytest.mark.parametrize("turn_s", [0.5e-6, 5e-6, 20e-6])
def test_cheap_environments_stay_in_the_main_process(turn_s):
    assert Machine(turn_s={"A": turn_s}).epochs(4) == [0] * 4


def test_a_slow_first_epoch_alone_is_no_reason_to_try_workers():
    """Imports and cold caches: what is measured in the first milliseconds says little."""
    rules = PlacementRules(turn_message_s=10e-6, order_s=100e-6, enough_s=0.05)
    machine = Machine(turn_s={"A": 100e-6}, rules=rules)
    assert machine.epoch(batches=1) == 0
    machine.turn_s["A"] = 20e-6
    assert [machine.epoch(batches=1) for _ in range(300)] == [0] * 300
    machine.turn_s["A"] = 0.001
    assert [machine.epoch() for _ in range(8)][-1] == 4


def test_a_disturbance_is_no_reason_to_try_workers():
    machine = Machine(turn_s={"A": 5e-6})
    for _ in range(3):
        assert machine.epoch(disturbance_s=0.05) == 0


def test_what_is_expensive_to_start_goes_to_workers_however_cheap_its_turns():
    assert Machine(turn_s={"A": 1e-6}, start_s=0.01).epochs(3)[1:] == [4, 4]
    assert Machine(turn_s={"A": 1e-5}, start_s=0.0005).epochs(9) == [0] * 9, "rooms of Sokoban stay where they are"


def test_workers_that_do_not_keep_their_promise_are_left_at_the_next_reset_and_tried_again_later():
    machine = Machine(turn_s={"A": 0.001}, overhead_s=0.02)
    tried = machine.epochs(400)
    assert tried[:2] == [0, 4]
    assert 0 < sum(count > 0 for count in tried[2:]) < 0.03 * len(tried)
    assert any(tried[200:]), "the machine may have changed"


def test_a_trial_that_takes_long_is_repeated_all_the_more_seldom():
    """Moving environments may take longer than many of their epochs."""
    machine = Machine(turn_s={"A": 0.001}, overhead_s=0.02)
    seconds = trials = 0.0
    for _ in range(600):
        before = machine.placement.count
        machine.epoch()
        if machine.placement.count != before:
            machine.placement.epoch.has_moved = True
            machine.placement.epoch.reset_s = 1.0
            trials += 1.0
        seconds += machine.placement.epoch.busy_s + machine.placement.epoch.reset_s
    assert trials > 2 and trials - 6 < 0.03 * seconds  # beside the first trials, of every number of workers


def test_the_best_measured_number_of_workers_is_kept():
    """With an overhead for every worker, two are best: four are tried first, and fewer if four disappoint."""
    machine = Machine(turn_s={"A": 0.0002}, overhead_s=0.0006)
    assert machine.epochs(6)[-3:] == [2, 2, 2]


def test_forced_workers_are_all_used_at_first_and_then_as_many_as_there_is_work_for():
    machine = Machine(turn_s={"A": 1e-6}, overhead_s=0.0001, use=True)
    assert machine.epochs(3) == [4, 1, 1]
    assert Machine(turn_s={"A": 0.01}, use=True).epochs(3) == [4, 4, 4]


def test_cheap_tags_stay_here_while_expensive_ones_are_in_workers():
    machine = Machine(["A"] * 8 + ["B"] * 8, turn_s={"A": 0.002, "B": 2e-6})
    machine.epochs(2)
    assert machine.counts() == [2, 2, 2, 2]
    assert {slot.worker for slot in machine.slots[8:]} == {HERE}


def test_one_expensive_environment_has_a_worker_for_itself():
    machine = Machine(["A"] * 5 + ["B"] + ["A"] * 10, turn_s={"A": 0.001, "B": 0.005}, use=True)
    machine.epochs(2)
    assert [slot.env_id for slot in machine.slots if slot.worker == machine.slots[5].worker] == [5]


def test_environments_do_not_move_while_the_loads_are_about_even():
    machine = Machine(["A", "B"] * 8, turn_s={"A": 0.001, "B": 0.001}, use=True)
    machine.epochs(2)
    before = [slot.worker for slot in machine.slots]
    machine.turn_s["B"] = 0.0012
    machine.epochs(2)
    assert [slot.worker for slot in machine.slots] == before


def test_epochs_with_flips_or_deaths_are_not_measured():
    machine = Machine(turn_s={"A": 0.001})
    for _ in range(3):
        assert machine.epoch() == 0
        machine.placement.epoch.is_spoiled = True


def test_lost_workers_get_nothing_and_without_any_all_stay_here():
    machine = Machine(turn_s={"A": 0.001}, use=True)
    machine.living = [1, 3]
    assert machine.epoch() == 2 and {slot.worker for slot in machine.slots} == {1, 3}
    machine.living = [3]
    machine.epoch()
    assert {slot.worker for slot in machine.slots} == {3}
    machine.living = []
    assert machine.epoch() == 0


def test_the_stopwatch_counts_overlapping_calls_once(monkeypatch):
    now = iter([1.0, 4.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    epoch = Placement(make_slots(["A"]), 1, RULES).epoch
    with epoch, epoch:
        pass
    assert epoch.busy_s == 3.0
