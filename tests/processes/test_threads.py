"""Children that are threads: they cannot be killed."""

import threading
import time
from contextlib import suppress

from abreast.processes.backend import ChildSpec
from abreast.processes.team import Answered
from processes.teams import collect
from processes.workers import Obedient


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


def test_a_thread_that_ends_right_after_an_answer_is_noticed_even_if_both_are_found_at_once(make_team):
    class Leaves(Obedient):
        def obey(self, key, order):
            self.context.answer(key, order, last=False)
            raise SystemExit

    team = make_team("thread", spec=lambda number: ChildSpec("leaver", Leaves))
    team.submit(0, "k", "go")
    time.sleep(0.2)  # so that answer and end are there
    answered, died = collect(team, 2, within=5.0)
    assert answered == Answered(0, "k", "go", False)
    assert "its thread ended" in died.cause
