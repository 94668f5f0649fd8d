"""The decision, on made-up figures; and that a run which begins inline and moves is the run it would have been."""

import json
import random
import shutil
import time
from functools import partial
from threading import Lock

import pytest

from abreast.games.treasurehunt import TreasurehuntEnv, TreasurehuntWorld
from abreast.models import DQN
from abreast.training import plan as plan_module
from abreast.training.actors.base import Play
from abreast.training.actors.inline import InlineActors
from abreast.training.actors.process import why_one_actor
from abreast.training.config import MPConfig
from abreast.training.learners.hosted import HostedLearners
from abreast.training.learners.inline import InlineLearners
from abreast.training.learners.process import Train
from abreast.training.plan import (
    Planner,
    Split,
    Timing,
    choose,
    format_seconds,
    seconds_beside,
    seconds_left,
    seconds_of_pass,
)
from abreast.training.system import MARLMultiprocessingSystem
from fakes import outcome, small_game
from promises.cover import each_nth, rows
from promises.strikes import strike
from strangers.test_strangers import GAMES

AUTO = "multiprocessing.workers=auto"


def timing(agents=2, play=10e-3, learn=10e-3, cores=2.0, passes=1000, publish=0.1e-3, **more):
    """What a run has measured of itself."""
    more.setdefault("computing_s", play)
    return Timing(
        play, round_s=(learn,) * agents, publish_s=(publish,) * agents, cores=cores, passes_left=passes, **more
    )


def splits(workers=2, actors=(1,)):
    return [Split(number, count) for number in range(1, workers + 1) for count in actors]


# ---- the decision


def test_rounds_that_take_long_are_trained_in_processes():
    assert choose(timing(), splits()) == Split(2)
    assert seconds_of_pass(timing(), Split(2)) < 0.7 * timing().inline_s


@pytest.mark.parametrize("is_lockstep", [True, False])
def test_what_takes_no_time_stays_inline(is_lockstep):
    assert choose(timing(play=1e-3, learn=20e-6, is_lockstep=is_lockstep), splits()) == Split(0)


def test_a_gain_that_is_small_is_not_worth_it():
    found = timing(agents=1, learn=0.8e-3)
    assert 0.95 < seconds_of_pass(found, Split(1)) / found.inline_s < 1.0
    assert choose(found, splits(1)) == Split(0)


def test_a_rest_that_is_shorter_than_the_start_stays_inline():
    assert choose(timing(passes=10), splits()) == Split(0)
    assert choose(timing(passes=100, fork_server_s=1.5), splits()) == Split(0)
    assert choose(timing(passes=100), splits()) == Split(2)


def test_the_last_round_of_a_pipelined_run_has_no_pass_beside_it():
    pipelined, lockstep = (seconds_left(timing(passes=1, is_lockstep=each), Split(2)) for each in (False, True))
    start = 0.1 + 2 * 0.04
    assert pipelined - start == pytest.approx(2 * seconds_of_pass(timing(), Split(2)))
    assert lockstep - start == pytest.approx(seconds_of_pass(timing(is_lockstep=True), Split(2)))


def test_cores_that_are_not_there_gain_nothing():
    one, many = timing(cores=1.0), timing(cores=4.0)
    assert seconds_of_pass(one, Split(2)) >= one.inline_s
    assert seconds_of_pass(many, Split(2)) < 0.6 * many.inline_s


def test_processes_share_the_cores_there_are_until_one_has_finished():
    assert seconds_beside([1.0, 1.0], 2.0) == pytest.approx(1.03), "two busy cores slow each other down a little"
    assert seconds_beside([1.0, 0.5, 0.5], 2.0) == pytest.approx(1.25 * (1 + 0.03 * 0.6))
    assert seconds_beside([1.0, 0.5, 0.5], 4.0) < 1.04
    assert seconds_beside([0.1], 2.0, waiting=0.9) == pytest.approx(1.0)


def test_agents_that_cannot_be_shared_out_evenly_get_more_workers_than_cores():
    assert choose(timing(agents=5, play=0.12, learn=0.08), splits(4)) == Split(3), "2 + 2 + 1 beside a pass, not 3 + 2"


def test_long_passes_are_spread_over_actors():
    found = timing(play=1.0, cores=8.0)
    assert choose(found, splits(2, (1, 2, 4))).actors == 4
    assert choose(found, splits(2)) == Split(0), "one learner beside a pass that takes all the time"


