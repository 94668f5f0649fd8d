"""What users bring is resumed byte for byte, or the run says before it starts that it cannot be, by name."""

import json
import os
import pickle
import re
import threading
from collections import defaultdict

import numpy as np
import pytest
import torch

from abreast import ActionSpec, EmptyEntity, Gridworld, MovingAgent
from abreast.errors import AbreastError, CheckpointError
from abreast.training.checkpoints.folder import list_checkpoints, newest_agents, write_checkpoint
from fakes import timeless
from strangers import games, models
from strangers.test_strangers import GAMES, MODELS, config, own_values, plain, with_model


class StopsAt:
    """A logger that ends the run when an epoch is recorded."""

    def __init__(self, epoch=None):
        self._epoch = epoch

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        if epoch == self._epoch:
            raise InterruptedError


def play(make, how, stop_at=None, **where):
    settings = dict(how)
    run = settings.pop("run")
    env = make(epochs=12, **settings)
    experiment = env.config.experiment.with_derived(checkpoint_interval=2, keep_checkpoints=2)
    env.config = env.config.with_derived(experiment=experiment)
    getattr(env, run)(animate=False, logger=StopsAt(stop_at), **where)
    return env


def kept(folder, env):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return timeless(json.loads(line) for line in lines), own_values(env)


WAYS = {
    "sequential": {"run": "run_experiment"},
    "pipelined, 2 actors": {"run": "run_experiment_mp", "num_actors": 2, "schedule": "pipelined"},
    "pipelined inline, 2 lanes": {
        "run": "run_experiment_mp", "num_envs": 2, "schedule": "pipelined", "workers": "inline",
    },
}  # fmt: skip
FIT = [name for name in (*GAMES, *MODELS) if name != "a Gymnasium environment"]


CASES = [(name, "sequential") for name in FIT] + [(name, "pipelined inline, 2 lanes") for name in MODELS]
CASES += [(name, "pipelined, 2 actors") for name in ("own generators", "Noisy", "SharedDice", "Rhythmic")]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_a_stranger_goes_on_as_if_it_had_not_been_stopped(name, way, tmp_path, caplog):
    make, how = {**GAMES, **MODELS}[name], WAYS[way]
    whole = kept(tmp_path / "whole", play(make, how, output_dir=tmp_path / "whole"))
    with pytest.raises(InterruptedError):
        play(make, how, stop_at=7, output_dir=tmp_path / "run")
    assert "cannot be resumed" not in caplog.text
    assert kept(tmp_path / "run", play(make, how, resume=tmp_path / "run")) == whole


class Locked(Gridworld):
    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        self.lock = threading.Lock()


class SlottedBody(MovingAgent):
    kind, __slots__ = "MovingAgent", ("mood",)


class Slotted(games.Walkers):
    """Its agents keep what outlives an epoch in a slot."""

    body = SlottedBody

    def after_turn(self):
        for agent in self.agents:
            agent.mood = getattr(agent, "mood", 0.0) + 0.5

    def metrics(self):
        return {"mood": self.agents[0].mood}


class Other(MovingAgent):
    kind = "MovingAgent"


class ChangesBodies(games.Walkers):
    def reset(self):
        if self.epochs_played == 3:
            self.agents = [Other(each.observation_spec, each.action_spec, each.model) for each in self.agents]
        super().reset()


class Lengthens(games.Walkers):
    def reset(self):
        longer = self.config.experiment.with_derived(max_turns=self.config.experiment.max_turns + 1)
        self.config = self.config.with_derived(experiment=longer)
        super().reset()


class CountsVisits(games.Walkers):
    def after_turn(self):
        if self.turn == 1:
            self.visits = defaultdict(lambda: 0.0)


class OptimisesLate(models.Reinforce):
    def setup(self, learning, more):
        super().setup(learning, more)
        del self.optimiser

    def train_step(self):
        if "optimiser" not in vars(self):
            self.optimiser = torch.optim.SGD(self.network.parameters(), lr=0.01)
        return super().train_step()


class KeepsItsMap(games.Walkers):
    def reset(self):
        self.turn = 0
        for agent in self.agents:
            agent.reset()


