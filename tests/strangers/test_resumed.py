"""What users bring is resumed byte for byte, or the run says before it starts that it cannot be, by name."""

import json
import re
import threading
from typing import ClassVar

import pytest

from abreast import EmptyEntity, Gridworld
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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FIT)
@pytest.mark.xdist_group("system")
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


class Locks(models.Bandit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.lock = threading.Lock()


CANNOT = {
    "a Gymnasium environment": (GAMES["a Gymnasium environment"], "Pole.env (TimeLimit)"),
    "a lock in the world": (lambda **more: games.Walkers(Locked(), config(**more)), "Locked.lock (lock)"),
    "a lock in a model": (with_model(Locks), "Locks.lock (lock)"),
    "a list of the class": (lambda **more: CountsOnTheClass(plain(), config(**more)), "CountsOnTheClass.epochs_seen"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_resumed_is_named_and_its_agents_are_kept(name, tmp_path, caplog):
    make, named = CANNOT[name]
    with pytest.raises(InterruptedError) as stopped:
        play(make, WAYS["sequential"], stop_at=7, output_dir=tmp_path / "run")
    said = f"this run cannot be resumed: {named}"
    assert caplog.text.count(said) == 1
    if name != "a list of the class":  # which has not changed before the first epoch
        assert caplog.text.index(said) < caplog.text.index("checkpoint epoch_")
    assert "To go on" not in stopped.value.__notes__[0]
    assert newest_agents(tmp_path / "run").agents
    with pytest.raises(CheckpointError, match=re.escape(named)):
        play(make, WAYS["sequential"], resume=tmp_path / "run")
