"""Evaluation: episodes that depend on nothing but their number, and agents that are afterwards as they were."""

import json
import random
import threading

import numpy as np
import pytest
import torch

from abreast import BaseModel, EmptyEntity, Gridworld, MovingAgent
from abreast.codec import digest
from abreast.errors import ConfigError, GameError, WorldError
from abreast.models import DQN, IQN, PPO, SAC, RandomModel
from abreast.state import State
from abreast.training import evaluate as evaluation_module
from abreast.training.evaluate import EVALUATING, evaluate, mode_text, modes_of, play_episodes
from fakes import small_game
from own_game import Garden
from strangers import games, models
from strangers.test_strangers import GAMES, config, with_model

ALGORITHMS = ["iqn", "dqn", "ppo", "random"]
SMALL = {"experiment": {"max_turns": 5}, "model": {"algorithm": "dqn", "hidden_size": 16}}
MIXED = "model.per_agent={0: {algorithm: ppo}, 1: {algorithm: iqn}}"


def trained(*overrides):
    env = small_game(
        "experiment.epochs=4", "experiment.max_turns=12", "model.epsilon=0.5", "model.epsilon_decay=0", *overrides
    )
    env.run_experiment(animate=False, logging=False)
    return env


def plain(state: State):
    """A state as something that can be compared."""
    return state.facts, {name: array.tobytes() for name, array in state.arrays.items()}


def whole(env):
    """Everything of an environment and its models that outlives an epoch, as bytes."""
    found = [plain(lane.state()) for lane in env.lanes]
    for agent in env.agents:
        model = agent.model
        own = {name: digest(value, model.places()) for name, value in model.own_attributes.values.items()}
        found.append((plain(model.learning_state()), plain(model.acting_state()), plain(model.memory.state()), own))
    return repr(found)


# ---- every kind of model


def shared():
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # noqa: NPY002


@pytest.mark.parametrize("settings", [*(f"model.algorithm={name}" for name in ALGORITHMS), MIXED])
def test_evaluation_is_repeatable_and_leaves_no_trace(settings):
    env = trained(settings, "multiprocessing.num_envs=2")
    before = whole(env), shared()
    for greedy in (True, False):
        first = evaluate(env, 4, greedy=greedy)
        assert (whole(env), shared()) == before
        assert evaluate(env, 4, greedy=greedy) == first
        assert evaluate(env, 4, greedy=greedy, seed=1) != first
        assert len({tuple(rewards) for rewards in first.rewards}) > 1, "all episodes are one and the same"


@pytest.mark.parametrize("lanes", [1, 3])
def test_an_episode_does_not_depend_on_how_many_are_asked_for(lanes):
    env = trained(MIXED, f"multiprocessing.num_envs={lanes}")
    for greedy in (True, False):
        many = evaluate(env, 6, greedy=greedy)
        for count in (1, 3, 4):
            few = evaluate(env, count, greedy=greedy)
            assert (few.rewards, few.turns) == (many.rewards[:count], many.turns[:count])


def test_training_goes_on_as_if_there_had_been_no_evaluation():
    for settings in ("model.algorithm=iqn", MIXED):
        disturbed, left_alone = (trained(settings, "multiprocessing.num_envs=2") for _ in range(2))
        evaluate(disturbed, 3)
        ends = [env.run_experiment(animate=False, logging=False).epochs for env in (disturbed, left_alone)]
        assert [each["reward"] for each in ends[0]] == [each["reward"] for each in ends[1]]
        assert whole(disturbed) == whole(left_alone)


def test_the_worlds_of_episodes_are_the_same_whatever_the_run_was(monkeypatch):
    """Two runs are compared in the same worlds: they depend neither on the run's seed nor on its lanes or models."""
    seen = {}
    for name, settings in {
        "one": ["experiment.seed=1", "model.algorithm=dqn"],
        "two": ["experiment.seed=2", "model.algorithm=ppo", "multiprocessing.num_envs=3"],
    }.items():
        env, maps = small_game(*settings), []
        env.make_lanes()
        populate = type(env).populate_environment
        with monkeypatch.context() as patch:
            seen_by = lambda lane, m=maps, f=populate: (f(lane), m.append(look(lane)))  # noqa: E731
            patch.setattr(type(env), "populate_environment", seen_by)
            play_episodes(env, 6)
        seen[name] = maps
    assert seen["one"] == seen["two"]
    assert len(set(seen["one"])) == 6


