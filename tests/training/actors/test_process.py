"""Several actors: the same result however many, and whoever dies. (Wherever they play: promises/.)"""

import contextlib
import json
import signal
import threading
import time

import pytest

from abreast.errors import ConfigError, WorkerError
from abreast.processes.child import parent_pid
from abreast.processes.team import RemoteTraceback
from abreast.training.actors.base import Play, actor_state, set_actor_state
from abreast.training.collect import collect_pass
from abreast.training.environment import Blueprint
from fakes import outcome, small_game, timeless
from promises.strikes import strike

ACTORS = (
    "model.algorithm=dqn",
    "experiment.epochs=12",
    "multiprocessing.num_envs=6",
    "multiprocessing.num_actors=3",
    "multiprocessing.num_workers=2",
)


def inline(*overrides):
    env = small_game(*ACTORS, *overrides, "multiprocessing.workers=inline")
    return outcome(env, env.run_experiment_mp)


@pytest.mark.parametrize(
    ("algorithm", "order"),
    [
        ("iqn", "sequential"),
        ("iqn", "simultaneous"),
        ("dqn", "sequential"),
        ("ppo", "simultaneous"),
        ("random", "sequential"),
    ],
)
def test_how_many_actors_share_the_lanes_does_not_matter(algorithm, order):
    """As long as each plays whole groups of lanes. (Agents that choose at once do so in stacked products.)"""
    short = [
        "experiment.epochs=32",
        "experiment.max_turns=5",
        f"experiment.turn_order={order}",
        "model.gradient_steps=1",
    ]
    short += [f"model.algorithm={algorithm}", "model.epsilon=0.3", "model.learning_rate=0.1"]
    results = []
    for actors in (1, 2):
        split = ["multiprocessing.num_envs=16", f"multiprocessing.num_actors={actors}"]
        env = small_game(*short, *split)
        results.append(outcome(env, env.run_experiment))
    assert results[0] == results[1]


def test_num_envs_are_the_lanes_of_all_actors_together():
    """Where nothing is rounded, results are equal however many of the lanes each actor has."""
    settings = ("model.algorithm=random", "experiment.epochs=8", "multiprocessing.num_envs=4")
    envs = [small_game(*settings, f"multiprocessing.num_actors={actors}") for actors in ("null", 1, 2, 4)]
    found = [outcome(env, env.run_experiment) for env in envs]
    assert all(each == found[0] for each in found)
    assert [env.config.multiprocessing.lanes for env in envs] == [4] * 4


def test_every_lane_of_every_actor_is_played_and_none_twice():
    env = small_game(*ACTORS, "experiment.epochs=7")
    result = env.run_experiment_mp(animate=False, logging=False)
    assert [record["epoch"] for record in result.epochs] == list(range(7))
    written = [agent.model.memory.written.tolist() for agent in env.agents]
    assert written == [[20, 10, 10, 10, 10, 10]] * 2
    rewards = {tuple(record["reward_per_agent"]) for record in result.epochs}
    assert len(rewards) > 3, "the actors play one and the same game"


@pytest.mark.parametrize("schedule", [pytest.param("lockstep", marks=pytest.mark.chaos), "pipelined"])
def test_actors_killed_at_random_change_nothing(schedule, caplog):
    settings = ("experiment.epochs=42", f"multiprocessing.schedule={schedule}")
    calm = inline(*settings)
    env = small_game(*ACTORS, *settings, "multiprocessing.max_restarts=1000")
    with strike(Play, at={0, 3, 5, 8, 10}) as struck:
        assert outcome(env, env.run_experiment_mp) == calm
    assert (
        len(struck) >= 3 and caplog.text.count("SIGKILL, often out of memory") >= 3
    )  # a fast run ends before the last


def test_a_killed_actor_in_free_leaves_whole_episodes():
    env = small_game(*ACTORS, "experiment.epochs=60", "multiprocessing.schedule=free", "model.buffer_capacity=20000")
    with strike(Play, at={2, 5, 8}) as struck:
        env.run_experiment_mp(animate=False, logging=False)
    assert len(struck) >= 2  # a fast run ends before the last
    for agent in env.agents:
        for lane in range(6):
            ages = agent.model.memory.ring.fields["age"][lane]
            last = agent.model.memory.ring.fields["last"][lane]
            written = int(agent.model.memory.written[lane])
            starts = [row for row in range(1, written) if ages[row] == 0]
            assert starts and all(last[row - 1] for row in starts)


def test_a_frozen_actor_is_killed_and_replaced(caplog):
    settings = ("experiment.epochs=24", "multiprocessing.schedule=lockstep")
    calm = inline(*settings)
    env = small_game(*ACTORS, *settings, "multiprocessing.actor_timeout=0.5", "multiprocessing.max_restarts=1000")
    with strike(
        Play, at={4}, number=signal.SIGSTOP
    ):  # it has played a pass: that one is silent at its start is no matter
        assert outcome(env, env.run_experiment_mp) == calm
    assert "did nothing for 0.5 s" in caplog.text