def test_worlds_that_wait_are_spread_over_actors_though_there_are_few_cores():
    assert choose(timing(play=1.0, computing_s=0.01), splits(2, (1, 2, 4))).actors == 4
    assert choose(timing(play=1.0), splits(2, (1, 2, 4))).actors <= 2


@pytest.mark.parametrize(("cores", "agents"), [(4.0, 4), (16.0, 5), (16.0, 16)])
def test_learners_that_take_longest_get_a_worker_each(cores, agents):
    assert choose(timing(agents, learn=0.2, cores=cores), splits(agents)).workers == agents


def test_no_more_workers_than_help():
    found = timing(4, play=0.1, learn=10e-3, cores=8.0)
    assert choose(found, splits(4)) == Split(1), "one keeps up with a pass"
    uneven = Timing(10e-3, 10e-3, (0.1, 0.0, 0.0, 0.0), (0.0,) * 4, 8.0, 1000, is_lockstep=True)
    assert choose(uneven, splits(4)) == Split(0), "all of the time is one agent's, and nothing is beside it"


class SlowToAnswer(TreasurehuntWorld):
    """Waits in every turn."""

    def transition(self):
        time.sleep(1e-3)
        super().transition()


@pytest.mark.parametrize("kind", [TreasurehuntWorld, SlowToAnswer])
def test_a_pass_that_waits_is_told_from_one_that_was_interrupted(kind):
    config = small_game("experiment.max_turns=20", "multiprocessing.num_envs=2").config
    env = TreasurehuntEnv(kind(config), config)
    actors = InlineActors(env.game)
    actors.play(Play(0, 0, 2, [None] * 2, [0.0] * 2, 0), None)
    assert (actors.pass_s > actors.computing_s) == (kind is SlowToAnswer)
    assert actors.computing_s > 0 and (kind is TreasurehuntWorld or actors.pass_s >= 0.04)


def test_durations_are_short():
    assert [format_seconds(each) for each in (2.5, 0.0123, 4e-5, 0.0)] == ["2.5 s", "12.3 ms", "40 µs", "0 µs"]


# ---- how a run begins


def planner(*settings, monkeypatch=None, cores=2):
    if monkeypatch is not None:
        monkeypatch.setattr(plan_module, "cores", lambda: cores)
    env = small_game("experiment.epochs=4000", AUTO, "model.algorithm=dqn", *settings)
    env.make_lanes()
    return Planner(env, env.config.multiprocessing)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["workers=inline"], ("inline", 0, 1, 16)),
        (["workers=threads"], ("threads", 2, 1, 16)),
        (["workers=processes"], ("processes", 2, 1, 16)),
        (["workers=processes", "num_workers=1"], ("processes", 1, 1, 16)),
        (["num_workers=1"], ("processes", 1, 1, 16)),
        (["num_envs=48", "num_actors=3"], ("processes", 2, 3, 16)),
        (["workers=inline", "num_envs=48", "num_actors=3"], ("inline", 0, 1, 48)),
        (["workers=threads", "num_envs=48", "num_actors=3", "num_workers=2"], ("threads", 2, 3, 16)),
    ],
)
def test_what_is_set_is_used_from_the_first_pass_on(settings, expected, monkeypatch):
    given = [f"multiprocessing.{each}" for each in ("num_envs=16", *settings)]
    plan = planner(*given, monkeypatch=monkeypatch).begin()
    assert (plan.workers, plan.num_workers, plan.num_actors, plan.lanes) == expected
    assert not plan.is_open and plan.timing is None and len(plan.reasons) == 2


@pytest.mark.parametrize("settings", [[], ["multiprocessing.num_actors=1"], ["multiprocessing.num_envs=16"]])
def test_what_is_left_to_choose_begins_inline(settings, monkeypatch):
    plan = planner(*settings, monkeypatch=monkeypatch).begin()
    assert plan.is_open and (plan.workers, plan.num_actors) == ("inline", 1)


