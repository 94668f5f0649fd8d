"""Runs on a GPU. They are run by hand, on a machine that has one: `pytest -m gpu`."""

import os
import signal

import numpy as np
import pytest
import torch

import villains
from abreast.errors import ConfigError
from abreast.games import find_game
from abreast.games.treasurehunt.batched import BatchedTreasurehunt
from abreast.models import DQN
from abreast.training.learners.hosted import HostedLearners
from devices import ON_GPU
from fakes import outcome, small_game

pytestmark = ON_GPU
LEARNED = (
    "experiment.num_agents=3",
    "experiment.epochs=12",
    "model.buffer_capacity=640",
    "multiprocessing.device=cuda",
    "model.learning_rate=0.01",
)
BATCHED = ("world.batched=true", "multiprocessing.num_envs=4")


def run(schedule, workers, *given):
    settings = (f"multiprocessing.schedule={schedule}", f"multiprocessing.workers={workers}")
    env = small_game(*LEARNED, *given, *settings)
    return outcome(env, env.run_experiment if schedule == "sequential" else env.run_experiment_mp)


def sequential(*given):
    env = small_game(*LEARNED, *given)
    return outcome(env, env.run_experiment)


@pytest.mark.parametrize("world", [(), BATCHED], ids=["object world", "batched world"])
@pytest.mark.parametrize("name", ["dqn", "iqn", "ppo"])
def test_where_learners_live_does_not_matter(name, world):
    given = (f"model.algorithm={name}", *world)
    expected = sequential(*given)
    assert run("lockstep", "processes", *given) == expected
    assert run("lockstep", "inline", *given) == expected
    assert run("pipelined", "processes", *given) == run("pipelined", "inline", *given) != expected


@pytest.mark.parametrize("game", ["treasurehunt", "staghunt"])
def test_a_batched_world_is_the_same_on_every_device(game):
    worlds = []
    for device in ("cpu", "cuda:0"):
        found = find_game(game)
        env = found.build(found.configure(None, ["multiprocessing.device=cpu"]))
        views = [agent.observation_spec for agent in env.agents]
        worlds.append(type(env).batched_world(64, views, env.config.world, device))
    generator = torch.Generator().manual_seed(0)

    def draws(shapes):
        return {name: torch.rand((64, *shape), generator=generator) for name, shape in shapes.items()}

    def both(call, drawn):
        return [call(world, {name: draw.to(world.device) for name, draw in drawn.items()}) for world in worlds]

    both(lambda world, drawn: world.reset(drawn), draws(worlds[0].reset_draws()))
    for _ in range(30):
        both(lambda world, drawn: world.transition(drawn), draws(worlds[0].turn_draws()))
        for agent in range(worlds[0].agents):
            here, there = both(lambda world, _, agent=agent: world.view(agent), {})
            assert torch.equal(here, there.cpu())
            actions = torch.randint(4, (64,), generator=generator)
            here, there = (world.act(agent, actions.to(world.device)) for world in worlds)
            assert torch.equal(here, there.cpu()) and torch.equal(worlds[0].given_LN, worlds[1].given_LN.cpu())
        assert torch.equal(worlds[0].cells_LHW, worlds[1].cells_LHW.cpu())


def test_recorded_turns_and_updates_do_what_they_do_call_by_call(monkeypatch):
    given = ("model.algorithm=iqn", *BATCHED)
    recorded = sequential(*given)
    called = []
    monkeypatch.setattr(
        "abreast.models.stacked.recorded.Recorded.__call__", lambda self: called.append(1) or self._function()
    )
    assert sequential(*given) == recorded and called


def test_a_turn_that_waits_for_a_result_is_played_call_by_call_and_told(monkeypatch, caplog):
    given = ("model.algorithm=iqn", *BATCHED)
    recorded = sequential(*given)
    transition = BatchedTreasurehunt.transition

    def waits(self, draws):
        assert self.cells_LHW.sum().item() >= 0
        transition(self, draws)

    monkeypatch.setattr(BatchedTreasurehunt, "transition", waits)
    assert sequential(*given) == recorded
    assert "a turn of BatchedTreasurehunt cannot be recorded as a CUDA graph, so it runs call by call" in caplog.text


def test_a_run_that_goes_on_ends_as_one_that_was_never_stopped(tmp_path):
    given = (*LEARNED, "model.algorithm=iqn", "model.epsilon_decay=0.1", *BATCHED)
    whole = small_game(*given)
    expected = outcome(whole, whole.run_experiment)
    small_game(*given, "experiment.epochs=8").run_experiment(output_dir=tmp_path / "run", animate=False)
    env = small_game(*given)
    assert outcome(env, lambda **_: env.run_experiment(resume=tmp_path / "run", animate=False)) == expected


@pytest.mark.parametrize("world", [(), BATCHED], ids=["object world", "batched world"])
def test_a_learner_that_is_killed_is_replaced_by_one_that_goes_on(world):
    given = ("model.algorithm=iqn", *world, "experiment.epochs=60")
    expected = run("lockstep", "inline", *given)
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGKILL), every_s=0.3, times=2, when_up=True):
        assert run("lockstep", "processes", *given) == expected


class FailsOnTheGPU(DQN):
    """Its updates read beyond the end of a tensor."""

    def train_step(self):
        torch.zeros(2, device=self.device)[torch.tensor([7], device=self.device)].sum().item()


def test_a_fault_on_the_gpu_is_told_and_the_others_go_on(caplog):
    env = small_game(
        *LEARNED, "model.algorithm=dqn", "model.per_agent.1.algorithm=training.test_gpu:FailsOnTheGPU",
        "multiprocessing.schedule=lockstep", "multiprocessing.num_workers=2", "multiprocessing.max_restarts=1",
    )  # fmt: skip
    result = env.run_experiment_mp(animate=False, logging=False)
    assert list(result.given_up) == [1] and "CUDA error: device-side assert triggered: given up" in str(
        result.given_up[1]
    )
    updates = [agent.model.updates for agent in env.agents]
    assert updates[0] == updates[2] == 11 and np.isfinite(result.epochs[-1]["loss_per_agent"][0])


def test_what_does_not_fit_is_refused_with_what_each_agent_needs():
    told = r"100000 agents with 1 lanes need about [\d.]+ GiB of memory on cuda:0, [\d.]+ .iB each"
    size = ("world.height=400", "world.width=400", "model.hidden_size=2000")
    with pytest.raises(ConfigError, match=told):
        small_game(*LEARNED, *size, "experiment.num_agents=100000")
