"""`abreast rollout` with language models and other policies, `--resume`, and `abreast trajectories`."""

import asyncio
import importlib
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import yaml

import varied_env  # noqa: F401 (registers it)
from abreast.cli import run
from abreast.rollouts.check import checks
from abreast.rollouts.drivers import client
from abreast.rollouts.vector import make_vec
from guard import running
from llm_server import Drop, LLMServer, Status, Text
from varied_env import length, shown

HERE = "es_manager.use_multiprocessing=false"
GO = "<think>on</think><answer>Go</answer>"
TESTS = str(Path(__file__).parent)
INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # the shell ignores it behind &
)
COMMAND = [sys.executable, "-c", f"{INTERRUPTIBLE}; import varied_env; from abreast.cli import main; main()"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(client, "FIRST_S", 0.001)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]))


def lines(folder="run"):
    return [json.loads(line) for line in Path(folder, "trajectories.jsonl").read_text().splitlines()]


def rollout(server, *more, output=("--output", "run")):
    return run(["rollout", "varied", HERE, "--policy", "openai", "--base-url", server.url, *output, *more])


def figures(printed):
    """What the table of results says."""
    rows = (line.rsplit(maxsplit=1) for line in printed.splitlines() if line.startswith(" ") and len(line.split()) > 1)
    return {name.strip(): value for name, value in rows}


