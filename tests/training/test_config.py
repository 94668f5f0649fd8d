"""Settings of a run, in either spelling; settings of single agents; how fast epsilon falls."""

import pickle

import pytest
import yaml

from abreast.errors import ConfigError
from abreast.games import Game
from abreast.models import DQN, ModelConfig
from abreast.settings import apply_overrides, explain
from abreast.training import parse_config
from abreast.training.config import USUAL_NAMES, MPConfig
from own_game import Garden

MIXED = {0: {"algorithm": "ppo"}, 1: {"algorithm": "dqn", "hidden_size": 64}}


class Curious(DQN):
    """A model of a user's own, with a setting of its own."""

    class Config(DQN.Config):
        curiosity: float = 0.5
        """How much it wants to know."""


class NotAModel:
    pass


def test_settings_are_found_in_either_spelling():
    modern = MPConfig.from_experiment_config(
        {"multiprocessing": {"enabled": True, "schedule": "free", "num_workers": 2}}
    )
    older = MPConfig.from_experiment_config({"parallel": {"enabled": True, "async_learning": True, "num_workers": 2}})
    assert modern == older
    threads = MPConfig.from_experiment_config({"parallel": {"use_threads": True, "async_learning": False}})
    assert (threads.workers, threads.schedule) == ("threads", "lockstep")
    assert MPConfig.from_experiment_config({"parallel": {"parallel_training": False}}).workers == "inline"


def test_parallel_overrides_reach_what_they_override():
    config = parse_config(
        {"multiprocessing": {"buffer_capacity": 2000, "batch_size": 32, "learning_rate": 0.5, "train_interval": 4}}
    )
    assert (config.model.buffer_capacity, config.model.batch_size, config.model.learning_rate) == (2000, 32, 0.5)
    assert config.experiment.train_interval == 4


# ---- settings of single agents


def test_an_agent_has_its_own_settings_over_those_given_that_its_algorithm_has():
    config = parse_config({"model": {"gamma": 0.5, "hidden_size": 32, "n_step": 2, "per_agent": MIXED}})
    ppo, dqn, others = (config.model_of(agent) for agent in range(3))
    assert (ppo.algorithm, ppo.gamma, ppo.hidden_size) == ("ppo", 0.5, 32) and not hasattr(ppo, "n_step")
    assert (dqn.algorithm, dqn.gamma, dqn.hidden_size, dqn.n_step) == ("dqn", 0.5, 64, 2)
    assert (others.algorithm, others.hidden_size, others.n_step) == ("iqn", 32, 2)
    assert ppo.gradient_steps == parse_config({"model": {"algorithm": "ppo"}}).model.gradient_steps  # its own default
    assert config.model.per_agent == {0: ppo, 1: dqn} and not others.per_agent


def test_without_settings_of_single_agents_all_have_those_of_the_section():
    config = parse_config({})
    assert config.model_of(3) is config.model and "per_agent" not in config.model_dump()["model"]


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"per_agent": MIXED},
        {"algorithm": "ppo", "gradient_steps": 3, "per_agent": {0: {"algorithm": "iqn"}, 2: {"epsilon": 1.0}}},
        {"algorithm": "dqn", "epsilon_decay": 0.1, "per_agent": {4: {"algorithm": "random"}}},
        {"per_agent": {1: {"algorithm": f"{__name__}:Curious", "curiosity": 2.0}}},
        {"adaptive_batch": [32, 256], "per_agent": {1: {"algorithm": "ppo"}, 2: {"adaptive_batch": None}}},
    ],
)
def test_a_configuration_that_was_written_is_read_as_the_same(model):
    config = parse_config(
        {"experiment": {"epochs": 30}, "model": model, "multiprocessing": {"batch_size": 16, "priority": {3: 2}}}
    )
    assert parse_config(config.model_dump()) == config
    assert parse_config(yaml.safe_load(yaml.safe_dump(config.model_dump()))) == config
    there = pickle.loads(pickle.dumps(config))
    assert there == config
    for algorithm in ("iqn", "dqn", "ppo"):
        assert there.model_of(3, algorithm) == config.model_of(3, algorithm)


def test_the_command_line_adds_to_the_settings_of_an_agent_in_a_file():
    values = apply_overrides({"model": {"per_agent": MIXED}}, ["model.per_agent.1.gamma=0.5"])
    assert parse_config(values).model_of(1) == parse_config(
        {"model": {"per_agent": {1: {**MIXED[1], "gamma": 0.5}}}}
    ).model_of(1)
    assert parse_config(apply_overrides({}, ["model.per_agent.0.algorithm=ppo"])).model_of(0).algorithm == "ppo"


