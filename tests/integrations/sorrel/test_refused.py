"""What cannot be promised is refused by name, or said in one line."""

import copy
import logging

import pytest

import sorrel_standin
from abreast import MARLMultiprocessingSystem, MPConfig
from abreast.errors import AbreastError, ConfigError, GameError, ModelError
from abreast.integrations.sorrel import streams_apart
from abreast.training.devices import compute_threads
from integrations.sorrel.helpers import SETTINGS, SorrelExperiment, find, make, outcome, parallel, told


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"multiprocessing": {"num_envs": 4}}, "num_envs is 4, but ForageEnv can only be played in one lane"),
        ({"multiprocessing": {"num_actors": 2}}, "num_actors is 2"),
        (parallel("free", "processes"), "schedule is free, but models of sorrel's train once an epoch"),
        (parallel("lockstep", "threads"), "workers is threads, but"),
    ],
)
def test_settings_that_cannot_be_kept(settings, words):
    with pytest.raises(ConfigError, match=words):
        SorrelExperiment(make(), settings).run_experiment_mp(animate=False, logging=False)


def test_several_lanes_are_refused_in_a_sequential_run_too():
    with pytest.raises(ConfigError, match="in one lane"):
        SorrelExperiment(make(), {"multiprocessing": {"num_envs": 2}}).run_experiment(animate=False, logging=False)


def test_one_stream_for_all_is_for_sequential_runs():
    with pytest.raises(ConfigError, match="cannot draw from one generator"):
        SorrelExperiment(make(), parallel("lockstep"), streams="shared").run_experiment_mp(animate=False, logging=False)


def test_threads_are_refused_by_the_system_too():
    env = make()
    with pytest.raises(ConfigError, match="threads"):
        MARLMultiprocessingSystem(env, env.agents, MPConfig(workers="threads"))


@pytest.mark.parametrize(
    ("model", "schedule", "words"),
    [
        (sorrel_standin.Counting, "lockstep", "Counting changes choices when it chooses"),
        (sorrel_standin.OwnStream, "lockstep", "OwnStream changes rng when it chooses"),
        (sorrel_standin.NoisyChoice, "lockstep", "NoisyChoice changes noise when it chooses"),
        (sorrel_standin.ShakesAtStart, "lockstep", "ShakesAtStart.start_epoch_action draws random numbers"),
        (sorrel_standin.ForgetsInTraining, "pipelined", "ForgetsInTraining is not the same after the same calls"),
    ],
)
def test_models_that_cannot_learn_elsewhere_run_sequentially_and_are_refused_in_parallel(model, schedule, words):
    env, theirs = make("values", model), make("values", model)
    SorrelExperiment(env).run_experiment(animate=False, logging=False)
    with compute_threads(1), streams_apart(theirs):
        theirs.run_experiment()
    assert outcome(env) == outcome(theirs)
    with pytest.raises(ModelError, match=words):
        SorrelExperiment(make("values", model), parallel(schedule)).run_experiment_mp(animate=False, logging=False)


def test_a_memory_without_rows_of_numbers_is_for_sequential_runs():
    env, theirs = make("values", sorrel_standin.Wordy), make("values", sorrel_standin.Wordy)
    result = SorrelExperiment(env).run_experiment(animate=False, logging=False)
    with streams_apart(theirs):
        theirs.run_experiment()
    assert told(result) == [(reward, losses) for reward, losses, _ in theirs.told]
    assert env.agents[0].model.epsilon == theirs.agents[0].model.epsilon
    with pytest.raises(ModelError, match="TextMemory keeps no array of numbers called `states`"):
        SorrelExperiment(env, parallel("lockstep")).run_experiment_mp(animate=False, logging=False)


def test_other_models_after_a_reset_are_refused():
    env = make()
    env.reset = lambda: setattr(env.agents[0], "model", copy.deepcopy(env.agents[1].model.local))
    with pytest.raises(ConfigError, match="reset makes other agents or models"):
        SorrelExperiment(env).run_experiment(animate=False, logging=False)


def test_locks_are_those_of_each_process():
    sequential, env = make("values", sorrel_standin.Locked), make("values", sorrel_standin.Locked)
    SorrelExperiment(sequential).run_experiment(animate=False, logging=False)
    SorrelExperiment(env, parallel("lockstep")).run_experiment_mp(animate=False, logging=False)
    assert outcome(env) == outcome(sequential)


def test_training_of_its_own_is_called_in_a_sequential_run_and_refused_in_parallel():
    env, plain = make(sorrel_standin.OwnTraining), make()
    SorrelExperiment(env).run_experiment(animate=False, logging=False)
    SorrelExperiment(plain).run_experiment(animate=False, logging=False)
    assert outcome(env) != outcome(plain)
    with pytest.raises(ConfigError, match=r"OwnTraining\._model_train_step"):
        SorrelExperiment(env, parallel("lockstep")).run_experiment_mp(animate=False, logging=False)


def test_one_model_of_two_agents():
    env = make()
    env.agents[1].model = env.agents[0].model
    with pytest.raises(ConfigError, match="agents 0 and 1 have one and the same model"):
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
        ("sorrel_standin:Berry", "expected a class derived from sorrel's Environment"),
        ("sorrel_standin", "environments"),
        ("no_such_module:Env", "there is no module"),
    ],
)
def test_targets_that_are_none(target, words):
    with pytest.raises(GameError, match=words):
        find(target)


@pytest.mark.parametrize(
    ("given", "overrides", "words"),
    [
        ({"experiment": {"epochs": None}}, ["experiment.nothing"], "not of the form section.key=value"),
        ({}, ["multiprocessing.nothing=1"], "unknown key multiprocessing.nothing"),
        ({}, ["experiment.num_agents=5"], "makes 2 agents"),
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
