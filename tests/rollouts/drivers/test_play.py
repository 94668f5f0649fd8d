"""Playing episodes: every one once, with the seed of its number, whoever plays, wherever, and in whatever order."""

import asyncio

import numpy as np
import pytest

import varied_env  # noqa: F401 (registers it)
from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.lines import line_of
from abreast.rollouts.drivers.play import Order, orders_of, play_episodes, play_episodes_async
from abreast.rollouts.drivers.policies.base import Answer, EndOfInput, Policy
from abreast.rollouts.drivers.policies.make import make_policy
from rollout_helpers import settings, villain
from varied_env import length
from villain_envs import ALL  # noqa: F401 (registers them)


def play(tags, policy="random", episodes=None, slots=None, **more):
    """All episodes that were played, in the order in which they ended."""
    ended = []
    with EnvStateManager(settings(tags, **{"use_multiprocessing": False, **more})) as manager:
        given = PlayConfig(tag=tags[0], policy=policy) if isinstance(policy, str) else None
        chosen = policy if given is None else make_policy(given, manager.tag_of(0), seed=5)
        play_episodes(manager, chosen, ended.append, orders_of(manager, episodes), slots=slots)
        assert manager.episodes_under_way == 0
    return ended


def lines(ended):
    """What is kept of the episodes, by number."""
    return sorted((line_of(each, lambda image: "picture") for each in ended), key=lambda line: line["episode"])


# ---- the loop


def test_every_environment_plays_one_episode():
    ended = play(["Bandit", "FrozenLake"], counts=[2, 3], size=2)
    assert sorted(each.number for each in ended) == list(range(10))
    assert [line["tag"] for line in lines(ended)] == ["Bandit"] * 4 + ["FrozenLake"] * 6
    assert all(each.cache["history"][-1]["actions_left"] >= 0 and each.error is None for each in ended)
    assert all(each.tally.executed == len(each.answers) for each in ended)  # the random policy takes one action a turn


def test_more_episodes_than_environments_count_on_with_their_seeds():
    ended = sorted(play(["Bandit", "varied"], counts=[1, 1], size=2, episodes=10), key=lambda each: each.number)
    assert [each.group_id for each in ended] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert [each.seed for each in ended] == [10_000 + each.group_id for each in ended]
    assert [each.tag.name for each in ended] == ["Bandit", "Bandit", "varied", "varied"] * 2 + ["Bandit", "Bandit"]
    assert [each.cache["group_id"] for each in ended] == [each.group_id for each in ended]


def test_orders_are_those_of_resets():
    with EnvStateManager(settings(["Bandit", "varied"], [2, 1], 2, use_multiprocessing=False)) as manager:
        told = [(order.tag, order.seed) for order in orders_of(manager, 12)]
        begun = []
        for _ in range(2):
            manager.reset()
            begun += [(env.tag.name, env.seed) for env in manager.envs]
        assert told == begun
    with EnvStateManager(settings(["Bandit"], [2], use_multiprocessing=False), mode="val") as manager:
        assert [order.seed for order in orders_of(manager)] == [123, 124]


def test_an_episode_that_is_over_makes_place_for_the_next_at_once():
    """Episode 4 (5 turns) is in its first turn while all the others, one after the other, play beside it."""
    begun, order = asyncio.Event, []

    class Holds(Policy):
        async def start(self):
            self.others = begun()

        async def __call__(self, asked):
            if asked.number == 4:
                await self.others.wait()
            return Answer(["Go"])

        def ended(self, played):
            order.append(played.number)
            if len(order) == 29:
                self.others.set()

    play(["varied"], Holds(), counts=[5], episodes=30)
    assert order[-1] == 4 and sorted(order) == list(range(30))


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_slots_limit_how_many_are_played_at_the_same_time(slots):
    running, most = set(), []

    class Counts(Policy):
        async def __call__(self, asked):
            running.add(asked.number)
            most.append(len(running))
            await asyncio.sleep(0)
            return Answer(["Go"])

        def ended(self, played):
            running.discard(played.number)

    play(["varied"], Counts(), counts=[8], episodes=40, slots=slots)
    assert max(most) == slots


@pytest.mark.parametrize("policy", ["random", "solver"])
def test_what_comes_of_an_episode_does_not_depend_on_the_others_or_on_the_slots(policy):
    one = lines(play(["FrozenLake"], policy, episodes=30, counts=[1]))
    many = lines(play(["FrozenLake"], policy, episodes=30, counts=[16]))
    some = lines(play(["FrozenLake"], policy, episodes=30, counts=[16], slots=5))
    assert one == many == some


@pytest.mark.xdist_group("system")
@pytest.mark.parametrize("use", [True, "threads"])
def test_workers_and_threads_play_the_same_episodes(use):
    here = play(["FrozenLake", "MetaMathQA"], counts=[4, 4], episodes=24)
    there = play(["FrozenLake", "MetaMathQA"], counts=[4, 4], episodes=24, use_multiprocessing=use, max_workers=2)
    assert lines(here) == lines(there)


