"""Learners in workers: villains are given up alone, users' own models learn the same."""

import os
import re
import threading
from contextlib import suppress

import numpy as np
import pytest

import unfit_models
import villains
from abreast.errors import ConfigError, WorkerError
from abreast.models import BaseModel
from abreast.processes.child import parent_pid
from abreast.processes.fork_server import FORK_SERVER
from abreast.replay import Buffer
from abreast.training import plan as plan_module
from abreast.training.learners import hosted
from abreast.training.learners.hosted import recipe_of
from abreast.training.plan import Split
from abreast.training.system import MARLMultiprocessingSystem
from chaos.leftovers import descendants
from fakes import small_game, timeless
from promises.cover import rows


def test_the_name_of_a_learner_has_the_first_of_its_agents():
    told = [hosted.name_of_learner(1, agents) for agents in ([3], [1, 3], range(30))]
    assert told == [
        "learner 1 of agent 3",
        "learner 1 of agents 1, 3",
        "learner 1 of agents 0, 1, 2, 3, 4, 5 … (30 in all)",
    ]


def with_villain(kind, *overrides, number=1):
    env = small_game("model.algorithm=dqn", "experiment.epochs=8", "experiment.num_agents=3", *overrides)
    agent, lanes = env.agents[number], env.config.multiprocessing.lanes
    agent.model = kind(agent.observation_spec, 4, env.config.model, env.agent_seed(number), lanes)
    return env


class Enough(Exception):
    pass


@pytest.mark.parametrize(
    ("schedule", "kind"),
    rows(
        {"schedule": ["lockstep", "pipelined", "free"], "kind": [villains.RaisesInTraining, villains.KillsItself]},
        together=1,
    ),
)
def test_a_villain_is_given_up_and_the_others_finish(kind, schedule):
    env = with_villain(
        kind, "multiprocessing.max_restarts=2", "multiprocessing.num_workers=3", f"multiprocessing.schedule={schedule}",
        f"experiment.epochs={100_000 if schedule == 'free' else 8}", "multiprocessing.publish_interval=1",
    )  # fmt: skip

    def end_when_given_up():
        if (
            schedule == "free"
            and system.given_up
            and min(system.learners.published[agent].version for agent in (0, 2)) > 2
        ):
            raise Enough

    env.world.transition = end_when_given_up
    with MARLMultiprocessingSystem(env, env.agents, env.config) as system, suppress(Enough):
        system.run()
    assert list(system.given_up) == [1]
    raises = kind is villains.RaisesInTraining
    tried = "divides by zero: given up" if raises else "was restarted 2 times already: given up"
    assert tried in str(system.given_up[1])
    assert env.agents[0].model.updates > 2 and env.agents[2].model.updates > 2
    assert env.agents[1].model.updates <= 2
    if raises:
        stack = str(system.given_up[1].__cause__).strip().splitlines()
        assert "villains.py" in stack[1] and stack[-1] == "ZeroDivisionError: a villain divides by zero"


@pytest.mark.parametrize(
    ("schedule", "number"), rows({"schedule": ["lockstep", "pipelined"], "number": [1, 2]}, together=1)
)
def test_a_villain_among_others_in_one_process_is_given_up_alone(number, schedule):
    env = with_villain(
        villains.RaisesInTraining, "multiprocessing.num_workers=1", f"multiprocessing.schedule={schedule}",
        "multiprocessing.max_restarts=1", number=number,
    )  # fmt: skip
    result = env.run_experiment_mp(animate=False, logging=False)
    assert list(result.given_up) == [number]
    assert [agent.model.updates for agent in env.agents] == [2 if index == number else 7 for index in range(3)]


