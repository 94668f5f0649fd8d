"""Single episodes: equal to the plain loop wherever they live, and their environments come back whatever happens."""

import asyncio
import copy
import gc
import itertools
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import pytest

from abreast.errors import ConfigError, RolloutError
from abreast.processes.child import Replaced
from abreast.rollouts import EnvStateManager, register
from rollout_helpers import CALM, LAKE, go, kill, plain, settings, villain, workers
from villain_envs import Counting, CountingConfig

pytestmark = pytest.mark.xdist_group("rollouts: single")
PLACES = [False, True, "threads", "auto"]
CHAOS = os.environ.get("ABREAST_CHAOS") == "1"
ABRUPT = 10_000 if CHAOS else 1_600
CUSTOM = {**CALM, **LAKE}


def config(use, envs=4, tags=("Calm",), most=None, **manager):
    """With a batch of so many environments; `most` is the limit for single episodes."""
    manager["episodes"] = {**({"max": most} if most else {}), **manager.get("episodes", {})}
    return settings(list(tags), [envs] * len(tags), 1, CUSTOM, use_multiprocessing=use, max_workers=2, **manager)


def expected(tag, seed, *turns):
    """The history of an episode in the plain loop."""
    loop = plain(settings([tag], [1], 1, CUSTOM))
    loop.reset(seed)
    for actions in turns:
        loop.step(go([0], *actions))
    return loop.caches[0]["history"]


TURNS = (["down"], ["down", "nonsense"], [], ["right"])


def play(manager, tag, seed):
    with manager.episode(tag, seed=seed) as episode:
        for actions in TURNS:
            if not episode.done:
                episode.step(actions)
        return episode.cache["history"]


async def play_async(manager, tag, seed):
    async with manager.episode(tag, seed=seed) as episode:
        for actions in TURNS:
            if not episode.done:
                await episode.step(actions)
        return episode.cache["history"]


def done(tag, seed):
    """What `play` comes to: the plain loop refuses a turn after the end, as it has none."""
    loop = plain(settings([tag], [1], 1, CUSTOM))
    loop.reset(seed)
    for actions in TURNS:
        if not loop.done[0]:
            loop.step(go([0], *actions))
    return loop.caches[0]["history"]


