"""A team: orders, answers, deaths and restarts as events, with every kind of child."""

import gc
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from workers import Obedient, RemoteBackend, Restless

from abreast.errors import WorkerError
from abreast.processes.backend import NOWHERE, ChildSpec
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend
from abreast.processes.team import Answered, Died, Lost, RestartPolicy, Team
from abreast.processes.threads import ThreadBackend

BACKENDS = {"process": ProcessBackend, "thread": ThreadBackend, "remote": RemoteBackend}


def spec(number):
    return ChildSpec(f"worker {number}", Obedient, ())


@pytest.fixture
def make_team():
    """Teams that are killed at the end."""
    made = []

    def make(backend="process", size=1, spec=spec, limit=3, silence_s=30.0, start=True):
        team = Team(BACKENDS[backend](), spec, size, RestartPolicy(limit, silence_s))
        made.append(team)
        if start:
            team.start()
        return team

    yield make
    for team in made:
        team.kill()


def descriptors():
    """How many file descriptors are open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def collect(team, count=1, within=20.0):
    """The first events, `count` of them."""
    events, end = [], time.monotonic() + within
    while len(events) < count:
        assert time.monotonic() < end, f"only {events}"
        team.wait(end - time.monotonic())
        events += team.events()
    return events


@pytest.mark.parametrize("backend", BACKENDS)
class TestEveryBackend:
    """The contract of a backend, through a team: the same test for each."""

    def test_orders_are_answered_by_the_worker_they_were_given_to(self, make_team, backend):
        team = make_team(backend, size=3)
        for worker in range(3):
            team.submit(worker, f"key {worker}", ("number", None))
        assert sorted(collect(team, 3)) == [Answered(worker, f"key {worker}", worker, True) for worker in range(3)]
        assert team.busy == 0

    def test_an_order_may_have_several_answers(self, make_team, backend):
        team = make_team(backend)
        team.submit(0, "k", ("thrice", None))
        assert [(event.value, event.last) for event in collect(team, 3)] == [(0, False), (1, False), (2, True)]

    def test_work_may_answer_while_it_is_idle(self, make_team, backend):
        team = make_team(backend, spec=lambda number: ChildSpec("restless", Restless))
        team.submit(0, "k", ("go on", None))
        assert [event.value for event in collect(team, 5)][:5] == [1, 2, 3, 4, 5]
        assert team.busy == 1

    def test_a_forgotten_order_is_not_answered(self, make_team, backend):
        team = make_team(backend)
        team.submit(0, "first", ("sleep", 0.2))
        team.forget(0, "first")
        team.submit(0, "second", ("echo", 2))
        assert collect(team) == [Answered(0, "second", 2, True)]

    def test_a_failure_is_an_event_with_the_stack_of_the_child_and_another_takes_its_place(self, make_team, backend):
        team = make_team(backend)
        team.submit(0, "k", ("raise at", 7))
        (died,) = collect(team)
        assert isinstance(died, Died) and not isinstance(died, Lost)
        assert (died.worker, died.at, died.silent, died.keys) == (0, 7, False, ("k",))
        assert "ZeroDivisionError: at an item" in died.cause and "obey" in str(died.error.__cause__)
        team.submit(0, "again", ("echo", 1))
        assert collect(team) == [Answered(0, "again", 1, True)]
        assert team.incarnation(0) == 2 and team.restarts == 1

    def test_the_incarnation_is_that_of_the_child_which_the_next_order_reaches(self, make_team, backend):
        team = make_team(backend)
        assert team.incarnation(0) == 1 and team.due_s > 0
        team.submit(0, "k", ("raise at", 7))
        collect(team)
        assert team.incarnation(0) == 2 and team.due_s == 0, "the successor starts in the next call of events"
        team.submit(0, "again", ("echo", 1))
        collect(team)
        assert team.incarnation(0) == 2 and team.due_s > 0

    def test_a_silent_worker_is_replaced_and_its_late_answer_is_not_heard(self, make_team, backend):
        team = make_team(backend, silence_s=0.3)
        team.submit(0, "k", ("sleep", 1.5))
        (died,) = collect(team)
        assert died.silent and died.keys == ("k",) and "did nothing for 0.3 s" in died.cause
        team.submit(0, "k", ("beat on", 1.0))
        assert collect(team) == [Answered(0, "k", "beaten", True)]

    def test_a_worker_that_beats_or_was_allowed_more_time_is_not_silent(self, make_team, backend):
        team = make_team(backend, size=2, silence_s=0.3)
        team.submit(0, "k", ("beat on", 1.2))
        team.submit(1, "k", ("allowed", 1.2))
        assert {event.value for event in collect(team, 2)} == {"beaten", "slow"}

    def test_a_worker_without_orders_is_never_silent(self, make_team, backend):
        team = make_team(backend, silence_s=0.2)
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            team.wait(0.1)
            assert team.events() == []

    def test_a_parent_that_was_away_hears_the_answer_before_it_looks_for_silence(self, make_team, backend):
        team = make_team(backend, silence_s=0.2)
        team.submit(0, "k", ("echo", "x"))
        time.sleep(0.8)
        assert collect(team) == [Answered(0, "k", "x", True)]

    def test_one_that_cannot_start_is_an_error_with_its_stack(self, make_team, backend):
        with pytest.raises(WorkerError, match=r"worker 0 could not start: ValueError: nothing works here") as caught:
            make_team(backend, spec=lambda number: ChildSpec("worker 0", Obedient, ("cannot start",)))
        assert "Obedient" in str(caught.value.__cause__) or "__init__" in str(caught.value.__cause__)

    def test_one_that_can_never_be_replaced_is_lost(self, make_team, backend):
        arguments = []
        team = make_team(backend, spec=lambda number: ChildSpec("it", Obedient, tuple(arguments)), limit=2)
        arguments.append("cannot start")
        team.submit(0, "k", ("raise", "for the first time"))
        events = collect(team, 3)
        assert [type(event) for event in events] == [Died, Died, Lost]
        assert events[0].keys == ("k",) and events[1].keys == ()
        assert team.lost == [0]
        with pytest.raises(WorkerError, match="lost"):
            team.submit(0, "k", ("echo", 1))

    def test_an_answer_between_deaths_counts_as_progress(self, make_team, backend):
        team = make_team(backend, limit=1)
        for _ in range(4):
            team.submit(0, "answered", ("echo", 1))
            team.submit(0, "fatal", ("raise", "again"))
            answered, died = collect(team, 2)
            assert answered.value == 1 and type(died) is Died
        assert team.restarts >= 3  # the metric only grows

    def test_orders_given_while_it_is_paused_are_carried_out_by_the_successor(self, make_team, backend):
        team = make_team(backend)
        team.submit(0, "fatal", ("raise", "x"))
        collect(team)
        team.submit(0, "a", ("echo", 1))
        team.submit(0, "b", ("echo", 2))
        team.submit(0, "c", ("echo", 3))
        team.forget(0, "b")
        assert [event.value for event in collect(team, 2)] == [1, 3]

    def test_events_and_submit_never_wait(self, make_team, backend):
        """A worker that takes long to start is waited for by nobody but `start`."""
        team = make_team(backend, size=2)
        team.submit(0, "k", ("raise", "x"))
        collect(team)
        began = time.perf_counter()
        team.submit(0, "k", ("sleep", 0.5))
        for _ in range(20):
            team.events()
        assert time.perf_counter() - began < 0.45
        assert collect(team)[0].value == "awake"

    def test_stop_lets_workers_end(self, make_team, backend):
        team = make_team(backend, size=2)
        team.submit(0, "k", ("echo", 1))
        team.stop()
        assert team.pids == {}


class TestProcesses:
    """What only a process can do."""

    def test_messages_come_before_the_death(self, make_team):
        team = make_team()
        team.submit(0, "k", ("answer and die", "last words"))
        answered, died = collect(team, 2)
        assert answered == Answered(0, "k", "last words", True)
        assert isinstance(died, Died) and died.keys == () and died.at == NOWHERE

    def test_after_sigkill_the_item_it_was_at_is_known(self, make_team):
        team = make_team(limit=0)
        for _ in range(3):  # deaths at an item are for the owner to count, not for the limit
            team.submit(0, "k", ("die at", 5))
            (died,) = collect(team)
            assert type(died) is Died and died.at == 5 and "SIGKILL, often out of memory" in died.cause

    def test_a_stopped_process_is_killed(self, make_team):
        team = make_team(silence_s=0.5)
        os.kill(team.pids[0], signal.SIGSTOP)
        team.submit(0, "k", ("echo", 1))
        (died,) = collect(team)
        assert died.silent
        team.submit(0, "k", ("echo", 1))
        assert collect(team)[0].value == 1

    def test_a_hang_is_reported_with_its_stack(self, make_team):
        team = make_team(silence_s=0.5)
        team.submit(0, "k", ("hang at", 3))
        (died,) = collect(team)
        assert died.at == 3 and "workers.py" in died.cause

    def test_arguments_larger_than_a_pipe_arrive(self, make_team):
        large = b"x" * 1_000_000
        team = make_team(spec=lambda number: ChildSpec("large", Obedient, (large,)))
        team.submit(0, "k", ("arguments", None))
        assert collect(team)[0].value == (large,)

    def test_shared_memory_in_arguments_is_the_same_memory(self, make_team):
        block = SharedBlock({"shared": ((4,), np.float64)})
        team = make_team(spec=lambda number: ChildSpec("writer", Writer, ({"inside": [block]},)))
        team.submit(0, "k", (2, 42.0))
        collect(team)
        assert block["shared"][2] == 42.0

    def test_messages_longer_than_a_pipe_in_both_directions(self, make_team):
        team = make_team()
        long = b"x" * 5_000_000
        for key in range(4):
            team.submit(0, key, ("echo", long))
        assert all(event.value == long for event in collect(team, 4))

    def test_no_descriptor_is_left_behind(self, make_team):
        make_team(size=2).stop()  # the fork server keeps some of its own
        gc.collect()
        before = descriptors()
        for _ in range(3):
            team = make_team(size=2)
            team.submit(0, "k", ("die at", 1))
            collect(team)
            team.submit(0, "k", ("echo", 1))
            collect(team)
            team.stop()
        del team
        gc.collect()
        assert descriptors() <= before

    def test_random_deaths_lose_no_order(self, make_team):
        """Every order is answered in the end, if its owner submits again what comes back."""
        rng = np.random.default_rng(0)
        team = make_team(size=2, limit=1000)
        left = {(worker, number) for worker in range(2) for number in range(60)}
        for worker, number in sorted(left):
            team.submit(worker, number, ("echo", number))
        answers = {}
        while left:
            if rng.random() < 0.3 and (pids := list(team.pids.values())):
                with suppress(ProcessLookupError):  # it may have died of the last one just now
                    os.kill(pids[rng.integers(len(pids))], signal.SIGKILL)
            team.wait(0.5)
            for event in team.events():
                if isinstance(event, Answered):
                    assert (event.worker, event.key) in left, "answered twice"
                    left.discard((event.worker, event.key))
                    answers[event.worker, event.key] = event.value
                else:
                    for key in event.keys:
                        team.submit(event.worker, key, ("echo", key))
        assert all(value == number for (_, number), value in answers.items())


class Writer:
    """Writes into shared memory."""

    def __init__(self, context, parts):
        self.context, self.block = context, parts["inside"][0]

    def obey(self, key, order):
        self.block["shared"][order[0]] = order[1]
        self.context.answer(key, None)

    def idle(self):
        return None

    def close(self):
        pass


def test_a_thread_that_was_replaced_is_stopped_by_its_next_sign_of_life(make_team):
    released, lived = threading.Event(), []

    class Stubborn(Obedient):
        def obey(self, key, order):
            if order == "hang":
                released.wait(20)
                with suppress(Exception):  # as users' code may
                    self.context.beat()
                lived.append("went on")
            self.context.answer(key, order)

    team = make_team("thread", spec=lambda number: ChildSpec("stubborn", Stubborn), silence_s=0.3)
    team.submit(0, "k", "hang")
    assert collect(team)[0].silent
    released.set()
    team.submit(0, "k", "work")
    assert collect(team) == [Answered(0, "k", "work", True)]
    assert not lived
