"""Run folders: metrics, films, checkpoints; going on; the command line."""

import json
import logging
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import sorrel_standin
from abreast.cli.app import app
from abreast.errors import CheckpointError, ModelFileError
from abreast.state import State
from abreast.training.social import OUTCOMES
from integrations.sorrel.helpers import SorrelExperiment, comparable, find, make, outcome

FORAGE = "sorrel:sorrel_standin:ForageEnv"


def cli(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def lines(folder):
    found = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in found]


def test_a_run_from_the_command_line_has_a_whole_folder_and_can_go_on(tmp_path):
    cli("train", FORAGE, "experiment.epochs=3", "--output", tmp_path / "half")
    cli("train", "--resume", tmp_path / "half", "experiment.epochs=7")
    cli("train", FORAGE, "--output", tmp_path / "whole")  # seven, by its own settings
    half, whole = lines(tmp_path / "half"), lines(tmp_path / "whole")
    assert len(whole) == 8
    assert half == whole
    assert whole[-1]["metrics"].keys() == {"total_reward", "best_turn", *OUTCOMES}
    with Image.open(tmp_path / "whole" / "replays" / "epoch_000004.gif") as film:
        assert film.size[0] >= 480 and film.n_frames > 1
    source = find("sorrel_standin:ForageEnv")
    agents = []
    for name in ("half", "whole"):
        experiment = source.build(source.configure())
        for number, player in enumerate(experiment.game.players):
            player.model.load(tmp_path / name / "checkpoints" / "final" / f"agent_{number}.safetensors")
        agents.append(outcome(experiment.env))
    assert agents[0] == agents[1] != outcome(source.build(source.configure()).env)


@pytest.mark.parametrize(
    ("kind", "model"),
    [("policy", None), ("table", None), ("tag", None), ("values", sorrel_standin.OwnStream)]
    + [pytest.param("values", model, marks=pytest.mark.chaos) for model in (None, sorrel_standin.Wordy)],
)
def test_a_run_that_goes_on_equals_one_that_never_stopped(kind, model, tmp_path):
    def run(env, **options):
        return SorrelExperiment(env).run_experiment(animate=False, **options)

    never, first, second = (make(kind, model, epochs=epochs) for epochs in (6, 2, 6))
    run(never, output_dir=tmp_path / "never")
    run(first, output_dir=tmp_path / "run")
    run(second, resume=tmp_path / "run")
    assert lines(tmp_path / "run") == lines(tmp_path / "never")
    assert outcome(second) == outcome(never) != outcome(first)


def kill_a_run(folder):
    script = (
        "import os, signal, sys; sys.path[:0] = sys.argv[1:3]\n"
        "import sorrel_standin\n"
        "from integrations.sorrel.helpers import SorrelExperiment, make\n"
        "sorrel_standin.LastingEnv.dies_at, sorrel_standin.LastingEnv.dies_by = 5, signal.SIGKILL\n"
        "env = make(sorrel_standin.LastingEnv, epochs=8)\n"
        "settings = {'experiment': {'checkpoint_interval': 2}}\n"
        "SorrelExperiment(env, settings).run_experiment(animate=False, output_dir=sys.argv[3])\n"
    )
    tests = Path(__file__).parents[2]
    arguments = [str(tests), str(tests.parent / "src"), str(folder)]
    done = subprocess.run([sys.executable, "-c", script, *arguments], check=False, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


def stop_a_run(folder):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorrel_standin.LastingEnv, "dies_at", 5)
        patched.setattr(sorrel_standin.LastingEnv, "dies_by", signal.SIGINT)
        env = make(sorrel_standin.LastingEnv, epochs=8)
        settings = {"experiment": {"checkpoint_interval": 2}}
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have told to ignore it
        try:
            with pytest.raises(KeyboardInterrupt):
                SorrelExperiment(env, settings).run_experiment(animate=False, output_dir=folder)
        finally:
            signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("end", [kill_a_run, pytest.param(stop_a_run, marks=pytest.mark.chaos)])
def test_a_run_that_is_stopped_or_killed_goes_on(end, tmp_path):
    """Agents refer to parts of their models, and reset leaves the map: both are as they were."""
    end(tmp_path / "run")
    assert 0 < len(lines(tmp_path / "run")) < 9

    def run(env, **options):
        settings = {"experiment": {"checkpoint_interval": 2}}
        return SorrelExperiment(env, settings).run_experiment(animate=False, **options)

    never, second = (make(sorrel_standin.LastingEnv, epochs=8) for _ in range(2))
    run(never, output_dir=tmp_path / "never")
    run(second, resume=tmp_path / "run")
    assert lines(tmp_path / "run") == lines(tmp_path / "never")
    assert outcome(second) == outcome(never)
    for agent in second.agents:
        assert agent.notes is agent.model.memory and agent.network is agent.model.local