@pytest.mark.parametrize("use", PLACES)
def test_episodes_of_one_caller_of_tasks_and_of_threads_equal_the_plain_loop(use):
    with EnvStateManager(config(use, tags=("Calm", "Lake"))) as manager:
        wanted = [(tag, seed) for seed in range(3) for tag in ("Calm", "Lake")]
        histories = [done(*each) for each in wanted]
        assert [play(manager, *each) for each in wanted] == histories

        async def all_at_once():
            return await asyncio.gather(*(play_async(manager, *each) for each in wanted))

        assert asyncio.run(all_at_once()) == histories
        found = {}
        threads = [
            threading.Thread(target=lambda each=each: found.update({each: play(manager, *each)})) for each in wanted
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [found[each] for each in wanted] == histories
        assert manager.episodes_under_way == 0


@pytest.mark.parametrize("use", PLACES)
def test_an_episode_goes_on_beside_a_batch_and_they_do_not_disturb_each_other(use):
    with EnvStateManager(config(use)) as manager:
        loop = plain(config(use))
        assert manager.reset(seed=3) == loop.reset(3)
        with manager.episode(seed=9) as episode:
            assert episode.env_id not in range(4), "it has an environment of its own"
            for _ in range(3):
                assert manager.step(go(range(4), "a")) == loop.step(go(range(4), "a"))
                episode.step(["b"])
            assert episode.cache["history"] == expected("Calm", 9, ["b"], ["b"], ["b"])
            with pytest.raises(RolloutError, match=r"env_id is \d+: expected a whole number from 0 to 3"):
                manager.step(go([episode.env_id], "a"))
            assert manager.reset(seed=5) == loop.reset(5), "a reset does not end it"
            episode.step(["b"])
            assert episode.cache["history"] == expected("Calm", 9, *[["b"]] * 4)


@pytest.mark.parametrize("use", PLACES)
def test_single_episodes_leave_the_results_of_a_batch_as_they_are(use):
    """Seeds, success and pass@k of a batch that is over stay until the next reset, whatever is played meanwhile."""
    with EnvStateManager(config(use)) as manager:
        manager.reset(seed=3)
        manager.step(go([0, 1, 2], *["a"] * 10))
        before = manager.statuses(), copy.deepcopy(manager.caches), repr(manager.get_rollout_states())
        for seed in range(6):
            with manager.episode(seed=seed, group_id=0) as episode:
                episode.step(["a"])
        assert (manager.statuses(), repr(manager.get_rollout_states())) == (before[0], before[2])
        states = manager.get_rollout_states()
        assert states["tags"]["Calm"]["success"] == 1.0, "three of three, and one that is not over"
        assert states["groups"][0] == {"tag": "Calm", "pass@1": 1.0}
        for cache, then in zip(manager.caches, before[1], strict=True):
            assert cache["history"] == then["history"] and cache["group_id"] == then["group_id"]


def test_figures_of_single_episodes_are_by_the_groups_that_were_given():
    with EnvStateManager(config(False)) as manager:
        played = []
        for group, turns in [(7, 10), (7, 10), (8, 10), (8, 3), (None, 3)]:
            with manager.episode(seed=1, group_id=group) as episode:
                for _ in range(turns):
                    episode.step(["a"])
            played.append(episode)
        states = manager.get_rollout_states(played)
        assert states["groups"] == {7: {"tag": "Calm", "pass@1": 1.0, "pass@2": 1.0}, 8: {"tag": "Calm", "pass@1": 1.0}}
        calm = states["tags"]["Calm"]
        assert (calm["episodes"], calm["unfinished"], calm["success"], calm["num_actions"]) == (3, 2, 1.0, 10)
        assert manager.get_rollout_states()["tags"]["Calm"]["never_begun"] == 4, "the batch"


def test_an_episode_begins_while_a_batch_has_all_of_its_environments():
    """In one thread that once waited for ever, in silence."""
    with EnvStateManager(config(False, envs=1)) as manager:
        manager.reset(seed=0)
        with manager.episode(seed=3) as episode:
            assert episode.step(["a"]).state.startswith("1 steps")


def test_an_episode_that_is_over_frees_its_environment_though_it_was_not_closed():
    with EnvStateManager(config(False, most=1, episodes={"when_full": "refuse"})) as manager:
        kept = []
        for seed in range(3):
            episode = manager.episode(seed=seed).begin()
            for _ in range(10):
                episode.step(["a"])
            kept.append(episode)
        assert manager.episodes_under_way == 0
        assert [episode.cache["history"] for episode in kept] == [expected("Calm", s, *[["a"]] * 10) for s in range(3)]
        assert len({episode.env_id for episode in kept}) == 1, "one environment was enough"


def test_a_manager_for_a_tag_needs_no_groups():
    with EnvStateManager.for_tag("FrozenLake", concurrency=2, use_multiprocessing=False) as manager:
        assert len(manager) == 0 and manager.config.es_manager.episodes.max == 2
        with manager.episode(seed=1) as episode, manager.episode(seed=1) as other:
            assert episode.tag.name == "FrozenLake" and episode.state == other.state
            assert episode.cache["group_id"] is None
        with pytest.raises(RolloutError, match="this manager has no batch"):
            manager.reset()
    for concurrency in (0, True, "x"):
        with pytest.raises(RolloutError, match=r"concurrency is .*: expected a whole number, 1 or more"):
            EnvStateManager.for_tag("FrozenLake", concurrency=concurrency)
    for make in (EnvStateManager.for_tag, EnvStateManager):
        with pytest.raises(ConfigError, match="max_worker"):
            make("FrozenLake" if make == EnvStateManager.for_tag else {}, max_worker=2)
    mine = {"custom_envs": {"Mine": CALM["Calm"]}}
    with EnvStateManager.for_tag("Mine", 3, mine, mode="val") as manager, manager.episode() as episode:
        assert episode.seed == 123
    with EnvStateManager(
        {**mine, "es_manager": {"max_workers": 3}}, tags=["Mine"], use_multiprocessing=False
    ) as manager:
        assert manager.use_multiprocessing is False and manager.config.es_manager.max_workers == 3


def test_an_episode_tells_all_about_itself():
    with EnvStateManager(config(False)) as manager:
        with manager.episode(seed=5, group_id=77) as episode:
            assert (episode.seed, episode.tag.name, episode.cache["group_id"]) == (5, "Calm", 77)
            assert episode.state.startswith("0 steps") and episode.info == {} and not episode.done
            step = episode.step(["a"])
            assert step == (episode.state, episode.reward, False, episode.info, [])
            assert (episode.penalty, episode.score) == (0, episode.reward)
            assert episode.step([]).invalid == ["no action was given."]
            assert episode.penalty == -0.1 and episode.score == episode.reward - 0.1
            assert episode.error is None and episode.images == []
            for _ in range(9):
                episode.step(["a"])
            assert episode.done and episode.success and not episode.truncated
            with pytest.raises(RolloutError, match="is over: begin another one"):
                episode.step(["a"])
        assert episode.is_closed and episode.success
        with manager.episode(seed=5) as episode:
            pass
        with pytest.raises(RolloutError, match="this episode has ended"):
            episode.step(["a"])


def test_what_was_invalid_is_told_with_the_reason():
    with EnvStateManager(config(False, tags=("Lake",))) as manager, manager.episode(seed=5) as episode:
        assert episode.step(["down", "fly"]).invalid == ["'fly' was not executed: it is no action of this environment."]
        assert episode.cache["history"][0]["invalid"] == [
            "'fly' was not executed: it is no action of this environment."
        ]


def test_seeds_of_episodes_without_one_count_on_and_those_of_validation_begin_at_the_first():
    with EnvStateManager(config(False)) as manager:
        seeds = []
        for _ in range(3):
            with manager.episode() as episode:
                seeds.append(episode.seed)
        assert seeds == [10_000, 10_001, 10_002]
        with manager.episode(seed=10_005):
            pass
        manager.reset()
        assert [status["seed"] for status in manager.statuses()] == [10_006, 10_007, 10_008, 10_009], (
            "after the highest"
        )
    with EnvStateManager(config(False), mode="val") as manager, manager.episode() as first, manager.episode() as second:
        assert (first.seed, second.seed) == (123, 124)


def test_some_environments_begin_anew_and_the_others_go_on():
    with EnvStateManager(config(True)) as manager:
        loop = plain(config(True))
        assert manager.reset(seed=0) == loop.reset(0)
        manager.step(go(range(4), "a"))
        loop.step(go(range(4), "a"))
        (cache,) = manager.reset(env_ids=[2], seeds=[50])
        assert cache["env_id"] == 2 and cache["history"][0] == expected("Calm", 50)[0]
        manager.step(go(range(4), "a"))
        loop.step(go(range(4), "a"))
        assert [manager.caches[i] == loop.caches[i] for i in range(4)] == [True, True, False, True]
        assert manager.caches[2]["history"] == expected("Calm", 50, ["a"])


@pytest.mark.parametrize(("given", "message"), [
    ({"env_ids": [4]}, "env_id is 4: expected a whole number from 0 to 3"),
    ({"env_ids": [1, 1]}, "give each environment once"),
    ({"env_ids": []}, "expected a list of numbers"),
    ({"env_ids": 3}, "expected a list of numbers"),
    ({"env_ids": [1], "seeds": [1, 2]}, "expected 1, one for each environment"),
    ({"seeds": [1, 2, 3, "x"]}, "the seed is 'x': expected a whole number"),
    ({"seed": 1, "seeds": [1] * 4}, "seed and seeds were given"),
])  # fmt: skip
def test_mistakes_in_a_reset_are_told_and_nothing_begins(given, message):
    with EnvStateManager(config(False)) as manager:
        manager.reset(seed=1)
        before = manager.statuses()
        with pytest.raises(RolloutError, match=message):
            manager.reset(**given)
        assert manager.statuses() == before


def test_mistakes_in_what_is_asked_for_are_told():
    with EnvStateManager(config(False, tags=("Calm", "Lake"))) as manager:
        for arguments, message in [
            ((), "there are the tags Calm, Lake: say which"),
            (("Calmm",), "there is no tag 'Calmm' in this manager: did you mean 'Calm'"),
            (("Calm", -1), "the seed is -1: expected a whole number"),
            (("Calm", "one"), "the seed is 'one': expected a whole number"),
            (("Calm", 1, "x"), "group_id is 'x'"),
        ]:
            with pytest.raises(RolloutError, match=message):
                manager.episode(*arguments)


# ---- more episodes than environments


def test_an_episode_that_has_not_begun_says_how_to_begin_it():
    with EnvStateManager(config(False)) as manager:
        new = manager.episode(seed=1)
        with pytest.raises(RolloutError, match=r"has not begun, so it has no step: use `with manager.episode\(...\)"):
            new.step(["a"])
        assert not hasattr(new, "_ipython_display_"), "only public names are an episode's"


def test_more_episodes_than_environments_wait_or_are_refused_with_the_numbers():
    in_use = "all 1 environments that single episodes of the tag 'Calm' may have are in use"
    refused = pytest.raises(RolloutError, match=rf"{in_use} \(es_manager.episodes.when_full is refuse\)")
    with (
        EnvStateManager(config(False, most=1, episodes={"when_full": "refuse"})) as manager,
        manager.episode(),
        refused,
    ):
        manager.episode().begin()
    with EnvStateManager(config(False, most=1, episodes={"wait_timeout": 0.05})) as manager, manager.episode():
        with pytest.raises(RolloutError, match=rf"{in_use}: waited for 0.05 s"):
            manager.episode().begin()
        with pytest.raises(RolloutError, match=rf"{in_use}: waited for 0.05 s"):
            asyncio.run(manager.episode().begin_async())


ALONE = """
from abreast import EnvStateManager
with EnvStateManager.for_tag("Bandit", concurrency=1, use_multiprocessing=False) as manager, manager.episode():
    manager.episode().begin()
"""


def test_a_thread_that_would_wait_for_itself_is_told_at_once():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=False)
    assert "are in use, all by this thread, which would wait for itself: close one first" in done.stderr