def look(env):
    return str([[entity.kind for entity in env.world.map.flat], [agent.location for agent in env.agents]])


# ---- greedy


def test_greedy_agents_do_not_explore(monkeypatch):
    """Value models draw no random action, IQN no noise, PPO no action from its policy: the stream of choices is idle."""
    for name in ("iqn", "dqn", "ppo"):
        env = trained(f"model.algorithm={name}")
        greedy = evaluate(env, 2, greedy=True)
        kind = type(env.agents[0].model)
        with monkeypatch.context() as patch:
            patch.setattr(kind, "choose_from", lambda model, seed, f=kind.choose_from: f(model, OTHER))
            assert evaluate(env, 2, greedy=True) == greedy
            sampled = evaluate(env, 2, greedy=False)
        explored = evaluate(env, 2, greedy=False)
        assert explored != sampled, f"{name} does not explore when asked to"
        assert evaluate(env, 2) == (explored if name == "ppo" else greedy), f"{name} is not evaluated as it declares"


def test_each_agent_is_evaluated_as_its_class_declares():
    kinds = [DQN, PPO, RandomModel, IQN, SAC, type("Own", (PPO,), {}), type("Own", (BaseModel,), {})]
    assert modes_of(kinds) == ["greedy", "explore", "greedy", "greedy", "explore", "explore", "greedy"]
    assert mode_text(modes_of(kinds)) == "greedy (agents 0, 2, 3, 6), explore (agents 1, 4, 5)"
    assert mode_text(modes_of(kinds, greedy=True)) == "greedy" and mode_text(modes_of(kinds, greedy=False)) == "explore"


OTHER = np.random.SeedSequence(77)


def test_sampling_takes_epsilon_as_it_is():
    env = trained("model.algorithm=dqn")
    for agent in env.agents:
        agent.model.epsilon = 0.0
    assert evaluate(env, 3, greedy=False) == evaluate(env, 3)
    for agent in env.agents:
        agent.model.epsilon = 1.0
    wild = evaluate(env, 3, greedy=False)
    assert wild != evaluate(env, 3)
    assert [agent.model.epsilon for agent in env.agents] == [1.0, 1.0]


def test_greedy_ends_with_its_context_whatever_happens():
    model = small_game().agents[0].model
    with pytest.raises(KeyError), model.act_greedily():
        assert (model.epsilon, model.is_greedy) == (0.0, True)
        raise KeyError
    assert model.epsilon == model.config.epsilon
    assert not model.is_greedy
    assert "is_greedy" not in vars(model)


def test_ppo_takes_the_likeliest_action():
    model = trained("model.algorithm=ppo").agents[0].model
    evaluated = torch.log_softmax(torch.tensor([[2.0, 0.0, 2.1, 1.9]]), dim=1)
    with model.act_greedily():
        assert [model.decide(evaluated, [0]) for _ in range(20)] == [[2]] * 20
    assert len({tuple(model.decide(evaluated, [0])) for _ in range(50)}) > 1


def test_random_agents_stay_random():
    env = small_game("model.algorithm=random")
    model = env.agents[0].model
    assert isinstance(model, RandomModel)
    with model.act_greedily():
        assert len({model.take_action(None) for _ in range(50)}) == 4


# ---- users' games and models


@pytest.mark.parametrize("kind", [models.Bandit, models.Reinforce, models.Convolutional, models.Noisy, models.SharedDice,
                                  models.RemembersItself, models.SyncsAtEpochs], ids=lambda kind: kind.__name__)  # fmt: skip
def test_strangers_models(kind):
    env = with_model(kind)(num_envs=2, epochs=4)
    env.run_experiment(animate=False, logging=False)
    before = whole(env)
    many = evaluate(env, 4)
    assert whole(env) == before
    assert evaluate(env, 2).rewards == many.rewards[:2]


