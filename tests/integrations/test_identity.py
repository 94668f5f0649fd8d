"""Runs of adapted environments: what keeps them from being identical is told. (That they are: promises/.)"""

import pickle

import gymnasium
import pytest

from abreast.errors import CheckpointError, GameError, StateError
from abreast.integrations.adapted import seeding
from abreast.report.data import read_run
from abreast.training import plan as plan_module
from abreast.training.plan import Split
from fakes import learned, outcome
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


DECAY = "model.epsilon_decay=0.1"


class Silent:
    """A logger that shows nothing."""

    def record_epoch(self, *_, **__):
        pass


LEAKS = "pettingzoo:zoo_envs:AvoidsOldPlaces"
ARCHERS = "pettingzoo:pettingzoo.butterfly.knights_archers_zombies_v11"


def test_one_that_leaks_into_reset_is_made_for_each_episode_and_exact(tmp_path, caplog):
    def run(how, epochs, *more, **options):
        experiment = build(LEAKS, "multiprocessing.schedule=lockstep", DECAY, f"experiment.epochs={epochs}", *more)
        found = getattr(experiment, how)(animate=False, logger=Silent(), **options)
        return [(each["reward_per_agent"], each["loss_per_agent"]) for each in found.epochs], learned(experiment)

    whole = run("run_experiment", 9, output_dir=tmp_path / "whole")
    assert caplog.text.count("a new one is made for each episode") == 1 and "cannot be resumed" not in caplog.text
    assert run("run_experiment_mp", 9, "multiprocessing.workers=threads", output_dir=tmp_path / "threads") == whole
    run("run_experiment", 5, output_dir=tmp_path / "run")
    assert run("run_experiment", 9, resume=tmp_path / "run")[1] == whole[1]


@pytest.mark.parametrize(("target", "where"), [(LEAKS, "in what is seen first"), (ARCHERS, "in what is seen after")])
def test_what_leaks_into_reset_is_found_once_for_all_actors(target, where):
    experiment = build(target)
    assert f"they differ {where}" in str(experiment.seeding.leak) and experiment.seeding.fault is None
    assert pickle.loads(pickle.dumps(experiment.factory)).maker.seeding({}, []) == experiment.seeding


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


@pytest.mark.parametrize(
    "target", ["gymnasium:integrations.test_identity:recorded", "gymnasium:zoo_envs:Notes", OWN, SPREAD]
)
def test_one_that_only_records_is_not_suspected(target, caplog):
    build(target).make_lanes()
    assert not caplog.text


def test_one_that_does_not_follow_from_its_seed_trains_and_is_resumed_inexactly(tmp_path, caplog):
    target, run = "pettingzoo:zoo_envs:Unseeded", tmp_path / "run"
    build(target, DECAY).run_experiment(animate=False, logger=Silent(), output_dir=run)
    assert (
        caplog.text.count("this run cannot be resumed exactly: Unseeded does not follow from the seed of its reset")
        == 1
    )
    longer = build(target, DECAY, "experiment.epochs=8")
    with pytest.raises(
        CheckpointError, match=r"in new instances too\. .* give --inexact \(inexact=True\); or begin a new"
    ):
        longer.run_experiment(animate=False, logger=Silent(), resume=run)
    assert len(longer.run_experiment(animate=False, logger=Silent(), resume=run, inexact=True).epochs) == 8
    assert "resumed inexactly at epoch 6: results differ" in (run / "log.txt").read_text()
    assert any("resumed inexactly at epoch 6" in told for _, _, told in read_run(run)["log"]["problems"])


def test_slow_resets_are_announced_before_they_are_tried_out(monkeypatch, caplog):
    monkeypatch.setattr(seeding, "NOTICED_S", 0.0)
    build("pettingzoo:shape_envs:AnyShape").run_experiment(animate=False, logging=False)
    assert "takes long to reset: before the run, 128 resets" in caplog.text