@pytest.mark.parametrize(
    ("settings", "cores", "why"),
    [
        ([], 1, "there is one core"),
        (["experiment.compute_threads=2"], 2, "there is one core"),
        (["experiment.freeze=[0, 1]"], 2, "all agents are frozen"),
    ],
)
def test_what_can_gain_nothing_stays_inline(settings, cores, why, monkeypatch):
    plan = planner(*settings, monkeypatch=monkeypatch, cores=cores).begin()
    assert plan.workers == "inline" and not plan.is_open and why in plan.reasons[1]


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        (["experiment.freeze=[0, 1]"], "learners: all agents are frozen"),
        (["experiment.freeze=[0]", "multiprocessing.num_workers=2"], "1 of 2 workers: the other agents are frozen"),
        (["multiprocessing.workers=inline", "multiprocessing.num_workers=2"],
         "num_workers 2: learners live in this thread"),
        (["multiprocessing.workers=inline", "multiprocessing.num_envs=2", "multiprocessing.num_actors=2"],
         "num_actors 2: all lanes are played in this thread"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_left_out_and_told(settings, left_out):
    plan = planner(*settings).begin()
    assert left_out in plan.left_out and left_out in plan.reasons[1]
    env = small_game(AUTO, *settings)
    assert env.run_experiment_mp(animate=False, logging=False).epochs


# ---- who may share lanes


class Renamed(DQN):
    """One of ours by another name."""


class OtherLoss(DQN):
    def loss_of(self, *arguments):
        return 2 * super().loss_of(*arguments)


class ChoosesItself(DQN):
    def take_action(self, state, lane=0):
        return super().take_action(state, lane)


class RemembersItself(DQN):
    def remember(self, *arguments):
        super().remember(*arguments)


class Notes(DQN):
    acting = ("seen",)


def env_with(kind):
    env = small_game("multiprocessing.num_envs=16", "model.algorithm=dqn")
    for agent in env.agents:
        agent.model.__class__ = kind
    return env


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (DQN, None),
        (Renamed, None),
        (OtherLoss, None),
        (ChoosesItself, "agent 0 (ChoosesItself) has its own take_action"),
        (RemembersItself, "has its own remember"),
        (Notes, "changes seen when it chooses"),
    ],
)
def test_a_model_with_choosing_of_its_own_is_asked_by_one_actor(kind, why):
    reason = why_one_actor(env_with(kind))
    assert reason is None if why is None else why in reason


def test_a_game_that_cannot_be_built_elsewhere_is_played_by_one_actor(monkeypatch):
    env = small_game("experiment.epochs=4000", AUTO, "multiprocessing.num_envs=16", "model.algorithm=dqn")
    env.make_lanes()
    env.factory = partial(print, Lock())
    monkeypatch.setattr(plan_module, "cores", lambda: 8)
    plan = Planner(env, env.config.multiprocessing).decide(timing(play=1.0, cores=8.0))
    assert plan.num_actors == 1 and "cannot be built in another process" in plan.reasons[1]


def test_lanes_are_shared_out_in_whole_groups(monkeypatch):
    counts = {}
    for lanes in (12, 16, 32):
        given = planner(f"multiprocessing.num_envs={lanes}", monkeypatch=monkeypatch, cores=8)
        counts[lanes] = given.decide(timing(play=1.0, cores=8.0)).num_actors
    assert counts == {12: 1, 16: 2, 32: 4}


def test_a_plan_is_json_and_its_reasons_are_two_lines(monkeypatch):
    plan = planner("multiprocessing.num_envs=8", monkeypatch=monkeypatch).decide(timing())
    assert all("\n" not in line and line.endswith(".") for line in plan.reasons) and len(plan.reasons) == 2
    assert "1.8 times as fast as 30 ms inline" in plan.reasons[0] and "its round 20 ms" in plan.reasons[1]
    kept = json.loads(json.dumps(plan.as_json()))
    assert kept["workers"] == "processes" and kept["timing"]["cores"] == 2 and kept["pass_s"] < 0.03
    applied = plan.applied(MPConfig(num_envs=8, mode="double_buffer"))
    assert (applied.workers, applied.num_workers, applied.num_actors, applied.mode) == (
        "processes", 2, 1, "double_buffer",
    )  # fmt: skip


# ---- a run that moves


def decides(monkeypatch, workers, actors=1):
    """Let every run decide for this."""
    monkeypatch.setattr(plan_module, "choose", lambda timing, splits: Split(workers, actors))
    monkeypatch.setattr(plan_module, "cores", lambda: 4)


RUN = ("model.algorithm=dqn", "experiment.epochs=80", "experiment.max_turns=4", "multiprocessing.num_envs=16", AUTO)
RUN += ("model.hidden_size=8", "model.batch_size=8", "model.gradient_steps=1", "model.epsilon_decay=0.1")
"""Five passes; a run that moves does so before the third, if pipelined before the fourth."""
SCHEDULES = ["lockstep", "pipelined"]


