"""Parallel equals sequential, byte for byte: random configurations, actions, flips and kills, against the plain loop."""

import asyncio
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from abreast.rollouts import EnvStateManager
from abreast.rollouts.workers.timing import PlacementRules
from plain_loop import PlainLoop
from rollout_helpers import SHIPPED, kill, plain
from rollout_helpers import settings as configure

CASES = 5000 if os.environ.get("ABREAST_CHAOS") else 8
TAGS = SHIPPED
JUNK = ["", "  ", "jump", "UP ", "left", "click[nothing]", "search[]", "1+1", "𝕏", "Drop table", "\x00", "9" * 300]


EAGER = PlacementRules(turn_message_s=0.0, order_s=0.0, cheap_turn_s=0.0, gain=1.0, worth_s=-1.0, enough_s=0.0)
RULES = [PlacementRules(), EAGER]
"""The second uses workers whenever it may."""


class Case(NamedTuple):
    tags: list[str]
    counts: list[int]
    size: int
    workers: int
    use: object
    seed: int
    chance: random.Random
    turns: list[tuple[object, str, str]]
    rules: PlacementRules


@st.composite
def cases(draw):
    tags = draw(st.lists(st.sampled_from(sorted(TAGS)), min_size=1, max_size=3, unique=True))
    counts = [draw(st.integers(1, 2)) for _ in tags]
    use = st.sampled_from([True, True, False, "auto", "threads"])
    then = st.sampled_from(["nothing", "nothing", "reset some", "episode", "episode of a task", "episode of a thread"])
    harm = st.sampled_from(["none", "none", "none", "none", "between", "during"])
    return Case(
        tags, counts, draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4])), draw(use), draw(st.integers(0, 2**31)),
        random.Random(draw(st.integers(0, 2**32))), draw(st.lists(st.tuples(use, harm, then), min_size=1, max_size=5)),
        draw(st.sampled_from(RULES)),
    )  # fmt: skip


def some_actions(chance, tag, cache):
    """A few actions for a turn: sensible ones, with junk among them."""
    told = cache["history"][-2]["info"] if len(cache["history"]) > 1 else cache["info"]
    known = (
        list((tag.config.action_lookup or {}).values()) or told.get("available_actions") or ["search[red shoes]", "12"]
    )
    pool = [*known, *known, chance.choice(JUNK)]
    return [chance.choice(pool) for _ in range(chance.choice([0, 1, 1, 1, 2, 3]))]


def strike(pids, chance):
    kill(*chance.sample(pids, min(len(pids), chance.choice([1, 1, 2]))))


@pytest.mark.xdist_group("rollouts")
@pytest.mark.timeout(3600 if CASES > 1000 else 400)
@settings(max_examples=CASES, suppress_health_check=list(HealthCheck), derandomize=CASES < 1000)
@given(cases())
def test_whatever_happens_the_result_is_that_of_the_plain_loop(case):
    play(case)


def play(case):
    config = configure(
        case.tags, case.counts, case.size, {tag: TAGS[tag] for tag in case.tags},
        use_multiprocessing=case.use, max_workers=case.workers,
    )  # fmt: skip
    loop, chance = plain(config), case.chance
    expected = loop.reset(case.seed)
    with EnvStateManager(config, rules=case.rules) as manager, EnvStateManager(config) as sequential:
        sequential.use_multiprocessing = False
        assert manager.reset(seed=case.seed) == expected == sequential.reset(seed=case.seed)
        for use, harm, then in case.turns:
            active = [env_id for env_id, done in enumerate(loop.done) if not done]
            chance.shuffle(active)
            inputs = [
                {
                    "env_id": env_id,
                    "actions": some_actions(chance, loop.tags[env_id], loop.caches[env_id]),
                    "llm_response": "think",
                    "llm_raw_response": "think hard",
                }
                for env_id in active[: chance.randint(1, max(1, len(active)))]
            ]
            manager.use_multiprocessing = use
            if harm == "between":
                strike(manager.worker_pids, chance)
            timer = threading.Timer(chance.uniform(0, 0.004), strike, (manager.worker_pids, chance))
            if harm == "during":
                timer.start()
            outputs = manager.step(inputs)
            timer.cancel()
            timer.join() if timer.is_alive() else None
            sequential.step(inputs)
            assert outputs == loop.step(inputs)
            begin_some(then, case, loop, manager, sequential)
        assert manager.caches == loop.caches
        for status, done, truncated in zip(manager.statuses(), loop.done, loop.truncated, strict=True):
            assert (status["terminated"], status["truncated"]) == (done, truncated)
        assert manager.statuses() == sequential.statuses()
        assert metrics(manager) == metrics(sequential)
        assert manager.reset(seed=case.seed) == loop.reset(case.seed), "wherever environments have moved now"


def begin_some(then, case, loop, manager, sequential):
    """Play a single episode, while the batch is under way, or begin episodes in some environments of the batch."""
    chance = case.chance
    env_ids = chance.sample(range(len(loop.done)), chance.randint(1, len(loop.done)))
    if then == "nothing":
        return
    if then != "reset some":
        tag, seed = chance.choice(loop.tags), chance.randrange(1000)
        alone = PlainLoop([tag], 1)
        alone.reset(seed)
        turns = []
        while not alone.done[0] and len(turns) < 4:
            turns.append(some_actions(chance, tag, alone.caches[0]))
            alone.step([{"env_id": 0, "actions": turns[-1]}])
        strikes = chance.random() < 0.2
        cache = EPISODES[then](manager, tag.name, seed, turns, lambda: strikes and strike(manager.worker_pids, chance))
        assert {**cache, "env_id": 0, "group_id": 0} == alone.caches[0]
        return
    seeds = [chance.randrange(1000) for _ in env_ids]
    for env_id, seed in zip(env_ids, seeds, strict=True):
        loop.begin(env_id, seed)
    sequential.reset(env_ids=env_ids, seeds=seeds)
    assert manager.reset(env_ids=env_ids, seeds=seeds) == [loop.caches[env_id] for env_id in env_ids]


def episode(manager, tag, seed, turns, harm):
    with manager.episode(tag, seed=seed) as each:
        for actions in turns:
            harm()
            each.step(actions)
        return each.cache


def episode_of_a_task(manager, tag, seed, turns, harm):
    async def play():
        async with manager.episode(tag, seed=seed) as each:
            for actions in turns:
                harm()
                await each.step(actions)
            return each.cache

    return asyncio.run(play())


def episode_of_a_thread(manager, tag, seed, turns, harm):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(episode, manager, tag, seed, turns, harm).result()


EPISODES = {
    "episode": episode,
    "episode of a task": episode_of_a_task,
    "episode of a thread": episode_of_a_thread,
}


def metrics(manager):
    """What the episodes came to; nothing in it depends on the clock."""
    return repr(manager.get_rollout_states())  # NaN is not equal to itself
