"""Interrupts: wherever Ctrl-C comes, results are right, or the next call says that they are incomplete."""

import asyncio
import copy
import os
import signal
import sys
import time
from pathlib import Path

import pytest

import abreast
from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager, register
from abreast.rollouts.episodes.guard import Guard
from rollout_helpers import (
    CALM,
    go,
    plain,
    settings,
    workers,
)
from villain_envs import Counting, CountingConfig

pytestmark = pytest.mark.xdist_group("rollouts: workers")


def test_an_exception_leaves_the_guard_broken_until_it_is_repaired():
    guard = Guard()
    with guard, guard:
        pass
    assert not guard.is_broken
    with pytest.raises(KeyboardInterrupt), guard, guard:
        raise KeyboardInterrupt
    assert guard.is_broken
    guard.repair()
    assert not guard.is_broken


class _Interrupted(Counting):
    def step(self, action):
        if self.steps == 1 and _Interrupted.strikes:
            _Interrupted.strikes -= 1
            self.total += 1000  # half done
            raise KeyboardInterrupt
        return super().step(action)


def test_after_an_interrupt_the_turn_can_still_be_had_or_the_episode_begun_anew(monkeypatch):
    register("interrupted", config=CountingConfig)(_Interrupted)
    custom = {"Interrupted": {"env_type": "interrupted", "max_actions_per_traj": 20}}
    config = settings(["Interrupted"], [3], 1, custom, use_multiprocessing=False)
    _Interrupted.strikes = 0
    loop = plain(config)
    with EnvStateManager(config) as manager:
        for go_on in (True, False):
            assert manager.reset(seed=0) == loop.reset(0)
            assert manager.step(go(range(3), "a")) == loop.step(go(range(3), "a"))
            _Interrupted.strikes = 1
            with pytest.raises(KeyboardInterrupt):
                manager.step(go(range(3), "b"))
            if go_on:
                assert manager.recv(min_ready=3) == loop.step(go(range(3), "b"))


def test_an_interrupt_while_workers_start_leaves_nothing_hanging(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with EnvStateManager(workers(["Calm"], [2], CALM)) as manager:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("abreast.processes.process.PipeChannel", interrupted)
            manager.reset(seed=0)
        assert not manager.worker_pids
        assert len(manager.reset(seed=0)) == 2


def interrupt(number, frame):
    raise KeyboardInterrupt


def test_a_reset_that_was_interrupted_leaves_no_pending_turns():
    custom = {**CALM, "Slow": {"env_type": "Counting", "env_config": {"reset_seconds": 0.5}}}
    with EnvStateManager(workers(["Calm", "Slow"], [1, 1], custom)) as manager:
        manager.reset(seed=0)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.25)  # the calm one has started, the slow one has not
            with pytest.raises(KeyboardInterrupt):
                manager.reset(seed=0)
        finally:
            signal.signal(signal.SIGALRM, before)
        assert manager.pending == []
        time.sleep(0.7)  # the slow one starts, and nothing waits for it
        assert len(manager.step(go([0], "a"))[0]["history"]) == 2
        with pytest.raises(RolloutError, match="environment 1 has no episode yet"):
            manager.step(go([1], "a"))
        assert len(manager.reset(seed=0)) == 2


def interrupted_at(number, call):
    """Make the call, with a Ctrl-C at the n-th line of ours that it comes to; whether it came to so many."""
    source, before, lines = str(Path(abreast.__file__).parent), sys.gettrace(), 0

    def trace(frame, event, argument):
        nonlocal lines
        if not frame.f_code.co_filename.startswith(source):
            return None
        if event == "line":
            lines += 1
            if lines == number:
                sys.settrace(before)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


CHAOS = bool(os.environ.get("ABREAST_CHAOS"))
STRIDE = 13
"""Every so many lines are interrupted; every line under ABREAST_CHAOS."""


def step(manager, inputs):
    manager.step(inputs)


def send(manager, inputs):
    manager.send(inputs)


def recv(manager, inputs):
    manager.recv(min_ready=2)


def step_async(manager, inputs):
    asyncio.run(manager.step_async(inputs))


@pytest.mark.timeout(3600 if CHAOS else 240)
@pytest.mark.parametrize("call", [step, send, recv, step_async])
@pytest.mark.parametrize("use", [False, True])
def test_wherever_a_turn_is_interrupted_its_result_is_right_or_said_to_be_incomplete(call, use):
    config = workers(["Calm"], [2], CALM, max_workers=1, use_multiprocessing=use, step_timeout=20)
    loop, inputs = plain(config), go(range(2), "a")
    stride = 1 if CHAOS or (call is step and not use) else STRIDE
    with EnvStateManager(config) as manager:
        number, broken, went_on = 0, 0, 0
        while True:
            number += stride
            assert manager.reset(seed=1) == loop.reset(1)
            before = copy.deepcopy(loop.caches)
            loop.step(inputs)
            if call is recv:
                manager.send(inputs)
            if not interrupted_at(number, lambda: call(manager, inputs)):
                break
            try:
                while manager.pending:
                    manager.recv()
                if manager.caches == before:
                    manager.step(inputs)
                assert manager.caches == loop.caches, number
                assert manager.step(inputs) == loop.step(inputs), number
                went_on += 1
            except RolloutError as error:
                assert "interrupted" in str(error) and "call reset" in str(error), number
                broken += 1
        assert broken and went_on and number > 5 * stride, (broken, went_on, number)


@pytest.mark.timeout(3600 if CHAOS else 240)
@pytest.mark.parametrize("use", [False, True])
def test_wherever_a_reset_is_interrupted_the_next_one_is_right(use):
    config = workers(["Calm"], [2], CALM, max_workers=1, use_multiprocessing=use, step_timeout=20)
    loop, inputs = plain(config), go(range(2), "a")
    with EnvStateManager(config) as manager:
        number, is_interrupted = 0, True
        while is_interrupted:
            number += 1 if CHAOS else STRIDE
            is_interrupted = interrupted_at(number, lambda: manager.reset(seed=2))
            assert manager.reset(seed=1) == loop.reset(1), number
            assert manager.step(inputs) == loop.step(inputs), number
        assert number > 5 * STRIDE
