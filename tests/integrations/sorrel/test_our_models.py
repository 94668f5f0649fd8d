"""Models of ours in worlds of sorrel's: the same however they are run, and wherever they were stopped."""

import json
import logging
import os
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

import sorrel_standin
import villains
from abreast.cli.app import app
from abreast.errors import ConfigError, GameError
from abreast.integrations.sorrel import find
from abreast.training.actors.process import ProcessActors
from abreast.training.evaluate import evaluate
from abreast.training.learners.hosted import HostedLearners
from fakes import outcome, timeless

SMALL = ("model.algorithm=dqn", "model.hidden_size=16", "model.batch_size=8", "model.n_frames=2")
SMALL += ("experiment.epochs=8", "experiment.train_interval=1")
LANES = ("multiprocessing.num_envs=4", "multiprocessing.num_actors=2")
LOCKSTEP = "multiprocessing.schedule=lockstep"


def build(name, *overrides):
    source = find(f"sorrel_standin:{name}")
    return source.build(source.configure(None, [*SMALL, *overrides]))


def run(name, way, *overrides):
    experiment = build(name, *overrides)
    return outcome(experiment, getattr(experiment, way))


@pytest.mark.parametrize(
    "name",
    ["ForageEnv", pytest.param("tag", marks=pytest.mark.chaos), pytest.param("LastingEnv", marks=pytest.mark.chaos)],
)
@pytest.mark.xdist_group("system")
def test_all_ways_to_run_give_the_same(name):
    """Also where an epoch ends early, and where map and agents outlive it."""
    sequential = run(name, "run_experiment", *LANES)
    assert sequential[0][-1]["updates"] > 0
    assert run(name, "run_experiment_mp", *LANES, LOCKSTEP, "multiprocessing.workers=processes") == sequential
    pipelined = run(name, "run_experiment_mp", *LANES, "multiprocessing.workers=inline")
    assert pipelined != sequential
    assert run(name, "run_experiment_mp", *LANES, "multiprocessing.workers=threads") == pipelined
    if name == "ForageEnv":
        assert run(name, "run_experiment_mp", *LANES, "multiprocessing.num_workers=1") == pipelined


@pytest.mark.parametrize("victim", [pytest.param(HostedLearners, marks=pytest.mark.chaos), ProcessActors])
@pytest.mark.xdist_group("system")
def test_killed_learners_and_actors_change_nothing(victim, caplog):
    settings = (LOCKSTEP, "experiment.epochs=40", "multiprocessing.max_restarts=1000", *LANES)
    calm = run("tag", "run_experiment", *settings)
    experiment = build("tag", *settings, "multiprocessing.workers=processes")
    with villains.harm(victim, lambda pid: os.kill(pid, signal.SIGKILL), every_s=0.05, times=2):
        assert outcome(experiment, experiment.run_experiment_mp) == calm
    assert "SIGKILL" in caplog.text


class StopsAt:
    def __init__(self, epoch):
        self.epoch = epoch

    def record_epoch(self, epoch, *_, **__):
        if epoch == self.epoch:
            raise KeyboardInterrupt


def lines(folder):
    return timeless(json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())


