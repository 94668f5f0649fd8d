"""Threads that share tasks: all are carried out, whoever does, and an exception comes back."""

import threading

import pytest

from abreast.models.crew import Crew


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_task_is_carried_out_once(threads):
    crew, done = Crew(threads), []
    for _ in range(50):
        done.clear()
        crew.run([lambda number=number: done.append(number) for number in range(7)])
        assert sorted(done) == list(range(7))
    crew.close()


def test_tasks_run_side_by_side():
    crew, both = Crew(2), threading.Barrier(2, timeout=30)
    crew.run([both.wait, both.wait])  # neither is done before the other has begun
    crew.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_exception_in_a_task_is_raised_and_the_crew_goes_on(threads):
    crew = Crew(threads)
    with pytest.raises(ZeroDivisionError):
        crew.run([lambda: None, lambda: 1 / 0, lambda: None])
    done = []
    crew.run([lambda: done.append(1), lambda: done.append(2)])
    assert sorted(done) == [1, 2]
    crew.close()


def test_threads_end_with_the_crew():
    before = threading.active_count()
    crew = Crew(4)
    assert threading.active_count() == before + 3
    crew.close()
    for thread in threading.enumerate():
        if thread.name == "crew":
            thread.join(10)
    assert threading.active_count() == before