@pytest.mark.parametrize("episodes", [{"when_full": "refuse"}, {"wait_timeout": 0.05}])
def test_those_who_are_refused_do_not_disturb_the_others(episodes):
    with EnvStateManager(config(False, most=1, episodes=episodes)) as manager, manager.episode(seed=3) as episode:
        with pytest.raises(RolloutError, match="are in use"):
            manager.episode().begin()
        episode.step(["a"])
        manager.reset()
        episode.step(["b"])
        assert episode.cache["history"] == expected("Calm", 3, ["a"], ["b"])


def test_many_who_wait_do_not_keep_the_event_loop_busy():
    async def main(manager):
        held = [await manager.episode().begin_async() for _ in range(64)]
        waiting = [asyncio.create_task(manager.episode().begin_async()) for _ in range(1000)]
        await asyncio.sleep(0.1)
        used = time.process_time()
        await asyncio.sleep(1.25)
        used = time.process_time() - used
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for episode in held:
            episode.close()
        return used

    with EnvStateManager(config(False, most=64)) as manager:
        assert asyncio.run(main(manager)) < 0.5
        assert manager.episodes_under_way == 0


def test_a_task_that_is_cancelled_just_as_it_is_served_ends():
    async def main(manager):
        held = await manager.episode().begin_async()
        task = asyncio.create_task(manager.episode().begin_async())
        await asyncio.sleep(0.01)
        held.close()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with EnvStateManager(config(False, most=1)) as manager:
        asyncio.run(main(manager))
        assert manager.episodes_under_way == 0