@pytest.mark.parametrize("way", [pytest.param("run_experiment", marks=pytest.mark.chaos), "run_experiment_mp"])
def test_a_run_that_goes_on_ends_as_one_that_was_never_stopped(way, tmp_path):
    settings = ("multiprocessing.num_envs=2", "experiment.checkpoint_interval=2", "multiprocessing.workers=inline")
    whole, part, again = (build("LastingEnv", *settings) for _ in range(3))
    getattr(whole, way)(animate=False, logger=StopsAt(None), output_dir=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        getattr(part, way)(animate=False, logger=StopsAt(5), output_dir=tmp_path / "part")
    getattr(again, way)(animate=False, logger=StopsAt(None), resume=tmp_path / "part")
    assert lines(tmp_path / "part") == lines(tmp_path / "whole") and len(lines(tmp_path / "whole")) == 8
    for one, two in zip(whole.game.players, again.game.players, strict=True):
        assert one.model.online_block.values.equal(two.model.online_block.values)


def test_lanes_draw_from_generators_of_their_own():
    experiment = build("ForageEnv", "multiprocessing.num_envs=2")
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    experiment.run_experiment(animate=False, logging=False)
    one, two = (experiment.game.lane(number).env for number in range(2))
    assert [agent.location for agent in one.agents] != [agent.location for agent in two.agents]
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


def test_a_run_is_trained_resumed_evaluated_and_watched_from_the_command_line(tmp_path):
    def cli(*arguments):
        result = CliRunner().invoke(app, [str(each) for each in arguments])
        assert result.exit_code == 0, (result.output, result.exception)
        return " ".join(result.output.split())

    folder = tmp_path / "run"
    cli("train", "sorrel:sorrel_standin:ForageEnv", *SMALL, "experiment.epochs=4", "--output", folder)
    assert len(lines(folder)) == 4  # as many as asked for
    cli("train", "--resume", folder, "experiment.epochs=6")
    assert len(lines(folder)) == 6
    cli("eval", folder, "--episodes", 2)
    assert len(json.loads((folder / "evaluation.json").read_text())["checkpoints"][0]["agents"]) == 2
    assert ":-" in cli("play", folder)  # in shades


def test_an_evaluation_repeats_itself_and_leaves_no_trace():
    experiment = build("tag", "multiprocessing.num_envs=2")
    before = experiment.game.state()
    assert evaluate(experiment, 3).rewards == evaluate(experiment, 3).rewards
    assert experiment.game.state().facts == before.facts
    experiment.act_at_random()
    assert len(evaluate(experiment, 2).rewards) == 2


def test_an_episode_that_has_ended_for_good_is_remembered_so():
    experiment = build("tag")
    experiment.run_experiment(animate=False, logging=False)
    memory = experiment.game.players[0].model.memory
    rows = memory.trajectory(0, memory.oldest_row(0))
    assert rows.dones.any() and rows.last[rows.dones.astype(bool)].all()
    assert rows.last.sum() == 8  # one for each epoch, also for those that were cut


def test_settings_that_both_know_count_for_both():
    source = find("sorrel_standin:ForageEnv")
    config = source.configure(None, [*SMALL, "model.epsilon_decay=0.2", "model.num_agents=3", "world.height=6"])
    experiment = source.build(config)
    env = experiment.game.lane(0).env
    assert config.model.epsilon_decay == 0.2 and env.config.model.epsilon_decay == 0.2
    assert len(experiment.game.players) == 3 and env.world.height == 6 and "hidden_size" not in env.config.model
    again = source.configure(json.loads(config.model_dump_json()))
    assert again == config
    with pytest.raises(ConfigError, match="hiden_size"):
        source.configure(None, [*SMALL, "model.hiden_size=3"])


def test_models_that_share_or_hold_locks_are_no_matter():
    assert len(build("SharingEnv").run_experiment(animate=False, logging=False).epochs) == 8


def test_locks_of_its_own_models_are_the_reason_why_a_run_cannot_be_resumed(tmp_path, caplog):
    experiment = find("sorrel_standin:LockedEnv").build(find("sorrel_standin:LockedEnv").configure())
    with caplog.at_level(logging.WARNING, "abreast"):
        experiment.run_experiment(animate=False, output_dir=tmp_path / "run")
    (line,) = [each.message for each in caplog.records if "cannot be resumed" in each.message]
    assert "Memory.lock (RLock) cannot be kept in a file: TypeError: cannot pickle '_thread.RLock' object" in line
    assert "or train models of abreast's (model.algorithm=dqn)" in line


def test_what_models_of_ours_have_not_is_named(monkeypatch):
    monkeypatch.setattr(sorrel_standin.Forager, "get_action", lambda self, state: self.model.add_memory_ppo(1))
    with pytest.raises(GameError, match=r"agent 0 asks its model for add_memory_ppo, .*leave model\.algorithm out"):
        build("ForageEnv").run_experiment(animate=False, logging=False)


def test_an_observation_of_another_size_is_named(monkeypatch):
    experiment = build("ForageEnv")
    monkeypatch.setattr(sorrel_standin.Forager, "pov", lambda self, world: np.zeros((1, 12)))
    monkeypatch.setattr(sorrel_standin.Forager, "get_action", lambda self, state: self.model.take_action(state))
    with pytest.raises(GameError, match=r"agent 0 gives its model 12 numbers .* had 11"):
        experiment.run_experiment(animate=False, logging=False)


def test_a_default_entity_of_its_own_is_left_to_a_world():
    env = build("BoardEnv").game.lane(0).env
    assert env.world.default_entity.kind == "EmptySquare"