def test_an_environment_that_cannot_start_ends_and_the_others_go_on():
    custom = villain("RaisesInReset", budget=3, harm_seed=10_001)
    ended = play(["RaisesInReset"], counts=[3], custom=custom)
    bad = next(each for each in ended if each.number == 1)
    assert "could not begin: ValueError: no room for this seed (villain_envs.py, line" in bad.error
    assert bad.tally.executed == 0 and bad.truncated and not bad.is_unanswered
    assert line_of(bad, str)["history"] == [] == line_of(bad, str)["messages"]
    assert [each.error for each in ended if each is not bad] == [None, None]


def test_an_environment_that_fails_on_its_way_says_why():
    custom = villain("RaisesInStep", budget=5, harm_seed=10_001)
    errors = {each.number: each.error for each in play(["RaisesInStep"], counts=[2], custom=custom)}
    assert errors[0] is None
    assert errors[1].startswith("ZeroDivisionError: a villain divides by zero (villain_envs.py, line")


def test_a_policy_that_wants_to_stop_ends_the_rollout_and_what_has_ended_is_kept():
    closed = []

    class Stops(Policy):
        async def __call__(self, asked):
            if asked.number == 7:
                raise EndOfInput
            return Answer(["Go"])

        async def close(self):
            closed.append(True)

    ended = []
    with EnvStateManager(settings(["varied"], [1], use_multiprocessing=False)) as manager:
        told = play_episodes(manager, Stops(), ended.append, orders_of(manager, 100))
        assert manager.episodes_under_way == 0
    assert told == "the input ended" and [each.number for each in ended] == list(range(7)) and closed == [True]


def test_an_error_in_a_policy_stops_the_rollout_and_gives_every_environment_back():
    class Breaks(Policy):
        async def __call__(self, asked):
            if asked.number == 7:
                raise ZeroDivisionError
            return Answer(["Go"])

    with EnvStateManager(settings(["varied"], [4], use_multiprocessing=False)) as manager:
        with pytest.raises(ZeroDivisionError):
            play_episodes(manager, Breaks(), lambda played: None, orders_of(manager, 100))
        assert manager.episodes_under_way == 0


def test_a_policy_that_leaks_a_cancellation_ends_its_episode_with_a_sentence():
    class Leaks(Policy):
        async def __call__(self, asked):
            if asked.number == 7:
                raise asyncio.CancelledError
            return Answer(["Go"])

    with EnvStateManager(settings(["varied"], [4], use_multiprocessing=False)) as manager:
        ended = []
        assert play_episodes(manager, Leaks(), ended.append, orders_of(manager, 20)) is None
        errors = {played.number: played.error for played in ended if played.error is not None}
        assert errors == {7: "the policy raised CancelledError, though nothing was stopped."} and len(ended) == 20
        assert manager.episodes_under_way == 0


def test_an_order_of_another_tag_is_refused():
    with EnvStateManager(settings(["varied"], use_multiprocessing=False)) as manager:
        orders = [Order(0, "varied", 1, 0), Order(1, "varid", 1, 0)]
        with pytest.raises(RolloutError, match="there is no tag 'varid' in this manager: did you mean 'varied'"):
            play_episodes(manager, make_policy(PlayConfig(tag="varied"), manager.tag_of(0)), str, orders)


def test_episodes_can_be_played_from_a_loop_that_runs_already():
    async def run(manager):
        ended = []
        policy = make_policy(PlayConfig(tag="varied"), manager.tag_of(0))
        assert await play_episodes_async(manager, policy, ended.append) is None
        return ended

    with EnvStateManager(settings(["varied"], [5], use_multiprocessing=False)) as manager:
        ended = asyncio.run(run(manager))
    assert {len(each.answers) for each in ended} == {length(each.seed) for each in ended} == {1, 2, 3, 4, 5}


# ---- policies in all environments


@pytest.mark.parametrize("tag", ["SimpleSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"])
def test_the_random_policy_plays_everything_and_never_says_what_is_not_known(tag):
    ended = play([tag], counts=[4])
    assert len(ended) == 4
    assert all(each.tally.invalid == 0 and each.cache["penalty"] == 0 for each in ended)


@pytest.mark.parametrize(
    ("tag", "least"),
    [("SimpleSokoban", 0.8), ("SafeFrozenLake", 1), ("Bandit", 1), ("Countdown", 1), ("WebShop", 0.5)],
)
def test_solvers_play_well(tag, least):
    ended = play([tag], "solver", counts=[8])
    assert np.mean([each.tally.success for each in ended]) >= least


def test_an_unknown_policy_gets_the_nearest_name():
    with pytest.raises(RolloutError, match=r"there is no policy 'randm': did you mean 'random'\?"):
        play(["Bandit"], "randm")
