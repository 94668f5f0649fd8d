"""Settings of a run, in either spelling."""

import pytest

from abreast.errors import ConfigError
from abreast.games import Game
from abreast.settings import explain
from abreast.training import parse_config
from abreast.training.config import USUAL_NAMES, MPConfig
from own_game import Garden


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


def test_usual_names_lead_to_settings_that_exist_and_are_none_themselves():
    config = Game(Garden).configure()
    keys = {key for key, _, _ in explain(config)}
    assert set(USUAL_NAMES) <= keys
    names = [name for names in USUAL_NAMES.values() for name in names.split()]
    assert len(names) == len(set(names)) and not set(names) & {key.rpartition(".")[2] for key in keys}


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
