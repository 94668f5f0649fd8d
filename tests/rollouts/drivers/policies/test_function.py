"""Policies that are functions of the user's own."""

import asyncio
import threading
from pathlib import Path

import pytest

import varied_env  # noqa: F401 (registers it)
from abreast.errors import RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers import play
from abreast.rollouts.drivers.play import orders_of, play_episodes
from abreast.rollouts.drivers.policies.function import FunctionPolicy
from rollout_helpers import settings
from varied_env import length, shown

NAMES = iter(f"own_policy_{number}" for number in range(1000))


def make(source, function="play"):
    """The policy that a file in the current folder holds."""
    name = next(NAMES)
    Path(f"{name}.py").write_text(source)
    return FunctionPolicy(f"{name}.py:{function}")


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def roll(policy, episodes=20, envs=4):
    ended = []
    with EnvStateManager(settings(["varied"], [envs], use_multiprocessing=False)) as manager:
        play_episodes(manager, policy, ended.append, orders_of(manager, episodes))
    return ended


WORKING = {
    "texts": "def play(messages):\n    return '<answer>' + 'Go'.lower() + '</answer>'",
    "actions": "def play(cache, tag):\n    assert tag == 'varied' and cache['history']\n    return ['Go']",
    "all of it": "def play(*, messages, cache, tag, seed, number):\n    assert seed == 10_000 + number\n    return ('Go',)",
    "async": "import asyncio\nasync def play(messages):\n    await asyncio.sleep(0)\n    return '<answer>Go</answer>'",
    "a batch": "def play(batch):\n    return ['<answer>Go</answer>' if asked.messages else '' for asked in batch]",
    "an async batch": "async def play(batch):\n    return [['Go'] for asked in batch]",
    "a class": "class play:\n    def __init__(self):\n        self.model = 'Go'\n    def __call__(self, messages, more=3):\n"
    "        return [self.model]",
    "an async class": "class play:\n    async def __call__(self, messages):\n        return ['Go']",
}


@pytest.mark.parametrize("source", WORKING.values(), ids=WORKING)
def test_a_function_plays(source):
    ended = roll(make(source))
    assert sorted(each.number for each in ended) == list(range(20))
    assert all(each.error is None and each.tally.reward == length(each.seed) for each in ended)


def test_a_batch_is_all_that_waits_and_every_answer_reaches_its_own_episode():
    policy = make(
        "sizes = []\ndef play(batch):\n    sizes.append(len(batch))\n"
        "    return [f'<think>{asked.number} {asked.turn}</think><answer>Go</answer>' for asked in batch]"
    )
    ended = roll(policy, episodes=40, envs=8)
    for each in ended:
        told = [f"<think>{each.number} {turn}</think><answer>Go</answer>" for turn in range(length(each.seed))]
        assert each.answers == told
    sizes = policy._function.__globals__["sizes"]
    assert sum(sizes) == sum(length(each.seed) for each in ended) and max(sizes) == 8


def test_a_function_that_is_not_async_runs_in_one_thread_that_is_not_the_event_loops():
    policy = make(
        "import threading\nseen = set()\ndef play(messages):\n    seen.add(threading.get_ident())\n    return ['Go']"
    )
    roll(policy)
    seen = policy._function.__globals__["seen"]
    assert len(seen) == 1 and threading.get_ident() not in seen


def test_a_function_that_raises_ends_that_episode_with_the_reason_and_the_others_go_on():
    source = "def play(messages, seed):\n    if seed % 5 == 2:\n        raise KeyError('lost')\n    return ['Go']"
    ended = roll(make(source))
    assert sorted(each.number for each in ended) == list(range(20))
    failed = [each for each in ended if each.error]
    assert {each.seed % 5 for each in failed} == {2} and len(failed) == 4 and all(each.is_unanswered for each in failed)
    assert failed[0].error.startswith("the policy own_policy_") and failed[0].error.endswith("line 3).")
    assert "raised KeyError: 'lost' (own_policy_" in failed[0].error