@pytest.fixture(scope="module")
def expected():
    """Of a schedule, what a run in one thread gives."""
    found = {}

    def of(schedule):
        if schedule not in found:
            env = small_game(*RUN, f"multiprocessing.schedule={schedule}", "multiprocessing.workers=inline")
            run = env.run_experiment if schedule == "lockstep" else env.run_experiment_mp
            found[schedule] = outcome(env, run)
        return found[schedule]

    return of


@pytest.mark.xdist_group("planned")
@pytest.mark.parametrize(
    ("schedule", "split"), rows({"schedule": SCHEDULES, "split": [(0, 1), (2, 1), (1, 2)]}, together=1)
)
def test_a_run_that_moves_is_the_run_that_stays(schedule, split, expected, monkeypatch):
    decides(monkeypatch, *split)
    moved = []
    monkeypatch.setattr(HostedLearners, "__init__", noting(moved, HostedLearners.__init__))
    env = small_game(*RUN, f"multiprocessing.schedule={schedule}")
    assert outcome(env, env.run_experiment_mp) == expected(schedule)
    assert moved == ([2] if split[0] else []), "rounds before the move"


def noting(rounds, start):
    def begin(self, *arguments):
        rounds.append(arguments[3])
        start(self, *arguments)

    return begin


@pytest.mark.xdist_group("planned")
@pytest.mark.parametrize("schedule", each_nth(SCHEDULES, 2, first=1))
def test_learners_and_actors_that_are_killed_after_the_move_change_nothing(schedule, expected, monkeypatch, caplog):
    decides(monkeypatch, 2, 2)
    env = small_game(*RUN, f"multiprocessing.schedule={schedule}", "multiprocessing.max_restarts=1000")
    with strike(Train, at={1}) as learners, strike(Play, at={0}) as actors:
        assert outcome(env, env.run_experiment_mp) == expected(schedule)
    assert learners and actors and "SIGKILL" in caplog.text


@pytest.mark.xdist_group("planned")
def test_runs_of_one_environment_go_on_whatever_they_decide(monkeypatch):
    """Lanes that other actors played are where one actor would have left them."""
    short = (*RUN, "experiment.epochs=48", "multiprocessing.schedule=lockstep")
    calm = small_game(*short)
    expected = [outcome(calm, calm.run_experiment) for _ in range(2)]
    env, found = small_game(*short), []
    for split in ((1, 2), (0, 1)):
        decides(monkeypatch, *split)
        found.append(outcome(env, env.run_experiment_mp))
    assert found == expected


@pytest.mark.xdist_group("planned")
@pytest.mark.parametrize("schedule", each_nth(SCHEDULES, 2, 1))
def test_a_run_that_was_stopped_before_or_after_its_move_goes_on(schedule, expected, tmp_path, monkeypatch):
    """Checkpoints have one actor with all lanes, so a run may go on with any split."""
    settings = (*RUN, f"multiprocessing.schedule={schedule}")
    settings += ("experiment.checkpoint_interval=16", "experiment.keep_checkpoints=10")
    decides(monkeypatch, 2, 2)
    small_game(*settings, "experiment.epochs=64").run_experiment_mp(animate=False, output_dir=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "plan.json").read_text())["num_actors"] == 2
    assert "num_actors: null" in (tmp_path / "run" / "config.yaml").read_text()
    checkpoints = sorted(each.name for each in (tmp_path / "run" / "checkpoints").glob("epoch_*"))
    assert len(checkpoints) == 4 and [each.name for each in (tmp_path / "run").glob("checkpoints/*/actor_1*")] == []
    for last, split in ((1, (1, 2)), (4, (0, 1))):  # before the move, and after it
        copy = tmp_path / str(last)
        shutil.copytree(tmp_path / "run", copy)
        for name in ("final", *checkpoints[last:]):
            shutil.rmtree(copy / "checkpoints" / name)
        decides(monkeypatch, *split)
        env = small_game(*settings)
        end = outcome(env, lambda env=env, copy=copy, **_: env.run_experiment_mp(animate=False, resume=copy))
        assert end == expected(schedule)


class DrawsLater(TreasurehuntWorld):
    """After some epochs of its own it draws from the generator that all code shares, and it matters."""

    late = 12

    def __init__(self, config):
        super().__init__(config)
        self.turns = 0

    def transition(self):
        self.turns += 1
        if self.turns > self.late:
            self.drawn = getattr(self, "drawn", 0) + 1
            if random.random() < 0.5:
                self.rng.random()
        super().transition()


