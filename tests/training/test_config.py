"""Settings of a run, in either spelling."""

from abreast.training import parse_config
from abreast.training.config import MPConfig


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
