"""What users bring is resumed byte for byte, or the run says before it starts that it cannot be, by name."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections import defaultdict
from typing import ClassVar

import pytest
import torch

from abreast import ActionSpec, EmptyEntity, Entity, Gridworld, MovingAgent
from abreast.errors import CheckpointError
from abreast.training.checkpoints.folder import newest_agents
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


class CountsOnTheClass(games.Walkers):
    epochs_seen: ClassVar = [0]

    def reset(self):
        super().reset()
        self.epochs_seen.append(1)


CALLS = itertools.count()
DICE = torch.Generator()


class Ledger:
    total = 0.0


class CountsOnAHelper(games.Walkers):
    def after_turn(self):
        Ledger.total += 0.1


class CountsInAModule(games.Walkers):
    def after_turn(self):
        next(CALLS)


class DrawsFromAModule(games.Walkers):
    def after_turn(self):
        torch.rand(1, generator=DICE)


def numbered():
    numbered.calls = getattr(numbered, "calls", 0) + 1


class CountsOnAFunction(games.Walkers):
    def after_turn(self):
        numbered()


def counter():
    count = 0

    def tick():
        nonlocal count
        count += 1

    return tick


tick = counter()


class CountsInAClosure(games.Walkers):
    def after_turn(self):
        tick()


class CountsInADefault(games.Walkers):
    def after_turn(self, seen=[]):  # noqa: B006 (the fault this is about)
        seen.append(1)


class Mushroom(Entity):
    kind, passable, made = "Apple", True, 0

    def __init__(self):
        Mushroom.made += 1


class Grows(games.Walkers):
    """Entities that number themselves on their class, and of which there is none when the run begins."""

    def after_turn(self):
        self.world.scatter([Mushroom()], onto="EmptyEntity")


class SlottedBody(MovingAgent):
    kind, __slots__ = "MovingAgent", ("mood",)


class Slotted(games.Walkers):
    body = SlottedBody


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


@pytest.mark.parametrize("way", ["sequential", "pipelined, 2 actors"])
def test_what_a_reset_leaves_as_it_was_is_there_when_the_run_goes_on(way, tmp_path, caplog):
    make, how = walkers(Leaves), WAYS[way]
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
    "a list of the class": (lambda **more: CountsOnTheClass(plain(), config(**more)), "CountsOnTheClass.epochs_seen"),
}
CANNOT["a slot"] = (walkers(Slotted), "SlottedBody keeps mood in a slot")
LATER = {
    "the agent 0 is a Other now and was a MovingAgent": ChangesBodies,
    "the configuration of Lengthens, lane 0, has changed": Lengthens,
    "env.visits.factory (the function CountsVisits.after_turn.<locals>.<lambda>) was made after": CountsVisits,
    "a list of the class": CountsOnTheClass,
    "the variable strangers.test_resumed.CALLS": CountsInAModule,
    "the variable strangers.test_resumed.DICE": DrawsFromAModule,
    "the attribute strangers.test_resumed.Ledger.total of a class": CountsOnAHelper,
    "the attribute strangers.test_resumed.Mushroom.made of a class": Grows,
    "an attribute of the function strangers.test_resumed.numbered (calls)": CountsOnAFunction,
    "what is enclosed in the function strangers.test_resumed.tick (count)": CountsInAClosure,
    "a default of the function strangers.test_resumed.CountsInADefault.after_turn (0)": CountsInADefault,
}
"""What has not changed before the first epoch."""
CANNOT["an optimiser made late"] = (with_model(OptimisesLate), "OptimisesLate.optimiser of agent 0 (an optimiser")
CANNOT |= {name: (walkers(kind), name) for name, kind in LATER.items() if name not in CANNOT}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_resumed_is_named_and_its_agents_are_kept(name, tmp_path, caplog):
    make, named = CANNOT[name]
    with pytest.raises(InterruptedError) as stopped:
        play(make, WAYS["sequential"], stop_at=7, output_dir=tmp_path / "run")
    said = f"this run cannot be resumed: {named}"
    assert caplog.text.count(said) == 1
    if name not in LATER and "late" not in name:
        assert caplog.text.index(said) < caplog.text.index("checkpoint epoch_")
    assert "To go on" not in stopped.value.__notes__[0]
    assert newest_agents(tmp_path / "run").agents
    with pytest.raises(CheckpointError, match=re.escape(named)):
        play(make, WAYS["sequential"], resume=tmp_path / "run")


SCRIPT = """
import sys
from strangers.test_strangers import config, games, plain

class Mine(games.Walkers):
    pass

class Told:
    epochs = 0

    def record_epoch(self, *_, **__):
        self.epochs += 1

def report():
    print(env.epochs_played, world, agents, logger.epochs)

env, logger = Mine(plain(), config(epochs=3)), Told()
world, agents = env.world, env.agents
env.run_experiment(animate=False, logger=logger, output_dir=sys.argv[1])
report()
"""


def test_what_a_script_holds_of_its_run_is_no_reason_against_it(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", tmp_path / "run"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert "cannot be resumed" not in told.stderr + (tmp_path / "run" / "log.txt").read_text()