@pytest.mark.parametrize("name", GAMES)
def test_strangers_games(name):
    env = GAMES[name](num_envs=2, epochs=4)
    env.run_experiment(animate=False, logging=False)
    seen = cart if name == "a Gymnasium environment" else whole  # whose parts are equal, and pickled in another order
    before = seen(env)
    many = evaluate(env, 4)
    assert seen(env) == before
    assert evaluate(env, 2).rewards == many.rewards[:2]
    if name not in ("a joint payoff", "rewards given late"):  # which greedy agents play alike in any world
        assert len({tuple(rewards) for rewards in many.rewards}) > 1


class Meddler(DQN):
    """Draws from everything there is, wherever it is, and remembers what it did."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.dice = self.choosing_rng

    def choose_from(self, seed):
        """Has one stream for all actors."""

    def start_epoch_action(self, *, epoch):
        super().start_epoch_action(epoch=epoch)
        self.updates += 1

    def take_actions(self, states, lanes):
        self.chosen = [*getattr(self, "chosen", []), self.memory.rng.random(), self.dice.random()]
        return super().take_actions(states, lanes)


def test_a_model_that_meddles_with_everything():
    env = with_model(Meddler)(num_envs=2)
    before, model = whole(env), env.agents[0].model
    first = evaluate(env, 4)
    assert whole(env) == before
    assert model.dice is model.choosing_rng
    assert "chosen" not in vars(model)
    assert evaluate(env, 4) == first


def test_a_generator_that_is_the_models_own_stays_so():
    class Aliased(DQN):
        def setup(self, learning, more):
            super().setup(learning, more)
            self.dice = self.choosing_rng

    env = with_model(Aliased)()
    before, dice = whole(env), env.agents[0].model.dice
    evaluate(env, 2)
    assert env.agents[0].model.choosing_rng is env.agents[0].model.dice is dice
    assert whole(env) == before


def test_every_pass_begins_alike_but_for_its_streams(monkeypatch):
    """What the game and the models keep is as before the first episode; each generator is at a place of its own."""
    env = games.Moody(games.DirtyWorld(), config(num_envs=2))
    env.run_experiment(animate=False, logging=False)
    kept, streams, play = [], [], evaluation_module.play_lanes

    def looked_at(*arguments):
        moods = [agent.mood for lane in env.lanes for agent in lane.agents]
        kept.append((moods, [agent.model.updates for agent in env.agents]))
        for lane in env.lanes:
            streams.extend(repr(each.bit_generator.state) for each in (lane.world.rng, *(a.dice for a in lane.agents)))
        streams.extend(repr(agent.model.choosing_rng.bit_generator.state) for agent in env.agents)
        return play(*arguments)

    monkeypatch.setattr(evaluation_module, "play_lanes", looked_at)
    play_episodes(env, 6)
    assert len(kept) == 3
    assert kept[0] == kept[1] == kept[2]
    assert any(kept[0][0])
    assert len(set(streams)) == len(streams) == 3 * (2 * 3 + 2)


def cart(env):
    carts = [lane.world.env.unwrapped for lane in env.lanes]
    return [(str(each.state), str(each.np_random.bit_generator.state)) for each in carts]


def test_a_generator_that_is_the_worlds_own_stays_so():
    class Aliased(games.Walkers):
        def setup_agents(self):
            super().setup_agents()
            self.dice = self.world.rng

    env = Aliased.make(SMALL)
    before, dice = env.world.rng.bit_generator.state, env.dice
    evaluate(env, 2)
    assert env.dice is env.world.rng is dice
    assert dice.bit_generator.state == before


def test_bodies_that_are_made_anew_and_state_that_is_no_attribute():
    steps = [0]

    class Body(MovingAgent):
        kind = "MovingAgent"

        def act(self, world, action):
            steps[0] += 1
            return super().act(world, action) + 0.01 * steps[0]

        def state(self):
            return State({"steps": steps[0]})

        def set_state(self, state):
            steps[0] = state.facts["steps"]

    class Reborn(games.Walkers):
        body = Body

        def reset(self):
            self.agents[:] = [Body(each.observation_spec, each.action_spec, each.model) for each in self.agents]
            super().reset()

    env = Reborn.make(SMALL)
    agents = list(env.agents)
    first = evaluate(env, 3)
    assert env.agents == agents
    steps[0] = 0
    assert evaluate(env, 3) == first


def test_what_cannot_be_copied_is_the_twins_own():
    class Open(games.Walkers):
        def setup_agents(self):
            super().setup_agents()
            self.file, self.rule = open("/dev/null"), lambda: 1  # noqa: SIM115, PTH123

    env = Open.make(SMALL)
    file = env.file
    evaluate(env, 2)
    assert env.file is file


def test_what_can_neither_be_built_nor_copied_is_refused_by_name():
    world = Gridworld(6, 6, 1, EmptyEntity())
    world.lock = threading.Lock()
    env = games.Walkers(world, config())
    with pytest.raises(WorldError, match=r"Gridworld.lock .* cannot be copied"):
        evaluate(env, 2)
    assert play_episodes(env, 2).turns == [12, 12]


def test_a_game_that_fails_leaves_no_trace_either(monkeypatch):
    env = trained("model.algorithm=iqn")
    before, turns = whole(env), iter(range(5))

    def fails():
        if next(turns, None) is None:
            raise RuntimeError("the end of the world")

    monkeypatch.setattr(type(env.world), "transition", lambda world: fails())
    with pytest.raises(RuntimeError, match="the end of the world"):
        evaluate(env, 1)
    assert whole(env) == before
    assert not any(agent.model.is_greedy for agent in env.agents)


# ---- figures


def test_figures_by_hand():
    env = Garden.make({})
    found = evaluate(env, 3)
    sums = [sum(rewards) for rewards in found.rewards]
    assert found.turns == [6, 6, 6]
    assert found.sum.values == sums
    assert found.sum.mean == pytest.approx(sum(sums) / 3)
    assert [each.values for each in found.agents] == [list(each) for each in zip(*found.rewards, strict=True)]
    assert found.metrics["eaten"] == found.sum
    assert found.metrics["turns"].interval == (6.0, 6.0)


def test_json_is_strict_also_where_figures_are_not_finite():
    class Odd(Garden):
        def metrics(self):
            return {"never": float("nan"), "sometimes": float("inf") if sum(a.score for a in self.agents) > 2 else 1}

    found = evaluate(Odd.make({}), 6).as_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert "never" not in found["metrics"]
    assert set(found["metrics"]["sometimes"]["values"]) == {1.0}
    assert found.keys() == {"agents", "sum", "turns", "metrics"}
    assert found["agents"][0].keys() == {"mean", "interquartile_mean", "interval", "rewards"}
    assert evaluate(Garden.make({}), 1).as_json()["sum"]["interval"] is None


def test_metrics_that_are_none_are_refused():
    class Wrong(Garden):
        def metrics(self):
            return {"eaten": "many"}

    with pytest.raises(GameError, match="the metric 'eaten' of Wrong is 'many'"):
        evaluate(Wrong.make({}), 1)


def test_bad_numbers_are_refused():
    env = Garden.make({})
    with pytest.raises(ConfigError, match="the number of episodes is 0: expected at least 1"):
        evaluate(env, 0)
    with pytest.raises(ConfigError, match="the seed of the evaluation is -1"):
        evaluate(env, 1, seed=-1)


def test_no_stream_is_one_of_trainings(monkeypatch):
    """With the same seed, no spawn key of evaluation is one that building, playing or learning uses."""
    keys, real = {"training": set(), "evaluation": set()}, np.random.SeedSequence
    now = "training"

    class Seen(real):
        def generate_state(self, *arguments):
            keys[now].add(self.spawn_key)
            return super().generate_state(*arguments)

    monkeypatch.setattr(np.random, "SeedSequence", Seen)
    env = trained("model.algorithm=iqn", "multiprocessing.num_envs=2")
    now = "evaluation"
    play_episodes(env, 4)
    assert keys["training"]
    assert keys["evaluation"]
    assert not keys["training"] & keys["evaluation"]
    assert {key[0] if key[0] != 1_000_000 else key[1] for key in keys["evaluation"]} == {EVALUATING}
    assert evaluation_module.EVALUATING not in {key[0] for key in keys["training"] if key}
