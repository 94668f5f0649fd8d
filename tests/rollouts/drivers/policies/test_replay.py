"""Recorded answers, given again."""

import json

import pytest

import varied_env  # noqa: F401 (registers it)
from abreast.errors import RolloutError, RunFolderError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers.lines import encode, line_of
from abreast.rollouts.drivers.play import Order, orders_of, play_episodes
from abreast.rollouts.drivers.policies.base import Answer, Policy, Tokens, Unanswered
from abreast.rollouts.drivers.policies.local import RandomPolicy
from abreast.rollouts.drivers.policies.replay import ReplayPolicy
from rollout_helpers import settings


def roll(policy, tag="FrozenLake", orders=None, **env):
    custom = {tag: {"env_type": "frozen_lake", "env_config": env}} if env else {}
    ended = []
    with EnvStateManager(settings([tag], [4], custom=custom, use_multiprocessing=False)) as manager:
        play_episodes(manager, policy, ended.append, orders or orders_of(manager, 12))
    return [line_of(each, str) for each in sorted(ended, key=lambda each: each.number)]


def write(path, lines):
    path.write_bytes(b"".join(encode(line) for line in lines))
    return path


class Talks(Policy):
    """Says all kinds of things, and sometimes nothing."""

    async def __call__(self, asked):
        if asked.number == 5 and asked.turn == 2:
            raise Unanswered("the server is gone.")
        said = [
            "<answer>Left || Sideways</answer>",
            "what?",
            "<think>x</think><answer>Down</answer>",
            ["Right", "Nowhere"],
        ]
        return Answer(said[(asked.number + asked.turn) % 4], Tokens(3, 2))


@pytest.mark.parametrize("policy", [Talks(), RandomPolicy(3)])
def test_the_same_answers_give_the_same_results_byte_for_byte(policy, tmp_path):
    recorded = roll(policy)
    replay = ReplayPolicy(write(tmp_path / "trajectories.jsonl", recorded))
    again = roll(replay)
    assert [{**line, "tokens": None} for line in again] == [{**line, "tokens": None} for line in recorded]
    assert replay.differences == {}
    assert again[0]["tokens"] == {"prompt": 0, "completion": 0}  # no server was asked


def test_a_difference_is_told_with_its_turn(tmp_path):
    path = write(tmp_path / "trajectories.jsonl", roll(RandomPolicy(3)))
    replay = ReplayPolicy(tmp_path)  # the folder will do
    roll(replay, p=0.5)
    assert len(replay.differences) == 12
    assert replay.differences[0].startswith("episode 0 differs in turn 0: state is '")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    was, lines[3]["history"][0]["reward"] = lines[3]["history"][0]["reward"], 17.5
    lines[4]["penalty"] = -1
    replay = ReplayPolicy(write(path, lines))
    roll(replay)
    assert replay.differences == {
        3: f"episode 3 differs in turn 0: reward is {was}, recorded was 17.5.",
        4: "episode 4 differs: penalty is 0, recorded was -1.",
    }


def test_an_episode_that_goes_on_where_the_record_ends_differs(tmp_path):
    lines = roll(RandomPolicy(3), tag="varied")
    long = next(line for line in lines if len(line["answers"]) > 2)
    long["answers"], long["history"] = long["answers"][:1], long["history"][:2]
    replay = ReplayPolicy(write(tmp_path / "trajectories.jsonl", [long]))
    roll(replay, tag="varied", orders=[Order(long["episode"], "varied", long["seed"], 0)])
    assert list(replay.differences) == [long["episode"]]


def test_a_file_that_holds_nothing(tmp_path):
    with pytest.raises(RunFolderError, match=r"none is no run of `abreast rollout`: there is no .*none"):
        ReplayPolicy(tmp_path / "none")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(RolloutError, match=r"empty\.jsonl holds no episode that could be played again"):
        ReplayPolicy(tmp_path / "empty.jsonl")
