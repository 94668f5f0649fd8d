"""The choice of a plan, from made-up measurements; and that a planned run is the run it would have been."""

import json
import os
from dataclasses import replace
from functools import partial
from threading import Lock
from types import SimpleNamespace

import pytest

import villains
from abreast.errors import ConfigError, WorldError
from abreast.games.treasurehunt import TreasurehuntEnv
from abreast.processes import cores as cores_module
from abreast.training.config import MPConfig
from abreast.training.planning import plan as plan_module
from abreast.training.planning.costs import Candidate, Prediction, Shape
from abreast.training.planning.measuring import GameTimes, Measured, ModelTimes, NotMeasured
from abreast.training.planning.plan import choose, make_plan
from abreast.training.system import MARLMultiprocessingSystem
from fakes import outcome, small_game
from strangers.test_strangers import GAMES

LONG = ("experiment.epochs=4000", "multiprocessing.workers=auto")


def measured(agents=2, cores=2, update=10e-3, world=1e-3, choose=1e-3, lanes=8, turns=10, quota=None, **game):
    """A calibration."""
    model = ModelTimes(update, update, 0.1e-3, 1.0, (0.1e-3, 0.01e-3))
    times = GameTimes(lanes, world, choose, 0.1e-3, game.pop("wait", 0.0), turns, **game)
    return Measured([model] * agents, times, 20e-6, cores, quota, 0.3)


@pytest.fixture
def found(monkeypatch):
    """Let a calibration find this, on a machine with these cores."""

    def find(result=None, cores=2):
        def measure(experiment):
            if isinstance(result, Exception):
                raise result
            return result or measured(len(experiment.game.players), cores)

        monkeypatch.setattr(plan_module, "measure", measure)
        monkeypatch.setattr(plan_module, "cores", lambda: cores)
        monkeypatch.setattr(plan_module, "process_backend", lambda: SimpleNamespace(warm_up=lambda: None))
        monkeypatch.setattr(plan_module, "has_fork_server", lambda: False)

    find()
    return find


def plan_of(*settings):
    env = small_game(*LONG, *settings)
    env.make_lanes()
    return make_plan(env, env.config.multiprocessing)


def chosen(plan):
    return plan.workers, plan.num_actors, plan.num_workers, plan.lanes


# ---- the choice


def test_updates_that_take_long_are_done_in_processes(found):
    plan = plan_of("multiprocessing.num_envs=8")
    assert chosen(plan) == ("processes", 1, 2, 8)
    assert plan.predicted_s and plan.sequential_s and plan.predicted_s < plan.sequential_s


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined", "free"])
def test_what_takes_no_time_is_done_inline(schedule, found):
    found(measured(update=20e-6, world=20e-6, choose=50e-6))
    plan = plan_of("multiprocessing.num_envs=8", f"multiprocessing.schedule={schedule}")
    assert chosen(plan) == ("inline", 1, 0, 8)
    assert plan.predicted_s == plan.sequential_s


def test_a_short_run_does_not_start_processes(found):
    assert plan_of("multiprocessing.num_envs=8", "experiment.epochs=3").workers == "inline"


def test_one_core_or_half_of_one_leaves_workers_out(found, monkeypatch):
    found(cores=1)
    plan = plan_of("multiprocessing.num_envs=16")
    assert chosen(plan) == ("inline", 1, 0, 16) and plan.left_out == ["workers: there is 1 core"]
    monkeypatch.setattr(plan_module, "quota", lambda: 0.5)
    assert plan_of("multiprocessing.num_envs=16").left_out == ["workers: there is 0.5 of a core"]


def test_a_quota_counts_like_missing_cores():
    shape, two = Shape("pipelined", 8, 8, 1000), Candidate("processes", 1, 2)
    free, bound = Prediction(measured(cores=4), shape), Prediction(measured(cores=4, quota=1.0), shape)
    assert free.of_pass(two) < 0.6 * free.sequential
    assert bound.of_pass(two) >= bound.sequential and bound.sequential == free.sequential
    assert Prediction(measured(cores=4, quota=0.5), shape).sequential == pytest.approx(2 * free.sequential)


def test_slow_worlds_are_spread_over_actors(found):
    found(measured(world=0.1, cores=8, lanes=16), cores=8)
    plan = plan_of("multiprocessing.num_envs=16", "model.algorithm=dqn")
    assert chosen(plan) == ("processes", 2, 1, 8)
    plan = plan_of("multiprocessing.num_envs=32", "model.algorithm=dqn")
    assert (plan.num_actors, plan.lanes) == (4, 8)
    assert plan_of("multiprocessing.num_envs=12", "model.algorithm=dqn").num_actors == 1  # no whole groups of lanes