def test_those_who_wait_are_served_in_their_order():
    with EnvStateManager(config(False, most=1)) as manager:
        order = []

        async def wait(number):
            async with manager.episode():
                order.append(number)

        async def main():
            first = await manager.episode().begin_async()
            tasks = []
            for number in range(5):
                tasks.append(asyncio.create_task(wait(number)))
                await asyncio.sleep(0)
            tasks[2].cancel()
            first.close()
            await asyncio.gather(*tasks, return_exceptions=True)

        asyncio.run(main())
        assert order == [0, 1, 3, 4] and manager.episodes_under_way == 0


def test_closing_the_manager_ends_those_who_wait():
    manager = EnvStateManager(config(False, most=1))
    held = manager.episode().begin()
    told = []

    def wait():
        with pytest.raises(RolloutError, match="the manager is closed") as caught:
            manager.episode().begin()
        told.append(caught)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    assert not told
    manager.close()
    thread.join(20)
    assert len(told) == 1
    with pytest.raises(RolloutError, match="has ended"):
        held.step(["a"])


def test_a_turn_of_a_thread_that_waits_ends_when_the_manager_is_closed():
    manager = EnvStateManager(workers(["Counting"], [2], villain("Counting", seconds=1.0)))
    episode, told = manager.episode().begin(), []

    def step():
        try:
            episode.step(["a"])
        except RolloutError as error:
            told.append(str(error))

    threads = [threading.Thread(target=step)]
    threads[0].start()
    while not manager._turns.pending:
        time.sleep(0.001)
    manager.close()
    threads[0].join(20)
    assert len(told) == 1


