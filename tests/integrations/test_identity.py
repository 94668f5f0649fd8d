"""Runs of adapted environments are identical however they are run, and wherever they were stopped."""

import json
import os
import signal

import gymnasium
import pytest

import villains
from abreast.errors import CheckpointError, GameError, StateError
from abreast.training import plan as plan_module
from abreast.training.actors.process import ProcessActors
from abreast.training.learners.hosted import HostedLearners
from abreast.training.plan import Split
from fakes import outcome, timeless
from integrations.adapted import build
from zoo_envs import ListsByChance

TARGETS = {
    "at once": ("pettingzoo:mpe2.simple_spread_v3", "world.max_cycles=8"),
    "in turn": ("pettingzoo:pettingzoo.classic.tictactoe_v3",),
    "come and go": ("pettingzoo:zoo_envs:Meeting",),
}


def run(name, way, *overrides):
    experiment = build(*TARGETS[name], *overrides)
    return outcome(experiment, getattr(experiment, way))


def learned(found):
    return found[0][-1]["updates"] > 0


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.xdist_group("system")
def test_all_ways_to_run_give_the_same(name):
    lanes = ("multiprocessing.num_envs=2", "multiprocessing.num_actors=2", "experiment.epochs=12")
    sequential = run(name, "run_experiment", *lanes)
    assert learned(sequential)
    lockstep = "multiprocessing.schedule=lockstep"
    assert run(name, "run_experiment_mp", *lanes, lockstep) == sequential
    pipelined = run(name, "run_experiment_mp", *lanes, "multiprocessing.workers=inline")
    assert pipelined != sequential
    assert run(name, "run_experiment_mp", *lanes, "multiprocessing.num_workers=1") == pipelined
    assert run(name, "run_experiment_mp", *lanes, "multiprocessing.workers=threads") == pipelined
    free = ("multiprocessing.schedule=free", "multiprocessing.workers=threads")
    assert len(run(name, "run_experiment_mp", *lanes, *free)[0]) == 12


@pytest.mark.xdist_group("planned")
def test_lanes_that_a_plan_deals_out_to_actors_are_played_as_one_would(monkeypatch):
    settings = (
        *TARGETS["in turn"],
        "multiprocessing.num_envs=16",
        "experiment.epochs=64",
        "multiprocessing.workers=auto",
    )
    experiment = build(*settings)
    expected = [outcome(experiment, experiment.run_experiment) for _ in range(2)]
    monkeypatch.setattr(plan_module, "choose", lambda timing, splits: Split(2, 2))
    monkeypatch.setattr(plan_module, "cores", lambda: 4)
    planned = build(*settings, "multiprocessing.schedule=lockstep")
    assert [outcome(planned, planned.run_experiment_mp) for _ in range(2)] == expected
    assert planned.game.state() == experiment.game.state()


@pytest.mark.xdist_group("system")
def test_killed_learners_change_nothing(caplog):
    settings = ("experiment.epochs=80", "multiprocessing.schedule=lockstep", "multiprocessing.max_restarts=1000")
    calm = run("in turn", "run_experiment", *settings)
    experiment = build(*TARGETS["in turn"], *settings)
    with villains.harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGKILL), every_s=0.05, times=4):
        assert outcome(experiment, experiment.run_experiment_mp) == calm
    assert "learner" in caplog.text and "SIGKILL" in caplog.text


@pytest.mark.xdist_group("system")
def test_killed_actors_change_nothing(caplog):
    settings = ("experiment.epochs=60", "multiprocessing.schedule=lockstep", "multiprocessing.max_restarts=1000")
    settings += ("multiprocessing.num_actors=2",)
    calm = run("come and go", "run_experiment", *settings)
    experiment = build(*TARGETS["come and go"], *settings)
    with villains.harm(ProcessActors, lambda pid: os.kill(pid, signal.SIGKILL), every_s=0.05, times=3):
        assert outcome(experiment, experiment.run_experiment_mp) == calm
    assert "actor 1" in caplog.text and "SIGKILL" in caplog.text


class StopsAt:
    def __init__(self, epoch):
        self.epoch = epoch

    def record_epoch(self, epoch, *_, **__):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def lines(folder):
    return timeless(json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("way", ["run_experiment", "run_experiment_mp"])
def test_a_run_that_goes_on_ends_as_one_that_was_never_stopped(name, way, tmp_path):
    settings = (
        *TARGETS[name],
        "multiprocessing.num_envs=2",
        "experiment.epochs=12",
        "experiment.checkpoint_interval=2",
    )
    settings += ("multiprocessing.workers=inline",)
    quiet = {"animate": False, "logger": StopsAt(None)}
    whole = build(*settings)
    getattr(whole, way)(**quiet, output_dir=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        getattr(build(*settings), way)(animate=False, logger=StopsAt(7), output_dir=tmp_path / "part")
    again = build(*settings)
    getattr(again, way)(**quiet, resume=tmp_path / "part")
    assert lines(tmp_path / "part") == lines(tmp_path / "whole") and len(lines(tmp_path / "whole")) == 12
    for one, two in zip(whole.game.players, again.game.players, strict=True):
        assert one.model.online_block.values.equal(two.model.online_block.values)
    assert again.game.state() == whole.game.state()


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("gymnasium:zoo_envs:GetsHarder", "GetsHarder.episodes"),
        ("pettingzoo:pettingzoo.butterfly.knights_archers_zombies_v11", "raw_env.zombie_spawn_interval"),
    ],
)
def test_one_that_keeps_something_from_episode_to_episode_says_so(target, kept, tmp_path, caplog):
    experiment = build(target, "experiment.epochs=1", "experiment.max_turns=3")
    experiment.run_experiment(animate=False, logger=StopsAt(None), output_dir=tmp_path / "run")
    assert caplog.text.count(f"keeps {kept} from one episode to the next, which is part of no checkpoint") == 1
    caplog.clear()
    again = build(target, "experiment.epochs=2", "experiment.max_turns=3")
    again.run_experiment(animate=False, logger=StopsAt(None), resume=tmp_path / "run")
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
    build(target, *short).run_experiment(animate=False, logger=StopsAt(None), output_dir=tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"^world\.length is 3, but the run was begun without it: with --resume"):
        build(target, *short, "world.length=3").run_experiment(animate=False, resume=tmp_path / "run")


def recorded():
    return gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))


OWN = "pettingzoo:abreast.games.tag.tag_v0"


@pytest.mark.parametrize("target", ["gymnasium:integrations.test_identity:recorded", OWN, TARGETS["at once"][0]])
def test_one_that_only_records_is_not_suspected(target, caplog):
    build(target).make_lanes()
    assert not caplog.text


def test_one_that_does_not_follow_from_its_seed_says_so_and_trains(tmp_path, caplog):
    experiment = build("pettingzoo:zoo_envs:Unseeded")
    experiment.run_experiment(animate=False, logger=StopsAt(None), output_dir=tmp_path / "run")
    assert caplog.text.count("this run cannot be resumed: Unseeded does not follow from the seed of its reset") == 1
    manifest = json.loads((tmp_path / "run" / "checkpoints" / "epoch_000006" / "manifest.json").read_text())
    assert "does not follow from the seed" in json.dumps(manifest)