def test_waiting_worlds_are_spread_over_actors_though_there_are_few_cores(found):
    found(measured(wait=0.1, update=1e-3, lanes=16))
    assert plan_of("multiprocessing.num_envs=16", "model.algorithm=dqn").num_actors == 2


@pytest.mark.parametrize(("cores", "agents", "workers"), [(2, 5, 2), (4, 4, 4), (16, 5, 5), (16, 16, 16)])
def test_learners_that_take_longest_get_a_worker_each_as_far_as_cores_go(cores, agents, workers, found):
    found(measured(agents, cores, update=0.2), cores)
    assert plan_of("multiprocessing.num_envs=8", f"experiment.num_agents={agents}").num_workers == workers


@pytest.mark.parametrize(("gain", "threads"), [(1.0, 1), (1.6, 4)])
def test_threads_share_updates_where_cores_are_left(gain, threads, found):
    found(replace(measured(2, 8), models=[ModelTimes(50e-3, 50e-3, 0.0, gain, (0.0, 1.0))] * 2), cores=8)
    plan = plan_of("multiprocessing.num_envs=8")
    assert (plan.num_workers, plan.learner_threads) == (2, threads)
    assert plan_of("multiprocessing.num_envs=8", "multiprocessing.learner_threads=2").learner_threads == 2


def test_no_more_workers_than_help():
    """Playing takes longest: one learner process keeps up."""
    candidates = [Candidate("inline"), *(Candidate("processes", 1, number) for number in (1, 2, 3, 4))]
    prediction = Prediction(measured(4, 8, world=0.1, update=10e-3), Shape("pipelined", 8, 8, 1000))
    assert choose(candidates, prediction) == Candidate("processes", 1, 1)


def test_threads_are_used_where_processes_take_too_long_to_start(found):
    found(measured(update=50e-3))
    plan = plan_of("multiprocessing.num_envs=2", "experiment.epochs=8")
    assert plan.workers == "threads"
    model = "model.algorithm=strangers.models:Bandit"
    assert plan_of("multiprocessing.num_envs=2", "experiment.epochs=8", model).workers != "threads"


def test_the_last_round_of_a_pipelined_run_has_nobody_beside_it():
    plan, alone = Candidate("processes", 1, 2), Shape("pipelined", 8, 8, 1, has_fork_server=True)
    long = replace(alone, passes=10_000)
    short_s, long_s = (Prediction(measured(), shape).of_run(plan) for shape in (alone, long))
    assert short_s > 1.2 * long_s


# ---- what the user sets wins


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["workers=inline"], ("inline", 1, 0, 16)),
        (["workers=threads"], ("threads", 1, 2, 16)),
        (["workers=processes", "num_workers=1", "num_actors=1"], ("processes", 1, 1, 16)),
        (["num_workers=1"], ("processes", 1, 1, 16)),
        (["num_actors=1"], ("processes", 1, 2, 16)),
        (["num_actors=3"], ("processes", 3, 2, 16)),
        (["workers=inline", "num_actors=3"], ("inline", 3, 0, 16)),
        (["workers=threads", "num_actors=3", "num_workers=2"], ("threads", 3, 2, 16)),
    ],
)
def test_what_is_set_stays(settings, expected, found):
    plan = plan_of("multiprocessing.num_envs=16", *(f"multiprocessing.{each}" for each in settings))
    assert chosen(plan) == expected


def test_where_nothing_is_left_to_choose_nothing_is_measured(found):
    found(AssertionError("was measured"))
    plan = plan_of("multiprocessing.workers=processes", "multiprocessing.num_workers=2")
    assert chosen(plan) == ("processes", 1, 2, 1) and plan.measured is None and len(plan.reasons) == 2


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        (["experiment.freeze=[0, 1]"], "learners: all agents are frozen"),
        (["experiment.freeze=[0]", "multiprocessing.num_workers=2"], "1 of 2 workers: the other agents are frozen"),
        (["multiprocessing.workers=inline", "multiprocessing.num_workers=2"],
         "num_workers 2: learners live in this thread"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_left_out_and_told(settings, left_out, found):
    plan = plan_of(*settings)
    assert left_out in plan.left_out and left_out in plan.reasons[1]
    env = small_game(*settings, "multiprocessing.workers=auto")
    assert env.run_experiment_mp(animate=False, logging=False).epochs


def test_more_workers_than_agents_are_refused():
    env = small_game("multiprocessing.num_workers=3")
    with pytest.raises(ConfigError, match="num_workers is 3, but there are 2 agents"):
        env.plan()


# ---- what would change results is not planned


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"why_one_actor": "its world draws"}, "several actors: its world draws"),
        ({}, None),
    ],
)
def test_what_was_seen_in_play_leaves_one_actor(more, why, found):
    found(measured(world=0.1, cores=8, lanes=16, **more), cores=8)
    plan = plan_of("multiprocessing.num_envs=16", "model.algorithm=dqn")
    assert (plan.num_actors == 1) == (why is not None)
    assert plan.left_out == ([] if why is None else [why])