def check_each_once(found, episodes, size=1):
    assert sorted(line["episode"] for line in found) == list(range(episodes))
    assert all(line["seed"] == 10_000 + line["episode"] // size == 10_000 + line["group_id"] for line in found)


# ---- a language model


@pytest.mark.parametrize("more", [[], ["--stream"]])
def test_a_model_behind_a_server_plays(more, capsys):
    with LLMServer(lambda request: Text(GO, usage=(1000, 500)) if request.number % 3 else Status(500)) as server:
        arguments = [
            "--episodes",
            "12",
            "--group-size",
            "2",
            "--price-in",
            "2",
            "--price-out",
            "10",
            "sampling.top_p=0.5",
        ]
        assert rollout(server, *arguments, *more) == 0
    check_each_once(lines(), 12, size=2)
    assert all(line["success"] and line["answers"] == [GO] * length(line["seed"]) for line in lines())
    turns = sum(len(line["answers"]) for line in lines())
    told = figures(capsys.readouterr().out)
    assert told["episodes"] == "12" and told["success"] == "100.0%"
    assert told["requests"] == str(len(server.requests)) == str(turns + int(told["requests sent again"]))
    assert (told["prompt tokens"], told["answer tokens"]) == (f"{1000 * turns:,}", f"{500 * turns:,}")
    names = [f"{what} latency {share} " for what in ("environment", "request") for share in ("p50", "p95")]
    assert [each for each in names if not any(name.startswith(each) for name in told)] == []
    assert told["cost"] == f"{turns * (1000 * 2 + 500 * 10) / 1e6:.4f}"
    sent = server.requests[0].body
    assert sent["top_p"] == 0.5 and sent["model"] == "tiny" and sent.get("stream", False) == bool(more)


def test_max_tokens_of_the_tag_are_sent_unless_others_are_given():
    Path("mine.yaml").write_text("custom_envs: {varied: {env_type: varied, max_tokens: 77}}")
    with LLMServer(lambda request: Text(GO)) as server:
        assert rollout(server, "--episodes", "1", "--config", "mine.yaml") == 0
        assert rollout(server, "--episodes", "1", "--config", "mine.yaml", "sampling.max_tokens=5", output=()) == 0
    assert (server.requests[0].body["max_tokens"], server.requests[-1].body["max_tokens"]) == (77, 5)


def test_only_one_limit_of_tokens_is_sent_and_none_under_the_preset_of_ragen():
    Path("mine.yaml").write_text("custom_envs: {varied: {env_type: varied, max_tokens: 77}}")
    with LLMServer(lambda request: Text(GO)) as server:
        arguments = ["--episodes", "1", "--config", "mine.yaml"]
        assert rollout(server, *arguments, "sampling.max_completion_tokens=5") == 0
        assert rollout(server, *arguments, "custom_envs.varied.preset=ragen", output=("--output", "two")) == 0
    first, last = server.requests[0].body, server.requests[-1].body
    assert first["max_completion_tokens"] == 5 and "max_tokens" not in first
    assert "max_tokens" not in last and "77 words" in last["messages"][1]["content"]
    assert last["messages"][-1] == {"role": "assistant", "content": "<think>"}
    played = yaml.safe_load(Path("two/config.yaml").read_text())["custom_envs"]["varied"]["context"]
    assert played["answer_format"] == "blocks" and played["max_words"] == 77  # as it was played, for a resume


def test_answers_that_are_cut_off_or_call_tools_are_counted_recorded_and_shown(capsys):
    def behave(request):
        called = [{"function": {"name": "jump", "arguments": "{}"}}]
        cut = Text("<think>so", finish_reason="length")
        return {0: cut, 1: Text("", delta={"tool_calls": called})}.get(request.number) or Text(GO)

    with LLMServer(behave) as server:
        assert rollout(server, "--episodes", "3", "--slots", "1") == 0
    told, first = figures(capsys.readouterr().out), next(line for line in lines() if len(line["answers"]) > 2)
    assert told["answers cut off by a limit of tokens"] == told["answers with tool calls"] == "1"
    history = [entry for line in sorted(lines(), key=lambda line: line["episode"]) for entry in line["history"][:-1]]
    assert first["tokens"]["turns"] == [[10, 5]] * len(first["answers"])
    assert history[0]["finish_reason"] == "length" and history[1]["tool_calls"] == ["jump"]
    assert history[2]["finish_reason"] == "stop" and "tool_calls" not in history[2]
    assert any("it called jump, and no tools can be called." in request.prompt for request in server.requests)
    assert run(["trajectories", "run", "--show", str(first["episode"])]) == 0
    shown = capsys.readouterr().out
    assert "finish_reason: length" in shown or "called: jump" in shown
    assert run(["rollout", "--policy", "replay", "run"]) == 0  # both are part of the record
    assert "All 3 episodes came out as recorded." in capsys.readouterr().out
    with LLMServer(lambda request: Text(GO)) as server:
        assert run(["rollout", "--resume", "run", "--episodes", "4", "--base-url", server.url]) == 0
    assert figures(capsys.readouterr().out)["answers with tool calls"] == "1"  # those of the whole run


def test_one_seed_for_all_answers_of_a_group_is_warned_of(capsys):
    with LLMServer(lambda request: Text(GO)) as server:
        assert rollout(server, "--episodes", "2", "--group-size", "2", "sampling.seed=7") == 0
        assert "sampling.seed is 7 in all requests, so the 2 episodes of a group may get the" in capsys.readouterr().err
        assert rollout(server, "--episodes", "2", "sampling.seed=7", output=("--output", "two")) == 0
    assert "sampling.seed" not in capsys.readouterr().err


def test_the_cost_of_a_run_that_goes_on_says_what_it_leaves_out(capsys):
    with LLMServer(lambda request: Text(GO)) as server:
        assert rollout(server, "--episodes", "2", "--price-in", "1") == 0
        assert "cost" in figures(capsys.readouterr().out)
        for more in ([], ["--episodes", "3"]):  # the run was whole each time: nothing was lost
            assert run(["rollout", "--resume", "run", *more]) == 0
            told = capsys.readouterr().out
            assert "cost (at least)" in told and "has lost" not in told and "nan" not in told
            assert ("latency" in told) == bool(more)
        Path("run/trajectories.jsonl").write_text(json.dumps(lines()[0]) + "\n")  # as if stopped after one episode
        assert run(["rollout", "--resume", "run"]) == 0
    assert "tokens of episodes that the stop has lost" in capsys.readouterr().out


def test_escape_sequences_of_a_model_are_not_printed(capsys):
    with LLMServer(lambda request: Text(f"\x1b]0;title\x07{GO}")) as server:
        assert rollout(server, "--episodes", "1") == 0
    assert "\x1b" in lines()[0]["answers"][0]  # it is kept as it is
    assert run(["trajectories", "run", "--show", "0"]) == 0
    shown = capsys.readouterr().out
    assert "]0;title" in shown and "\x1b" not in shown and "\x07" not in shown


def test_the_command_in_the_config_repeats_the_run():
    with LLMServer(lambda request: Text(GO)) as server:
        assert rollout(server, "--episodes", "4", "--stream", "--in-flight", "3", "sampling.stop=[a b, c]") == 0
        again = shlex.split(Path("run/config.yaml").read_text().splitlines()[0].removeprefix("# abreast"))
        assert run([*again, "--output", "two"]) == 0
    assert lines("run") == lines("two") and server.requests[-1].body["stop"] == ["a b", "c"]


MISTAKES = [
    (
        ["--policy", "openai"],
        "the policy openai needs a server: give its address, say --base-url http://localhost:8000/v1.",
    ),
    (["--policy", "openai", "--base-url", "localhost"], "server: base_url is 'localhost': expected an address such as"),
    (["--policy", "openai", "--base-url", "http://127.0.0.1:1/v1"], "no server answers at http://127.0.0.1:1/v1 ("),
    (
        ["--policy", "openai", "--base-url", "URL", "--api-key-env", "NO_SUCH_KEY"],
        "NO_SUCH_KEY (--api-key-env) is not set",
    ),
    (
        ["--policy", "openai", "--base-url", "URL", "--in-flight", "0"],
        "server.in_flight is 0: expected greater",
    ),
    (
        ["--policy", "openai", "--base-url", "URL", "sampling.n=2"],
        "sampling has n: that is set by abreast, leave it out.",
    ),
    (["--policy", "openai", "--base-url", "URL", "--model", "big"], "has no model 'big': give --model one of tiny."),
    (["--policy", "no_such_players:play"], "there is no module 'no_such_players'"),
    (["--policy", "mine.py:play"], "there is no file mine.py."),
    (["--policy", "replay"], "varied is no run of `abreast rollout`: there is no varied."),
    (["--policy", "replay", "none"], "none is no run of `abreast rollout`: there is no none."),
    (["--policy", "varied_env.py"], "there is no file varied_env.py."),
    (["--policy", "openia"], "there is no policy 'openia': did you mean 'openai'?"),
    (
        ["--resume", "none"],
        "--resume goes on with what the run was begun with: leave out TAG_OR_ENV, --output, es_manager",
    ),
    (["--retry-failed"], "--retry-failed is for runs that are resumed: give --resume RUN too."),
    (["--slots", "0"], "slots is 0: expected greater than or equal to 1."),
    (["--time-limit", "0"], "time_limit is 0.0: expected greater than 0."),
]


@pytest.mark.parametrize(("arguments", "told"), MISTAKES, ids=[" ".join(each) for each, _ in MISTAKES])
def test_a_mistake_gets_one_sentence_and_leaves_nothing_behind(arguments, told, capsys):
    with LLMServer(lambda request: Status(404, "no such model")) as server:
        given = [server.url if each == "URL" else each for each in arguments]
        assert run(["rollout", "varied", HERE, "--output", "run", *given]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("abreast: ") and told in printed.err and printed.err.count("\n") == 1
    assert not list(Path().iterdir())


def test_several_tags_are_played_and_their_groups_take_turns(capsys):
    run(["rollout", "varied", "Bandit", HERE, "--episodes", "8", "--group-size", "2", "--output", "run"])
    found = {line["episode"]: (line["tag"], line["seed"], line["group_id"]) for line in lines()}
    assert found == {n: (["varied", "Bandit"][n // 2 % 2], 10_000 + n // 2, n // 2) for n in range(8)}
    told = capsys.readouterr().out
    assert "success, varied" in told and "score, Bandit" in told
    assert run(["rollout", "varied", "varied", HERE]) == 2
    assert "the tags are varied, varied: give each once." in capsys.readouterr().err
    assert run(["rollout", "varied", "Bandit", "env.lo=1", HERE]) == 2
    assert "env.lo=1 is for one tag, but 2 are played" in capsys.readouterr().err


def test_without_a_tag_or_a_run(capsys):
    assert run(["rollout"]) == 2 and "Missing argument 'TAG_OR_ENV': name what is played" in capsys.readouterr().err
    assert run(["rollout", "--resume", "none"]) == 2
    assert "none is no run of `abreast rollout` that could be used" in capsys.readouterr().err
    assert run(["rollout", "--resume", "none", "--output", "x"]) == 2
    assert "leave out --output." in capsys.readouterr().err


# ---- resume


def test_a_run_is_gone_on_with_and_no_episode_is_played_twice(capsys):
    asked = Counter()

    def behave(request):
        seed, turn, _ = shown(request.prompt)
        asked[seed, turn] += 1
        return Text(GO)

    with LLMServer(lambda request: Status(401, "gone") if request.number == 20 else Text(GO)) as server:
        assert rollout(server, "--episodes", "20", "--in-flight", "4") == 2
        printed = capsys.readouterr()
        assert "To go on: abreast rollout --resume run" in printed.out and "refuses access (status 401)" in printed.err
        first = lines()
        assert 0 < len(first) < 20
        with Path("run/trajectories.jsonl").open("a") as file:
            file.write('{"episode": 19, "half a li')
    # Another server, as the first may be answering requests of the run that has ended still.
    with LLMServer(behave, port=server.port) as server:
        assert run(["rollout", "--resume", "run", "--in-flight", "8"]) == 0
        printed, answered = capsys.readouterr(), len(server.requests)
        assert run(["rollout", "--resume", "run"]) == 0 and len(server.requests) == answered  # nothing is left to play
        assert "nothing is missing: all 20 episodes are there" in capsys.readouterr().out
    assert "is no episode: it is cut off. It is played again." in printed.err
    check_each_once(lines(), 20)
    assert lines()[: len(first)] == first
    done = {line["seed"] for line in first}
    assert {seed for seed, _ in asked} == set(range(10_000, 10_020)) - done
    told = figures(printed.out)
    assert told["episodes"] == "20" and told["success"] == "100.0%"
    assert told["requests (this session)"] == str(sum(asked.values())) and "requests" not in told
    assert "environment latency p50 (this session)" in printed.out and "turns per second (this session)" in told
    assert "episodes 20/20  success 100%" in printed.err and "turns/s (this session)" in printed.err
    assert told["prompt tokens"] == str(10 * sum(len(line["answers"]) for line in lines()))


def test_more_episodes_can_be_asked_for_later_and_failed_ones_tried_again(capsys):
    def bad(request):
        return Drop() if shown(request.prompt)[0] == 10_001 else Text(GO)

    with LLMServer(bad) as server:
        assert rollout(server, "--episodes", "4", "--retries", "1") == 1
    assert "1 of 4 episodes could not go on; the first: http" in capsys.readouterr().err
    with LLMServer(lambda request: Text(GO)) as server:
        arguments = ["rollout", "--resume", "run", "--base-url", server.url]
        assert run([*arguments, "--episodes", "6"]) == 1 and len(server.requests) == length(10_004) + length(10_005)
        assert run([*arguments, "--retry-failed"]) == 0
    check_each_once(lines(), 6)
    assert all(line["success"] for line in lines())
    assert yaml.safe_load(Path("run/rollout.yaml").read_text())["episodes"] == 6


def test_a_resumed_run_equals_one_that_was_never_stopped():
    arguments = ["rollout", "FrozenLake", HERE, "--episodes", "20", "--group-size", "2"]
    assert run([*arguments, "--output", "whole"]) == 0
    assert run([*arguments, "--output", "run"]) == 0
    path = Path("run/trajectories.jsonl")
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:7]))
    assert run(["rollout", "--resume", "run", "--slots", "3"]) == 0
    assert sorted(lines("run"), key=str) == sorted(lines("whole"), key=str)


@pytest.mark.xdist_group("system")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_killed_is_gone_on_with_and_has_every_episode_once(number, code):
    reached, killed = threading.Event(), threading.Event()

    async def behave(request):
        if request.number >= 30 and not killed.is_set():
            reached.set()
            await asyncio.get_running_loop().create_future()  # held until its client is dead
        return Text(GO)

    with LLMServer(behave) as server:
        arguments = ["rollout", "varied", HERE, "--policy", "openai", "--base-url", server.url, "--output", "run"]
        with running(
            [*COMMAND, *arguments, "--episodes", "40", "--group-size", "2", "--in-flight", "10"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as child:  # fmt: skip
            assert reached.wait(100)
            child.send_signal(number)
            _, err = child.communicate(timeout=60)
        assert child.returncode == code and "Traceback" not in err, err
        killed.set()
        before = Path("run/trajectories.jsonl").read_text().count("\n")
        assert 3 <= before < 40
        assert run(["rollout", "--resume", "run"]) == 0
    check_each_once(lines(), 40, size=2)
    assert all(line["success"] and line["answers"] == [GO] * length(line["seed"]) for line in lines())


def test_a_time_limit_keeps_what_is_finished(capsys):
    async def behave(request):
        return await asyncio.get_running_loop().create_future() if request.number > 5 else Text(GO)

    with LLMServer(behave) as server:
        assert rollout(server, "--time-limit", "1", "--in-flight", "1") == 0
    found = len(lines())
    assert f"Stopped after {found} episodes (the time limit of 1 s is over); these are kept." in capsys.readouterr().out
    assert 0 < found < 6


# ---- other policies


def test_a_function_of_ones_own_plays(capsys):
    Path("my_players.py").write_text(
        "def play(messages):\n    return '<answer>Go</answer>' if 'Go.' in str(messages) else 3\n"
    )
    assert run(["rollout", "varied", HERE, "--policy", "my_players:play", "--episodes", "5", "--output", "run"]) == 0
    assert run(["rollout", "varied", HERE, "--policy", "my_players.py:play", "--episodes", "5", "--output", "two"]) == 0
    one, two = (sorted(lines(folder), key=lambda line: line["episode"]) for folder in ("run", "two"))  # as they ended
    assert one == two and all(line["success"] for line in one)
    Path("my_players.py").write_text("")
    Path("other.py").write_text("def play(cache, seed):\n    return ['Go'] if seed < 10_003 else None\n")
    assert run(["rollout", "varied", HERE, "--policy", "other:play", "--slots", "1", "--output", "three"]) == 2
    assert "the policy other:play returned None: expected a text, or a list of actions" in capsys.readouterr().err
    assert [line["episode"] for line in lines("three")] == [0, 1, 2]  # nothing that was finished is lost


def test_the_log_holds_the_first_traceback_of_each_kind_and_why_requests_are_sent_again(capsys):
    Path("bad.py").write_text("def play(seed):\n    if seed % 2:\n        return 1 / 0\n    raise KeyError(seed)\n")
    assert run(["rollout", "varied", HERE, "--policy", "bad.py:play", "--episodes", "6", "--output", "run"]) == 1
    err, log = capsys.readouterr().err, Path("run/log.txt").read_text()
    assert "6 of 6 episodes could not go on; the first: the policy bad.py:play raised " in err
    assert log.count("Traceback") == 2 and log.count('bad.py", line 3') == 1 and log.count("cannot go on") == 6
    with LLMServer(lambda request: Status(500, "no room") if request.number < 8 else Text(GO)) as server:
        assert rollout(server, "--episodes", "1", "--retries", "9", output=("--output", "two")) == 0
    log = Path("two/log.txt").read_text()
    assert log.count("a request is sent again, because it answered with status 500 (no room)") == 1
    assert "8 requests in all were sent again, because it answered with status 500" in log
    assert yaml.safe_load(Path("two/rollout.yaml").read_text())["server"]["model"] == "tiny"


def test_a_file_without_the_name_of_its_function(capsys):
    Path("mine_too.py").write_text(
        "from math import sin\ndef play(messages): return ''\ndef _hidden(seed): return ''\n"
    )
    assert run(["rollout", "varied", HERE, "--policy", "mine_too.py"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("abreast: the policy mine_too.py is <module")
    assert told.endswith(": expected a function, as in FILE.py:FUNCTION.\n") and told.count("\n") == 1


def test_an_environment_of_gymnasium_is_named_by_its_id(capsys):
    assert run(["rollout", "CartPole-v1", HERE, "--episodes", "2", "--output", "run"]) == 0
    assert [line["tag"] for line in lines()] == ["CartPole-v1"] * 2
    assert run(["trajectories", "run", "--export", "x.jsonl"]) == 0
    assert run(["envs", "CartPole-v1"]) == 0
    printed = capsys.readouterr().out
    assert "env.id" in printed and "Actions available now:\n0\n1\n" in printed
    assert run(["rollout", "CartPol-v1"]) == 2 and "did you mean 'CartPole-v1'?" in capsys.readouterr().err


OWN = """
import gymnasium

class Game(gymnasium.Env):
    render_mode = None
    observation_space = gymnasium.spaces.Text(99, charset=frozenset(map(chr, range(32, 127))))
    action_space = gymnasium.spaces.Text(3)

    def __init__(self, game="x", level: int | str = "auto", name: str | None = None, size=None):
        self.seen = repr((game, level, name, size))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen, {}

    def step(self, action):
        return self.seen, 0.0, False, False, {"success": False, "action_is_valid": True, "action_is_effective": False}
"""


def test_a_tag_is_defined_on_the_command_line_and_texts_stay_texts():
    Path("own_texts.py").write_text(OWN)
    values = {"game": "2048", "level": "3", "name": "1.10", "size": "7"}
    seen = "('2048', 3, '1.10', 7)"
    of_tag = [f"custom_envs.X.env_config.{key}={value}" for key, value in values.items()]
    define = ["custom_envs.X.env_type=own_texts:Game", "custom_envs.X.max_actions_per_traj=3", *of_tag]
    assert run(["rollout", "X", HERE, *define, "--max-turns", "2", "--episodes", "1", "--output", "X"]) == 0
    own = [f"env.{key}={value}" for key, value in values.items()]
    assert (
        run(["rollout", "own_texts.py", HERE, *own, "--max-actions", "1", "--episodes", "1", "--output", "file"]) == 0
    )
    by_tag, by_file = lines("X")[0], lines("file")[0]
    assert [by_tag["tag"], by_file["tag"]] == ["X", "own_texts.py"]
    assert [by_tag["num_actions"], by_file["num_actions"]] == [2, 1]
    assert [line["history"][0]["state"] for line in (by_tag, by_file)] == [seen, seen]
    assert (
        run(["rollout", "own_texts:Game", "env.name=null", "env.game='1'", HERE, "--episodes", "1", "--output", "null"])
        == 0
    )
    assert lines("null")[0]["history"][0]["state"] == "('1', 'auto', None, None)"


def test_a_task_is_told_by_an_option():
    with LLMServer(lambda request: Text(GO)) as server:
        assert rollout(server, "--episodes", "1", "--max-actions", "1", "--instruction", "Go, once.") == 0
        assert run(["rollout", "--resume", "run", "--instruction", "Stop."]) == 2
    assert "Go, once." in server.requests[0].prompt and "Actions left: 1" in server.requests[0].prompt


NAMES = [
    "stranger_envs:Walk",
    "stranger_envs:StrangersWalk-v0",
    "StrangersWalk-v0",
    "own_texts.py",
    "own_texts.py:Game",
    "Bandit",
    "bandit",
    "Mine",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_takes_the_same_names(name, monkeypatch, capsys):
    importlib.import_module("stranger_envs")  # registers StrangersWalk-v0 with Gymnasium, as a package would
    Path("own_texts.py").write_text(OWN)
    Path("mine.yaml").write_text("custom_envs: {Mine: {env_type: bandit, env_config: {hi_probability: 1.0}}}")
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:1])
    given = ["--config", "mine.yaml"] if name == "Mine" else []
    assert run(["rollout", name, HERE, "--episodes", "1", "--output", "run", *given]) == 0
    assert run(["envs", name, *given]) == 0
    capsys.readouterr()
    assert run(["check", name, *given]) == 0
    assert capsys.readouterr().out.startswith("ok       start: ")
    if not given:
        make_vec(name, 1, use_multiprocessing=False).close()


def test_an_environment_is_checked_with_its_settings(monkeypatch, capsys):
    Path("own_needs.py").write_text(OWN.replace("self.seen =", "assert game == '7', game\n        self.seen ="))
    monkeypatch.setattr(checks, "CHECKS", [checks.CHECKS[0], checks.CHECKS[-1]])
    assert run(["check", "own_needs:Game"]) == 2 and "AssertionError: x" in capsys.readouterr().out
    assert run(["check", "own_needs:Game", "env.game=7"]) == 0
    monkeypatch.setattr(checks, "CHECKS", checks.CHECKS[:1])
    assert run(["check", "X", "custom_envs.X.env_type=own_needs.py", "custom_envs.X.env_config.game=7"]) == 0


def test_tools_are_listed_with_the_first_prompt(capsys):
    Path("tools.yaml").write_text("context: {tools: true}")
    assert run(["envs", "WebShop", "--config", "tools.yaml"]) == 0
    told = capsys.readouterr().out
    assert told.count('\n[tool]\n{"name": ') == 2 and '"name": "search"' in told and '"required": ["words"]' in told


def test_an_environment_without_a_task_gets_a_hint_and_its_arguments_are_listed(capsys):
    assert run(["envs", "stranger_envs:Walk"]) == 0
    printed = capsys.readouterr().out
    assert (
        "The prompt says no task: give one by --instruction, as env_instruction" in printed and "env.length" in printed
    )
    assert run(["envs", "FrozenLake"]) == 0 and "no task" not in capsys.readouterr().out


def test_all_faults_of_a_file_are_listed_also_those_of_env_config(capsys):
    tag = "{env_type: frozen_lake, max_actions_per_traj: 0, env_config: {sise: 3}, context: {answers: rough}}"
    Path("faults.yaml").write_text(f"es_manager: {{max_workers: 0}}\ncustom_envs: {{Mine: {tag}}}")
    assert run(["rollout", "Mine", "--config", "faults.yaml"]) == 2
    told = capsys.readouterr().err
    assert "max_workers is 0" in told and "max_actions_per_traj is 0" in told and "sise" in told and "rough" in told
    assert run(["rollout", "Mime", "--config", "faults.yaml"]) == 2
    assert "did you mean 'Mine'?" in capsys.readouterr().err


def test_nothing_typed_shows_the_help_and_no_more(capsys):
    assert run([]) == 2
    printed = capsys.readouterr()
    assert "rollout" in printed.out + printed.err and "shows what there is" not in printed.err


def test_a_person_plays(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Go\nGo\nGo\n"))
    assert run(["rollout", "varied", HERE, "--policy", "human", "--output", "run"]) == 0
    assert [line["episode"] for line in lines()] == [0, 1]
    assert "Stopped after 2 episodes (the input ended); these are kept." in capsys.readouterr().out


@pytest.mark.xdist_group("system")
def test_ctrl_c_ends_a_question_at_once():
    with running(
        [*COMMAND, "rollout", "varied", HERE, "--policy", "human", "--output", "run"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=0,
    ) as child:  # fmt: skip
        seen = ""
        while not seen.endswith("Ctrl-D\n> "):
            letter = child.stdout.read(1)
            assert letter, child.communicate()
            seen += letter
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 130 and "Stopped after 0 episodes (interrupted)" in out and "Traceback" not in err, err


def test_a_run_is_replayed(capsys):
    assert run(["rollout", "FrozenLake", HERE, "env.size=5", "--episodes", "8", "--seed", "3", "--output", "run"]) == 0
    assert run(["rollout", "--policy", "replay", "run", "--output", "two", HERE]) == 0
    assert "All 8 episodes came out as recorded." in capsys.readouterr().out
    assert sorted(lines("run"), key=str) == sorted(lines("two"), key=str)
    assert run(["rollout", "--policy", "replay", "run", "--episodes", "3", "--output", "three"]) == 0
    assert sorted(line["episode"] for line in lines("three")) == [0, 1, 2]
    assert (
        run(["rollout", "FrozenLake", "env.size=4", "--policy", "replay", "run/trajectories.jsonl", "--output", "x"])
        == 1
    )
    err = capsys.readouterr().err
    assert "8 of 8 episodes differ from the record; episode 0 differs in turn 0: state is" in err


def test_the_number_of_slots_changes_no_result():
    for slots in ("1", "7", "64"):
        assert run(["rollout", "FrozenLake", HERE, "--episodes", "20", "--slots", slots, "--output", slots]) == 0
    assert sorted(lines("1"), key=str) == sorted(lines("7"), key=str) == sorted(lines("64"), key=str)


# ---- abreast trajectories


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A run of six episodes; the fourth failed, the fifth had no valid action."""

    def behave(request):
        seed, turn, _ = shown(request.prompt)
        return Status(400, "not this one") if seed == 10_003 and turn == 1 else Text("mumble" if seed == 10_004 else GO)

    folder = tmp_path_factory.mktemp("recorded") / "run"
    with LLMServer(behave) as server:
        assert rollout(server, "--episodes", "6", output=("--output", str(folder))) == 1
    return folder


@pytest.fixture
def recorded(recording, capsys):
    shutil.copytree(recording, "run")
    capsys.readouterr()


def listed(printed):
    """The episodes that a list shows."""
    return [int(line.split()[0]) for line in printed.splitlines()[1:-1]]


@pytest.mark.parametrize(
    ("options", "episodes"),
    [
        ([], [0, 1, 2, 3, 4, 5]),
        (["--success"], [0, 1, 2, 5]),
        (["--failed"], [3, 4]),
        (["--errors"], [3]),
        (["--min-reward", "2"], [1, 2]),
        (["--max-reward", "1", "--success"], [0, 5]),
        (["--seed", "10002"], [2]),
        (["--group", "4"], [4]),
        (["--tag", "varied", "--limit", "2"], [0, 1]),
        (["--contains", "MUMBLE"], [4]),
        (["--sort", "-turns", "--success"], [2, 1, 5, 0]),
    ],
)
def test_trajectories_are_listed_and_filtered(options, episodes, recorded, capsys):
    assert run(["trajectories", "run", *options]) == 0
    printed = capsys.readouterr()
    assert listed(printed.out) == episodes and printed.err == ""


def test_a_list_says_what_came_of_each_episode_and_nothing_is_cut_off(recorded, capsys):
    assert run(["trajectories", "run/trajectories.jsonl"]) == 0
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "episode",
        "tag",
        "seed",
        "group",
        "reward",
        "penalty",
        "score",
        "success",
        "turns",
        "tokens",
        "error",
    ]
    assert rows[1].split() == ["1", "varied", "10001", "1", "2.000", "2.000", "yes", "2", "30"]
    assert (
        rows[3].split()[:8] == ["3", "varied", "10003", "3", "1.000", "1.000", "no", "1"]
        and "status 400: not this one" in rows[3]
    )
    assert rows[4].split()[4:7] == ["0.000", "-1.000", "-1.000"]  # reward, penalty, score
    assert last.startswith("6 of 6 episodes, success 66.7%, reward 1.333, score 1.167")
    assert run(["trajectories", "run", "--tag", "none"]) == 0
    assert capsys.readouterr().out == "0 of 6 episodes\n"


def test_one_is_shown_with_prompts_answers_and_rewards(recorded, capsys):
    assert run(["trajectories", "run", "--show", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("episode 2: varied, seed 10002, group 2\n\n[system]\n")
    assert printed.count(f"[assistant]\n{GO}\n\n[turn ") == 3 and "seed 10002, turn 2 of 3." in printed
    assert "[turn 3] valid actions: Go; reward with penalties: 1\n" in printed
    assert printed.endswith("[end] success, score 3 (reward 3, penalty 0), 3 turns, 3 actions\n")
    assert run(["trajectories", "run", "--show", "3"]) == 0
    assert "[error] http" in capsys.readouterr().out
    assert run(["trajectories", "run", "--show", "77"]) == 2
    assert "there is no episode 77 in run, which holds 6 episodes." in capsys.readouterr().err


def test_bad_lines_are_named_and_the_others_listed(recorded, capsys):
    path = Path("run/trajectories.jsonl")
    kept = path.read_text().splitlines(keepends=True)
    path.write_text("".join([kept[0], "oh\n", *kept[1:5], kept[5][:40]]))
    assert run(["trajectories", "run"]) == 0
    printed = capsys.readouterr()
    assert len(listed(printed.out)) == 5
    assert printed.err.splitlines() == [
        "abreast: line 2 of run/trajectories.jsonl is no episode: it is not valid JSON.",
        "abreast: line 7 of run/trajectories.jsonl is no episode: it is cut off.",
    ]


def test_those_that_are_listed_are_exported(recorded, capsys):
    assert run(["trajectories", "run", "--success", "--export", "good.jsonl"]) == 0
    assert capsys.readouterr().out == "4 rows of 4 episodes were written to good.jsonl\n"
    rows = [json.loads(line) for line in Path("good.jsonl").read_text().splitlines()]
    assert [row["episode"] for row in rows] == [0, 1, 2, 5]
    assert {(row["policy"], row["model"]) for row in rows} == {("openai", "tiny")}  # the model was not given
    assert run(["trajectories", "run", "--success", "--export", "good.jsonl"]) == 0
    assert "good.jsonl (it replaces the file of that name)" in capsys.readouterr().out
    assert run(["trajectories", "run", "--success", "--export", "turns.parquet", "--per-turn"]) == 0
    assert "7 rows of 4 episodes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none"], "none is no run of `abreast rollout`: there is no none."),
        (
            ["run", "--sort", "colour"],
            "cannot sort by 'colour': expected one of episode, reward, score, success, turns, seed",
        ),
        (["run", "--export", "x.csv"], "cannot export to x.csv: expected a name that ends with .jsonl or .parquet."),
        (["run", "--per-turn"], "--per-turn and --tokenizer are for exports: give --export FILE too."),
        (["run", "--export", "x.jsonl", "--tokenizer", "json:loads"], "has no method apply_chat_template"),
        (["run", "--export", "x.jsonl", "--tokenizer", "gpt"], "the tokenizer 'gpt' needs the package transformers"),
    ],
)
def test_mistakes_of_trajectories(arguments, told, recorded, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert run(["trajectories", *arguments]) == 2
    assert told in capsys.readouterr().err and not list(Path().glob("x*"))
