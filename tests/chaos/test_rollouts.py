"""Rollouts that are killed and resumed: the short form of chaos/rollouts.py, and one test for each point of a kill."""

import contextlib
import os
import signal
import time

import pytest

from chaos.rollouts import (
    IN_MAIN,
    NOT_BEGUN,
    PICTURES,
    Starter,
    check_equal,
    check_while_stopped,
    kill_and_resume,
    lines_of,
)

FULL = os.environ.get("ABREAST_CHAOS") == "1"
ARGUMENTS = ["FrozenLake", PICTURES, *IN_MAIN, "--group-size", "2", "--episodes", "6"]
pytestmark = pytest.mark.xdist_group("system")


@pytest.fixture(scope="module")
def starter():
    with Starter() as one:
        yield one


@pytest.fixture(scope="module")
def whole(starter, tmp_path_factory):
    """The folder of a run that was left alone."""
    folder = tmp_path_factory.mktemp("whole")
    assert roll(starter, folder, *ARGUMENTS, "--output", "run") == 0
    return folder / "run"


def roll(starter, folder, *arguments, point=None, times=1):
    """The exit code of a run; if it printed a stack, that is an error."""
    starter.start(list(arguments), folder, point, times)
    code, said = starter.wait()
    assert "Traceback" not in said, said
    return code


@pytest.mark.parametrize(
    ("how", "name", "times"),
    [
        ("after", "rollout.yaml", 1), ("line", "trajectories.jsonl", 4), ("half", ".png", 7),
        *([("after", ".png", 9), ("line", "trajectories.jsonl", 1), ("before", ".png", 1)] if FULL else []),
    ],
)  # fmt: skip
def test_a_run_killed_while_it_writes_is_resumed_and_equals_one_left_alone(starter, whole, tmp_path, how, name, times):
    assert roll(starter, tmp_path, *ARGUMENTS, "--output", "run", point=(how, name), times=times) == -signal.SIGKILL
    check_while_stopped(tmp_path / "run", {})
    assert roll(starter, tmp_path, "--resume", "run") == 0
    check_equal(tmp_path / "run", whole)


@pytest.mark.parametrize("how", ["half", "before", "after"] if FULL else ["half"])
def test_a_run_killed_while_it_is_repaired_is_resumed_once_more(starter, whole, tmp_path, how):
    assert roll(starter, tmp_path, *ARGUMENTS, "--output", "run", point=("line", "jsonl"), times=4) == -signal.SIGKILL
    before = check_while_stopped(tmp_path / "run", {})
    assert len(before) == 3
    assert roll(starter, tmp_path, "--resume", "run", point=(how, "trajectories.jsonl")) == -signal.SIGKILL
    assert check_while_stopped(tmp_path / "run", before) == before
    assert roll(starter, tmp_path, "--resume", "run") == 0
    check_equal(tmp_path / "run", whole)


def test_a_run_killed_before_its_settings_are_whole_is_refused_with_what_to_do(starter, tmp_path):
    arguments = [*ARGUMENTS, "--output", "run"]
    assert roll(starter, tmp_path, *arguments, point=("after", "config.yaml")) == -signal.SIGKILL
    starter.start(["--resume", "run"], tmp_path)
    code, said = starter.wait()
    assert code == 2 and NOT_BEGUN in said and said.count("\n") == 1, said


def test_a_run_killed_before_any_settings_are_written_begins_anew_in_its_folder(starter, whole, tmp_path):
    arguments = [*ARGUMENTS, "--output", "run"]
    assert roll(starter, tmp_path, *arguments, point=("before", "config.yaml")) == -signal.SIGKILL
    assert roll(starter, tmp_path, *arguments) == 0
    check_equal(tmp_path / "run", whole)


@pytest.mark.chaos
def test_kills_at_random_moments_lose_and_repeat_nothing(tmp_path):
    kill_and_resume(tmp_path / "runs", seed=12, kills=200)


@pytest.mark.parametrize("use", ["true", "false"])
@pytest.mark.chaos
def test_a_run_is_resumed_by_one_process_at_a_time(starter, tmp_path, use):
    """Also right after a kill of the first process alone: its workers do not keep the folder."""
    arguments = ["FrozenLake", f"es_manager.use_multiprocessing={use}", "es_manager.max_workers=1"]
    run = tmp_path / "run"
    with Starter() as other:
        pid = starter.start([*arguments, "--episodes", "1000000", "--output", "run"], tmp_path)
        wait_for_lines(run, 3)
        other_place = tmp_path / "other"
        other_place.mkdir()
        for _ in range(2):
            other.start(["--resume", str(run)], other_place)
            code, said = other.wait()
            assert code == 2 and f"another process (pid {pid}) is writing to {run}: wait for its end" in said, said
        os.kill(pid, signal.SIGKILL)
        assert starter.wait()[0] == -signal.SIGKILL
        have = len(check_while_stopped(run, {}))
        # Both at once: one of them goes on, the other one is refused.
        pids = [starter.start(["--resume", "run"], tmp_path), other.start(["--resume", str(run)], other_place)]
        wait_for_lines(run, have + 1)
        time.sleep(1)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        ends = [starter.wait(), other.wait()]
    assert sorted(code for code, _ in ends) == [2, 128 + signal.SIGTERM], ends
    assert any("is writing to" in said for _, said in ends)
    assert any("(terminated); all" in said and "To go on: abreast rollout --resume" in said for _, said in ends), ends
    assert len(lines_of(run)) > have


def wait_for_lines(run, wanted):
    path, end = run / "trajectories.jsonl", time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < wanted:
        assert time.monotonic() < end, "no more episodes were written"
        time.sleep(0.01)
