"""A team: orders, answers, deaths and restarts as events, the same with every kind of child."""

import threading
import time

import pytest

from abreast.errors import WorkerError
from abreast.processes.backend import ChildSpec
from abreast.processes.team import Answered, Died, Lost
from processes.teams import BACKENDS, collect
from processes.workers import Obedient, Restless, Slow


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
        team.submit(0, "first", ("sleep", 0.05))
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
        assert team.incarnation(0) == 1
        team.submit(0, "k", ("raise at", 7))
        collect(team)
        assert team.incarnation(0) == 2, "the successor starts in the next call of events"
        team.submit(0, "again", ("echo", 1))
        collect(team)
        assert team.incarnation(0) == 2

    def test_a_silent_worker_is_replaced_and_its_late_answer_is_not_heard(self, make_team, backend):
        team = make_team(backend, silence_s=0.3)
        team.submit(0, "k", ("sleep", 0.5))
        (died,) = collect(team)
        assert died.silent and died.keys == ("k",) and "did nothing for 0.3 s" in died.cause
        team.submit(0, "k", ("beat on", 0.5))
        assert collect(team) == [Answered(0, "k", "beaten", True)]

    def test_a_worker_that_beats_or_was_allowed_more_time_is_not_silent(self, make_team, backend):
        team = make_team(backend, size=2, silence_s=0.3)
        team.submit(0, "k", ("beat on", 0.6))
        team.submit(1, "k", ("allowed", 0.6))
        assert {event.value for event in collect(team, 2)} == {"beaten", "slow"}

    def test_a_worker_without_orders_is_never_silent(self, make_team, backend):
        team = make_team(backend, silence_s=0.1)
        end = time.monotonic() + 0.4
        while time.monotonic() < end:
            team.wait(0.1)
            assert team.events() == []

    def test_a_parent_that_was_away_hears_the_answer_before_it_looks_for_silence(self, make_team, backend):
        team = make_team(backend, silence_s=0.2)
        team.submit(0, "k", ("echo", "x"))
        time.sleep(0.5)
        assert collect(team) == [Answered(0, "k", "x", True)]

    def test_one_that_cannot_start_is_an_error_with_its_stack(self, make_team, backend):
        with pytest.raises(WorkerError, match=r"worker 0 could not start: ValueError: nothing works here") as caught:
            make_team(backend, spec=lambda number: ChildSpec("worker 0", Obedient, ("cannot start",)))
        assert "Obedient" in str(caught.value.__cause__) or "__init__" in str(caught.value.__cause__)

    def test_a_start_that_is_not_waited_for(self, make_team, backend, tmp_path):
        gate = tmp_path / "gate"
        team = make_team(backend, size=2, spec=lambda number: ChildSpec(f"worker {number}", Slow, (gate,)), start=False)
        team.start(wait=False)
        for worker in range(2):
            team.submit(worker, "k", ("echo", worker))
        gate.touch()
        assert sorted(event.value for event in collect(team, 2)) == [0, 1]

    def test_one_that_cannot_start_and_is_not_waited_for_is_an_error_of_the_next_events(self, make_team, backend):
        def spec(number):
            return ChildSpec(f"worker {number}", Obedient, ("cannot start",) if number else ())

        team = make_team(backend, size=2, spec=spec, limit=1000, start=False)
        team.start(wait=False)
        team.submit(1, "k", ("echo", 1))
        with pytest.raises(WorkerError, match=r"worker 1 could not start: ValueError: nothing works here") as caught:
            collect(team)
        assert "__init__" in str(caught.value.__cause__)
        team.stop()

    def test_a_start_can_be_waited_for_later_and_no_answer_is_lost(self, make_team, backend, tmp_path):
        gate = tmp_path / "gate"

        def spec(number):
            return ChildSpec(f"worker {number}", *((Slow, (gate,)) if number else (Obedient,)))

        team = make_team(backend, size=2, spec=spec, start=False)
        team.start(wait=False)
        team.submit(0, "k", ("echo", 1))
        threading.Timer(0.1, gate.touch).start()
        team.wait_started()
        assert gate.exists()
        assert [event.value for event in team.events()] == [1]
        team.wait_started()

    def test_one_that_can_never_be_replaced_is_lost(self, make_team, backend):
        arguments = []
        team = make_team(backend, spec=lambda number: ChildSpec("it", Obedient, tuple(arguments)), limit=2)
        arguments.append("cannot start")
        team.submit(0, "k", ("raise", "for the first time"))
        events = collect(team, 3)
        assert [type(event) for event in events] == [Died, Died, Lost]
        assert events[0].keys == ("k",) and events[1].keys == ()
        assert team.lost == {0}
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

    def test_events_and_submit_never_wait(self, make_team, backend, tmp_path):
        """A worker that takes long to start is waited for by `start` alone."""
        team = make_team(backend, size=2)
        team.submit(0, "k", ("raise", "x"))
        collect(team)
        gate = tmp_path / "gate"
        team.submit(0, "k", ("wait for", gate))
        for _ in range(20):
            assert team.events() == []
        gate.touch()
        assert collect(team)[0].value == "awake"

    def test_stop_lets_workers_end(self, make_team, backend):
        team = make_team(backend, size=2)
        team.submit(0, "k", ("echo", 1))
        team.stop()
        assert team.pids == {}

    def test_a_worker_that_was_idle_for_long_is_not_silent_when_it_gets_an_order(self, make_team, backend):
        team = make_team(backend, silence_s=0.3)
        for _ in range(2):
            time.sleep(0.4)
            team.submit(0, "k", ("sleep", 0.05))
            assert collect(team) == [Answered(0, "k", "awake", True)]

    def test_a_worker_that_is_retired_is_not_replaced(self, make_team, backend):
        team = make_team(backend, size=2)
        team.submit(0, "k", ("raise", "x"))
        collect(team)
        team.retire(0)
        team.submit(1, "k", ("echo", 1))
        assert collect(team) == [Answered(1, "k", 1, True)]
        assert team.lost == {0} and team.restarts == 0
