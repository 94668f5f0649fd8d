"""Models as users write them."""

import random
from collections import deque

import numpy as np
import torch
from torch import nn

from abreast import DQN, BaseModel, RandomModel


class Bandit(BaseModel):
    """No network; a table, a list of losses, a generator of its own for choosing."""

    acting = ("dice",)

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.values, self.losses = np.zeros(self.n_actions), []
        self.dice = np.random.default_rng(7)

    def take_action(self, state, lane=0):
        if self.dice.random() < 0.4:
            return int(self.dice.integers(self.n_actions))
        return int(self.values.argmax())

    def train_step(self):
        batch = self.memory.sample(16)
        np.add.at(self.values, batch.actions, 0.1 * batch.rewards)
        self.losses.append(float(batch.rewards.mean()))
        return self.losses[-1]


class Reinforce(BaseModel):
    """From nothing, with a torch module, an optimiser and a baseline."""

    def setup(self, learning, more):
        self.network = nn.Sequential(nn.Linear(self.input_size, 16), nn.Tanh(), nn.Linear(16, self.n_actions))
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=0.01)
        self.baseline = 0.0

    def take_action(self, state, lane=0):
        with torch.no_grad():
            chances = self.network(self.with_history(state, lane)).softmax(0).double().numpy()
        return int(self.choosing_rng.choice(self.n_actions, p=chances / chances.sum()))

    def train_step(self):
        loss = torch.zeros(())
        for episode in self.new_episodes():
            returns = torch.from_numpy(episode.rewards[::-1].cumsum()[::-1].copy())
            logs = self.network(self.as_input(episode.states)).log_softmax(1)
            chosen = logs.gather(1, torch.from_numpy(episode.actions)[:, None])[:, 0]
            loss = loss - (chosen * (returns - self.baseline)).mean()
            self.baseline += 0.1 * (float(returns.mean()) - self.baseline)
        if loss.grad_fn is None:
            return None
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()


