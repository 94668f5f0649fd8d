"""A small framework of the same shape as the public sorrel, written for these tests, and environments written for it.

What matters about it: everything draws from the generators that a process shares, building draws from the clock, one more
epoch is played than is asked for, and `take_turn` does all of a turn. Models are no models of abreast's.
"""
# ruff: noqa: NPY002

import copy
import os
import random
import threading
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

W = TypeVar("W")


# ---- the framework


class Thing:
    sprite = None
    passable, has_transitions, value, kind = True, False, 0, "Thing"

    def transition(self, world):
        pass


class EmptyEntity(Thing):
    kind = "EmptyEntity"


class Grid:
    def __init__(self, height, width, layers, default_entity):
        self.height, self.width, self.layers, self.default_entity = height, width, layers, default_entity
        self.is_done = False
        self.create_world()

    def create_world(self):
        self.map = np.full((self.height, self.width, self.layers), None, dtype=object)
        for place in np.ndindex(self.map.shape):
            self.add(place, copy.deepcopy(self.default_entity))
        self.total_reward = 0.0

    def add(self, place, thing):
        thing.location = place
        self.map[place] = thing

    def move(self, thing, place):
        if not self.map[place].passable:
            return
        old = thing.location
        self.add(place, thing)
        self.add(old, copy.deepcopy(self.default_entity))


