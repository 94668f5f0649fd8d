"""Runs of adapted environments: what keeps them from being identical is told. (That they are: promises/.)"""

import json

import gymnasium
import pytest

from abreast.errors import CheckpointError, GameError, StateError
from abreast.training import plan as plan_module
from abreast.training.plan import Split
from fakes import outcome
from integrations.adapted import build
from zoo_envs import ListsByChance


def test_lanes_that_a_plan_deals_out_to_actors_are_played_as_one_would(monkeypatch):
    settings = (
        "pettingzoo:pettingzoo.classic.tictactoe_v3",
        "multiprocessing.num_envs=16",
        "experiment.epochs=48",
        "model.gradient_steps=1",
        "multiprocessing.workers=auto",
    )
    experiment = build(*settings)
    expected = outcome(experiment, experiment.run_experiment)
    monkeypatch.setattr(plan_module, "choose", lambda timing, splits: Split(2, 2))
    monkeypatch.setattr(plan_module, "cores", lambda: 4)
    planned = build(*settings, "multiprocessing.schedule=lockstep")
    assert outcome(planned, planned.run_experiment_mp) == expected
    assert planned.game.state() == experiment.game.state()


class Silent:
    """A logger that shows nothing."""

    def record_epoch(self, *_, **__):
        pass


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("gymnasium:zoo_envs:GetsHarder", "GetsHarder.episodes"),
        ("pettingzoo:pettingzoo.butterfly.knights_archers_zombies_v11", "raw_env.zombie_spawn_interval"),
    ],
)
def test_one_that_keeps_something_from_episode_to_episode_says_so(target, kept, tmp_path, caplog):
    experiment = build(target, "experiment.epochs=1", "experiment.max_turns=3")
    experiment.run_experiment(animate=False, logger=Silent(), output_dir=tmp_path / "run")
    assert caplog.text.count(f"keeps {kept} from one episode to the next, which is part of no checkpoint") == 1
    caplog.clear()
    again = build(target, "experiment.epochs=2", "experiment.max_turns=3")
    again.run_experiment(animate=False, logger=Silent(), resume=tmp_path / "run")
    assert "a run that is resumed goes on otherwise than it would have" in caplog.text


def test_agents_in_another_order_are_refused(monkeypatch):
    """As in another process, where the order of a set of names is another."""
    experiment = build("pettingzoo:zoo_envs:ListsByChance")
    monkeypatch.setattr(ListsByChance, "order", ("late", "guest", "host"))
    told = r"host, guest, late, and then late, guest, host\): let its arguments alone decide"
    with pytest.raises(GameError, match=told):
        experiment.factory()
    with pytest.raises(StateError, match=r"were \['host', 'guest', 'late'\], and now are \['late', 'guest', 'host'\]"):
        build("pettingzoo:zoo_envs:ListsByChance").game.set_state(experiment.game.state())


def test_an_argument_that_a_run_was_begun_without_is_named(tmp_path):
    target, short = "gymnasium:zoo_envs:corridor", ("experiment.epochs=1", "experiment.max_turns=3")
    build(target, *short).run_experiment(animate=False, logger=Silent(), output_dir=tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"^world\.length is 3, but the run was begun without it: with --resume"):
        build(target, *short, "world.length=3").run_experiment(animate=False, resume=tmp_path / "run")


def recorded():
    return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))


SPREAD = "pettingzoo:mpe2.simple_spread_v3"
OWN = "pettingzoo:abreast.games.tag.tag_v0"


@pytest.mark.parametrize("target", ["gymnasium:integrations.test_identity:recorded", OWN, SPREAD])
def test_one_that_only_records_is_not_suspected(target, caplog):
    build(target).make_lanes()
    assert not caplog.text


def test_one_that_does_not_follow_from_its_seed_says_so_and_trains(tmp_path, caplog):
    experiment = build("pettingzoo:zoo_envs:Unseeded")
    experiment.run_experiment(animate=False, logger=Silent(), output_dir=tmp_path / "run")
    assert caplog.text.count("this run cannot be resumed: Unseeded does not follow from the seed of its reset") == 1
    manifest = json.loads((tmp_path / "run" / "checkpoints" / "epoch_000006" / "manifest.json").read_text())
    assert "does not follow from the seed" in json.dumps(manifest)
