"""What cannot be promised is refused by name, or said in one line."""

import copy
import logging
import re

import pytest
from typer.testing import CliRunner

from abreast import MARLMultiprocessingSystem, MPConfig
from abreast.cli.app import app
from abreast.errors import AbreastError, ConfigError, GameError
from integrations.sorrel.helpers import SETTINGS, SorrelExperiment, find, make

SEQUENTIALLY = (
    "learn where they play .*: run it sequentially, .* without --parallel; or train models of abreast's in it"
)


def test_learners_elsewhere_are_refused_with_the_reason_and_the_way_out():
    env = make()
    with pytest.raises(ConfigError, match=SEQUENTIALLY) as refused:
        SorrelExperiment(env).run_experiment_mp(animate=False, logging=False)
    assert str(refused.value).startswith("ForageEnv has models of sorrel's") and "\n" not in str(refused.value)
    with pytest.raises(ConfigError, match="one of sorrel's runs sequentially, with SorrelExperiment"):
        MARLMultiprocessingSystem(env, env.agents, MPConfig(workers="inline"))
    result = CliRunner().invoke(app, ["train", "sorrel:sorrel_standin:ForageEnv", "--parallel"])
    assert isinstance(result.exception, ConfigError) and re.search(SEQUENTIALLY, str(result.exception))


@pytest.mark.parametrize("actors", [1, 2])
def test_several_lanes_are_refused(actors):
    with pytest.raises(ConfigError, match="but ForageEnv can only be played in one lane, by one actor"):
        SorrelExperiment(make(), {"multiprocessing": {"num_envs": 2, "num_actors": actors}})


def test_memories_are_those_of_the_environment():
    with pytest.raises(GameError, match="call generate_memories of the environment"):
        SorrelExperiment(make()).generate_memories(1)


def test_other_models_after_a_reset_are_refused():
    env = make()
    env.reset = lambda: setattr(env.agents[0], "model", copy.deepcopy(env.agents[1].model.local))
    with pytest.raises(ConfigError, match="reset makes other models"):
        SorrelExperiment(env).run_experiment(animate=False, logging=False)


def test_one_model_of_two_agents():
    env = make()
    env.agents[1].model = env.agents[0].model
    with pytest.raises(ConfigError, match=r"agents 0 and 1 have one and the same model.*: make one for each"):
        SorrelExperiment(env)


def test_what_is_no_environment():
    with pytest.raises(ConfigError, match=r"expected an abreast\.Environment"):
        MARLMultiprocessingSystem(object(), [], MPConfig())
    with pytest.raises(GameError, match="no environment of sorrel's: it has no world"):
        SorrelExperiment(object())


def test_a_loop_of_its_own_is_named(caplog):
    with caplog.at_level(logging.WARNING, "abreast"):
        SorrelExperiment(make("tag")).run_experiment(animate=False, logging=False)
    assert "TagEnv has a run_experiment of its own, which is not used" in caplog.text


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("sorrel_standin:NoSuchEnv", "has no 'NoSuchEnv'"),
        ("sorrel_standin:Berry", r"derive it from sorrel's Environment\[ThatWorld\], or write a function"),
        ("sorrel_standin", "a class, as in sorrel:sorrel_standin:FUNCTION"),
        ("no_such_module:Env", "there is no module"),
    ],
)
def test_targets_that_are_none(target, words):
    with pytest.raises(GameError, match=words):
        find(target).build(find(target).configure())


@pytest.mark.parametrize(
    ("given", "overrides", "words"),
    [
        ({"experiment": {"epochs": None}}, ["experiment.nothing"], "not of the form section.key=value"),
        ({}, ["multiprocessing.nothing=1"], "unknown key multiprocessing.nothing"),
        ({}, ["experiment.num_agents=5"], "has 2 agents"),
    ],
)
def test_settings_on_the_command_line(given, overrides, words):
    source = find("sorrel_standin:ForageEnv")
    with pytest.raises(AbreastError, match=words):
        source.build(source.configure(given, overrides))


def test_a_key_that_the_environment_misses_is_named(tmp_path):
    source = find("sorrel_standin:tag")
    config = source.configure({"experiment": {"epochs": 1, "max_turns": 2}})
    stored = {key: value for key, value in SETTINGS.items() if key == "experiment"}
    with pytest.raises(ConfigError, match="asks its configuration for what is not there"):
        source.build(config.with_derived(world=type(config.world)(sorrel=stored)))