def test_a_model_that_raises_is_tried_once_and_its_worker_is_not_restarted(caplog):
    env = with_villain(
        villains.RaisesInTraining, "multiprocessing.num_workers=3", "multiprocessing.schedule=lockstep",
        "multiprocessing.max_restarts=3",
    )  # fmt: skip
    result = env.run_experiment_mp(animate=False, logging=False)
    assert result.epochs[-1]["time"]["restarts"] == 0 and "is restarted" not in caplog.text


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_other_actors_play_on_with_the_last_weights_of_an_agent_that_was_given_up(workers):
    settings = [
        f"multiprocessing.workers={workers}",
        "multiprocessing.num_envs=2",
        "multiprocessing.num_actors=2",
        "multiprocessing.max_restarts=0",
    ]
    env = with_villain(villains.RaisesInTraining, *settings, "multiprocessing.num_workers=3", "experiment.epochs=16")
    env.factory = FactoryOfVillains(settings)
    result = env.run_experiment_mp(animate=False, logging=False)
    assert list(result.given_up) == [1] and len(result.epochs) == 16


class FactoryOfVillains:
    """Builds the same environment for other actors."""

    def __init__(self, settings):
        self.settings = settings

    def __call__(self):
        return with_villain(villains.RaisesInTraining, *self.settings)


def test_a_hanging_villain_shows_where_it_hangs(caplog):
    env = with_villain(
        villains.HangsInTraining, "multiprocessing.learner_timeout=0.7", "multiprocessing.max_restarts=0",
        "multiprocessing.num_workers=3", "multiprocessing.schedule=lockstep",
    )  # fmt: skip
    result = env.run_experiment_mp(animate=False, logging=False)
    assert "villains.py" in str(result.given_up[1]) and "train_step" in str(result.given_up[1])


def test_when_every_learner_is_given_up_the_run_says_so():
    env = with_villain(villains.RaisesInTraining, "experiment.num_agents=2", "multiprocessing.max_restarts=0")
    env.agents[0].model = villains.RaisesInTraining(
        env.agents[0].observation_spec, 4, env.config.model, env.agent_seed(0)
    )
    with pytest.raises(WorkerError, match="every learner has been given up"):
        env.run_experiment_mp(animate=False, logging=False)


class CannotMove(villains.DQN):
    """Can be made in the main process only."""

    def setup(self, learning, more):
        if parent_pid() is not None:
            raise FileNotFoundError("the weights are not here")
        super().setup(learning, more)


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined", "free"])
def test_a_learner_that_cannot_start_ends_the_run_with_its_error_before_anything_is_recorded(schedule, tmp_path):
    env = with_villain(CannotMove, f"multiprocessing.schedule={schedule}", "experiment.checkpoint_interval=1")
    says = r"learner \d of agents? .*1.* could not start: FileNotFoundError: the weights are not here\."
    with pytest.raises(WorkerError, match=says) as caught:
        env.run_experiment_mp(animate=False, output_dir=tmp_path / "run")
    assert "setup" in str(caught.value.__cause__)
    assert not (tmp_path / "run").exists(), list((tmp_path / "run").rglob("*"))
    assert type(env.agents[1].model.memory).__name__ == "Buffer"
    assert descendants(FORK_SERVER.pid) == []


# ---- what cannot be pickled


def test_worlds_and_agents_with_lambdas_and_open_files_work():
    env = with_villain(villains.Unpicklable, "multiprocessing.schedule=lockstep")
    env.world.secret = lambda: None
    env.agents[0].file = open(os.devnull)  # noqa: SIM115, PTH123
    env.run_experiment_mp(animate=False, logging=False)
    assert env.agents[1].model.updates > 2