class OpensLater(TreasurehuntWorld):
    """After some epochs of its own it holds what cannot be sent to another process."""

    def __init__(self, config):
        super().__init__(config)
        self.turns = 0

    def transition(self):
        self.turns += 1
        if self.turns > 12 and not hasattr(self, "lock"):
            self.lock = Lock()
        super().transition()


@pytest.mark.xdist_group("planned")
@pytest.mark.parametrize(
    ("schedule", "late"),
    rows(
        {
            "schedule": [*each_nth(SCHEDULES, 2, 1), "free"],
            "late": [
                (
                    DrawsLater,
                    ("multiprocessing.num_envs=16", "multiprocessing.num_actors=2"),
                    "draws from generators that a process shares",
                ),
                (OpensLater, (), "OpensLater.lock (lock) cannot be kept in a file"),
            ],
        },
        together=1,
    ),
)
def test_what_is_only_later_seen_to_need_one_actor_is_played_by_one_then(schedule, late, monkeypatch, caplog):
    world, given, why = late
    decides(monkeypatch, 1, 2)
    settings = (*RUN, f"multiprocessing.schedule={schedule}", *given)

    def build(*more):
        config = small_game(*settings, *more).config
        return TreasurehuntEnv(world(config), config)

    env = build()
    found = outcome(env, env.run_experiment_mp)
    assert why in caplog.text and "pass 3 is played again, by one actor" in caplog.text
    calm = build("multiprocessing.workers=inline")
    whole = outcome(calm, calm.run_experiment if schedule == "lockstep" else calm.run_experiment_mp)
    assert found == whole if schedule != "free" else len(found[0]) == 80
    assert [lane.world.turns for lane in env.lanes] == [lane.world.turns for lane in calm.lanes]


def test_a_world_that_draws_from_the_first_pass_on_is_filmed_once(tmp_path, monkeypatch):
    decides(monkeypatch, 1, 2)
    settings = (*RUN, "experiment.epochs=16", "multiprocessing.num_envs=16", "multiprocessing.num_actors=2")
    monkeypatch.setattr(DrawsLater, "late", 0)
    pictures, scores = [], []
    for workers in ("threads", "inline"):
        config = small_game(*settings, f"multiprocessing.workers={workers}").config
        env = TreasurehuntEnv(DrawsLater(config), config)
        epochs = env.run_experiment_mp(output_dir=tmp_path / workers).epochs
        pictures.append((tmp_path / workers / "replays" / "epoch_000000.gif").read_bytes())
        scores.append([epoch["reward_per_agent"] for epoch in epochs])
    assert pictures[0] == pictures[1] and scores[0] == scores[1]


def test_a_mask_that_changes_after_the_decision_changes_nothing_but_speed(monkeypatch, expected):
    decides(monkeypatch, 2)
    env = small_game(*RUN, "multiprocessing.schedule=lockstep")
    with MARLMultiprocessingSystem(env, env.agents, env.config) as system:
        assert isinstance(system.learners, InlineLearners)
        system.run()
        assert len(system.learners.pids) == 2
    assert [agent.model.updates for agent in env.agents] == [80, 80]


def test_the_run_says_its_plan_in_two_lines_and_keeps_it(tmp_path, capsys, monkeypatch):
    decides(monkeypatch, 0)
    told = {3: "the run was over before 2 rounds had learned anything", 12: "measured in this run, on 4 cores"}
    for epochs, why in told.items():
        env = small_game(AUTO, "multiprocessing.num_envs=2", f"experiment.epochs={epochs}")
        env.run_experiment_mp(animate=False, output_dir=tmp_path / f"{epochs}")
        kept = json.loads((tmp_path / f"{epochs}" / "plan.json").read_text())
        shown, log = capsys.readouterr().err, (tmp_path / f"{epochs}" / "log.txt").read_text()
        assert why in kept["reasons"][1] and kept["workers"] == "inline"
        for line in kept["reasons"]:
            assert line in shown and line in log
    env.run_experiment_mp(animate=False, logging=False)
    assert capsys.readouterr() == ("", "")


def test_strange_games_are_run_as_they_would_be_inline():
    for name in ("mutable attributes", "own generators"):
        calm, planned = (GAMES[name](num_envs=2, num_actors=None, workers=where) for where in ("inline", "auto"))
        assert outcome(calm, calm.run_experiment_mp) == outcome(planned, planned.run_experiment_mp)
