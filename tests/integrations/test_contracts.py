"""What is remembered of environments: who acted, what came of it, what came late, what ended and what was cut."""

import re
import sys
from types import ModuleType

import numpy as np
import pytest

from abreast.errors import AbreastError, ConfigError, GameError, ModelError, RewardError
from abreast.games import find_game
from abreast.models import RandomModel
from abreast.training.collect import collect_pass
from abreast.training.evaluate import evaluate
from integrations.adapted import build, rows
from zoo_envs import ManyMoves, Meeting


def play(target, *overrides, lanes=1, epochs=1):
    experiment = build(target, "model.algorithm=random", f"multiprocessing.num_envs={lanes}", *overrides)
    played = [each for epoch in range(epochs) for each in collect_pass(experiment.game, epoch, lanes)]
    return experiment, played


def test_agents_die_join_and_come_back():
    experiment, (played,) = play("pettingzoo:zoo_envs:Meeting")
    host, guest, late = (rows(experiment, agent) for agent in range(3))
    assert len(host.rewards) == 5 and not host.dones.any() and host.last.tolist() == [False] * 4 + [True]
    # guest: turns 1 and 2, then ended for good; turn 4 is another episode.
    assert guest.dones.tolist() == [False, True, False] and guest.last.tolist() == [False, True, True]
    # late: turns 2 and 3, then cut: that row has no successor, and is not an end. Turn 5 is another episode.
    assert late.dones.tolist() == [False] * 3 and late.last.tolist() == [False, True, True]
    assert [int(reward // 10) for reward in guest.rewards] == [0, 1, 3]
    assert [int(reward // 10) for reward in late.rewards] == [1, 2, 4]
    assert played.turns == 5 and played.steps == 5 + 3 + 3
    assert played.reward_per_agent == pytest.approx([each.rewards.sum() for each in (host, guest, late)])


def test_actions_are_those_of_the_space():
    experiment, _ = play("pettingzoo:zoo_envs:Meeting", epochs=10)  # the environment itself looks at each
    chosen = set(rows(experiment, 1).actions.tolist())
    paid = {reward % 10 for reward in rows(experiment, 1).rewards.tolist()}
    assert chosen == {0, 1} and paid == {1, 2}, "what is remembered is the number, what is done begins at `start`"


def test_the_turn_limit_cuts_and_the_environments_end_ends():
    experiment, (played,) = play("pettingzoo:zoo_envs:Meeting", "experiment.max_turns=3")
    assert played.turns == 3 and not rows(experiment, 0).dones.any() and rows(experiment, 0).last[-1]
    cart, (played,) = play("gymnasium:CartPole-v1")
    assert rows(cart, 0).dones.tolist() == [False] * (played.turns - 1) + [True], "it has fallen: an end for good"
    grid, (played,) = play("gymnasium:MiniGrid-Empty-16x16-v0", "world.max_steps=5")
    assert played.turns == 5 and not rows(grid, 0).dones.any(), "its own limit cuts, as ours does"


def test_rewards_of_agents_in_turn_come_late_and_belong_to_their_last_action():
    experiment, (played,) = play("pettingzoo:zoo_envs:Auction")
    ann, bob, eve = (rows(experiment, agent) for agent in range(3))
    assert (len(ann.actions), len(bob.actions), len(eve.actions)) == (4, 3, 2)
    # Each is paid what the next one did. After eve has left, that is ann for bob, who gets both before his next turn.
    assert ann.rewards[:2].tolist() == bob.actions[:2].tolist()
    assert bob.rewards[:2].tolist() == [eve.actions[0], eve.actions[1] + ann.actions[2]]
    assert eve.rewards.tolist() == [ann.actions[1], 0.0]
    assert eve.dones.tolist() == [False, True], "she was told that it is over for good"
    assert ann.last[-1] and bob.last[-1] and not ann.dones.any() and not bob.dones.any()
    assert ann.rewards[-1] == 100.0, "the last move pays itself when the game ends"
    assert played.reward_per_agent == pytest.approx([each.rewards.sum() for each in (ann, bob, eve)])
    assert played.turns == played.steps == 9


@pytest.mark.parametrize("turns", [2, 3])
def test_rewards_that_are_due_when_the_turn_limit_cuts_are_neither_lost_nor_counted_twice(turns):
    experiment, played = play("pettingzoo:zoo_envs:Auction", f"experiment.max_turns={turns}", epochs=6)
    ann, bob, eve = (rows(experiment, agent) for agent in range(3))
    assert ann.rewards.tolist() == bob.actions.tolist() and any(ann.rewards)
    assert bob.rewards.tolist() == (eve.actions.tolist() if turns == 3 else [0.0] * 6)
    assert not any(eve.rewards) and len(eve.actions) == (6 if turns == 3 else 0)
    assert [each.reward_per_agent[0] for each in played] == ann.rewards.tolist()


def test_masks_are_kept_with_each_choice():
    for target in ("pettingzoo:zoo_envs:Auction", "gymnasium:zoo_envs:corridor"):
        experiment, _ = play(target, "experiment.max_turns=30", epochs=4)  # the environments refuse what is forbidden
        for agent in range(len(experiment.game.players)):
            lived = rows(experiment, agent)
            masks = lived.extras["mask"]
            assert masks[np.arange(len(masks)), lived.actions].all() and not masks.all()


def test_what_lies_beside_a_mask_is_seen_whatever_it_is_called():
    experiment, _ = play("pettingzoo:zoo_envs:MasksAll", epochs=4)  # the environment refuses what is forbidden
    seen, masks = rows(experiment, 0).states[:, -1], rows(experiment, 0).extras["mask"]
    assert seen.shape[1:] == (10 + 4 + 3,) and not masks.all()
    assert (seen[:, 14:] == [0, 0, 1]).all(), "the goal"


def test_rewards_of_the_dead_are_neither_lost_nor_given_to_others():
    experiment, (played,) = play("pettingzoo:zoo_envs:PaysTheDead")
    plain, (expected,) = play("pettingzoo:zoo_envs:Meeting")
    assert np.subtract(played.reward_per_agent, expected.reward_per_agent).tolist() == [0.0, 500.0, 0.0]
    guest = rows(experiment, 1)
    assert (guest.rewards - rows(plain, 1).rewards).tolist() == [0.0, 500.0, 0.0] and guest.dones[1]


class Notes(RandomModel):
    """A model of a user's that keeps no rows."""

    def remember(self, state, action, reward, done, lane=0):
        pass


@pytest.mark.parametrize("turns", [1, 100])
def test_what_an_agent_gets_before_it_has_acted_counts_in_its_score(turns):
    experiment, (played,) = play("pettingzoo:zoo_envs:FirstMoveWins", f"experiment.max_turns={turns}")
    assert played.reward_per_agent == [100.0, -1.0, -1.0] and played.steps == 1
    assert [len(rows(experiment, agent).actions) for agent in range(3)] == [1, 0, 0]
    own = "model.algorithm=integrations.test_contracts:Notes"
    with pytest.raises(ModelError, match=r"agent 0 got a reward of 100 .*, but Notes put no row"):
        play("pettingzoo:zoo_envs:FirstMoveWins", own)  # of the one who has acted, not of the others


def test_lanes_hold_different_agents_at_the_same_time():
    experiment, _ = play("pettingzoo:zoo_envs:Auction", lanes=3, epochs=3)
    for agent in range(3):
        assert {len(rows(experiment, agent, lane).actions) for lane in range(3)} == {3 * (4, 3, 2)[agent]}


def test_every_lane_and_epoch_has_a_seed_of_its_own():
    experiment, _ = play("pettingzoo:zoo_envs:Meeting", lanes=3, epochs=2)
    firsts = [rows(experiment, 0, lane).states[first].tobytes() for lane in range(3) for first in (0, 5)]
    assert len(set(firsts)) == 6
    again, _ = play("pettingzoo:zoo_envs:Meeting", epochs=2)
    assert [rows(again, 0).states[first].tobytes() for first in (0, 5)] == firsts[:2], "whatever is played beside it"
    other, _ = play("pettingzoo:zoo_envs:Meeting", "experiment.seed=1")
    assert rows(other, 0).states[0].tobytes() not in firsts


def test_an_agent_that_lingers_in_the_list_does_not_act_on():
    experiment, _ = play("pettingzoo:zoo_envs:Lingers")
    assert len(rows(experiment, 0).actions) == 4 and len(rows(experiment, 1).actions) == 2
    assert rows(experiment, 1).dones.tolist() == [False, True]


REAL = [
    "pettingzoo:mpe2.simple_spread_v3",
    "pettingzoo:mpe2.simple_adversary_v3",
    "pettingzoo:mpe2.simple_spread_v3:env",
    "pettingzoo:pettingzoo.classic.tictactoe_v3",
    "pettingzoo:classic/connect_four-v3",
    "pettingzoo:abreast.games.treasurehunt.treasurehunt_v0",
    "pettingzoo:pettingzoo.butterfly.knights_archers_zombies_v11",
    "gymnasium:MiniGrid-Empty-5x5-v0",
    "gymnasium:Acrobot-v1",
    "gymnasium:Taxi-v4",
]


@pytest.mark.parametrize("target", REAL)
def test_environments_of_others_are_played_and_learned_from(target, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    experiment = build(target, "experiment.epochs=3", "experiment.max_turns=30", "model.n_frames=2", "model.n_steps=9")
    result = experiment.run_experiment(animate=False, logging=False)
    assert result.epochs[-1]["updates"] > 0
    assert result.epochs[-1]["agent_steps"] == sum(
        len(rows(experiment, agent).actions) for agent in range(len(experiment.game.players))
    )
    for agent, total in enumerate(np.sum([record["reward_per_agent"] for record in result.epochs], axis=0)):
        assert rows(experiment, agent).rewards.sum() == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_a_game_with_as_many_actions_as_chess_is_learned(algorithm):
    """4,672, of which few are legal."""
    target, short = (
        "pettingzoo:zoo_envs:ManyMoves",
        ("model.gradient_steps=1", "model.buffer_capacity=200", "experiment.max_turns=50"),
    )
    counted = "experiment.train_interval=1"
    experiment = build(target, f"model.algorithm={algorithm}", "experiment.epochs=3", counted, *short)
    result = experiment.run_experiment(animate=False, logging=False)
    assert result.epochs[-1]["updates"] > 0
    assert find_game(target).configure().model.buffer_capacity == 2**28 // (ManyMoves.large + ManyMoves.number)
    assert {action for agent in range(3) for action in rows(experiment, agent).actions.tolist()} <= {7, 4671}


def test_more_actions_than_fit_into_memory_are_refused():
    with pytest.raises(ConfigError, match=r"not enough memory for this configuration: .* or the number of actions"):
        build("gymnasium:zoo_envs:Endless", "model.algorithm=iqn")


def test_agents_in_turn_and_at_once_live_the_same():
    """The two forms of one environment: what each agent gets in all is the same, if they do the same."""
    settings = ("model.algorithm=random", "experiment.epochs=2", "experiment.max_turns=1000")
    both = [build(f"pettingzoo:mpe2.simple_spread_v3:{form}", *settings) for form in ("parallel_env", "env")]
    for experiment in both:
        experiment.run_experiment(animate=False, logging=False)
    for agent in range(3):
        one, two = (rows(experiment, agent) for experiment in both)
        assert one.actions.tolist() == two.actions.tolist() and np.allclose(one.rewards, two.rewards)
        assert np.array_equal(one.last, two.last)


FAULTS = {
    "Continuous": "cannot be trained: of agent 'host', the actions are continuous without bounds .*give the Box",
    "BringsAStranger": "agent 'stranger' has appeared, which is not in possible_agents",
    "LacksAReward": "the rewards lack agent 'host'",
    "LacksAnObservation": "the observations lack agent 'late'",
    "PaysNothingFinite": "of agent 'host', the reward is nan, expected a finite number",
    "Grows": r"agent 'host' observes an array of shape \(3,\), but its space says \(2,\)",
    "ReturnsFour": "expected \\(observations, rewards, terminations, truncations, infos\\)",
    "HasOldReset": "expected \\(observations, infos\\)",
    "TakesNoSeed": r"TakesNoSeed\.reset takes no seed: define it as reset\(self, seed=None, options=None\)",
    "ListsNobody": "has no `agents`",
    "ForbidsAll": "the action_mask of agent 'ann' allows nothing, but it is its turn",
    "NeverLeaves": "agent 'eve' has ended its episode and stays in `agents`",
    "ListsASet": "possible_agents is .*: make it a list with each agent once",
    "ListsOneTwice": "possible_agents is .*: make it a list with each agent once",
    "ReturnsLists": r"the rewards lack agent 'host' \(there is \[",
    "SeesLists": r"the observations lack agent 'host' \(there is \[",
    "RevivesAtOnce": "agent 'guest' has ended its episode, stayed in `agents`, and is not ended any more",
    "SelectsOneWhoLeft": "agent_selection is 'eve', which is not in `agents` any more",
    "ObservesNaNLater": "agent 'host' observes nan, which is no number to learn from",
    "MasksByLogarithms": "the action_mask of agent 'ann' is .*: expected 4 numbers, one for each action, 1 where",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_broken_contract_is_told_in_one_sentence(name):
    with pytest.raises(AbreastError, match=FAULTS[name]) as told:
        play(f"pettingzoo:zoo_envs:{name}")
    assert name in str(told.value), "the environment is named"
    assert str(told.value).endswith(".") and "\n" not in str(told.value)


def test_a_list_of_rewards_is_told_from_a_wrong_one():
    with pytest.raises(RewardError, match=r"these are several; make a pettingzoo.ParallelEnv if each"):
        play("gymnasium:zoo_envs:PaysAList")


def test_a_module_that_its_package_calls_so_is_found(monkeypatch):
    """As gymnasium_robotics has mamujoco_v1, which lies deeper."""
    package, module = ModuleType("made_up_package"), ModuleType("lies_deeper.spread_v1")
    module.parallel_env, package.spread_v1, package.__path__ = Meeting, module, []
    monkeypatch.setitem(sys.modules, "made_up_package", package)
    assert find_game("pettingzoo:made_up_package.spread_v1").function is Meeting
    with pytest.raises(GameError, match=r"there is no module 'made_up_package.spread_v2'"):
        find_game("pettingzoo:made_up_package.spread_v2")


NOT_FOUND = {
    "pettingzoo:classic/connect_five-v3": "did you mean 'classic/connect_four-v3'",
    "pettingzoo:no_such_module": "there is no module 'no_such_module'",
    "pettingzoo:mpe2.simple_tg": "did you mean 'mpe2.simple_tag_v3'",
    "pettingzoo:mpe2.simple_tag": "did you mean 'pettingzoo:mpe2.simple_tag_v3'",
    "pettingzoo:zoo_envs:Metting": "did you mean 'Meeting'",
    "pettingzoo:zoo_envs": "has neither a function parallel_env nor env",
    "pettingzoo:matrix_game:PAYOFFS": "expected a function that makes an environment, or a class",
    "pettingzoo:zoo_envs:corridor": "which has no possible_agents: expected a PettingZoo ParallelEnv or AECEnv",
    "gymnasium:CartPol-v1": "there is no Gymnasium environment 'CartPol-v1': did you mean 'CartPole-v1'",
    "gymnasium:Nowhere-v0": "name the module that registers it too, as in gymnasium:MODULE:NAME",
    "gymnasium:zoo_envs:Meeting": "which has no observation_space: expected a gymnasium.Env",
    "gymnasium:box_envs:Mixed": "the actions are continuous within others",
    "gymnasium:zoo_envs:SeveralInOne": "one agent here: wrap it in a pettingzoo.ParallelEnv in which each agent has one",
    "gymnasium:zoo_envs:needs_an_argument": "needs an argument 'size': give world.size=VALUE",
}


@pytest.mark.parametrize("target", NOT_FOUND)
def test_what_is_no_environment_is_told(target):
    with pytest.raises(AbreastError, match=re.escape(NOT_FOUND[target])):
        build(target)


TAKES_FEW = ["pettingzoo:mpe2.simple_spread_v3", "gymnasium:CartPole-v1", "gymnasium:zoo_envs:corridor"]


@pytest.mark.parametrize("target", TAKES_FEW)
def test_arguments_that_are_not_taken_are_refused(target):
    with pytest.raises(ConfigError, match=r"world\.colour is 3, but .* takes no argument 'colour'"):
        build(target, "world.colour=3")


def test_arguments_that_an_environment_cannot_be_made_with_are_named():
    told = r"CannotBeMade could not be made with world.size='many': it raised TypeError: .*zoo_envs\.py, line \d+\): give it"
    with pytest.raises(ConfigError, match=told):
        build("pettingzoo:zoo_envs:CannotBeMade", "world.size=many")


@pytest.mark.parametrize("setting", ["experiment.turn_order=simultaneous", "model.agent_vision_radius=5"])
def test_settings_that_an_environment_decides_are_refused(setting):
    with pytest.raises(ConfigError, match=r"is what CartPole-v1 says, not a setting: leave it out"):
        build("gymnasium:CartPole-v1", setting)


def test_arguments_reach_the_environment_and_say_how_many_agents_there_are():
    experiment = build("pettingzoo:mpe2.simple_spread_v3", "world.N=2", "world.max_cycles=7")
    assert [player.name for player in experiment.game.players] == ["agent_0", "agent_1"]
    assert experiment.config.experiment.num_agents == 2
    (played,) = collect_pass(experiment.game, 0)
    assert played.turns == 7
    with pytest.raises(ConfigError, match=r"experiment\.num_agents is 5, but simple_spread_v3 has 3"):
        build("pettingzoo:mpe2.simple_spread_v3", "experiment.num_agents=5")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(GameError, match=re.escape('pip install "abreast[pettingzoo]"')):
        find_game("pettingzoo:mpe2.simple_spread_v3")
    monkeypatch.setattr("abreast.integrations.gymnasium.gymnasium.registry", {})
    with pytest.raises(GameError, match="needs the package minigrid, which is not installed"):
        find_game("gymnasium:MiniGrid-Empty-5x5-v0")


def test_its_own_limit_is_the_turn_limit_unless_one_is_given():
    def limit(target, *given):
        return find_game(target).configure(None, given).experiment.max_turns

    assert limit("gymnasium:CartPole-v1") == 500 and limit("gymnasium:CartPole-v1", "experiment.max_turns=20") == 20
    assert limit("pettingzoo:mpe2.simple_spread_v3") == 25 and limit("gymnasium:MiniGrid-Empty-5x5-v0") == 100
    assert limit("pettingzoo:mpe2.simple_spread_v3:env", "world.max_cycles=10") == 30, "a turn of one of three agents"
    assert limit("pettingzoo:zoo_envs:Meeting") == 1000, "it does not say"


def test_evaluation_leaves_no_trace_and_repeats_itself():
    experiment = build("pettingzoo:zoo_envs:Auction", "multiprocessing.num_envs=2")
    experiment.run_experiment(animate=False, logging=False)
    before = experiment.game.state(), [rows(experiment, agent).rewards.tolist() for agent in range(3)]
    first = evaluate(experiment, 5, seed=3)
    assert (experiment.game.state(), [rows(experiment, agent).rewards.tolist() for agent in range(3)]) == before
    assert evaluate(experiment, 5, seed=3) == first != evaluate(experiment, 5, seed=4)
    assert evaluate(experiment, 3, seed=3).rewards == first.rewards[:3]
