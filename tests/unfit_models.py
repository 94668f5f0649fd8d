"""Models that break the contract of `BaseModel`, each in one way; and one that keeps it."""

import json
import os
import threading
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from abreast import DQN, IQN, PPO, BaseModel, Buffer
from abreast.models import ModelConfig
from abreast.models.iqn.network import IQNNetwork


class Fit(BaseModel):
    """Keeps the contract: learns the mean reward of each action, and sees one frame."""

    def setup(self, learning, more):
        self.network = nn.Linear(self.input_size, self.n_actions)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=0.01)

    def take_action(self, state, lane=0):
        seen = self.with_history(state, lane)
        if self.choosing_rng.random() < self.epsilon:
            return int(self.choosing_rng.integers(self.n_actions))
        with torch.no_grad():
            return int(self.network(seen).argmax())

    def train_step(self):
        if len(self.memory) < self.config.batch_size:
            return None
        batch = self.memory.sample(self.config.batch_size)
        values = self.network(self.as_input(batch.states))
        chosen = values.gather(1, torch.from_numpy(batch.actions)[:, None])[:, 0]
        loss = ((chosen - torch.from_numpy(batch.rewards)) ** 2).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()


class LearnsNothing(BaseModel):
    def take_action(self, state, lane=0):
        return 2

    def train_step(self):
        return None


# ---- building