class Tabular(BaseModel):
    """A foreign model: no network of ours; learns how often it was rewarded."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.values = np.zeros(self.n_actions)

    def take_action(self, state, lane=0):
        return int(self.values.argmax()) if self.choosing_rng.random() > 0.3 else int(self.choosing_rng.integers(4))

    def train_step(self):
        batch = self.memory.sample(8)
        np.add.at(self.values, batch.actions, batch.rewards)
        self.updates += 1
        return float(batch.rewards.mean())

    def save(self, path):
        """Nothing to keep."""


def with_foreign(kind, *overrides):
    env = small_game("model.algorithm=dqn", *overrides)
    for index, agent in enumerate(env.agents):
        agent.model = kind(agent.observation_spec, 4, env.config.model, env.agent_seed(index))
    return env


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_a_foreign_model_learns_elsewhere_with_the_same_result(workers):
    def result(run_name):
        env = with_foreign(Tabular, "multiprocessing.schedule=lockstep", f"multiprocessing.workers={workers}")
        epochs = timeless(getattr(env, run_name)(animate=False, logging=False).epochs)
        return epochs, [agent.model.values.tolist() for agent in env.agents]

    assert result("run_experiment_mp") == result("run_experiment")


def test_a_foreign_model_that_cannot_be_sent_is_refused_before_anything_starts(tmp_path):
    class Secretive(Tabular):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.lock = threading.Lock()

    env = with_foreign(Secretive)
    with pytest.raises(
        ConfigError,
        match=r"the model of agent 0 \(Secretive\) cannot be used here: its attribute lock \(lock\)",
    ):
        env.run_experiment_mp(output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class RefusesConnections(Tabular):
    """Its update raises what a broken pipe would raise."""

    def train_step(self):
        raise ConnectionRefusedError("the server of this model is down")


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_errors_of_a_model_that_look_like_those_of_a_pipe_are_told_with_their_stack(workers):
    env = with_foreign(RefusesConnections, f"multiprocessing.workers={workers}", "multiprocessing.max_restarts=0")
    with pytest.raises(WorkerError) as caught:
        env.run_experiment_mp(animate=False, logging=False)
    given_up = caught.value.__cause__
    assert "ConnectionRefusedError: the server of this model is down" in str(given_up)
    assert "train_step" in str(given_up.__cause__)


class OwnBuffer(Buffer):
    """Samples in its own way."""


def test_a_memory_of_ones_own_kind_is_refused_by_name():
    env = small_game("model.algorithm=dqn")
    memory = env.agents[1].model.memory
    env.agents[1].model.memory = OwnBuffer(memory.capacity, memory.obs_shape, **memory.options())
    with pytest.raises(ConfigError, match=r"the model of agent 1 \(DQN\) .*OwnBuffer, but a learner reads rows from"):
        env.run_experiment_mp(animate=False, logging=False)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            unfit_models.ChoosesWithoutLane,
            "its take_action does not take the lane, but there are 2: define take_action(",
        ),
        (unfit_models.RemembersWithoutLane, "its remember does not take the lane, but there are 2: define remember("),
    ],
)
def test_a_model_that_cannot_be_told_its_lane_is_refused_where_there_are_several(kind, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        with_villain(kind, "multiprocessing.num_envs=2").run_experiment_mp(animate=False, logging=False)


@pytest.mark.parametrize("kind", [unfit_models.ChoosesWithoutLane, unfit_models.RemembersWithoutLane])
def test_a_model_for_one_lane_need_not_know_of_lanes(kind):
    assert recipe_of(0, with_villain(kind).agents[1].model).kind is kind


@pytest.mark.parametrize("where", ["publish_model", "make_backend", "create_shared_models"])
@pytest.mark.parametrize("workers", ["auto", "threads"])
def test_rows_are_moved_back_when_something_fails_before_workers_start(where, workers, monkeypatch):
    """From the beginning, and when a run that began inline moves."""
    env = small_game("model.algorithm=dqn", "experiment.epochs=12", f"multiprocessing.workers={workers}")
    rings = [agent.model.memory.ring for agent in env.agents]
    monkeypatch.setattr(plan_module, "choose", lambda timing, splits: Split(2))
    monkeypatch.setattr(plan_module, "cores", lambda: 2)

    def fails(*arguments, **named):
        raise MemoryError("no room")

    monkeypatch.setattr(hosted, where, fails)
    with pytest.raises(MemoryError, match="no room"):
        env.run_experiment_mp(animate=False, logging=False)
    assert all(agent.model.memory.ring is ring for agent, ring in zip(env.agents, rings, strict=True))
    assert all(agent.model.memory.written.tolist() == [10 * env.epochs_played] for agent in env.agents)
    assert (env.epochs_played > 2) == (workers == "auto")