class Leaves(games.Walkers):
    """Its reset leaves the scores, the places and the directions of the agents as they were, and the world grows."""

    def reset(self):
        self.turn = 0
        if self.epochs_played == 4:
            self.world.height += 1
            for agent in self.agents:
                agent.action_spec = ActionSpec(["down", "up", "right", "left"])
        total = self.world.total_reward
        self.world.create_world()
        self.world.total_reward = total
        self.populate_environment()

    def populate_environment(self):
        if not hasattr(self.agents[0], "location"):
            super().populate_environment()
            return
        for agent in self.agents:
            self.world.add(agent.location, agent)
        self.world.scatter([games.Apple() for _ in range(8)], onto="EmptyEntity")

    def metrics(self):
        looks = [["up", "down", "left", "right"].index(agent.facing) for agent in self.agents]
        return {"total": self.world.total_reward, "looks": sum(looks)}


@pytest.mark.parametrize(
    ("kind", "way"), [("Leaves", "sequential"), ("Leaves", "pipelined, 2 actors"), ("Slotted", "sequential"),
                      ("OptimisesLate", "sequential"), ("OptimisesLate", "pipelined inline, 2 lanes")]
)  # fmt: skip
def test_what_outlives_a_reset_is_there_when_the_run_goes_on(kind, way, tmp_path, caplog):
    kinds = {"Leaves": walkers(Leaves), "Slotted": walkers(Slotted), "OptimisesLate": with_model(OptimisesLate)}
    make, how = kinds[kind], WAYS[way]
    whole = kept(tmp_path / "whole", play(make, how, output_dir=tmp_path / "whole"))
    with pytest.raises(InterruptedError):
        play(make, how, stop_at=7, output_dir=tmp_path / "run")
    assert "cannot be resumed" not in caplog.text
    assert kept(tmp_path / "run", play(make, how, resume=tmp_path / "run")) == whole


class Locks(models.Bandit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.lock = threading.Lock()


def walkers(kind):
    return lambda **more: kind(plain(), config(**more))


CANNOT = {
    "a Gymnasium environment": (GAMES["a Gymnasium environment"], "Pole.env (TimeLimit)"),
    "a lock in the world": (lambda **more: games.Walkers(Locked(), config(**more)), "Locked.lock (lock)"),
    "a lock in a model": (with_model(Locks), "Locks.lock (lock)"),
}
LATER = {
    "the configuration of Lengthens, or of a model, has changed": Lengthens,
    "CountsVisits.visits (defaultdict) cannot be kept in a file": CountsVisits,
    "KeepsItsMap.reset leaves the map as it was": KeepsItsMap,
}
"""What has not changed before the first epoch."""
CANNOT |= {name: (walkers(kind), name) for name, kind in LATER.items()}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_resumed_is_named_and_its_agents_are_kept(name, tmp_path, caplog):
    make, named = CANNOT[name]
    with pytest.raises(InterruptedError) as stopped:
        play(make, WAYS["sequential"], stop_at=7, output_dir=tmp_path / "run")
    said = f"this run cannot be resumed: {named}"
    assert caplog.text.count(said) == 1
    if name not in LATER:
        assert caplog.text.index(said) < caplog.text.index("checkpoint epoch_")
    assert "To go on" not in stopped.value.__notes__[0]
    assert newest_agents(tmp_path / "run").agents
    with pytest.raises(CheckpointError, match=re.escape(named)):
        play(make, WAYS["sequential"], resume=tmp_path / "run")


@pytest.mark.parametrize("where", ["agent_0", "actor_0"])
def test_a_checkpoint_whose_values_name_other_code_is_refused_and_runs_nothing(where, tmp_path):
    """As somebody would make one who can compute checksums."""
    make, how = walkers(games.Moody) if where == "actor_0" else MODELS["Bandit"], WAYS["sequential"]
    with pytest.raises(InterruptedError):
        play(make, how, stop_at=7, output_dir=tmp_path / "run")
    newest = [each for each in list_checkpoints(tmp_path / "run") if each.kind == "run"][-1]

    class Hostile:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'hostile'}",)

    parts = {name: newest.part(name) for name in newest.parts}
    key = "own" if where == "agent_0" else "game.lane0.own.values"
    assert key in parts[where].arrays
    parts[where].arrays[key] = np.frombuffer(pickle.dumps({"env.days": Hostile()}), np.uint8)
    write_checkpoint(newest.path, "run", newest.facts.model_dump(), parts)
    with pytest.raises(AbreastError, match=r"posix.system is none of this game's own classes"):
        play(make, how, resume=tmp_path / "run")
    assert not (tmp_path / "hostile").exists()
