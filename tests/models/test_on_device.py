"""Choosing for all lanes at once, on a device: the same rule as lane by lane, from memory that stays where it is."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from abreast.models import DQN, PPO, RandomModel, algorithm
from abreast.models.stacked import StackedChoice
from abreast.replay import Buffer
from fakes import TinyObservation, make_model

LANES = 40


def model_for_lanes(name, kind=None, **settings):
    kind = kind or algorithm(name)
    small = {"algorithm": name, "hidden_size": 16, "buffer_capacity": 400, "n_frames": 2, **settings}
    return kind(TinyObservation(4), 3, kind.Config.parse(small), np.random.SeedSequence(1), LANES)


@pytest.mark.parametrize("is_greedy", [False, True])
@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo", "random"])
def test_all_lanes_at_once_choose_as_each_would(name, is_greedy):
    model, lanes = model_for_lanes(name, epsilon=0.5), list(range(LANES))
    states = list(np.random.default_rng(0).integers(0, 9, (LANES, 4)).astype(np.uint8))
    if is_greedy and name != "random":
        model.epsilon, model.is_greedy = 0.0, True
    model.start_epoch_action(epoch=0)
    if name == "ppo":
        with torch.no_grad():  # not undecided, as it begins
            model.policy.policy_head.weight.mul_(300)
    frames = model.frame_stack.push(states, lanes).clone()
    chances = torch.tensor(model.streams.draw(lanes), dtype=torch.float64)
    model.start_epoch_action(epoch=0) if name != "ppo" else model.streams.begin(0)
    model.frame_stack.clear()
    expected = model.take_actions(states, lanes)
    with torch.no_grad():
        evaluated = model.evaluate(frames)
        actions, extras = model.decide_all(evaluated, chances, torch.tensor(model.epsilon, dtype=torch.float64))
    assert actions.dtype == torch.int64
    assert actions.tolist() == expected
    assert len(set(expected)) > 1
    assert extras.keys() == model.lane_extras.keys()
    for key, values in extras.items():
        np.testing.assert_allclose(values.numpy(), model.lane_extras[key], rtol=1e-5)


def test_the_last_action_that_has_a_chance_is_the_last_that_ppo_draws():
    model = model_for_lanes("ppo")
    evaluated = torch.tensor([[0.0, -1e9, -1e9], [-1e9, -0.5, -1e9]])
    chances = torch.full((2, 2), 1.0 - 2**-53, dtype=torch.float64)
    actions, extras = model.decide_all(evaluated, chances, torch.zeros(()))
    assert actions.tolist() == [0, 1]
    assert extras["log_chance"].tolist() == [0.0, -0.5]


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_what_choosing_reads_stays_in_its_memory_from_epoch_to_epoch(name):
    model = make_model(name)
    places, values = [], []
    for epoch in range(3):
        with torch.no_grad():
            model.online_block.values.add_(1.0)
        if epoch == 2:
            model.is_greedy = True
        model.start_epoch_action(epoch=epoch)
        places.append([tensor.data_ptr() for tensor in model.choosing_tensors()])
        values.append([tensor.clone() for tensor in model.choosing_tensors()])
    assert places[0] == places[1] == places[2]
    assert len(places[0]) == (6 if name == "iqn" else 1)
    for one, other in pairwise(values):
        assert all(not torch.equal(mine, its) for mine, its in zip(one, other, strict=True))


@pytest.mark.parametrize("name", ["iqn", "dqn", "ppo"])
def test_a_policy_that_lives_elsewhere_chooses_with_the_same_weights_from_frames_on_the_cpu(name):
    one, other = make_model(name), make_model(name)
    drawn = torch.get_rng_state()
    other.chooses_on, other.policy_block.values.data = "elsewhere", other.policy_block.values.data + 1
    other.choose_on("cpu")  # a device that it is not on
    assert torch.equal(torch.get_rng_state(), drawn)
    for model in (one, other):
        model.epsilon = 0.0
        model.start_epoch_action(epoch=0)
    state = np.arange(4, dtype=np.uint8)
    assert one.take_action(state) == other.take_action(state)
    assert torch.equal(one.policy_block.values, other.policy_block.values)
    assert StackedChoice([one, other]).take_actions([[state], [state]], [0])


class Cautious(DQN):
    def remember(self, state, action, reward, done, lane=0):
        super().remember(state, action, max(reward, -1.0), done, lane)


class Noting(PPO):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.lane_extras["mood"] = np.zeros(self.memory.lanes)

    def memory_options(self):
        options = super().memory_options()
        return {**options, "extras": {**options["extras"], "mood": np.float64}}


class OwnBuffer(Buffer):
    pass


def with_own_memory():
    model = make_model("dqn")
    model.memory = OwnBuffer(64, (4,))
    return model


class OnlyUp(DQN):
    def legal_now(self, lanes):
        return torch.tensor([[True, False, False]]).expand(len(lanes), -1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: model_for_lanes("dqn", OnlyUp), "OnlyUp.legal_now is your own, and is called state by state"),
        (lambda: model_for_lanes("dqn", Cautious), "Cautious.remember is your own, and is called state by state"),
        (lambda: model_for_lanes("ppo", Noting), "Noting remembers mood of each lane"),
        (lambda: model_for_lanes("dqn", network="lstm"), "its network is lstm, whose memory is kept lane by lane"),
        (with_own_memory, "its memory is a OwnBuffer, which takes row after row"),
    ],
)
def test_a_model_that_cannot_choose_so_says_why(make, said):
    assert make().why_not_on_device() == said


class Renamed(RandomModel):
    """A user's class that changes nothing of this."""


class OwnLoss(DQN):
    def loss_of(self, *arguments):
        return super().loss_of(*arguments)["loss"]


@pytest.mark.parametrize(
    ("name", "kind"), [("iqn", None), ("dqn", None), ("ppo", None), ("random", Renamed), ("dqn", OwnLoss)]
)
def test_ours_can(name, kind):
    assert model_for_lanes(name, kind).why_not_on_device() is None