def test_threads_that_wait_do_not_wait_for_each_other(monkeypatch):
    """The first thread waits for a slow turn, and handles the answers of all; then another one does."""
    monkeypatch.setattr("abreast.rollouts.episodes.turns.LOOK_S", 3600.0)
    custom = {
        name: {"env_type": "Counting", "env_config": {"seconds": seconds}}
        for name, seconds in {"Slow": 0.6, "Slower": 0.9, "Quick": 0.05}.items()
    }
    ended = []
    with EnvStateManager(workers(["Slow", "Slower", "Quick"], [1, 1, 1], custom, max_workers=3)) as manager:

        def step(tag):
            with manager.episode(tag, seed=1) as episode:
                barrier.wait()
                time.sleep(0.2 if tag == "Quick" else 0.0)
                episode.step(["a"])
                ended.append(tag)

        barrier = threading.Barrier(3)
        threads = [threading.Thread(target=step, args=(tag,), daemon=True) for tag in custom]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert ended == ["Quick", "Slow", "Slower"]


def test_tasks_and_threads_and_a_batch_go_on_side_by_side():
    custom = villain("Counting", seconds=0.02)
    shape = settings(["Counting"], [4], 1, custom, use_multiprocessing=True, max_workers=2)

    async def one(manager, seed):
        async with manager.episode(seed=seed) as episode:
            while not episode.done:
                await episode.step(["a", "b"])
            return episode.cache["history"]

    def of_a_thread(manager, seed):
        with manager.episode(seed=seed) as episode:
            while not episode.done:
                episode.step(["a", "b"])
            found[seed] = episode.cache["history"]

    async def many(manager):
        return await asyncio.gather(*(one(manager, seed) for seed in range(6)))

    found, loop = {}, plain(shape)
    with EnvStateManager(shape) as manager:
        threads = [threading.Thread(target=of_a_thread, args=(manager, seed), daemon=True) for seed in range(6, 12)]
        tasks = threading.Thread(target=lambda: found.update(enumerate(asyncio.run(many(manager)))), daemon=True)
        for thread in (*threads, tasks):
            thread.start()
        assert manager.reset(seed=3) == loop.reset(3)
        kill(*manager.worker_pids)
        outputs = [None]
        while outputs:
            inputs = go([env_id for env_id, is_done in enumerate(loop.done) if not is_done], "a")
            outputs = manager.step(inputs)
            assert outputs == loop.step(inputs)
        for thread in (*threads, tasks):
            thread.join(60)
    alone = plain(settings(["Counting"], [1], 1, custom))
    for seed in range(12):
        alone.reset(seed)
        while alone.step(go([0], "a", "b")):
            pass
        assert found[seed] == alone.caches[0]["history"], seed


# ---- environments come back


