"""Signals that end a run of asyncio."""

import asyncio
import signal
import sys
import threading

import pytest

from abreast.rollouts.drivers.play import run_until_terminated


@pytest.fixture
def exits():
    """SIGTERM raises SystemExit, as in the command line."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    yield signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def test_sigterm_cancels_all_tasks_before_its_handler_is_called(exits, caplog):
    ended = []

    async def wait(name):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(name)

    async def work():
        task = asyncio.create_task(wait("task"))
        await asyncio.sleep(0)
        signal.raise_signal(signal.SIGTERM)
        try:
            await wait("work")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with pytest.raises(SystemExit) as told:
        run_until_terminated(work())
    assert told.value.code == 143 and ended == ["work", "task"] and not caplog.records
    assert signal.getsignal(signal.SIGTERM) is exits


def test_the_second_one_does_not_wait(exits):
    async def work():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it went on")

    with pytest.raises(SystemExit):
        run_until_terminated(work())


def test_without_a_signal_it_is_as_if_nothing_was_there(exits):
    async def work():
        return 3

    assert run_until_terminated(work()) == 3 and signal.getsignal(signal.SIGTERM) is exits

    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_until_terminated(cancelled())


def test_in_another_thread_signals_are_left_alone(exits):
    async def work():
        assert signal.getsignal(signal.SIGTERM) is exits
        return 3

    results = []
    thread = threading.Thread(target=lambda: results.append(run_until_terminated(work())))
    thread.start()
    thread.join()
    assert results == [3]
