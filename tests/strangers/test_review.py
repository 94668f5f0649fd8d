"""What a review found to differ without a word; each of these is now identical or refused."""

import functools
import queue

import numpy as np
import pytest
import torch
from torch import nn

from abreast import DQN, RandomModel
from abreast.errors import ConfigError, ModelError, ReplayError, RewardError, WorkerError
from fakes import TinyObservation, timeless
from strangers import games
from strangers.cases import config, plain, with_model
from strangers.models import Heuristic, Plain


class NetworkHeuristic(DQN):
    def take_action(self, state, lane=0):
        super().take_action(state, lane)
        return int(state.sum()) % self.n_actions


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("kind", [Heuristic, NetworkHeuristic])
@pytest.mark.parametrize("lanes", [1, 3])
def test_a_heuristic_is_asked_in_every_lane(kind, lanes, order):
    """Also if it is derived from a model that chooses for all lanes, or all agents, at once."""
    env = with_model(kind)(num_envs=lanes)
    env.config = env.config.with_derived(experiment=env.config.experiment.with_derived(turn_order=order))
    env.run_experiment(animate=False, logging=False)
    rows = [env.agents[0].model.memory.trajectory(lane, 0) for lane in range(lanes)]
    assert all((each.states[:, -1].sum((1, 2, 3)) % 4 == each.actions).all() for each in rows)


@pytest.mark.xdist_group("strangers")
def test_weights_set_before_the_run_reach_all_actors():
    for run in ("run_experiment", "run_experiment_mp"):
        env = with_model(Plain)(num_envs=2, num_actors=2, epochs=2)
        for agent in env.agents:
            with torch.no_grad():
                agent.model.net.weight.zero_()
                agent.model.net.bias.copy_(torch.tensor([100.0, 0.0, 0.0, 0.0]))
        getattr(env, run)(animate=False, logging=False)
        actions = [env.agents[0].model.memory.trajectory(lane, 0).actions for lane in range(2)]
        assert all((each == 0).all() for each in actions)


# ---- refused


class ActsOnAView(Plain):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.weights = self.net.weight.detach().numpy()


class ViewsOurNetwork(DQN):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.weights = self.online.heads.weight.detach().numpy()


class ClipsByHook(Plain):
    def setup(self, learning, more):
        super().setup(learning, more)
        for parameter in self.net.parameters():
            parameter.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))


class HooksItsOptimiser(Plain):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.opt.register_step_post_hook(lambda *step: None)


class HasAQueue(DQN):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.queue = queue.Queue()


class SharesACritic(Plain):
    critic = functools.cache(lambda: nn.Linear(1, 1))

    def setup(self, learning, more):
        super().setup(learning, more)
        self.shared = SharesACritic.critic()

    def train_step(self):
        with torch.no_grad():
            self.shared.weight += 0.1
        return super().train_step()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ActsOnAView, "net and weights share memory"),
        (ViewsOurNetwork, "the model's .* and weights share memory"),
        (ClipsByHook, "attribute net .* a tensor with a hook"),
        (HooksItsOptimiser, "attribute opt .* an optimiser with hooks"),
        (HasAQueue, "attribute queue .* cannot be sent"),
        (SharesACritic, "SharesACritic.shared changes, and is one and the same as that of agent"),
    ],
)
@pytest.mark.xdist_group("strangers")
def test_refused_by_name(kind, said):
    with pytest.raises((ConfigError, ModelError), match=said):
        with_model(kind)().run_experiment_mp(animate=False, logging=False)


class NewAgents(games.Walkers):
    def reset(self):
        self.setup_agents()
        super().reset()


class Rules:
    def __init__(self, bonus):
        self.bonus = bonus


class Extra(games.Walkers):
    def __init__(self, world, settings, bonus=1.0):
        self.rules = Rules(bonus)
        super().__init__(world, settings)


def with_skill():
    env = games.Walkers(plain(), config(num_envs=2))
    env.agents[0].skill = 100
    return env


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: NewAgents(plain(), config()), ConfigError, "the agents have other models after `reset`"),
        (lambda: Extra(plain(), config(num_envs=2), 9.0), ConfigError, "Extra.rules is"),
        (with_skill, ConfigError, "MovingAgent.skill is 100, but in an environment that is built for another lane"),
    ],
)
def test_games_whose_lanes_would_differ_are_refused(make, error, said):
    with pytest.raises(error, match=said):
        make().run_experiment(animate=False, logging=False)


@pytest.mark.parametrize("payoff", [{0: -5.0, 1: -7.0}, 0.5, {1.0, 2.0}, [1.0], "ab"])
def test_a_payoff_that_is_no_list_of_numbers_is_refused(payoff):
    class Odd(games.Walkers):
        def after_turn(self):
            return payoff

    with pytest.raises(RewardError, match=r"after_turn"):
        Odd(plain(), config()).run_experiment(animate=False, logging=False)


class Renamed(RandomModel):
    """One of ours."""


@pytest.mark.xdist_group("strangers")
def test_models_that_the_factory_does_not_make_are_refused_only_where_another_actor_would_choose_with_them():
    def build(kind):
        env = with_model(Plain)(num_envs=2, num_actors=2)
        for number, agent in enumerate(env.agents):
            agent.model = kind(agent.observation_spec, 4, env.config.model, env.agent_seed(number), 2)
        return env

    build(Renamed).run_experiment(animate=False, logging=False)
    with pytest.raises(WorkerError, match=r"made models Plain, Plain, but those of the first actor are Renamed"):
        build(Renamed).run_experiment_mp(animate=False, logging=False)
    one, two = build(Heuristic), build(Heuristic)  # which choose by themselves, so one actor plays
    expected, found = (
        one.run_experiment(animate=False, logging=False),
        two.run_experiment_mp(animate=False, logging=False),
    )
    assert timeless(expected.epochs) == timeless(found.epochs)


def test_a_state_that_does_not_fit_later_in_an_episode_is_refused_too():
    class Blurs(games.MovingAgent):
        kind = "MovingAgent"

        def pov(self, world):
            seen = super().pov(world)
            return seen * 0.5 if self.score else seen

        def act(self, world, action):
            return 1.0

    class Blur(games.Walkers):
        body = Blurs

    with pytest.raises(ReplayError, match="a state of float64 does not fit into rows of uint8 without loss"):
        Blur(plain(), config()).run_experiment(animate=False, logging=False)


def test_modules_come_back_from_files_wherever_they_are_held(tmp_path):
    class Pair(Plain):
        def setup(self, learning, more):
            super().setup(learning, more)
            self.nets = (nn.Linear(2, 2), {1: np.ones(2), "1": np.zeros(2)})
            self.league = []

    one, two = (Pair(TinyObservation(4), 3, Pair.Config(n_frames=1), np.random.SeedSequence(seed)) for seed in range(2))
    one.league.append(nn.Linear(1, 1))
    one.save(tmp_path / "pair.safetensors")
    two.load(tmp_path / "pair.safetensors")
    assert torch.equal(one.nets[0].weight, two.nets[0].weight)
    assert two.nets[1][1].tolist() == [1, 1] and two.nets[1]["1"].tolist() == [0, 0]
    assert torch.equal(one.league[0].weight, two.league[0].weight)


def test_a_number_of_agents_that_the_game_does_not_make_is_refused():
    settings = config()
    assert games.Walkers(plain(), settings).config.experiment.num_agents == 2
    settings["experiment"]["num_agents"] = 7
    with pytest.raises(ConfigError, match=r"num_agents is 7, but Walkers.setup_agents made 2 agents"):
        games.Walkers(plain(), settings)
