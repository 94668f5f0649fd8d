"""Where learners compute."""

import pytest
import torch

from abreast.errors import ConfigError
from abreast.training.config import MPConfig
from abreast.training.devices import bytes_on_device, check_device_memory, compute_threads, device_for
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


def test_what_does_not_fit_onto_a_device_is_refused_with_what_each_agent_needs(monkeypatch, caplog):
    env = small_game("experiment.num_agents=3", "multiprocessing.num_envs=2")
    model = env.agents[0].model
    model.device = "cuda:0"
    each = bytes_on_device(model, 2 * 10)
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 2**20)

    def check(free, whole):
        monkeypatch.setattr("torch.cuda.mem_get_info", lambda device: (free, whole))
        check_device_memory(model, env.config)

    check(free=3 * each, whole=3 * each + 2**20)
    assert not caplog.messages
    with pytest.raises(
        ConfigError, match=r"3 agents with 2 lanes need about .* of memory on cuda:0, .* MiB each, but .* free:"
    ):
        check(free=3 * each - 1, whole=3 * each)
    check(free=2**33, whole=2**34)
    assert caplog.messages == ["other programs hold 8.0 GiB of cuda:0: they and this run will slow each other down"]
