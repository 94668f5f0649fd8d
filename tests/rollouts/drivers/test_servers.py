"""Rollouts against a real HTTP server that delays, fails, cuts off, streams and disconnects."""

import asyncio
import math
import random
from collections import Counter, deque

import pytest

import varied_env  # noqa: F401 (registers it)
from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers import client, play
from abreast.rollouts.drivers.client import OpenAIPolicy
from abreast.rollouts.drivers.config import ServerConfig
from abreast.rollouts.drivers.play import orders_of, play_episodes
from llm_server import Cut, Drop, LLMServer, Status, Text
from rollout_helpers import settings
from varied_env import length, shown


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client, "FIRST_S", 0.001)


GO = "<think>on</think><answer>Go</answer>"


def roll(server, episodes, envs=8, size=1, **config):
    """All episodes that ended, and the policy that played them."""
    policy = OpenAIPolicy(ServerConfig(base_url=server.url, **config))
    ended = []
    with EnvStateManager(settings(["varied"], [envs // size], size, use_multiprocessing=False)) as manager:
        play_episodes(manager, policy, ended.append, orders_of(manager, episodes))
    return ended, policy


def check_each_once(ended, episodes, size=1):
    """Every episode ended once, with the seed of its number."""
    assert sorted(each.number for each in ended) == list(range(episodes))
    assert all(each.seed == 10_000 + each.number // size and each.group_id == each.number // size for each in ended)
    assert all(each.cache["history"][0]["state"].startswith(f"seed {each.seed}, turn 0") for each in ended)


def check_whole(ended):
    for each in ended:
        assert (each.error, each.tally.success, len(each.answers)) == (None, True, length(each.seed)), each
        assert each.tally.reward == length(each.seed) and each.cache["penalty"] == 0
        assert [entry["llm_raw_response"] for entry in each.cache["history"][:-1]] == each.answers


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_fails_in_every_way_loses_no_episode_and_ends_none_twice(stream):
    rng = random.Random(5)
    done = Counter()

    async def behave(request):
        chance = rng.random()
        if chance < 0.1:
            await asyncio.sleep(0.01 * rng.random())
        failures = [Status(500), Status(429, headers={"Retry-After": "0"}), Status(503), Cut(GO), Drop()]
        if 0.1 <= chance < 0.5:
            return rng.choice(failures)
        done["answers"] += 1
        return Text(GO)

    with LLMServer(behave) as server:
        ended, policy = roll(server, 60, size=2, retries=60, stream=stream)
    check_each_once(ended, 60, size=2)
    check_whole(ended)
    turns = sum(length(each.seed) for each in ended)
    assert done["answers"] == turns  # no turn was answered twice
    assert (
        policy.counts.requests == len(server.requests) == turns + policy.counts.retries and policy.counts.retries > 20
    )
    assert policy.counts.tokens == (10 * turns, 5 * turns) and policy.counts.uncounted == 0
    assert all(each.tokens == (10 * length(each.seed), 5 * length(each.seed)) for each in ended)


def test_an_episode_without_an_answer_ends_once_with_its_reason_and_the_others_go_on():
    def behave(request):
        seed, turn, _ = shown(request.prompt)
        return Status(500, "out of memory") if seed % 7 == 3 and turn == 1 else Text(GO)

    with LLMServer(behave) as server:
        ended, _ = roll(server, 40, retries=2)
    check_each_once(ended, 40)
    unlucky = [each for each in ended if each.seed % 7 == 3 and length(each.seed) > 1]
    assert len(unlucky) > 3
    for each in unlucky:
        assert each.is_unanswered and each.truncated and not each.tally.success and len(each.answers) == 1
        assert each.error == (
            f"{server.url} gave no answer to 3 requests, the last time because it answered with status 500 (out of memory)."
        )
    check_whole([each for each in ended if each not in unlucky])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("in_flight", [64, 16])
def test_at_least_95_percent_of_the_slots_are_in_flight_until_the_work_runs_out(in_flight):
    """The server answers one request at a time, and only while 95 % of the slots wait for an answer.

    A loop with a barrier of any kind would never send enough requests again, and this test would not end.
    """
    episodes, waiting, progress = 100, deque(), {"left": 100, "least": 1.0}

    def release():
        in_use = min(in_flight, progress["left"])
        while waiting and len(waiting) >= math.ceil(0.95 * in_use):
            progress["least"] = min(progress["least"], len(waiting) / in_use)
            prompt, future = waiting.popleft()
            _, turn, turns = shown(prompt)
            progress["left"] -= turn == turns - 1
            in_use = min(in_flight, progress["left"])
            future.set_result(Text(GO))

    async def behave(request):
        future = asyncio.get_running_loop().create_future()
        waiting.append((request.prompt, future))
        release()
        return await future

    with LLMServer(behave) as server:
        ended, policy = roll(server, episodes, envs=64, in_flight=in_flight)
    check_each_once(ended, episodes)
    check_whole(ended)
    assert progress["left"] == 0 and progress["least"] >= 0.95
    assert server.most_in_flight <= in_flight and policy.counts.retries == 0


def test_the_answers_of_one_episode_never_reach_another():
    def behave(request):
        seed, turn, _ = shown(request.prompt)
        return Text(f"<think>{seed} {turn}</think><answer>Go</answer>")

    with LLMServer(behave) as server:
        ended, _ = roll(server, 50)
    for each in ended:
        expected = [f"<think>{each.seed} {turn}</think><answer>Go</answer>" for turn in range(length(each.seed))]
        assert each.answers == expected


def test_an_answer_without_tags_costs_the_penalty_and_the_episode_goes_on():
    with LLMServer(lambda request: Text("I do not know.")) as server:
        ended, _ = roll(server, 5)
    check_each_once(ended, 5)
    assert all(each.error is None and each.cache["penalty"] < 0 and not each.tally.success for each in ended)


def test_a_prompt_that_is_too_long_ends_its_episode():
    def behave(request):
        _, turn, _ = shown(request.prompt)
        message = "This model's maximum context length is 8 tokens, however you requested 9."
        return Status(400, message) if turn == 2 else Text(GO)

    with LLMServer(behave) as server:
        ended, policy = roll(server, 10)
    check_each_once(ended, 10)
    assert [each.is_unanswered for each in ended] == [length(each.seed) > 2 for each in ended]
    long = next(each for each in ended if each.is_unanswered)
    assert (
        long.error.startswith("the prompt is too long for the model (This model's maximum") and len(long.answers) == 2
    )
    assert policy.counts.retries == 0


def test_a_server_that_is_gone_for_good_stops_the_rollout_with_what_has_ended_kept(monkeypatch):
    monkeypatch.setattr(play, "STOP_AFTER", 3)
    ended = []
    with LLMServer(lambda request: Text(GO) if request.number < 30 else Drop()) as server:
        policy = OpenAIPolicy(ServerConfig(base_url=server.url, retries=1))
        with (
            EnvStateManager(settings(["varied"], [4], use_multiprocessing=False)) as manager,
            pytest.raises(RolloutError, match=r"\d episodes in a row got no answer, the last because of: http"),
        ):
            play_episodes(manager, policy, ended.append, orders_of(manager, 100))
    assert len({each.number for each in ended}) == len(ended) < 30
    assert 3 <= sum(each.is_unanswered for each in ended) <= 6  # tasks that fail at the same moment are all kept
    check_whole([each for each in ended if not each.is_unanswered])


def test_a_time_limit_stops_the_rollout():
    async def behave(request):
        return Text(GO) if request.number < 5 else await asyncio.get_running_loop().create_future()

    with LLMServer(behave) as server:
        policy = OpenAIPolicy(ServerConfig(base_url=server.url))
        with EnvStateManager(settings(["varied"], [4], use_multiprocessing=False)) as manager:
            assert (
                play_episodes(manager, policy, lambda played: None, time_limit=0.5) == "the time limit of 0.5 s is over"
            )