def test_users_models_and_games_without_a_factory_leave_one_actor(found):
    found(measured(world=0.1, cores=8, lanes=16), cores=8)
    plan = plan_of("multiprocessing.num_envs=16", "model.algorithm=strangers.models:Bandit")
    assert plan.num_actors == 1 and "model of your own (Bandit)" in plan.left_out[0]
    env = small_game(*LONG, "multiprocessing.num_envs=16", "model.algorithm=dqn")
    env.factory = partial(print, Lock())
    plan = make_plan(env, env.config.multiprocessing)
    assert plan.num_actors == 1 and "cannot be built in another process" in plan.left_out[0]


def test_what_was_not_measured_is_planned_by_rule_and_told(found):
    found(NotMeasured("the world hangs"), cores=2)
    plan = plan_of("multiprocessing.num_envs=16")
    assert chosen(plan) == ("processes", 1, 2, 16) and plan.measured is None
    assert "by rule" in plan.reasons[0] and plan.reasons[1] == "not measured: the world hangs."
    assert plan_of("experiment.epochs=3").workers == "inline"


def test_more_lanes_are_told_and_never_taken(found):
    found(measured(choose=10e-3, update=0.5e-3, lanes=1))
    plan = plan_of("multiprocessing.num_envs=1")
    assert plan.lanes == 1 and plan.more_lanes is not None
    assert "lanes instead of 1 about" in plan.more_lanes and plan.more_lanes in plan.reasons[1]
    assert "other results" in plan.more_lanes
    found(measured(choose=0.0, update=50e-3))
    assert plan_of("multiprocessing.num_envs=8").more_lanes is None


def test_a_plan_is_json_and_its_reasons_are_two_lines(found):
    plan = plan_of("multiprocessing.num_envs=8")
    assert all("\n" not in line and line.endswith(".") for line in plan.reasons) and len(plan.reasons) == 2
    kept = json.loads(json.dumps(plan.as_json()))
    assert kept["workers"] == "processes" and kept["measured"]["cores"] == 2
    assert {each["workers"] for each in kept["considered"]} == {"inline", "threads", "processes"}
    assert kept["considered"] == sorted(kept["considered"], key=lambda each: each["with_start_s"])
    applied = plan.applied(MPConfig(num_envs=8, mode="double_buffer"))
    assert (applied.workers, applied.num_workers, applied.num_actors, applied.mode) == (
        "processes", 2, 1, "double_buffer",
    )  # fmt: skip


# ---- a planned run


def as_planned(monkeypatch, workers, num_actors, num_workers):
    """Let every plan be this one."""

    def pick(candidates, prediction):
        return Candidate(workers, num_actors, num_workers)

    monkeypatch.setattr(plan_module, "choose", pick)
    monkeypatch.setattr(plan_module, "cores", lambda: 4)


RUN = ("model.algorithm=iqn", "experiment.epochs=40", "multiprocessing.num_envs=16", "multiprocessing.workers=auto")


@pytest.fixture(scope="module")
def sequential():
    env = small_game(*RUN)
    return outcome(env, env.run_experiment)


@pytest.mark.xdist_group("planned")
@pytest.mark.parametrize("plan", [("inline", 1, 0), ("threads", 1, 2), ("processes", 1, 1), ("processes", 2, 2)])
def test_a_planned_run_is_the_sequential_run_and_that_with_the_numbers_set(plan, sequential, monkeypatch):
    as_planned(monkeypatch, *plan)
    env = small_game(*RUN, "multiprocessing.schedule=lockstep")
    assert outcome(env, env.run_experiment_mp) == sequential
    assert env.planned is None and len(env.lanes) == 16
    workers, actors, number = plan
    by_hand = [f"workers={workers}", f"num_actors={actors}", f"num_envs={16 // actors}", "schedule=lockstep"]
    by_hand += [f"num_workers={number}"] if number else []
    monkeypatch.setattr(plan_module, "measure", None)
    env = small_game(*RUN, *(f"multiprocessing.{each}" for each in by_hand))
    assert outcome(env, env.run_experiment_mp) == sequential


