"""The walks of ARCHITECTURE.md are followed call by call: a real run is recorded, and each step has to call the next.

A step is `file.py: Class.method`. A step with ⇢ begins in another process, or thread, what the step before has sent there.
Between two steps no other function of ours may be called; what is passed over is said in call_recorder.py.
"""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import abreast

pytestmark = pytest.mark.xdist_group("walks")  # both runs are recorded once
TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "ARCHITECTURE.md").read_text()
MOST_WORDS = 1500
MOST_CALLS = {
    "A row of experience": 9, "Weights": 9, "A parallel start": 15, "An action string": 8, "Its result": 8,
    "A turn in the main process": 7, "A turn of a single episode": 8,
}  # fmt: skip
"""From the first step to the last."""
TRAINING = """
from abreast.games.registry import find_game

game = find_game("treasurehunt")
given = {
    "experiment": {"epochs": 4, "max_turns": 10, "num_agents": 2},
    "model": {"algorithm": "dqn", "batch_size": 8, "hidden_size": 8, "gradient_steps": 1},
    "multiprocessing": {"schedule": "pipelined", "workers": "processes", "num_workers": 1},
}
env = game.build(game.configure(given))

def run():
    env.run_experiment_mp(animate=False, logging=False)
"""
ROLLOUTS = """
from abreast import EnvStateManager

groups = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": ["FrozenLake"], "n_groups": [1]}}

def run():
    for use in (True, False):
        with EnvStateManager({"es_manager": {"train": groups, "use_multiprocessing": use, "max_workers": 1}}) as manager:
            for _ in range(12):  # the first turns of a tag are compared, which is another way
                manager.reset()
                manager.step([{"env_id": 0, "actions": ["Up"]}])
                with manager.episode() as episode:
                    episode.step(["Up"])
"""
PROGRAM = """
import os, sys, call_recorder
{made}
if __name__ == "__main__":
    os.environ["RECORDED_CALLS"] = sys.argv[1]
    call_recorder.start()
    run()
    sys.setprofile(None)
"""


def walks_in(text):
    """The numbered lists of steps, by heading; each as segments that are walked in one process."""
    walks = {}
    for heading, body in re.findall(r"^### (.*?)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL):
        steps = re.findall(r"^\d+\. (⇢ )?`([\w/]+\.py: [\w.]+)`$", body, re.MULTILINE)
        assert len(steps) == len(re.findall(r"^\d+\.", body, re.MULTILINE)), f"a step of {heading!r} cannot be read"
        segments = []
        for is_sent, step in steps:
            if is_sent or not segments:
                segments.append([])
            segments[-1].append(step)
        walks[heading] = segments
    return walks


WALKS = walks_in(PAGE)


def recorded(made, folder):
    """Places (process and thread) and stacks in which the last functions of all segments were called."""
    (folder / "sitecustomize.py").write_text("import call_recorder; call_recorder.start_in_forks()\n")
    (folder / "program.py").write_text(PROGRAM.format(made=made))
    source, output = Path(abreast.__file__).parent, folder / "calls"
    ends = sorted({segment[-1].rpartition(" ")[2].rpartition(".")[2] for walk in WALKS.values() for segment in walk})
    what = {"output": str(output), "source": f"{source}{os.sep}", "functions": ends}
    path = os.pathsep.join([str(folder), str(TESTS), str(source.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(folder / "program.py"), json.dumps(what)]
    subprocess.run(command, check=True, cwd=folder, env={**os.environ, "PYTHONPATH": path}, timeout=200)
    return [json.loads(line) for line in output.read_text().splitlines()]


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Of both halves; recorded when they are asked for."""
    made = {"training": TRAINING, "rollouts": ROLLOUTS}
    found = {}

    def calls_of(half):
        if half not in found:
            found[half] = recorded(made[half], tmp_path_factory.mktemp(half))
        return found[half]

    return calls_of


def broken_at(walk, stacks):
    """What is not true of a walk; None if all of it is."""
    places = []
    for segment in walk:
        where = {place for place, stack in stacks if stack[-len(segment) :] == segment}
        if not where:
            real = sorted({" → ".join(stack) for _, stack in stacks if stack[-1] == segment[-1]})
            return f"{' → '.join(segment)} was not called; {segment[-1]} was reached by:\n" + "\n".join(real)
        places.append(where)
    for (first, here), (second, there) in pairwise(zip(walk, places, strict=True)):
        if here == there and len(here) == 1:
            return f"{second[0]} is in the same process and thread as {first[-1]}: nothing is sent there"
    return None


@pytest.mark.xdist_group("walks")
@pytest.mark.parametrize("heading", WALKS)
def test_each_step_calls_the_next(heading, calls):
    half = "rollouts" if WALKS[heading][0][0].startswith("rollouts/") else "training"
    assert (fault := broken_at(WALKS[heading], calls(half))) is None, fault


@pytest.mark.xdist_group("walks")
def test_a_walk_that_is_not_true_is_found(calls):
    """A step too few, one too many, two in the wrong order, one too few in the child."""
    here, there = next(walk for heading, walk in WALKS.items() if heading.startswith("A parallel start"))
    stacks = calls("training")
    assert broken_at([here, there], stacks) is None
    assert broken_at([here[:4] + here[5:], there], stacks) is not None
    assert broken_at([[*here[:4], "processes/team.py: Team.wait", *here[4:]], there], stacks) is not None
    assert broken_at([[here[1], here[0], *here[2:]], there], stacks) is not None
    assert broken_at([here, there[:1] + there[2:]], stacks) is not None


def test_a_call_is_not_a_message():
    called, sent = [["1.1", ["a"]], ["1.1", ["a", "b"]]], [["1.1", ["a"]], ["2.1", ["b"]]]
    assert broken_at([["a"], ["b"]], called) is not None and broken_at([["a"], ["b"]], sent) is None
    assert broken_at([["a", "b"]], called) is None and broken_at([["a", "b"]], sent) is not None


@pytest.mark.parametrize("start", MOST_CALLS)
def test_walks_are_short(start):
    (walk,) = (walk for heading, walk in WALKS.items() if heading.startswith(start))
    count = sum(map(len, walk)) - 1
    assert count <= MOST_CALLS[start], f"{start} takes {count} calls, more than {MOST_CALLS[start]}"


def test_the_page_is_read_in_ten_minutes():
    assert len(PAGE.split()) <= MOST_WORDS