@pytest.mark.parametrize("kind", ["def play(batch)", "async def play(batch)", "async def play(messages)"])
def test_a_function_that_always_raises_stops_the_rollout(kind, monkeypatch):
    monkeypatch.setattr(play, "STOP_AFTER", 5)
    with pytest.raises(
        RolloutError, match=r"\d episodes in a row got no answer, .* raised ZeroDivisionError: division by"
    ):
        roll(make(f"{kind}:\n    1 / 0"))


def test_a_function_that_exits_is_like_one_that_raises(monkeypatch):
    monkeypatch.setattr(play, "STOP_AFTER", 1)
    with pytest.raises(RolloutError, match=r"raised RuntimeError: SystemExit\(3\)"):
        roll(make("def play(messages):\n    raise SystemExit(3)"))


@pytest.mark.parametrize(
    "source",
    [
        "async def play(messages):\n    raise asyncio.CancelledError",
        "async def play(batch):\n    raise asyncio.CancelledError",
        "def play(messages):\n    raise asyncio.CancelledError",
        "def play(messages):\n    raise StopIteration",
    ],
)
def test_errors_that_asyncio_uses_itself_are_errors_of_the_function(source, monkeypatch):
    monkeypatch.setattr(play, "STOP_AFTER", 100)
    ended = roll(make(f"import asyncio\n{source}"), episodes=8)
    assert sorted(each.number for each in ended) == list(range(8))
    assert all(each.is_unanswered and " raised " in each.error for each in ended)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def play(messages):\n    return 3", "returned 3: expected a text, or a list of actions that are texts"),
        ("def play(messages):\n    return ['Go', 1]", r"returned \['Go', 1\]: expected a text, or a list"),
        ("def play(messages):\n    pass", "returned None: expected a text"),
        ("def play(batch):\n    return 'Go'", r"returned 'Go' for a batch of \d: expected a list of \d texts"),
        (
            "def play(batch):\n    return ['Go'] * 9",
            r"returned 9 answers for a batch of \d: expected a list of \d texts",
        ),
        ("def play(batch):\n    return [None for _ in batch]", "returned None: expected a text"),
    ],
)
def test_a_function_that_returns_something_else_stops_the_rollout(source, told):
    with pytest.raises(RolloutError, match=f"the policy own_policy_.*play {told}"):
        roll(make(source))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def play(text): pass", "takes text: expected parameters named messages, cache, tag, seed, number, or batch"),
        ("def play(messages, text): pass", "takes messages, text: expected parameters"),
        ("def play(): pass", "takes nothing that is known: expected"),
        ("def play(batch, messages): pass", "takes batch, messages: expected"),
        ("play = 3", "is 3: expected a function"),
        ("class play:\n    def __init__(self): raise OSError('no file')", "cannot be made: it raised OSError: no file"),
        ("other = len", "has no 'play'"),
        ("1 / 0", "importing 'own_policy_.*' failed: it raised ZeroDivisionError"),
    ],
)
def test_what_is_no_policy_is_refused_at_once(source, told):
    with pytest.raises(RolloutError, match=told):
        make(source)


def test_a_call_that_never_returns_does_not_keep_a_rollout_that_is_stopped():
    policy = make("import threading\nhold = threading.Event()\ndef play(messages):\n    hold.wait()\n    return ['Go']")
    with EnvStateManager(settings(["varied"], [2], use_multiprocessing=False)) as manager:
        told = play_episodes(manager, policy, lambda played: None, time_limit=0.2)
    assert told == "the time limit of 0.2 s is over"
    policy._function.__globals__["hold"].set()


def test_shown_prompts_are_those_of_the_episode():
    seen = []

    async def note(asked):
        seen.append((asked.seed, asked.turn, shown(asked.messages[-1]["content"])))
        return await FunctionPolicy.__call__(policy, asked)

    policy = make("def play(number): return ['Go']")
    asyncio.run(_play_noted(policy, note))
    assert seen and all((seed, turn) == told[:2] for seed, turn, told in seen)


async def _play_noted(policy, note):
    class Noted(type(policy)):
        async def __call__(self, asked):
            return await note(asked)

    policy.__class__ = Noted
    with EnvStateManager(settings(["varied"], [3], use_multiprocessing=False)) as manager:
        await play.play_episodes_async(manager, policy, lambda played: None)