def test_parallel_overrides_reach_every_agent_that_does_not_say_otherwise():
    agents = {0: {"algorithm": "ppo"}, 1: {"batch_size": 8}}
    config = parse_config({"model": {"batch_size": 64, "per_agent": agents}, "multiprocessing": {"batch_size": 32}})
    assert [config.model_of(agent).batch_size for agent in range(3)] == [32, 8, 32]


def test_the_settings_of_single_agents_are_explained_like_any_others():
    listed = {key: (value, meaning) for key, value, meaning in explain(parse_config({"model": {"per_agent": MIXED}}))}
    assert listed["model.per_agent.1.hidden_size"] == (64, "Width of the hidden layers.")
    assert listed["model.per_agent.0.clip"][0] == 0.2


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"per_agent": {0: {"hiden_size": 3}}},
         "unknown key model.per_agent.0.hiden_size: did you mean 'model.per_agent.0.hidden_size'?"),
        ({"per_agent": {0: {"algorithm": "ppo", "n_step": 3}}}, "unknown key model.per_agent.0.n_step"),
        ({"per_agent": {0: {"hidden_size": "wide"}}}, "model.per_agent.0.hidden_size is 'wide': expected a valid integer."),
        ({"per_agent": {0: {"algorithm": "pop"}}}, "model.per_agent.0.algorithm is 'pop': did you mean 'ppo'?"),
        ({"per_agent": {0: {"per_agent": {}}}}, "unknown key model.per_agent.0.per_agent"),
        ({"per_agent": {5: {}}}, "model.per_agent.5 is given, but the last agent is 4"),
        ({"per_agent": {"first": {}}}, "model.per_agent has a key 'first': expected the number of an agent"),
        ({"per_agent": {True: {}}}, "model.per_agent has a key True"),
        ({"per_agent": {-1: {}}}, "model.per_agent has a key -1"),
        ({"per_agent": [{}]}, "model.per_agent is [{}]: expected agents and settings"),
        ({"per_agent": {0: "ppo"}}, "model.per_agent.0 is 'ppo': expected settings, say {algorithm: ppo}."),
        ({"per_agent": {0: {"batch_size": 5000}}}, "model.per_agent.0: batch_size is 5000, more than buffer_capacity"),
        ({"batch_size": 5000}, "model: batch_size is 5000, more than buffer_capacity"),
        ({"per_agent": {0: {"algorithm": "ppo", "buffer_capacity": 70}}},
         "model.per_agent.0.buffer_capacity is 70, but ppo learns from all 100 rows"),
        ({"algorithm": "ppo", "buffer_capacity": 70}, "model.buffer_capacity is 70, but ppo learns from all 100 rows"),
        ({"algorithm": f"{__name__}:NotAModel"}, "NotAModel'>: expected a class derived from abreast.BaseModel."),
        ({"per_agent": {0: {"algorithm": f"{__name__}:MIXED"}}}, "model.per_agent.0.algorithm is"),
        ({"algorithm": f"{__name__}:Curios"}, "has no 'Curios': did you mean 'Curious'?"),
    ],
)  # fmt: skip
def test_mistakes_get_one_sentence_that_names_the_setting(model, said):
    with pytest.raises(ConfigError) as error:
        parse_config({"model": model})
    assert said in str(error.value)


def test_a_model_of_ones_own_brings_its_settings():
    config = parse_config({"model": {"algorithm": f"{__name__}:Curious", "curiosity": 3.0}})
    assert type(config.model) is Curious.Config and config.model.curiosity == 3.0
    with pytest.raises(ConfigError, match=r"unknown key model\.curiosty"):
        parse_config({"model": {"algorithm": f"{__name__}:Curious", "curiosty": 3.0}})


def test_what_a_game_chooses_wins_over_the_section_and_a_user_over_the_game():
    config = parse_config({"model": {"hidden_size": 32, "n_step": 2, "per_agent": {**MIXED, 2: {"gamma": 0.5}}}})
    assert config.model_of(3, "ppo").algorithm == "ppo" and config.model_of(3, "ppo").hidden_size == 32
    assert config.model_of(1, "ppo") == config.model_of(1)
    assert (config.model_of(2, "ppo").algorithm, config.model_of(2, "ppo").gamma) == ("ppo", 0.5)
    own = config.model_of(3, Curious)
    assert (own.algorithm, own.n_step, own.curiosity) == (f"{__name__}:Curious", 2, 0.5)


def test_a_setting_that_the_algorithm_chosen_by_a_game_does_not_have_is_refused():
    config = parse_config({"model": {"per_agent": {0: {"kappa": 2.0}}}})
    with pytest.raises(
        ConfigError, match=r"model\.per_agent\.0\.kappa is given, but the game makes agent 0 a model ppo"
    ):
        config.model_of(0, "ppo")
    small = parse_config({"model": {"buffer_capacity": 70}})
    with pytest.raises(ConfigError, match=r"model\.buffer_capacity is 70, but ppo learns"):
        small.model_of(0, "ppo")