class SeededByTheClock(Fit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.dice = np.random.default_rng()


class KnowsNoLanesWhenBuilt(Fit):
    def __init__(self, observation, n_actions, config, seed):
        super().__init__(observation, n_actions, config, seed)


class HasPlainSettings(Fit):
    Config = dict


class RaisesInSetup(Fit):
    def setup(self, learning, more):
        raise ZeroDivisionError("a villain divides by zero")


class OwnBuffer(Buffer):
    """Somebody's own replay."""


class HasItsOwnMemory(Fit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.memory = OwnBuffer(64, self.observation.input_size, lanes=self.memory.lanes)


class IsNotMade(Fit):
    def __init__(self, observation, n_actions, config, seed, lanes=1, device="cpu"):
        self.observation = observation


class IsNotSetUp(DQN):
    def setup(self, learning, more):
        self.visits = 0


class IsEvaluatedOtherwise(Fit):
    EVALUATION = "sampled"


class CannotLearn(BaseModel):
    def take_action(self, state, lane=0):
        return 0


class SaysTooLittle(DQN):
    def make_network(self):
        return nn.Linear(self.input_size, 2)


class SeesTooLittle(DQN):
    def make_network(self):
        return nn.Linear(7, self.n_actions)


class SaysTooMuch(IQN):
    def make_network(self):
        return IQNNetwork(self.input_size, self.n_actions + 5, self.config)


class SaysColumns(PPO):
    """Says what states are worth in a column."""

    def make_network(self):
        network = super().make_network()
        values, network.values = network.values, lambda states: values(states)[:, None]
        return network


class HalfModule(nn.Module):
    """Does not call the constructor of its base."""

    def __init__(self):
        self.layer = nn.Linear(3, 4)


class BuildsHalfAModule(DQN):
    def make_network(self):
        return HalfModule()


class BuildsNothing(DQN):
    def make_network(self):
        nn.Linear(self.input_size, self.n_actions)


class ReadsNonsense(Fit):
    """Raises below its own code."""

    def setup(self, learning, more):
        json.loads("nonsense")


class CannotChoose(BaseModel):
    def train_step(self):
        return None


class HasNoChances(PPO):
    def make_network(self):
        return nn.Linear(self.input_size, self.n_actions)


# ---- actions


class ChoosesHalves(Fit):
    def take_action(self, state, lane=0):
        return 2.5


class ChoosesTooFar(Fit):
    def take_actions(self, states, lanes):
        return [self.n_actions for _ in lanes]


class ChoosesWithoutLane(Fit):
    def take_action(self, state):
        return super().take_action(state)


class RemembersWithoutLane(Fit):
    def remember(self, state, action, reward, done):
        super().remember(state, action, reward, done)


# ---- memory


class RemembersNothing(Fit):
    def remember(self, state, action, reward, done, lane=0):
        self.last = reward


class RemembersTwice(Fit):
    def remember(self, state, action, reward, done, lane=0):
        for _ in range(2):
            super().remember(state, action, reward, done, lane)


class RemembersInTheFirstLane(Fit):
    def remember(self, state, action, reward, done, lane=0):
        super().remember(state, action, reward, done)


# ---- learning


class LosesNaN(Fit):
    def train_step(self):
        return None if super().train_step() is None else float("nan")


class LosesText(Fit):
    def train_step(self):
        return None if super().train_step() is None else "a lot"


class ForgetsToStep(Fit):
    def train_step(self):
        return float(self.memory.sample(8).rewards.mean())


class CountsTwice(Fit):
    def train_step(self):
        self.updates += 2
        return super().train_step()


class LosesRows(DQN):
    def loss_of(self, online, target, batch, drawn):
        return (online(batch.states).mean(dim=-1) - batch.rewards) ** 2


class LosesNothing(DQN):
    def loss_of(self, online, target, batch, drawn):
        self.last = super().loss_of(online, target, batch, drawn)


class LosesGradients(DQN):
    def loss(self, batch):
        return super().loss(batch)["loss"].item()


# ---- lanes


class HasOneHistory(Fit):
    """Chooses by what it saw last, in whichever lane."""

    acting = ("before",)

    def setup(self, learning, more):
        super().setup(learning, more)
        self.before = np.zeros(self.observation.input_size, np.uint8)

    def take_action(self, state, lane=0):
        before, self.before = self.before, state
        return int(before.sum()) % self.n_actions


# ---- global random state


class ChoosesFromNumpy(Fit):
    def take_action(self, state, lane=0):
        return int(np.random.randint(self.n_actions))  # noqa: NPY002


class DrawsAtTheEnd(Fit):
    def end_epoch_action(self, *, epoch):
        super().end_epoch_action(epoch=epoch)
        torch.rand(1)


class DropsOut(Fit):
    """Learns with dropout, which draws from torch's own generator: that is allowed."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.dropout = nn.Dropout(0.1)

    def train_step(self):
        with torch.no_grad():
            self.network.bias.copy_(self.dropout(self.network.bias))
        return super().train_step()


class HasAPlainNetwork(DQN):
    """Says nothing of its first weights, which are torch's; it draws, and keeps figures, in forward."""

    def make_network(self):
        return nn.Sequential(
            nn.Linear(self.input_size, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, self.n_actions)
        )


# ---- ownership


class CountsOnBothSides(Fit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.rows = []

    def remember(self, state, action, reward, done, lane=0):
        super().remember(state, action, reward, done, lane)
        self.rows.append(reward)

    def train_step(self):
        self.rows.clear()
        return super().train_step()


class HoldsALockBesideItsNetwork(DQN):
    """Each process has its own: that is allowed, and said."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.lock = threading.Lock()


# ---- other processes


class HoldsALock(Fit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.lock = threading.Lock()


class LearnsByProcess(Fit):
    def train_step(self):
        self.pid = os.getpid()
        return super().train_step()


# ---- files


class KeepsItsTasteInAnObject(Fit):
    """Learns something of a kind that a file cannot hold."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.taste = SimpleNamespace(action=0)

    def take_action(self, state, lane=0):
        return self.taste.action if lane else super().take_action(state, lane)

    def train_step(self):
        self.taste.action = 3
        return super().train_step()


class Table(dict):
    """A dictionary that knows zero."""

    def __missing__(self, key):
        return 0.0


class KeepsATable(Fit):
    """Holds a dictionary of a class of its own, which stays one."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.table = Table()

    def train_step(self):
        self.table["updates"] += 1
        return super().train_step()


class HasAnObject(Fit):
    """Has one too, but it does not matter."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.names = SimpleNamespace(first="a")


class CannotBeSaved(Fit):
    def save(self, path):
        raise OSError("no file for this one")


class OwnConfig(ModelConfig):
    """With a setting of its own, and no small layers."""

    hidden_size: int = 64
    """Fixed."""


class HasSettings(Fit):
    Config = OwnConfig