@pytest.mark.xdist_group("planned")
def test_runs_of_one_environment_go_on_whatever_the_plans(monkeypatch):
    """Lanes that other actors played are where one actor would have left them."""
    schedule = "multiprocessing.schedule=lockstep"
    calm = small_game(*RUN, schedule)
    expected = [outcome(calm, calm.run_experiment) for _ in range(3)]
    env, found = small_game(*RUN, schedule), []
    for plan in (("processes", 2, 1), ("inline", 1, 0), ("processes", 2, 2)):
        as_planned(monkeypatch, *plan)
        found.append(outcome(env, env.run_experiment_mp))
    assert found == expected


@pytest.mark.xdist_group("planned")
def test_a_run_goes_on_with_another_plan(tmp_path, monkeypatch):
    settings = (*RUN, "multiprocessing.schedule=pipelined", "experiment.checkpoint_interval=16")
    calm = small_game(*settings, "multiprocessing.workers=inline")
    expected = outcome(calm, calm.run_experiment_mp)
    as_planned(monkeypatch, "processes", 2, 2)
    small_game(*settings, "experiment.epochs=32", "model.epsilon_decay=0.1").run_experiment_mp(
        animate=False, output_dir=tmp_path / "run"
    )
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["num_actors"] == 2
    assert "num_actors: null" in (tmp_path / "run" / "config.yaml").read_text()
    assert expected
    results = []
    for plan in (("processes", 1, 1), ("processes", 2, 1)):
        as_planned(monkeypatch, *plan)
        copy = tmp_path / f"{plan[1]}"
        os.system(f"cp -r {tmp_path / 'run'} {copy}")
        env = small_game(*settings, "experiment.epochs=64", "model.epsilon_decay=0.1")
        env.run_experiment_mp(animate=False, resume=copy)
        results.append([agent.model.learning_state().arrays["online"].tobytes() for agent in env.agents])
        results[-1].append((copy / "plan.json").read_text() != (tmp_path / "run" / "plan.json").read_text())
    assert results[0] == results[1]
    whole = small_game(*settings, "experiment.epochs=64", "model.epsilon_decay=0.1", "multiprocessing.workers=inline")
    whole.run_experiment_mp(animate=False, logging=False)
    assert results[0][:-1] == [agent.model.learning_state().arrays["online"].tobytes() for agent in whole.agents]


@pytest.mark.xdist_group("planned")
def test_a_mask_that_changes_after_the_plan_changes_nothing_but_speed(monkeypatch, sequential):
    as_planned(monkeypatch, "processes", 1, 2)
    env = small_game(*RUN, "multiprocessing.schedule=lockstep")
    system = MARLMultiprocessingSystem(env, env.agents, env.config)
    monkeypatch.setattr(cores_module, "allowed_cores", lambda: 1)
    with system:
        system.run()
        assert len(system.learners.pids) == 2
    assert [agent.model.updates for agent in env.agents] == [40, 40]


def test_the_run_says_its_plan_in_two_lines_and_keeps_it(tmp_path, capsys):
    env = small_game("multiprocessing.workers=auto", "multiprocessing.num_envs=2")
    env.run_experiment_mp(animate=False, output_dir=tmp_path / "run")
    kept = json.loads((tmp_path / "run" / "plan.json").read_text())
    shown, log = capsys.readouterr().err, (tmp_path / "run" / "log.txt").read_text()
    for line in kept["reasons"]:
        assert line in shown and line in log
    env.run_experiment_mp(animate=False, logging=False)
    assert capsys.readouterr() == ("", "")


def test_strange_games_are_run_as_they_would_be_without_a_plan():
    for name in ("mutable attributes", "own generators"):
        calm, planned = (GAMES[name](num_envs=2, num_actors=None, workers=where) for where in ("inline", "auto"))
        assert outcome(calm, calm.run_experiment_mp) == outcome(planned, planned.run_experiment_mp)


@pytest.mark.xdist_group("planned")
def test_a_world_that_draws_from_shared_generators_only_later_is_refused_where_actors_were_planned(monkeypatch):
    as_planned(monkeypatch, "processes", 2, 1)
    config = small_game(*RUN).config
    env = TreasurehuntEnv(villains.DrawsLate(config), config)
    with pytest.raises(
        WorldError, match=r"draws from generators that a process shares .* multiprocessing.num_actors to 1"
    ):
        env.run_experiment_mp(animate=False, logging=False)
    as_planned(monkeypatch, "processes", 1, 1)
    TreasurehuntEnv(villains.DrawsLate(config), config).run_experiment_mp(animate=False, logging=False)
