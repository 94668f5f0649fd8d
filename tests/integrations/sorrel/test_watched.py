"""Evaluating and watching: agents as they are, and nothing is learned or remembered."""

import json

import pytest
from typer.testing import CliRunner

import sorrel_standin
from abreast.cli.app import app
from abreast.errors import ConfigError, GameError
from abreast.training.evaluate import evaluate
from integrations.sorrel.helpers import SorrelExperiment, comparable, make, outcome, told

FORAGE = "sorrel:sorrel_standin:ForageEnv"


def cli(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    code, said = cli("train", FORAGE, "experiment.epochs=2", "--output", folder)
    assert code == 0, said
    return folder, said


@pytest.mark.parametrize("kind", ["values", "policy", pytest.param("table", marks=pytest.mark.chaos), "tag"])
def test_an_evaluation_leaves_no_trace(kind):
    """(What its own loop does, `test_identity.py` says.)"""
    evaluated, plain = make(kind), make(kind)
    experiment = SorrelExperiment(evaluated)
    evaluate(experiment, 2)
    first = told(experiment.run_experiment(animate=False, logging=False))
    assert first == told(SorrelExperiment(plain).run_experiment(animate=False, logging=False))
    before = outcome(evaluated), comparable([agent.location for agent in evaluated.agents])
    evaluate(experiment, 3)
    assert (outcome(evaluated), comparable([agent.location for agent in evaluated.agents])) == before
    assert before[0] == outcome(plain)


@pytest.mark.parametrize("model", [pytest.param(None, marks=pytest.mark.chaos), sorrel_standin.OwnStream])
def test_an_episode_does_not_depend_on_others(model):
    def rewards(episodes, **options):
        return evaluate(SorrelExperiment(make("values", model)), episodes, **options).rewards

    assert rewards(4)[:2] == rewards(2)
    assert len({str(each) for each in rewards(6)}) > 1
    assert rewards(4) != rewards(4, seed=1)
    assert rewards(4) != rewards(4, greedy=False)


def test_what_cannot_be_copied_is_named():
    with pytest.raises(
        ConfigError,
        match=r"cannot be evaluated here, because it cannot be copied \(TypeError: .*use `abreast eval RUN`",
    ):
        evaluate(SorrelExperiment(make("values", sorrel_standin.Unwritable)), 1)


def test_agents_and_worlds_of_an_evaluation_refer_to_each_other_as_before():
    env = make(sorrel_standin.LastingEnv)
    twin = SorrelExperiment(env).twin().env
    assert twin.world.chasers is twin.agents and twin.agents is not env.agents
    assert twin.agents[0].notes is twin.agents[0].model.memory is not env.agents[0].notes
    assert twin.world.settings is twin.config.world is not env.config.world


def test_a_run_is_evaluated_from_the_command_line(run):
    folder, _ = run
    assert cli("eval", folder, "--episodes", 3)[0] == 0
    first = json.loads((folder / "evaluation.json").read_text())["checkpoints"][0]
    assert cli("eval", folder, "--episodes", 3)[0] == 0
    assert json.loads((folder / "evaluation.json").read_text())["checkpoints"][0] == first
    assert len(first["agents"]) == 2 and len(first["turns"]) == 3


def test_a_run_is_watched_as_it_was_said(run):
    folder, said = run
    assert f"abreast play {folder}" in said
    assert "random" not in said
    code, shown = cli("play", folder)
    assert code == 0
    assert "episode 1:" in shown and "in 12 turns (agent 0" in shown and ":-" in shown


@pytest.mark.parametrize("command", [["play"], ["eval"], ["train", "--resume"]])
def test_only_the_script_that_built_an_environment_can_build_it_again(command, tmp_path):
    SorrelExperiment(make()).run_experiment(animate=False, output_dir=tmp_path / "run")
    result = CliRunner().invoke(app, [*command, str(tmp_path / "run")])
    assert isinstance(result.exception, ConfigError)
    assert "a script made this run, and built ForageEnv in its own way" in str(result.exception)


def test_agents_that_were_not_trained_are_not_watched():
    result = CliRunner().invoke(app, ["play", FORAGE])
    assert isinstance(result.exception, GameError)
    assert "which no random ones can stand in for: train them" in str(result.exception)


def test_check_finds_it():
    code, said = cli("check", "sorrel:sorrel_standin:HiddenEnv")
    assert code == 2
    assert "wrong seed: two environments with the same seed and the same actions differ" in said
    assert "state: not checked: repair 'seed' first" in said
