"""`step_async`: calls that await turns."""

import asyncio
import os
import time

import pytest

from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager
from rollout_helpers import (
    CALM,
    go,
    kill,
    plain,
    settings,
    villain,
    workers,
)

pytestmark = pytest.mark.xdist_group("rollouts: single")


@pytest.mark.parametrize("use", [True, False])
def test_steps_can_be_awaited_episode_by_episode(use):
    config = settings(["Counting"], [6], 1, villain("Counting", seconds=0.005), use_multiprocessing=use, max_workers=2)
    loop = plain(config)
    loop.reset(2)

    async def drive(manager, env_id):
        while await manager.step_async(go([env_id], "a", "b")):
            await asyncio.sleep(0.001)  # a language model thinks

    async def drive_all(manager):
        await asyncio.gather(*(drive(manager, env_id) for env_id in range(6)))

    with EnvStateManager(config) as manager:
        manager.reset(seed=2)
        asyncio.run(drive_all(manager))
        for env_id in range(6):
            while loop.step(go([env_id], "a", "b")):
                pass
        assert manager.caches == loop.caches
        assert manager.pending == []


def test_calls_of_step_async_sleep_until_their_turn_is_taken():
    """(Two calls that woke each other once kept a core busy.)"""
    config = settings(["Counting"], [4], 1, villain("Counting", seconds=0.5), use_multiprocessing=True, max_workers=2)

    async def drive(manager):
        return await asyncio.gather(*(manager.step_async(go([env_id], "a")) for env_id in range(4)))

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        used = time.process_time()
        assert [len(outputs) for outputs in asyncio.run(drive(manager))] == [1] * 4
        assert time.process_time() - used < 0.3


def test_a_loop_that_is_closed_with_pending_turns_leaves_the_manager_usable():
    config = settings(["Counting"], [2], 1, villain("Counting", seconds=0.3), use_multiprocessing=True, max_workers=2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        loop = asyncio.new_event_loop()
        task = loop.create_task(manager.step_async(go([0], "a")))
        loop.run_until_complete(asyncio.sleep(0.05))
        task._log_destroy_pending = False
        loop.close()
        assert len(asyncio.run(manager.step_async(go([1], "a")))) == 1
        manager.reset(seed=1)
        pids = manager.worker_pids
        again = asyncio.new_event_loop()
        task = again.create_task(manager.step_async(go([0], "a")))
        again.run_until_complete(asyncio.sleep(0.05))
        task._log_destroy_pending = False
        again.close()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # noqa: PTH110


def test_an_error_reaches_every_call_that_waits():
    config = workers(["Wavers"], [2], villain("Wavers", seconds=0.1))

    async def drive(manager):
        calls = [manager.step_async(go([env_id], "a")) for env_id in range(2)]
        return await asyncio.gather(*calls, return_exceptions=True)

    with EnvStateManager(config, verify=True) as manager:
        manager.reset(seed=0)
        errors = asyncio.run(drive(manager))
        assert ["disagree about its state" in str(error) for error in errors] == [True, True]


def test_a_restart_does_not_block_the_event_loop():
    config = workers(["Counting"], [2], villain("Counting", seconds=0.2), start_method="spawn")

    async def drive(manager):
        turn = asyncio.create_task(manager.step_async(go(range(2), "a")))
        await asyncio.sleep(0.05)
        kill(*manager.worker_pids)
        longest, began = 0.0, time.monotonic()
        while not turn.done():
            started = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - started)
        return len(await turn), longest, time.monotonic() - began

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        outputs, longest, total = asyncio.run(drive(manager))
        assert outputs == 2
        assert longest < 0.5 * total, "spawned processes take long to start; the loop goes on meanwhile"


def test_an_awaited_step_survives_the_death_of_a_worker():
    config = settings(["Counting"], [4], 1, villain("Counting", seconds=0.1), use_multiprocessing=True, max_workers=2)

    async def drive(manager):
        turn = asyncio.create_task(manager.step_async(go(range(4), "a", "b")))
        await asyncio.sleep(0.05)
        kill(manager.worker_pids[0])
        return await turn

    loop = plain(config)
    loop.reset(2)
    with EnvStateManager(config) as manager:
        manager.reset(seed=2)
        assert asyncio.run(drive(manager)) == loop.step(go(range(4), "a", "b"))


def test_a_cancelled_step_can_be_received_and_disturbs_no_other():
    custom = {**villain("Counting", seconds=0.5), **CALM}
    config = workers(["Counting", "Calm"], [1, 1], custom)

    async def drive(manager):
        slow = asyncio.create_task(manager.step_async(go([0], "a")))
        await asyncio.sleep(0.05)
        slow.cancel()
        quick = await manager.step_async(go([1], "a"))
        with pytest.raises(RolloutError, match="already under way"):
            await manager.step_async(go([0], "a"))
        other = asyncio.create_task(manager.step_async(go([1], "b")))
        await asyncio.sleep(0)
        late = manager.recv()
        return quick, late, await other

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        quick, late, other = asyncio.run(drive(manager))
        assert [c["env_id"] for c in (*quick, *late, *other)] == [1, 0, 1]


def test_an_awaited_step_returns_when_it_is_done_though_another_call_received_it():
    custom = {**villain("Counting", seconds=0.05), **CALM}
    config = workers(["Counting", "Calm"], [1, 1], custom)

    async def drive(manager):
        started = time.monotonic()
        first = asyncio.create_task(manager.step_async(go([0], "a")))
        await asyncio.sleep(0)
        time.sleep(0.1)  # the answer lies there
        await manager.step_async(go([1], "a"))
        await first
        return time.monotonic() - started

    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        assert asyncio.run(drive(manager)) < 15


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_reset_or_close_ends_a_pending_step_async_with_an_error(end):
    async def both(manager):
        awaited = asyncio.create_task(manager.step_async(go([0], "a")))
        await asyncio.sleep(0.05)
        getattr(manager, end)()
        with pytest.raises(RolloutError, match=r"ended by a reset|is closed"):
            await asyncio.wait_for(awaited, 20)
        if end == "reset":
            assert len(await asyncio.wait_for(manager.step_async(go(range(2), "a")), 20)) == 2

    with EnvStateManager(workers(["Counting"], [2], villain("Counting", seconds=0.3))) as manager:
        manager.reset(seed=0)
        asyncio.run(both(manager))