# ---- epsilon


@pytest.mark.parametrize("epochs", [1, 2, 7, 50, 1000])
def test_epsilon_reaches_its_floor_after_half_of_the_epochs_unless_told_otherwise(epochs):
    config = parse_config({"experiment": {"epochs": epochs}, "model": {"per_agent": {1: {"epsilon": 1.0}}}})
    for settings in (config.model, config.model_of(1)):
        reached = settings.epsilon * (1 - settings.epsilon_decay) ** max(1, epochs / 2)
        assert reached == pytest.approx(settings.epsilon_min)
    assert config.model.epsilon_decay < config.model_of(1).epsilon_decay
    assert parse_config({"model": {"epsilon_decay": 0.5}}).model_of(0).epsilon_decay == 0.5


@pytest.mark.parametrize(
    ("settings", "reached"),
    [
        ({"epsilon": 0.0}, 0.0),
        ({"epsilon": 0.01}, 0.01),
        ({"epsilon": 0.005, "epsilon_min": 0.3}, 0.005),
        ({"epsilon": 0.0, "epsilon_min": 0.0}, 0.0),
        ({"epsilon": 0.6, "epsilon_min": 0.0}, 0.006),
    ],
)
def test_epsilon_without_a_floor_above_zero_and_below_it(settings, reached):
    model: ModelConfig = parse_config({"experiment": {"epochs": 20}, "model": settings}).model
    assert model.epsilon * (1 - model.epsilon_decay) ** 10 == pytest.approx(reached)


def test_usual_names_lead_to_settings_that_exist_and_are_none_themselves():
    config = Game(Garden).configure()
    keys = {key for key, _, _ in explain(config)}
    assert set(USUAL_NAMES) <= keys
    names = [name for names in USUAL_NAMES.values() for name in names.split()]
    assert len(names) == len(set(names)) and not set(names) & {key.rpartition(".")[2] for key in keys}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({5: 2}, "multiprocessing.priority names agent 5, but the last agent is 4 "),
        ({-1: 2}, "multiprocessing.priority names agent -1, but"),
        ({"x": 2}, "multiprocessing.priority has a key 'x': expected a valid integer"),
        ({0: 0}, "multiprocessing.priority.0 is 0: expected greater than 0."),
        ({"1": -0.5}, "multiprocessing.priority.1 is -0.5: expected greater than 0."),
        ({0: float("nan")}, "multiprocessing.priority.0 is nan: expected a finite number."),
        ({0: float("inf")}, "multiprocessing.priority.0 is inf: expected a finite number."),
        ({0: "much"}, "multiprocessing.priority.0 is 'much': expected a valid number."),
        ([0, 1], "multiprocessing.priority is [0, 1]: expected a valid dictionary."),
    ],
)
def test_priorities_that_are_none_are_refused_in_a_sentence(given, says):
    with pytest.raises(ConfigError) as refused:
        parse_config({"multiprocessing": {"priority": given}})
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_priorities_come_from_a_file_or_the_command_line():
    values = apply_overrides({"multiprocessing": {"priority": {0: 2}}}, ["multiprocessing.priority.3=0.5"])
    settings = parse_config(values).multiprocessing
    assert [settings.weight(agent) for agent in range(5)] == [2.0, 1.0, 1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([32], "model.adaptive_batch: expected the least and the most rows of a batch, say [32, 256], not [32]."),
        (64, "not 64."),
        ({"least": 32}, "not {'least': 32}."),
        ([32, 256.5], "not [32, 256.5]."),
        ([False, True], "not [False, True]."),
        (
            [256, 32],
            "model: adaptive_batch is [256, 32]: expected two numbers of rows from 1 to buffer_capacity 1024, the",
        ),
        ([0, 32], "model: adaptive_batch is [0, 32]"),
        ([32, 1025], "model: adaptive_batch is [32, 1025]"),
    ],
)
def test_bounds_of_a_batch_that_are_none_are_refused_in_a_sentence(given, says):
    with pytest.raises(ConfigError) as refused:
        parse_config({"model": {"adaptive_batch": given}})
    assert says in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"model": {"lr": 0.1}}, "unknown key model.lr: did you mean 'model.learning_rate'?"),
        ({"lr": 0.1}, "unknown key lr: did you mean 'model.learning_rate'?"),
        ({"experiment": {"n_envs": 3}}, "unknown key experiment.n_envs: did you mean 'multiprocessing.num_envs'?"),
        ({"world": {}, "gamma": 0.9}, "unknown key gamma: did you mean 'model.gamma'?"),
    ],
)
def test_a_setting_by_its_usual_name_is_named(given, says):
    with pytest.raises(ConfigError) as caught:
        parse_config(given)
    assert str(caught.value) == says
