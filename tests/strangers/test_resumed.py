"""What users bring is resumed byte for byte (test_strangers.py), or the run says before it starts that it cannot be."""

import os
import pickle
import re
import threading
from collections import defaultdict

import numpy as np
import pytest

from abreast import AsciiObservationSpec, EmptyEntity, Gridworld, MovingAgent
from abreast.errors import AbreastError, CheckpointError
from abreast.training.checkpoints.folder import list_checkpoints, newest_agents, write_checkpoint
from strangers import games, models
from strangers.cases import GAMES, MODELS, kept, play, walkers, with_model


class Locked(Gridworld):
    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        self.lock = threading.Lock()


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


class KeepsItsMap(games.Walkers):
    def reset(self):
        self.turn = 0
        for agent in self.agents:
            agent.reset()


class Locks(models.Bandit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.lock = threading.Lock()


class Reads(games.Walkers):
    def setup_agents(self):
        view = AsciiObservationSpec(vision_radius=1)
        self.agents = [self.body(view, games.WALK, self.make_model(view, 4, number)) for number in range(self.count)]


def test_a_model_that_learns_from_text_is_kept_and_resumed(tmp_path, caplog):
    make, run = with_model(models.Bandit, game=Reads), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        play(make, "run_experiment", stop_at=3, output_dir=run)
    whole = play(make, "run_experiment", output_dir=tmp_path / "whole")
    resumed = play(make, "run_experiment", resume=run)
    assert kept(run, resumed) == kept(tmp_path / "whole", whole) and "cannot" not in caplog.text
    text = resumed.agents[0].model.memory.trajectory(0, 0).states
    assert text.dtype == "<U1" and set(text.ravel().tolist()) == {"A", "M", " ", ""}


CANNOT = {
    "a Gymnasium environment": (GAMES["a Gymnasium environment"], "Pole.env (TimeLimit)"),
    "a lock in the world": (walkers(games.Walkers, Locked), "Locked.lock (lock)"),
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
    with pytest.raises(KeyboardInterrupt) as stopped:
        play(make, "run_experiment", stop_at=7, output_dir=tmp_path / "run")
    said = f"this run cannot be resumed exactly: {named}"
    assert caplog.text.count(said) == 1
    if name not in LATER:
        assert caplog.text.index(said) < caplog.text.index("checkpoint epoch_")
    assert "To go on" not in stopped.value.__notes__[0]
    assert newest_agents(tmp_path / "run").agents
    with pytest.raises(CheckpointError, match=re.escape(named)):
        play(make, "run_experiment", resume=tmp_path / "run")


@pytest.mark.parametrize("where", ["agent_0", "actor_0"])
def test_a_checkpoint_whose_values_name_other_code_is_refused_and_runs_nothing(where, tmp_path):
    """As somebody would make one who can compute checksums."""
    make = walkers(games.Moody) if where == "actor_0" else MODELS["Bandit"]
    with pytest.raises(KeyboardInterrupt):
        play(make, "run_experiment", stop_at=7, output_dir=tmp_path / "run")
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
        play(make, "run_experiment", resume=tmp_path / "run")
    assert not (tmp_path / "hostile").exists()