class Convolutional(DQN):
    """A network of the user's own, of plain torch layers, in our DQN."""

    def make_network(self):
        rows, columns, kinds = self.observation.input_size
        frames = self.config.n_frames * kinds
        return nn.Sequential(
            nn.Unflatten(1, (self.config.n_frames, rows, columns, kinds)),
            Channels(),
            nn.Conv2d(frames, 8, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(8 * rows * columns, self.n_actions),
        )

    def initialise(self, network):
        """As torch does it."""


class Channels(nn.Module):
    def forward(self, frames):
        return frames.permute(0, 1, 4, 2, 3).flatten(1, 2)


class Noisy(DQN):
    """Adds noise of a torch generator to its choices, counts its steps, and lowers its learning rate by that count."""

    acting = ("noise", "steps")

    def setup(self, learning, more):
        super().setup(learning, more)
        self.noise = torch.Generator().manual_seed(3)
        self.steps, self.smoothed = 0, 0.0

    def take_actions(self, states, lanes):
        self.steps += len(lanes)
        actions = super().take_actions(states, lanes)
        if torch.rand((), generator=self.noise) < 0.2:
            actions[0] = 0
        return actions

    def train_step(self):
        figures = super().train_step()
        if figures is not None:
            self.smoothed = 0.9 * self.smoothed + 0.1 * figures["loss"] + 1e-6 * self.steps
        return figures


class SharedDice(BaseModel):
    """Draws from the generators of the whole process, in choosing and in learning."""

    def setup(self, learning, more):
        self.weights = torch.randn(self.n_actions)

    def take_action(self, state, lane=0):
        return int((self.weights.numpy() + np.random.normal(size=self.n_actions)).argmax())  # noqa: NPY002

    def train_step(self):
        self.weights = self.weights + 0.01 * torch.randn(self.n_actions) + 0.001 * random.random()
        return float(self.weights.sum())


class RemembersItself(BaseModel):
    """Keeps the last rows in a deque of its own and only reads it to learn."""

    acting = ("rows",)

    def setup(self, learning, more):
        self.rows, self.value = deque(maxlen=50), 0.0

    def take_action(self, state, lane=0):
        return int(self.choosing_rng.integers(self.n_actions)) if self.value < 0.5 else 0

    def remember(self, state, action, reward, done, lane=0):
        super().remember(state, action, reward, done, lane)
        self.rows.append(reward)

    def train_step(self):
        self.value = float(np.mean(self.rows))
        return self.value


class SyncsAtEpochs(BaseModel):
    """A target that is copied when an epoch starts, by the side that chooses."""

    acting = ("target",)

    def setup(self, learning, more):
        self.online, self.target = np.zeros(self.n_actions), np.zeros(self.n_actions)

    def start_epoch_action(self, *, epoch):
        super().start_epoch_action(epoch=epoch)
        self.target = self.online.copy()

    def take_action(self, state, lane=0):
        return int((self.online + 0.3 * self.choosing_rng.normal(size=self.n_actions)).argmax())

    def train_step(self):
        batch = self.memory.sample(16)
        error = batch.rewards + 0.9 * self.target.max() - self.online[batch.actions]
        np.add.at(self.online, batch.actions, 0.05 * error)
        return float((error**2).mean())


class Rhythmic(BaseModel):
    """Chooses by how often it has chosen, and by what it has learned."""

    acting = ("steps",)

    def setup(self, learning, more):
        self.steps, self.offset = 0, 0

    def take_action(self, state, lane=0):
        self.steps += 1
        return (self.steps * self.steps // 7 + self.offset) % self.n_actions

    def train_step(self):
        self.offset += 1
        return float(self.offset)


class Plain(BaseModel):
    """A network, an optimiser, choices by chance."""

    def setup(self, learning, more):
        self.net = nn.Linear(self.input_size, self.n_actions)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def take_action(self, state, lane=0):
        with torch.no_grad():
            chances = self.net(self.with_history(state, lane)).softmax(0).double().numpy()
        return int(self.choosing_rng.choice(self.n_actions, p=chances / chances.sum()))

    def train_step(self):
        batch = self.memory.sample(8)
        loss = (self.net(self.as_input(batch.states)).mean(1) - torch.from_numpy(batch.rewards)).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


class LowersEpsilonByStep(Plain):
    def take_action(self, state, lane=0):
        self.epsilon *= 0.98
        return super().take_action(state, lane) if self.choosing_rng.random() > self.epsilon else 0


class SwitchesModes(Plain):
    def take_action(self, state, lane=0):
        self.net.eval()
        return super().take_action(state, lane)

    def train_step(self):
        self.net.train()
        return super().train_step()


class ChangesLate(Plain):
    acting = ("late",)

    def setup(self, learning, more):
        super().setup(learning, more)
        self.late = False

    def end_epoch_action(self, *, epoch):
        super().end_epoch_action(epoch=epoch)
        if epoch >= 8:
            self.late = True

    def train_step(self):
        return super().train_step() + (100 if self.late else 0)


class Forgets(Plain):
    def train_step(self):
        if hasattr(self, "cache"):
            del self.cache
        else:
            self.cache = [1]
        return super().train_step()


class LowersItsLearningRate(DQN):
    def train_step(self):
        self.optimiser.learning_rate *= 0.8
        return super().train_step()


class Heuristic(RandomModel):
    def take_action(self, state, lane=0):
        return int(state.sum()) % self.n_actions


class OwnOptimiser(DQN):
    """Plain SGD over our network, as an attribute of its own beside ours."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.sgd = torch.optim.SGD(self.online.parameters(), lr=0.01, momentum=0.9)

    def descend(self, loss):
        self.sgd.zero_grad(set_to_none=False)
        loss.backward()
        self.sgd.step()
        self.optimiser.steps += 1


class OptimisesLate(Reinforce):
    def setup(self, learning, more):
        super().setup(learning, more)
        del self.optimiser

    def train_step(self):
        if "optimiser" not in vars(self):
            self.optimiser = torch.optim.SGD(self.network.parameters(), lr=0.01)
        return super().train_step()


# ---- refused, with the reason


class ClearsItsRows(BaseModel):
    """Its rows are a list that learning empties."""

    acting = ("rows",)

    def setup(self, learning, more):
        self.rows = []

    def take_action(self, state, lane=0):
        return 0

    def remember(self, state, action, reward, done, lane=0):
        self.rows.append(reward)

    def train_step(self):
        loss = float(np.sum(self.rows))
        self.rows.clear()
        return loss


class OneGenerator(BaseModel):
    """One generator for choosing and for learning."""

    acting = ("dice",)

    def setup(self, learning, more):
        self.dice = np.random.default_rng(learning)

    def take_action(self, state, lane=0):
        return int(self.dice.integers(self.n_actions))

    def train_step(self):
        return float(self.dice.random())


class KeepsGraphs(BaseModel):
    """The REINFORCE of many a tutorial: log chances are kept with their graph when an action is chosen."""

    def setup(self, learning, more):
        self.network = nn.Linear(self.input_size, self.n_actions)
        self.logs = []

    def take_action(self, state, lane=0):
        logs = self.network(self.with_history(state, lane)).log_softmax(0)
        action = int(self.choosing_rng.integers(self.n_actions))
        self.logs.append(logs[action])
        return action

    def train_step(self):
        loss = -torch.stack(self.logs).sum()
        self.logs = []
        return float(loss)


class LowersItsEpsilon(DQN):
    """Lowers epsilon when it learns."""

    def train_step(self):
        loss = super().train_step()
        self.epsilon *= 0.99
        return loss