def test_what_cannot_be_kept_is_said_in_one_line_and_agents_are_kept(tmp_path, caplog):
    model, words = sorrel_standin.Unwritable, r"Unwritable\.stream \(generator\) cannot be kept in a file"
    env, other = make("values", model), make("values", model)
    with caplog.at_level(logging.WARNING, "abreast"):
        SorrelExperiment(env).run_experiment(animate=False, output_dir=tmp_path / "run")
    (line,) = [each.message for each in caplog.records if "cannot be resumed" in each.message]
    assert re.search(words, line)
    with pytest.raises(CheckpointError, match=words):
        SorrelExperiment(make("values", model)).run_experiment(animate=False, resume=tmp_path / "run")
    for number, player in enumerate(SorrelExperiment(other).game.players):
        player.model.load(tmp_path / "run" / "checkpoints" / "final" / f"agent_{number}.safetensors")
    assert outcome(other) == outcome(env)


def test_an_agent_begins_with_what_that_of_another_run_has_learned(tmp_path):
    trained = make()
    SorrelExperiment(trained).run_experiment(animate=False, output_dir=tmp_path / "run")
    env = make(sorrel_standin.LastingEnv)
    settings = {"experiment": {"load_agents": {1: f"{tmp_path / 'run'}:0"}, "freeze": [1]}}
    epsilon = env.agents[1].model.epsilon
    SorrelExperiment(env, settings).run_experiment(animate=False, logging=False)
    assert comparable(env.agents[1].model.local) == comparable(trained.agents[0].model.local)
    assert comparable(env.agents[0].model.local) != comparable(trained.agents[0].model.local)
    assert env.agents[1].notes is env.agents[1].model.memory and env.agents[1].model.epsilon < epsilon
    with pytest.raises(ModelFileError, match="holds a model of algorithm 'ValueModel'"):
        SorrelExperiment(make("table"), settings).run_experiment(animate=False, logging=False)


@pytest.mark.parametrize("damage", ["nothing", "garbage", "os.system"])
def test_a_file_that_is_no_model_of_this_game_changes_nothing(damage, tmp_path):
    model = SorrelExperiment(make()).game.players[0].model
    state = model.file_state()
    state.facts["acting"]["epsilon"], state.facts["learning"]["updates"] = 0.9, 7
    bad = {"garbage": b"garbage", "os.system": pickle.dumps({"model_0.epsilon": System()})}.get(damage)
    kept = {} if bad is None else {"own": np.frombuffer(bad, np.uint8)}
    before = outcome(model.lane.env)
    with pytest.raises(ModelFileError, match="is damaged or not one of abreast"):
        model.take_file_state(State(state.facts, kept), tmp_path / "agent_0.safetensors")
    assert outcome(model.lane.env) == before and model.updates == 0


class System:
    """A pickle of it calls `os.system` when it is read."""

    def __reduce__(self):
        return os.system, ("exit 1",)


def test_the_same_command_builds_the_same_environment():
    source = find("sorrel_standin:ForageEnv")
    first, second = (source.build(source.configure()).env for _ in range(2))
    other = source.build(source.configure(None, ["experiment.seed=1"])).env
    assert outcome(first) == outcome(second) != outcome(other)


def test_settings_are_sorrels_unless_only_abreast_has_them():
    source = find("sorrel_standin:ForageEnv")
    config = source.configure(None, ["experiment.max_turns=5", "experiment.seed=2", "world.height=6", "new.key=1"])
    env = source.build(config).env
    assert (config.experiment.epochs, config.experiment.max_turns, config.experiment.seed) == (8, 5, 2)
    assert (env.world.height, env.config.new.key, env.config.experiment.epochs) == (6, 1, 7)
    assert "seed" not in env.config.experiment


@pytest.mark.parametrize(("target", "turns"), [("sorrel_standin:tag", 12), ("sorrel_standin:built", 4)])
def test_functions_that_build_an_environment(target, turns):
    source = find(target)
    experiment = source.build(source.configure(None, [] if target.endswith("tag") else ["experiment.epochs=1"]))
    assert experiment.env.config.experiment.max_turns == turns
