"""Where learners compute."""

import pytest
import torch

from abreast.errors import ConfigError
from abreast.training.config import MPConfig
from abreast.training.devices import compute_threads, device_for
from fakes import outcome, small_game


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["multiprocessing.device=gpu"], "multiprocessing.device is 'gpu': expected auto, cpu, cuda or cuda:<number>"),
        (["multiprocessing.device=cuda:99"], "'cuda:99', but of GPUs that torch can use there"),
        (["multiprocessing.device=cuda:0", "multiprocessing.device_per_agent=true"], "one GPU, but device_per_agent"),
    ],
)
def test_a_device_that_does_not_exist_is_refused(settings, says):
    with pytest.raises(ConfigError, match=says):
        small_game(*settings)


def test_agents_are_dealt_out_to_all_gpus_in_turn_or_all_use_the_first(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for settings, expected in (
        ({"device": "auto"}, ["cuda:0"] * 3),
        ({"device": "cuda:1"}, ["cuda:1"] * 3),
        ({"device": "cuda", "device_per_agent": True}, ["cuda:0", "cuda:1", "cuda:0"]),
        ({"device": "cpu", "device_per_agent": True}, ["cpu"] * 3),
    ):
        assert [device_for(agent, MPConfig.parse(settings)) for agent in range(3)] == expected


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("algorithm", ["iqn", "dqn", "ppo"])
def test_learners_on_a_gpu_learn_the_same_in_lockstep_as_in_sequence(algorithm):
    settings = ("experiment.epochs=20", f"model.algorithm={algorithm}", "multiprocessing.device=cuda")
    alone = small_game(*settings)
    env = small_game(*settings, "multiprocessing.schedule=lockstep", "multiprocessing.num_workers=2")
    assert alone.agents[0].model.online_block.values.is_cuda
    assert outcome(env, env.run_experiment_mp) == outcome(alone, alone.run_experiment)


def test_compute_threads_are_set_for_the_run_and_given_back():
    before = torch.get_num_threads()
    with compute_threads(2):
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == before
    seen = []
    env = small_game("experiment.compute_threads=2", "experiment.epochs=1")
    env.world.transition = lambda: seen.append(torch.get_num_threads())
    env.run_experiment(animate=False, logging=False)
    assert set(seen) == {2}
