"""`abreast timeline RUN`, and the timelines that `abreast rollout` leaves."""

import asyncio
from pathlib import Path

import pytest

from abreast.cli import run
from abreast.processes.timeline import Timeline
from abreast.rollouts import EnvStateManager
from abreast.rollouts.drivers.play import Order, play_episodes
from abreast.rollouts.drivers.policies.base import Answer, Policy
from trace_events import checked, totals


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_rollout_leaves_a_timeline_which_is_shown(capsys):
    assert run(["rollout", "FrozenLake", "--episodes", "20", "--output", "run"]) == 0
    found = checked(Path("run/timeline.json"))
    assert (
        totals(found, "main process")["record"]["count"] == 20 and totals(found, "main process")["turn"]["is_sampled"]
    )
    capsys.readouterr()
    assert run(["timeline", "run"]) == 0 and run(["timeline", "run/timeline.json"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert "█ works  · waits  R is restarted" in lines[0] and lines[2].split()[:2] == ["main", "process"]
    assert "█" * 40 in lines[2] and "record" in lines[3] and lines[4].startswith("Advice: the main process works")


def test_a_rollout_without_a_timeline_says_so(capsys):
    assert run(["rollout", "Bandit", "es_manager.timeline=false", "--episodes", "2", "--output", "run"]) == 0
    assert not Path("run/timeline.json").exists()
    capsys.readouterr()
    assert run(["timeline", "run"]) == 2
    err = capsys.readouterr().err
    assert "run has no timeline: it has no timeline.json;" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "text", ['{"traceEvents": [{"ph": "X"', "[]", "{}", '{"abreast": {"processes": [3]}}', "\x00", ""]
)
def test_a_file_that_is_no_timeline_is_named(text, capsys):
    Path("timeline.json").write_text(text)
    assert run(["timeline", "."]) == 2
    err = capsys.readouterr().err
    assert "timeline.json is cut off, or no timeline of a run" in err and err.count("\n") == 1


class Slow(Policy):
    """Answers after 2 ms."""

    async def __call__(self, asked):
        await asyncio.sleep(0.002)
        return Answer("Up")


def test_calls_of_a_model_overlap_and_the_main_process_waits_for_them():
    with Timeline(Path("timeline.json"), "main process"), EnvStateManager.for_tag("FrozenLake") as manager:
        manager.use_multiprocessing = True
        play_episodes(manager, Slow(), lambda played: None, [Order(each, "FrozenLake", each, 0) for each in range(4)])
    found = checked(Path("timeline.json"))
    main = totals(found, "main process")
    assert main["model"]["is_async"] and main["model"]["seconds"] >= 0.002 * main["model"]["count"] > 0
    assert main["wait for calls"]["is_wait"] and main["wait for calls"]["seconds"] > 0
    workers = [each for each in found["abreast"]["processes"] if each["name"].startswith("rollout worker")]
    assert workers and sum(each["totals"]["turn"]["count"] for each in workers if "turn" in each["totals"]) > 0