class Client:
    """Ends an episode in some abrupt way."""

    def __init__(self, manager, chance):
        self.manager, self.chance = manager, chance

    def raised(self):
        with pytest.raises(ZeroDivisionError), self.manager.episode() as episode:
            episode.step(["a"])
            raise ZeroDivisionError

    def dropped(self):
        episode = self.manager.episode().begin()
        episode.step(["a"])
        del episode

    async def cancelled(self):
        async def forever():
            async with self.manager.episode() as episode:
                while True:
                    await episode.step(["a"])
                    await asyncio.sleep(0)

        task = asyncio.create_task(forever())
        for _ in range(self.chance.randrange(12)):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises((asyncio.CancelledError, RolloutError)):  # ten turns end the episode
            await task

    def idle(self):
        self.kept = self.manager.episode().begin()
        self.manager._pool.used_at[self.kept.env_id] -= 1000.0  # as if it were long ago

    async def end(self):
        how = self.chance.choice([self.raised, self.dropped, self.cancelled, self.idle])
        result = how()
        if result is not None:
            await result


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("use", PLACES)
def test_no_environment_is_lost_however_episodes_end(use):
    chance, threads = random.Random(1), threading.active_count()
    with EnvStateManager(config(use, envs=3, most=3, episodes={"idle_timeout": 600, "wait_timeout": 60})) as manager:

        async def main():
            client = Client(manager, chance)
            for _ in range(ABRUPT // 8):
                await client.end()
            client.kept = None
            await asyncio.gather(*(client.cancelled() for _ in range(ABRUPT // 8)))

        asyncio.run(main())
        gc.collect()
        assert manager.episodes_under_way == 0
        assert play(manager, "Calm", 1) == done("Calm", 1), "and every one can be used"
        assert len(manager.reset(seed=1)) == 3
        pids = manager.worker_pids
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)  # noqa: PTH110
    end = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() <= threads


def test_an_episode_that_cannot_begin_gives_its_environment_back():
    custom = villain("RaisesInReset", harm_seed=1)
    with EnvStateManager(settings(["RaisesInReset"], [1], 1, custom, use_multiprocessing=False)) as manager:
        for _ in range(3):
            with pytest.raises(RolloutError, match="could not begin: ValueError: no room for this seed"):
                manager.episode(seed=1).begin()
        with manager.episode(seed=2) as episode:
            episode.step(["a"])


def test_an_idle_episode_is_told_that_it_has_ended():
    with EnvStateManager(config(False, most=1, episodes={"idle_timeout": 0.05})) as manager:
        idle = manager.episode().begin()
        time.sleep(0.1)
        with manager.episode(seed=4) as episode:
            with pytest.raises(RolloutError, match=r"idle for longer than es_manager.episodes.idle_timeout \(0.05 s\)"):
                idle.step(["a"])
            idle.close()
            assert episode.step(["a"]).state.startswith("1 steps")


def test_an_episode_whose_turn_was_cancelled_can_be_idle():
    async def main(manager):
        idle = await manager.episode().begin_async()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(idle.step(["a"]), 0.05)
        async with manager.episode(seed=4) as episode:
            assert episode.seed == 4
        return idle

    with EnvStateManager(slow("threads", episodes={"idle_timeout": 0.2, "wait_timeout": 20, "max": 1})) as manager:
        assert asyncio.run(main(manager)).is_closed


# ---- several threads


def test_threads_that_begin_the_first_episodes_at_once_start_the_workers_once():
    with EnvStateManager(config(True, envs=6)) as manager:
        found = {}
        threads = [threading.Thread(target=lambda seed=seed: found.update({seed: play(manager, "Calm", seed)}), daemon=True)
                   for seed in range(12)]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert found == {seed: done("Calm", seed) for seed in range(12)}


@pytest.fixture
def beside_a_slow_thread():
    """A manager, whose environments live in threads, while one thread waits for a slow turn of its episode."""
    custom = {**villain("Counting", seconds=2.0), **CALM}
    with EnvStateManager(settings(["Counting", "Calm"], [2, 12], 1, custom, use_multiprocessing="threads")) as manager:
        episode = manager.episode("Counting").begin()
        thread = threading.Thread(target=lambda: episode.step(["a"]))
        thread.start()
        while not manager._turns.pending:
            time.sleep(0.001)
        yield manager
        thread.join()


def test_episodes_and_recv_go_on_while_another_thread_waits_for_a_slow_turn(beside_a_slow_thread):
    """Each that waited for it, or for a look of its own, would take half a second."""
    manager, started = beside_a_slow_thread, time.monotonic()
    for _ in range(5):
        with manager.episode("Calm") as episode:
            episode.step(["a"])
    manager.reset(env_ids=range(5, 13))
    for turn in range(32):
        manager.send(go([5 + turn % 8], "a"))
        assert manager.recv()
    assert time.monotonic() - started < 2.0


def test_recv_does_not_wait_for_turns_that_another_thread_has_ended():
    with EnvStateManager(slow("threads", envs=2)) as manager:
        manager.reset()
        manager.send(go([0], "a"))
        received = []
        thread = threading.Thread(target=lambda: received.append(manager.recv()), daemon=True)
        thread.start()
        time.sleep(0.1)
        manager.reset(env_ids=[0])
        thread.join(20)
        assert received == [[]]


# ---- an episode that is closed while its turn is under way


def slow(use, envs=1, **manager):
    custom, manager = villain("Counting", seconds=0.4), {"episodes": {"max": 1}, **manager}
    return settings(["Counting"], [envs], 1, custom, use_multiprocessing=use, max_workers=2, **manager)


@pytest.mark.parametrize(
    "use", [True, "threads", *(pytest.param(use, marks=pytest.mark.chaos) for use in (False, "auto"))]
)
def test_a_turn_that_is_under_way_when_its_episode_is_closed_does_not_reach_the_next_episode(use):
    with EnvStateManager(slow(use)) as manager:
        closed, told = manager.episode(seed=1).begin(), []

        def step():
            try:
                closed.step(["a"])
            except RolloutError as error:
                told.append(str(error))

        thread = threading.Thread(target=step)
        thread.start()
        while not manager._turns.pending:
            time.sleep(0.001)
        time.sleep(0.1)
        closed.close()
        with manager.episode(seed=2) as episode:
            episode.step(["a"])
            thread.join(20)
            episode.step(["a"])
            loop = plain(slow(use))
            loop.reset(2)
            loop.step(go([0], "a"))
            loop.step(go([0], "a"))
            assert episode.cache["history"] == loop.caches[0]["history"]
        assert len(told) == 1 and len(closed.cache["history"]) == 1


@pytest.mark.parametrize("use", [True, "threads"])
def test_a_task_whose_episode_is_closed_does_not_wait_for_ever(use):
    async def main(manager):
        closed = await manager.episode(seed=1).begin_async()
        waiting = asyncio.create_task(closed.step(["a"]))
        await asyncio.sleep(0.1)
        closed.close()
        async with manager.episode(seed=2) as episode:
            await episode.step(["a"])
            with pytest.raises(RolloutError, match="belongs to an episode that was closed"):
                await asyncio.wait_for(waiting, 20)
            assert (await episode.step(["a"])).state.startswith("2 steps")

    with EnvStateManager(slow(use)) as manager:
        asyncio.run(main(manager))


def test_an_episode_does_not_show_the_messages_of_the_next_one():
    with EnvStateManager(config(False, most=1)) as manager:
        with manager.episode(seed=1) as first:
            first.step(["a"])
            messages = first.messages
        with manager.episode(seed=2) as second:
            second.step(["a"])
            assert first.messages == messages != second.messages


@pytest.mark.parametrize("use", [True, "threads"])
def test_a_step_whose_caller_was_cancelled_is_taken_before_the_next(use):
    custom = {"Slow": {"env_type": "Counting", "max_actions_per_traj": 20, "env_config": {"seconds": 0.1}}}

    async def main(manager):
        async with manager.episode(seed=3) as episode:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(episode.step(["a"]), 0.02)
            assert (await episode.step(["b"])).state.startswith("2 steps")
            return episode.cache["history"]

    with EnvStateManager(settings(["Slow"], [2], 1, custom, use_multiprocessing=use, max_workers=2)) as manager:
        assert asyncio.run(main(manager)) == expected("Calm", 3, ["a"], ["b"])


def test_an_episode_that_was_closed_early_is_truncated():
    with EnvStateManager(config(False)) as manager:
        with manager.episode(seed=1) as episode:
            episode.step(["a"])
        assert episode.done and episode.truncated and not episode.slot.terminated and not episode.success


# ---- deaths, and effects that happen once


@pytest.mark.parametrize("use", [True])
def test_an_episode_survives_the_death_of_its_worker(use):
    with EnvStateManager(config(use)) as manager, manager.episode(seed=3) as episode:
        episode.step(["a"])
        kill(*manager.worker_pids)
        episode.step(["b"])
        assert episode.cache["history"] == expected("Calm", 3, ["a"], ["b"])


class Live(Counting):
    """Has effects outside: every reset and step adds a letter to a file. Its answers differ from call to call."""

    replayable = False

    def reset(self, *, seed=None, options=None):
        self.effect("r")
        return super().reset(seed=seed)

    def step(self, action):
        self.effect("s")
        self.total += int.from_bytes(os.urandom(2))
        return super().step(action)

    def effect(self, letter):
        with open(self.config.flag, "a") as file:  # noqa: PTH123
            file.write(letter)


register("Live", config=CountingConfig)(Live)


@pytest.mark.parametrize(
    ("use", "waits"),
    itertools.product(PLACES, [0.0, 0.004])
    if CHAOS
    else [(False, 0.004), (True, 0.0), ("threads", 0.0), ("auto", 0.004)],
)
def test_effects_happen_once_wherever_environments_live_and_whenever_they_move(use, waits, tmp_path):
    effects = tmp_path / "effects"
    custom = {
        "Live": {"env_type": "Live", "max_actions_per_traj": 4, "env_config": {"flag": str(effects), "seconds": waits}}
    }
    with EnvStateManager(settings(["Live"], [4], 1, custom, use_multiprocessing=use, max_workers=2)) as manager:
        for number in range(3):
            outputs = manager.reset()
            while outputs:
                outputs = manager.step(go([cache["env_id"] for cache in outputs], "a"))
                manager.use_multiprocessing = PLACES[number] if number else use

        async def episode():
            async with manager.episode() as each:
                while not each.done:
                    await each.step(["a"])

        async def several():
            await asyncio.gather(*(episode() for _ in range(6)))

        asyncio.run(several())
        assert not any("error" in cache["history"][-2]["info"] for cache in manager.caches)
    written = effects.read_text()
    assert (written.count("r"), written.count("s")) == (18, 72)


def test_an_environment_that_cannot_be_replayed_ends_with_that_reason_after_a_death(tmp_path):
    effects = tmp_path / "effects"
    custom = {**CALM, "Live": {"env_type": "Live", "max_actions_per_traj": 20, "env_config": {"flag": str(effects)}}}
    with EnvStateManager(workers(["Calm", "Live"], [2, 2], custom)) as manager:
        manager.reset(seed=1)
        manager.step(go(range(4), "a"))
        kill(*manager.worker_pids)
        assert [cache["env_id"] for cache in manager.step(go(range(4), "a"))] == [0, 1]
        for cache in manager.caches[2:]:
            assert "cannot be replayed (replayable = False)" in cache["history"][1]["info"]["error"]
        written = effects.read_text()
        assert (written.count("r"), written.count("s")) == (2, 2), "nothing was begun again"
        assert len(manager.reset(seed=1)) == 4


class BelongsToItsThread(Live):
    """Keeps an SQLite connection, which must be used in the thread that has made it, and says so."""

    thread_bound = True

    def __init__(self, config):
        super().__init__(config)
        self.database = sqlite3.connect(":memory:")

    def step(self, action):
        self.database.execute("select 1")
        return super().step(action)


register("BelongsToItsThread", config=CountingConfig)(BelongsToItsThread)


@pytest.mark.parametrize("use", PLACES)
def test_an_environment_that_says_that_it_belongs_to_its_thread_is_not_harmed(use, tmp_path):
    effects = tmp_path / "effects"
    settings_of = {"flag": str(effects), "seconds": 0.03}
    custom = {"Bound": {"env_type": "BelongsToItsThread", "max_actions_per_traj": 3, "env_config": settings_of}}
    with EnvStateManager(settings(["Bound"], [4], 1, custom, use_multiprocessing=use, max_workers=2)) as manager:
        for _ in range(3):
            outputs = manager.reset()
            while outputs:
                outputs = manager.step(go([cache["env_id"] for cache in outputs], "a"))
            assert not any("error" in cache["history"][-2]["info"] for cache in manager.caches)
        if use == "auto":
            assert {env.worker for env in manager.envs} == {2, 3, 4, 5}, "made in their threads, with the next reset"
    written = effects.read_text()
    assert (written.count("r"), written.count("s")) == (12, 36)


def test_an_environment_that_belongs_to_its_thread_is_made_anew_for_another(tmp_path):
    settings_of = {"flag": str(tmp_path / "effects")}
    custom = {"Bound": {"env_type": "BelongsToItsThread", "max_actions_per_traj": 3, "env_config": settings_of}}
    shape = settings(["Bound"], [1], 1, custom, use_multiprocessing=False, episodes={"max": 1})
    with EnvStateManager(shape) as manager:

        def episode():
            with manager.episode() as each:
                return each.step(["a"])

        with ThreadPoolExecutor(1) as pool:
            steps = [episode(), pool.submit(episode).result(), episode()]
        assert not any("error" in step.info for step in steps)


class SaysSoItself(Live):
    """An instance says that it cannot be replayed, its class does not."""

    replayable = True

    def __init__(self, config):
        super().__init__(config)
        self.replayable = False

    def step(self, action):
        if action == "exit":
            self.effect("x")
            raise Replaced  # ends its thread
        return super().step(action)


class Inside(gymnasium.Wrapper):
    """An environment within a wrapper of Gymnasium, which does not pass such a question on."""

    def __init__(self, config):
        super().__init__(SaysSoItself(config))


register("SaysSoItself", config=CountingConfig)(SaysSoItself)
register("Inside", config=CountingConfig)(Inside)


@pytest.mark.parametrize(("name", "before"), [("SaysSoItself", 2), ("Inside", 0)])
def test_an_instance_that_cannot_be_replayed_is_not_even_in_its_first_turn(name, before, tmp_path):
    effects = tmp_path / "effects"
    custom = {"Live": {"env_type": name, "max_actions_per_traj": 9, "env_config": {"flag": str(effects)}}}
    with EnvStateManager(settings(["Live"], [1], 1, custom, use_multiprocessing="threads")) as manager:
        manager.reset()
        for _ in range(before):
            manager.step(go([0], "a"))
        assert manager.step(go([0], "exit")) == []
        assert "cannot be replayed" in manager.caches[0]["history"][-2]["info"]["error"]
    assert effects.read_text() == "r" + "s" * before + "x"


def test_what_cannot_be_replayed_cannot_be_verified():
    with pytest.raises(RolloutError, match="verify takes every turn twice, but environments of the tag Live"):
        EnvStateManager(workers(["Live"], [2], {"Live": {"env_type": "Live"}}), verify=True)