class Memory:
    """Rows in a ring, without a cursor that others could read by; the last few are the state that is chosen by."""

    def __init__(self, capacity, obs_shape, n_frames=1, **extra):
        self.capacity, self.obs_shape, self.n_frames = capacity, obs_shape, n_frames
        self.extra_data = {name: np.zeros((capacity, *shape), dtype=np.int64) for name, shape in extra.items()}
        self.clear()

    def clear(self):
        self.states = np.zeros((self.capacity, *self.obs_shape), dtype=np.float32)
        self.actions = np.zeros(self.capacity, dtype=np.int64)
        self.rewards, self.dones = np.zeros((2, self.capacity), dtype=np.float32).copy()
        self.idx = self.size = 0

    def add(self, obs, action, reward, done, **extra):
        self.states[self.idx] = obs
        self.actions[self.idx], self.rewards[self.idx], self.dones[self.idx] = action, reward, done
        for name, value in extra.items():
            self.extra_data[name][self.idx] = value
        self.idx, self.size = (self.idx + 1) % self.capacity, min(self.size + 1, self.capacity)

    def add_empty(self):
        self.idx = (self.idx + self.n_frames - 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def current_state(self):
        back = [(self.idx - step) % self.capacity for step in range(self.n_frames - 1, 0, -1)]
        return self.states[back]

    def sample(self, batch):
        rows = np.random.choice(self.size - self.n_frames, batch, replace=False)[:, None] + np.arange(self.n_frames)
        last = rows[:, -1]
        return (
            self.states[rows].reshape(batch, -1),
            self.actions[last],
            self.rewards[last],
            self.states[rows + 1].reshape(batch, -1),
            self.dones[last],
        )

    def __len__(self):
        return self.size


class Model:
    def __init__(self, input_size, action_space, epsilon):
        self.input_size, self.action_space, self.epsilon = input_size, action_space, epsilon

    def train_step(self):
        return np.array(0.0)

    def reset(self):
        pass

    def set_epsilon(self, epsilon):
        self.epsilon = epsilon

    def epsilon_decay(self, rate):
        self.epsilon *= 1 - rate

    def start_epoch_action(self, **more):
        pass

    def end_epoch_action(self, **more):
        pass


class Learner(Generic[W], Thing):
    kind, passable, has_transitions = "Learner", False, True

    def __init__(self, model):
        self.model = model

    def transition(self, world):
        state = self.pov(world)
        action = self.get_action(state)
        reward = self.act(world, action)
        world.total_reward += reward
        self.add_memory(state, action, reward, world.is_done)

    def add_memory(self, state, action, reward, done):
        more = {"positions": self.location[:2]} if "positions" in self.model.memory.extra_data else {}
        self.model.memory.add(state, action, reward, done, **more)

    def get_action(self, state):
        stacked = np.vstack((self.model.memory.current_state(), state))
        return self.model.take_action(stacked.reshape(1, -1))

    def reset(self):
        self.model.reset()


class Environment(Generic[W]):
    def __init__(self, world, config, stop_if_done=False):
        self.config = config if isinstance(config, DictConfig) else OmegaConf.create(config)
        self.world, self.turn, self.stop_if_done = world, 0, stop_if_done
        self._epoch_turn_stats = []
        self.world.create_world()
        self.setup_agents()
        self.populate_environment()

    def reset(self):
        self.turn, self.world.is_done = 0, False
        self.world.create_world()
        self.populate_environment()
        for agent in self.agents:
            agent.reset()
        self._epoch_turn_stats = []

    def take_turn(self, epoch=0):
        self.turn += 1
        for thing in list(self.world.map.flat):
            if thing.has_transitions and not isinstance(thing, Learner):
                thing.transition(self.world)
        for agent in self.agents:
            agent.transition(self.world)
        self._epoch_turn_stats.append(float(self.world.total_reward))

    def _aggregate_epoch_stats(self):
        return {"best_turn": max(self._epoch_turn_stats)} if self._epoch_turn_stats else {}

    def _model_train_step(self, agent):
        return agent.model.train_step()

    def run_experiment(self, animate=True, logging=True, logger=None, output_dir=None):
        """Its own loop: what an abreast run has to be equal to. Told in `self.told`: reward, losses and epsilon."""
        self.told = []
        for epoch in range(self.config.experiment.epochs + 1):
            self.reset()
            for agent in self.agents:
                agent.model.start_epoch_action(epoch=epoch)
            while self.turn < self.config.experiment.max_turns:
                self.take_turn(epoch)
                if self.world.is_done and self.stop_if_done:
                    break
            self.world.is_done = True
            for agent in self.agents:
                agent.model.end_epoch_action(epoch=epoch)
            losses = [float(self._model_train_step(agent)) for agent in self.agents]
            self.told.append((float(self.world.total_reward), losses, self.agents[0].model.epsilon))
            if hasattr(self.config.model, "epsilon_decay"):
                for agent in self.agents:
                    agent.model.epsilon_decay(self.config.model.epsilon_decay)


# ---- its models


class ValueModel(nn.Module, Model):
    """Two networks, the second of which follows the first in `start_epoch_action`; learning draws noise."""

    def __init__(self, input_size, action_space, seed, epsilon=0.4, n_frames=3, sync_freq=2):
        nn.Module.__init__(self)
        Model.__init__(self, input_size, action_space, epsilon)
        self.seed = torch.manual_seed(seed)  # the generator of the process, which cannot be pickled
        self.n_frames, self.sync_freq, self.batch = n_frames, sync_freq, 16
        self.local = nn.Sequential(nn.Linear(n_frames * input_size, 12), nn.ReLU(), nn.Linear(12, action_space))
        self.target = nn.Sequential(nn.Linear(n_frames * input_size, 12), nn.ReLU(), nn.Linear(12, action_space))
        self.models = {"local": self.local, "target": self.target}
        self.register_buffer("noise", torch.zeros(12))
        self.optimizer = torch.optim.Adam(self.local.parameters(), lr=0.01)
        self.memory = Memory(60, (input_size,), n_frames, positions=(2,))

    def take_action(self, state):
        if random.random() < self.epsilon:
            return random.randrange(self.action_space)
        with torch.no_grad():
            return int(self.local(torch.from_numpy(state).float()).argmax())

    def start_epoch_action(self, **more):
        self.memory.add_empty()
        if more["epoch"] % self.sync_freq == 0:
            self.target.load_state_dict(self.local.state_dict())

    def train_step(self):
        loss = torch.tensor(0.0)
        self.optimizer.zero_grad()
        if len(self.memory) > self.batch + self.n_frames:
            states, actions, rewards, after, dones = map(torch.from_numpy, self.memory.sample(self.batch))
            self.noise.normal_()
            with torch.no_grad():
                wanted = rewards + 0.9 * (1 - dones) * self.target(after).max(1).values + 0.01 * self.noise.mean()
            values = self.local(states).gather(1, actions[:, None])[:, 0]
            loss = ((values - wanted) ** 2).mean()
            loss.backward()
            self.optimizer.step()
        return loss.detach().numpy()


class PolicyMemory(Memory):
    def __init__(self, capacity, obs_shape):
        super().__init__(capacity, obs_shape)

    def clear(self):
        super().clear()
        self.log_probs = np.zeros(self.capacity, dtype=np.float32)

    def add(self, obs, action, reward, done):
        number, log_prob = action
        self.log_probs[self.idx] = log_prob
        super().add(obs, number, reward, done)


class PolicyModel(nn.Module, Model):
    """An action is a tuple of tensors; the memory is emptied at the start of an epoch and cut to its length at the end."""

    def __init__(self, input_size, action_space, seed, max_turns):
        nn.Module.__init__(self)
        Model.__init__(self, input_size, action_space, 0.0)
        self.seed = torch.manual_seed(seed)
        self.policy = nn.Linear(input_size, action_space)
        self.optimizer = torch.optim.Adam([{"params": self.policy.parameters(), "lr": 0.02}])
        self.memory = PolicyMemory(max_turns, (input_size,))

    def take_action(self, state):
        with torch.no_grad():
            choice = torch.distributions.Categorical(logits=self.policy(torch.as_tensor(state, dtype=torch.float32))[0])
            action = choice.sample()
            return action, choice.log_prob(action)

    def start_epoch_action(self, **more):
        self.memory.clear()

    def end_epoch_action(self, **more):
        for name in ("states", "actions", "rewards", "dones", "log_probs"):
            setattr(self.memory, name, getattr(self.memory, name)[: self.memory.size])

    def train_step(self):
        rewards = torch.from_numpy(self.memory.rewards[::-1].cumsum()[::-1].copy())
        choices = torch.distributions.Categorical(logits=self.policy(torch.from_numpy(self.memory.states)))
        chances = choices.log_prob(torch.from_numpy(self.memory.actions)) - torch.from_numpy(self.memory.log_probs)
        loss = -(chances.exp() * (rewards - rewards.mean())).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach().numpy()


class TableModel(Model):
    """No network at all: a table, and a generator of its own for learning."""

    def __init__(self, input_size, action_space):
        super().__init__(input_size, action_space, 0.3)
        self.table, self.rng = np.zeros((16, action_space)), np.random.default_rng(5)
        self.memory = Memory(40, (input_size,))

    def take_action(self, state):
        if np.random.rand() < self.epsilon:
            return np.random.randint(self.action_space)
        return int(self.table[int(state.sum()) % 16].argmax())

    def train_step(self):
        row = int(self.rng.integers(max(1, self.memory.size)))
        place = int(self.memory.states[row].sum()) % 16, int(self.memory.actions[row])
        self.table[place] += 0.1 * (self.memory.rewards[row] - self.table[place])
        return np.array(abs(self.table).sum())


class Counting(ValueModel):
    """Counts its choices, in itself."""

    choices = 0

    def take_action(self, state):
        self.choices += 1
        return super().take_action(state)


class ForgetsInTraining(ValueModel):
    """Learning changes what playing reads: the memory."""

    def train_step(self):
        loss = super().train_step()
        self.memory.rewards[:] = 0
        return loss


class ShakesAtStart(ValueModel):
    """Its epochs begin with other weights, by chance."""

    def start_epoch_action(self, **more):
        super().start_epoch_action(**more)
        with torch.no_grad():
            self.local[0].bias.add_(0.1 * torch.randn(12))


class OwnStream(ValueModel):
    """Draws its choices from a generator of its own."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.rng = np.random.default_rng(1)

    def take_action(self, state):
        return int(self.rng.integers(4)) if self.rng.random() < 0.5 else super().take_action(state)


class NoisyChoice(ValueModel):
    """Choosing writes into its networks."""

    def take_action(self, state):
        self.noise.normal_()
        return super().take_action(state)


class Wordy(ValueModel):
    """Its memory keeps text, which is no row of numbers."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.memory = TextMemory()

    def take_action(self, state):
        return random.randrange(self.action_space)

    def start_epoch_action(self, **more):
        pass

    def train_step(self):
        return np.array(float(len(self.memory.lines)) * self.epsilon)


class TextMemory:
    def __init__(self):
        self.lines, self.extra_data = [], {}

    def add(self, obs, action, reward, done):
        self.lines.append(f"{action} {reward}")

    def current_state(self):
        return np.zeros((0, 11))


class Locked(ValueModel):
    """Holds a lock."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.lock = self.memory.lock = threading.RLock()
        self.memory.other = threading.Lock()

    def train_step(self):
        with self.lock:
            return super().train_step()


class Unwritable(ValueModel):
    """Has what no file can hold."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.stream = (number for number in range(10**9))


# ---- environments written for it


class Berry(Thing):
    kind, value = "Berry", 1


class Field(Grid):
    def __init__(self, config, default_entity):
        super().__init__(config.world.height, config.world.width, 1, default_entity)
        self.berry_rate = config.world.berry_rate


class Forager(Learner[Field]):
    def pov(self, world):
        row, column, _ = self.location
        cells = [(row + r, column + c) for r in (-1, 0, 1) for c in (-1, 0, 1)]
        seen = [world.map[r % world.height, c % world.width, 0].kind == "Berry" for r, c in cells]
        return np.array([*seen, row / world.height, column / world.width]).reshape(1, -1)

    def act(self, world, action):
        action = action if isinstance(action, int) else int(action[0] if isinstance(action, tuple) else action)
        row, column, _ = self.location
        step = [(-1, 0), (1, 0), (0, -1), (0, 1)][action]
        place = (row + step[0]) % world.height, (column + step[1]) % world.width, 0
        reward = world.map[place].value
        world.move(self, place)
        return reward


class ForageEnv(Environment[Field]):
    """Two foragers and berries that grow."""

    make = staticmethod(lambda seen, actions, max_turns: ValueModel(seen, actions, torch.random.seed()))

    def setup_agents(self):
        turns = self.config.experiment.max_turns
        self.agents = [Forager(type(self).make(11, 4, turns)) for _ in range(self.config.model.get("num_agents", 2))]

    def populate_environment(self):
        cells = [(row, column, 0) for row in range(self.world.height) for column in range(self.world.width)]
        for agent, index in zip(
            self.agents, np.random.choice(len(cells), len(self.agents), replace=False), strict=True
        ):
            self.world.add(cells[index], agent)

    def take_turn(self, epoch=0):
        for place in np.ndindex(self.world.map.shape):
            if self.world.map[place].kind == "EmptyEntity" and np.random.rand() < self.world.berry_rate:
                self.world.add(place, Berry())
        super().take_turn(epoch)


class PolicyEnv(ForageEnv):
    make = staticmethod(lambda seen, actions, turns: PolicyModel(seen, actions, torch.random.seed(), turns))


class TableEnv(ForageEnv):
    make = staticmethod(lambda seen, actions, turns: TableModel(seen, actions))


class UnwritableEnv(ForageEnv):
    make = staticmethod(lambda seen, actions, turns: Unwritable(seen, actions, torch.random.seed()))


class LockedEnv(ForageEnv):
    make = staticmethod(lambda seen, actions, turns: Locked(seen, actions, torch.random.seed()))


class EmptySquare(Thing):
    kind = "EmptySquare"


class Board(Grid):
    """A world with a default entity of its own, as that of a board game."""

    berry_rate = 0.1

    def __init__(self, default_entity=None):
        super().__init__(4, 4, 1, default_entity or EmptySquare())


class BoardEnv(Environment[Board]):
    make, setup_agents, populate_environment = ForageEnv.make, ForageEnv.setup_agents, ForageEnv.populate_environment


class SharingEnv(ForageEnv):
    """Its agents have one model."""

    def setup_agents(self):
        model = ValueModel(11, 4, torch.random.seed())
        self.agents = [Forager(model), Forager(model)]


class HiddenEnv(ForageEnv):
    """What outlives an epoch, and decides the next, is in the class."""

    seen = [0]

    def reset(self):
        super().reset()
        self.seen[0] += 1
        for _ in range(self.seen[0]):
            np.random.rand()


class UnseededEnv(ForageEnv):
    """Draws from a generator that no seed decides."""

    def reset(self):
        super().reset()
        for _ in range(int(np.random.default_rng().integers(1, 9))):
            np.random.rand()


class LockingEnv(ForageEnv):
    """Holds a lock, itself."""

    def setup_agents(self):
        super().setup_agents()
        self.lock = threading.Lock()


class Chaser(Forager):
    """One of them is it, and stays it when a new epoch begins. Its reward is counted twice in the world."""

    it = False

    def act(self, world, action):
        super().act(world, action)
        others = [each for each in world.chasers if each is not self]
        if self.it and random.random() < 0.3:
            self.it, others[0].it = False, True
        world.total_reward += int(not self.it)
        return int(not self.it)


class TagEnv(ForageEnv):
    """A game of its own with a loop of its own, which ends early."""

    def setup_agents(self):
        self.agents = [Chaser(ValueModel(11, 4, torch.random.seed())) for _ in range(2)]
        self.agents[0].it, self.world.chasers = True, self.agents

    def take_turn(self, epoch=0):
        super().take_turn(epoch)
        self.world.is_done = random.random() < 0.05

    def run_experiment(self, **options):
        return super().run_experiment(**options)


class LastingEnv(ForageEnv):
    """Its map outlives an epoch, and everything refers to everything; it may die at the end of an epoch."""

    dies_at, dies_by = None, 0

    def setup_agents(self):
        super().setup_agents()
        for agent in self.agents:
            agent.notes, agent.network = agent.model.memory, agent.model.local
        self.world.chasers, self.world.settings, self.epochs = self.agents, self.config.world, 0

    def reset(self):
        for agent in self.agents:
            self.world.add(agent.location, EmptyEntity())
            agent.reset()
        self.turn, self.world.is_done, self.world.total_reward = 0, False, 0.0
        self.populate_environment()
        self.epochs += 1
        if self.epochs == self.dies_at:
            os.kill(os.getpid(), self.dies_by)


class OwnTraining(ForageEnv):
    """Trains its models in a way of its own."""

    def _model_train_step(self, agent):
        agent.model.train_step()
        return super()._model_train_step(agent)


def tag(config):
    """Builds an environment that ends early."""
    return TagEnv(Field(config, EmptyEntity()), config, stop_if_done=True)


def built():
    """Builds an environment with a configuration of its own."""
    settings = {
        "experiment": {"epochs": 1, "max_turns": 4},
        "model": {},
        "world": {"height": 4, "width": 4, "berry_rate": 0.1},
    }
    return ForageEnv(Field(OmegaConf.create(settings), EmptyEntity()), settings)


if __name__ == "__main__":
    config = {
        "experiment": {"epochs": 7, "max_turns": 12, "record_period": 4, "output_dir": Path(__file__).parent / "data"},
        "model": {"epsilon_decay": 0.05, "num_agents": 2},
        "world": {"height": 5, "width": 5, "berry_rate": 0.1},
    }
    ForageEnv(Field(config, EmptyEntity()), config).run_experiment()