def test_who_has_answered_is_not_silent_while_the_first_actor_still_plays(caplog):
    """Neither the other actor nor a learner."""
    two = ("multiprocessing.num_envs=2", "multiprocessing.num_actors=2", "experiment.epochs=4")
    env = small_game(*ACTORS, *two, "multiprocessing.actor_timeout=1", "multiprocessing.learner_timeout=1")
    play = env.world.transition

    def slowly():
        time.sleep(0.12)  # a pass takes longer than the others may be silent
        play()

    assert env.lanes  # built before the first is changed
    env.world.transition = slowly
    result = env.run_experiment_mp(animate=False, logging=False)
    assert not result.given_up and "restarted" not in caplog.text


# ---- factories


def is_elsewhere():
    """Whether this is another process or thread than the first: lanes are built by a factory there too."""
    return parent_pid() is not None or threading.current_thread() is not threading.main_thread()


def broken_factory():
    if is_elsewhere():
        raise FileNotFoundError("the map of the world is missing")
    return small_game(*ACTORS, "multiprocessing.num_envs=3")


def factory_with_too_few_agents():
    return small_game(*ACTORS, "experiment.num_agents=1")


def breaks_later():
    env = small_game(*ACTORS)

    def explode():
        if is_elsewhere():
            raise ZeroDivisionError("the world broke")

    env.world.transition = explode
    return env


@pytest.mark.parametrize("workers", ["processes", "threads"])
def test_a_factory_that_fails_in_the_child_shows_its_own_stack(workers):
    env = small_game(*ACTORS, f"multiprocessing.workers={workers}", "multiprocessing.num_envs=3")
    env.factory = broken_factory
    with pytest.raises(WorkerError, match=r"actor [12] could not start: FileNotFoundError: the map") as caught:
        env.run_experiment_mp(animate=False, logging=False)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert "in broken_factory" in str(caught.value.__cause__)
    assert type(env.agents[0].model.memory).__name__ == "Buffer", "the agents did not get their memories back"


def test_a_factory_with_other_agents_is_refused():
    env = small_game(*ACTORS)
    env.factory = factory_with_too_few_agents
    with pytest.raises(ConfigError, match="factory made 1 agents, expected 2"):
        env.run_experiment_mp(animate=False, logging=False)


def test_an_actor_that_raises_ends_the_run_at_once_with_the_lines_of_the_user():
    env = small_game(*ACTORS)
    env.factory = breaks_later
    with pytest.raises(
        WorkerError, match=r"actor [12] .*failed: ZeroDivisionError: the world broke: given up"
    ) as caught:
        env.run_experiment_mp(animate=False, logging=False)
    assert "test_process.py" in str(caught.value.__cause__).strip().splitlines()[1]
    assert "in explode" in str(caught.value.__cause__)


def test_an_environment_that_cannot_be_sent_is_played_by_one_actor(tmp_path):
    lock = threading.Lock()

    def build():
        assert lock is not None
        return small_game(*ACTORS, "multiprocessing.schedule=lockstep")

    env = build()
    env.factory = build
    found = timeless(env.run_experiment_mp(animate=False, output_dir=tmp_path / "run").epochs)
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert (plan["num_actors"], plan["lanes"]) == (1, 6)
    assert "several actors: TreasurehuntEnv cannot be built in another process" in plan["reasons"][1]
    calm = small_game(*ACTORS)
    assert found == timeless(calm.run_experiment(animate=False, logging=False).epochs)


def test_a_factory_that_returns_the_same_environment_again_is_refused():
    env, other = small_game(*ACTORS), small_game(*ACTORS)
    for factory in (lambda: env, lambda: other):
        env.factory = factory
        with pytest.raises(ConfigError, match="the factory returned an environment, or a world, that another lane is"):
            env.run_experiment(animate=False, logging=False)


def test_the_default_factory_builds_the_same_environment_again():
    env = small_game(*ACTORS)
    assert isinstance(env.factory, Blueprint)
    twin = env.factory()
    assert twin.config is env.config and len(twin.agents) == len(env.agents)
    assert twin.world is not env.world


def test_what_an_interrupted_pass_wrote_is_forgotten(monkeypatch):
    env = small_game(*ACTORS, "experiment.epochs=40")
    transition = type(env.world).transition

    def interrupt(world):
        if world is env.world and env.epochs_played == 12 and env.turn == 5:
            raise KeyboardInterrupt
        transition(world)

    monkeypatch.setattr(type(env.world), "transition", interrupt)
    with contextlib.suppress(KeyboardInterrupt):
        env.run_experiment_mp(animate=False, logging=False)
    for agent in env.agents:
        assert agent.model.memory.written.tolist()[2:] == [20] * 4


def test_an_actor_goes_on_from_where_another_was():
    """The state told after a pass is all there is to know: a second actor plays the next pass as the first would."""
    env = small_game(*ACTORS, "model.algorithm=iqn")

    def actor(first_lane):
        game = env.factory().game
        game.become_actor(first_lane)
        return game

    first, second = actor(2), actor(2)
    collect_pass(first, 0, 2)
    second.set_lane_states(first.lane_states([2, 3]))
    assert collect_pass(second, 6, 2) == collect_pass(first, 6, 2)
    assert collect_pass(actor(4), 6, 2) != collect_pass(first, 6, 2)
    collect_pass(env.game, 0, 6)
    other = env.factory()
    set_actor_state(other.game, actor_state(env.game))
    assert collect_pass(other.game, 6, 6) == collect_pass(env.game, 6, 6)
