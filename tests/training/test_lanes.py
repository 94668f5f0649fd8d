"""Lanes of a gridworld: the same as turns taken one by one, also for agents with a turn of their own."""

import numpy as np
import pytest

import fenced_game
from abreast.agents import Agent
from abreast.errors import WorldError
from abreast.games.treasurehunt.agents import TreasurehuntAgent
from abreast.training.actors.base import models_of
from abreast.training.collect import collect_pass
from fakes import small_game


def lived(env, play):
    """What every agent remembers after an epoch."""
    play(env)
    return [agent.model.memory.trajectory(0, 0) for agent in env.agents]


def turn_by_turn(env):
    env.reset()
    for model in models_of(env.game):
        model.start_epoch_action(epoch=0)
    while env.is_playing:
        env.take_turn()


def equal(one, two):
    return all(
        mine.states.tobytes() == theirs.states.tobytes()
        and mine.actions.tolist() == theirs.actions.tolist()
        and mine.rewards.tolist() == theirs.rewards.tolist()
        for mine, theirs in zip(one, two, strict=True)
    )


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("game", ["treasurehunt", "tag", "cleanup", "staghunt"])
def test_a_lane_is_a_loop_of_turns(game, order):
    envs = [small_game("model.algorithm=dqn", f"experiment.turn_order={order}", game=game) for _ in range(2)]
    assert equal(lived(envs[0], turn_by_turn), lived(envs[1], lambda env: collect_pass(env.game, 0)))


class Stubborn(TreasurehuntAgent):
    """Chooses for itself."""

    kind = "TreasurehuntAgent"

    def get_action(self, state):
        return 1


class Twofold(TreasurehuntAgent):
    """Takes two steps a turn."""

    kind = "TreasurehuntAgent"

    def transition(self, world):
        Agent.transition(self, world)
        Agent.transition(self, world)


class Forgetful(TreasurehuntAgent):
    """Remembers only rewards."""

    kind = "TreasurehuntAgent"

    def add_memory(self, state, action, reward, done):
        super().add_memory(state, 0, reward, done)


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("kind", [Stubborn, Twofold, Forgetful])
@pytest.mark.parametrize("lanes", [1, 2])
def test_an_agent_with_a_turn_of_its_own_takes_it_in_every_lane(kind, order, lanes):
    env = small_game(
        "model.algorithm=dqn", f"experiment.turn_order={order}", f"multiprocessing.num_envs={lanes}", "experiment.epochs=4"
    )  # fmt: skip
    for lane in env.lanes:
        lane.agents[0].__class__ = kind
    env.run_experiment(animate=False, logging=False)
    own, other = (agent.model.memory for agent in env.agents)
    steps = 2 if kind is Twofold and order == "sequential" else 1
    assert own.written.tolist() == [40 // lanes * steps] * lanes
    assert other.written.tolist() == [40 // lanes] * lanes
    if kind is not Twofold:
        expected = {1} if kind is Stubborn else {0}
        assert {int(action) for lane in range(lanes) for action in own.trajectory(lane, 0).actions} == expected


def test_a_part_of_a_turn_replaced_on_one_agent_counts_too():
    env = small_game("model.algorithm=dqn")
    env.agents[0].get_action = lambda state: 3
    env.run_experiment(animate=False, logging=False)
    assert set(env.agents[0].model.memory.trajectory(0, 0).actions.tolist()) == {3}


def test_the_camera_sees_each_turn_of_the_first_lane_once_and_its_end():
    env = small_game("multiprocessing.num_envs=2", "model.algorithm=random")
    turns = []
    transition = env.world.transition

    def until_turn_4():
        transition()
        env.world.is_done = env.turn == 4

    assert len(env.lanes) == 2  # built before only one of them is changed
    env.world.transition = until_turn_4
    collect_pass(env.game, 0, 2, on_turn=lambda: turns.append(env.turn))
    assert turns == [0, 1, 2, 3, 4]
    assert env.lanes[1].turn == 10


def test_every_decision_in_whatever_lane_is_a_sign_of_life():
    """An actor whose first lane ends early used to fall silent while it played on in the others."""
    env = small_game("multiprocessing.num_envs=2", "model.algorithm=random")
    assert len(env.lanes) == 2  # built before only one of them is changed
    env.world.transition = lambda: setattr(env.world, "is_done", True)
    beats = []
    collect_pass(env.game, 0, 2, beat=lambda: beats.append(env.lanes[1].turn))
    assert {*beats} == set(range(1, 11))


def test_agents_with_turns_of_their_own_are_filmed_and_show_signs_of_life():
    env = small_game("model.algorithm=random")
    for agent in env.agents:
        agent.__class__ = Forgetful
    turns, beats = [], []
    collect_pass(env.game, 0, on_turn=lambda: turns.append(env.turn), beat=lambda: beats.append(env.turn))
    assert turns == list(range(11)) and set(beats) == set(range(1, 11))


def test_agents_that_are_made_anew_in_reset_keep_to_their_lane():
    env = small_game("multiprocessing.num_envs=2", "model.algorithm=random")
    for lane in env.lanes:
        reset = lane.reset

        def anew(lane=lane, reset=reset):
            for number, agent in enumerate(lane.agents):
                lane.agents[number] = type(agent)(agent.observation_spec, agent.action_spec, agent.model, number)
            reset()

        lane.reset = anew
    collect_pass(env.game, 0, 2)
    assert env.agents[0].model.memory.written.tolist() == [10, 10]


def fenced(*overrides):
    return small_game("experiment.max_turns=12", *overrides, game=f"{fenced_game.__file__}:FencedGarden")


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("algorithm", ["random", "ppo"])
def test_agents_say_what_is_legal_in_every_lane(algorithm, order):
    settings = (f"model.algorithm={algorithm}", f"experiment.turn_order={order}")
    envs = [fenced(*settings) for _ in range(2)]
    assert equal(lived(envs[0], turn_by_turn), lived(envs[1], lambda env: collect_pass(env.game, 0)))
    several = fenced(*settings, "multiprocessing.num_envs=3")
    collect_pass(several.game, 0, 3)
    for agent in several.agents:
        rows = [agent.model.memory.trajectory(lane, 0) for lane in range(3)]
        masks = np.concatenate([each.extras["mask"] for each in rows])
        assert masks[np.arange(36), np.concatenate([each.actions for each in rows])].all() and not masks.all()


@pytest.mark.parametrize("said", [[True], [False] * 4, ["yes"] * 4])
def test_a_mask_that_is_none_is_refused(said, monkeypatch):
    env = fenced()
    monkeypatch.setattr(type(env.agents[0]), "legal_actions", lambda self, world: said)
    with pytest.raises(WorldError, match=r"Careful.legal_actions returned .* for each of up, down, left, right"):
        collect_pass(env.game, 0)
