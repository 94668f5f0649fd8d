"""PPO: how it chooses and what it descends."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abreast.errors import ModelError, short
from abreast.models.base import shipped
from abreast.models.figures import Figures, mean_of_steps
from abreast.models.gaussian import entropy_of, log_density
from abreast.models.layers import initialise_all
from abreast.models.masks import among_legal_chances
from abreast.models.network_model import NetworkModel
from abreast.models.ppo.config import PPOConfig
from abreast.models.ppo.loss import Rows, advantages_of, clipped_loss, clipped_loss_of
from abreast.models.ppo.network import LOG_STD, PPONetwork
from abreast.models.ppo.stacked import StackedPolicies
from abreast.models.torsos import LSTM
from abreast.replay.batch import joined


@shipped
class PPO(NetworkModel):
    """Learns from every row since the update before, then not from it again.

    The chance of each action is stored when it is chosen, not computed at the update: in a pipelined run the weights
    have moved on by then.

    Continuous actions are Gaussian, with spreads that do not depend on the state. What lies outside the bounds is cut to
    them where it is carried out, and remembered as it was drawn: so the density is that of the draw, and exact; tanh would
    have to be undone at the update, which fails near the bounds.
    """

    Config = PPOConfig
    ALGORITHM = "ppo"
    NETWORK = PPONetwork
    config: PPOConfig
    online: PPONetwork
    policy: PPONetwork
    STACK = StackedPolicies
    TORSOS = 2
    ACTIONS = frozenset({"discrete", "continuous"})
    KNOWN = NetworkModel.KNOWN | {"_log_chances", "clip"}
    DECIDED_EXTRAS = frozenset({"log_chance"})
    EVALUATION = "explore"

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        super().setup(learning, more)
        self.epsilon, self.clip = 0.0, self.config.clip
        self.lane_extras["log_chance"] = self._log_chances = np.full(self.memory.lanes, np.nan, dtype=np.float32)

    def memory_options(self) -> dict[str, Any]:
        return {"extras": {**super().memory_options().get("extras", {}), "log_chance": np.float32}}

    def make_network(self) -> PPONetwork:
        return PPONetwork(
            self.input_size,
            self.n_actions,
            self.config,
            self.make_torso(0),
            self.make_torso(1),
            is_continuous=self.action_box is not None,
        )

    def initialise(self, network: PPONetwork) -> None:  # type: ignore[override]
        layers = (network.policy_state, network.policy_trunk, network.value_state, network.value_trunk)
        initialise_all((network.policy_torso, network.value_torso, *layers), self.learning_generator)
        network.policy_head.initialise(self.learning_generator, gain=0.01)  # begin undecided
        network.value_head.initialise(self.learning_generator)
        if self.action_box is not None:
            network.log_std.data.fill_(LOG_STD)

    def evaluate(self, frames: Tensor) -> Tensor:
        return self.policy.log_chances(frames) if self.action_box is None else self.policy.means(frames)

    def evaluate_with_memory(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.policy.policy_torso, LSTM) and isinstance(self.policy.value_torso, LSTM)
        features, memory = self.policy.policy_torso.unroll(rows)
        _, of_value = self.policy.value_torso.unroll(rows)  # whose memory learning begins with
        evaluated = (self.policy.log_chances_of if self.action_box is None else self.policy.means_of)(features)
        return evaluated, torch.cat([memory, of_value], dim=1)

    def decide(self, evaluated: Tensor, lanes: Sequence[int]) -> list[Any]:
        if self.action_box is not None:
            return self._decide_vectors(evaluated, lanes)
        log_chances_LA = among_legal_chances(evaluated, self.legal_now(lanes)).numpy()
        actions_L = log_chances_LA.argmax(axis=1) if self.is_greedy else self._draw_actions(log_chances_LA, lanes)
        self._log_chances[list(lanes)] = np.take_along_axis(log_chances_LA, actions_L[:, None], axis=1)[:, 0]
        return actions_L.tolist()  # type: ignore[no-any-return]

    def _decide_vectors(self, means_LA: Tensor, lanes: Sequence[int]) -> list[Any]:
        log_std_A = self.policy.log_std.cpu()
        noise_LA = torch.from_numpy(self.streams.vectors(lanes, self.n_actions))
        actions_LA = means_LA if self.is_greedy else means_LA + torch.exp(log_std_A) * noise_LA
        self._log_chances[list(lanes)] = log_density(actions_LA, means_LA, log_std_A).numpy()
        return list(actions_LA.numpy())

    def _draw_actions(self, log_chances_LA: NDArray[np.float32], lanes: Sequence[int]) -> NDArray[np.int64]:
        reached_LA = np.cumsum(np.exp(log_chances_LA, dtype=np.float64), axis=1)
        drawn_L = np.array([number for number, _ in self.streams.draw(lanes)]) * reached_LA[:, -1]
        last_L = (reached_LA < reached_LA[:, -1:]).sum(axis=1)  # the last action that has a chance
        actions_L: NDArray[np.int64] = np.minimum((reached_LA <= drawn_L[:, None]).sum(axis=1), last_L)
        return actions_L

    def decide_all(self, evaluated_LA: Tensor, chances_L2: Tensor, epsilon: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if self.is_greedy:
            actions_L = evaluated_LA.argmax(dim=1)
        else:  # as in `_draw_actions`
            reached_LA = evaluated_LA.double().exp().cumsum(dim=1)
            whole_L1 = reached_LA[:, -1:]
            below_L = (reached_LA <= chances_L2[:, :1] * whole_L1).sum(dim=1)
            actions_L = torch.minimum(below_L, (reached_LA < whole_L1).sum(dim=1))
        return actions_L, {"log_chance": evaluated_LA.gather(1, actions_L[:, None])[:, 0]}

    def epsilon_decay(self, rate: float) -> None:
        """PPO explores by its own policy."""

    @property
    def can_learn(self) -> bool:
        return super().can_learn and self.is_due

    @property
    def is_due(self) -> bool:
        """Whether there are as many new rows as an update waits for (`n_steps`)."""
        return self.config.n_steps is None or bool(self.backlog()[1].sum() >= self.config.n_steps)

    def set_progress(self, progress: float) -> None:
        super().set_progress(progress)
        if "clip" in self.config.anneal:
            self.clip = self.config.clip * (1.0 - progress)

    @property
    def annealed(self) -> tuple[float, ...]:
        return (*super().annealed, self.clip)

    def train_step(self) -> dict[str, float] | None:
        rows = self.new_rows() if self.is_due else None
        return None if rows is None or len(rows.actions) < 2 else self.learn(rows)

    def learn(self, rows: Rows) -> dict[str, float]:
        """An update from these rows; returns its figures."""
        count, steps = len(rows.actions), []
        for _ in range(self.config.gradient_steps):
            order = torch.randperm(count, generator=self.learning_generator, device=self.device)
            for part in torch.split(order, self.config.batch_size):
                steps.append(self.gradient_step(self.loss_of(self.online, rows.part(part))))
        self.updates += 1
        return mean_of_steps(steps, type(self), self.device)

    def loss_of(self, online: PPONetwork, rows: Rows) -> Tensor | Figures:
        """The loss of a minibatch, or figures, the loss among them (models/figures.py); of several agents' networks and
        rows, stacked (models/stacked/), a number for each: sums and means are over the last dimension.
        """
        if self.action_box is not None:
            log_std = online.log_std.unsqueeze(-2)  # the same for all rows
            taken = log_density(rows.actions, online.means(rows.states), log_std)
            values, entropy = self.values_of(online, rows.states), entropy_of(online.log_std)
            return clipped_loss_of(taken, entropy, values, rows, self.config, self.clip)
        log_chances = among_legal_chances(online.log_chances(rows.states), rows.legal)
        values = self.values_of(online, rows.states)
        return clipped_loss(log_chances, values, rows, self.config, self.clip)

    def values_of(self, network: PPONetwork, states: Tensor) -> Tensor:
        """Return what a network says that states are worth, a number for each; other shapes are refused."""
        values = network.values(states)
        if getattr(values, "shape", None) != states.shape[:-1]:
            raise ModelError(
                f"the `values` of its network have the shape {short(tuple(getattr(values, 'shape', ())))} for"
                f" {len(states)} rows, expected {tuple(states.shape[:-1])}, a number for each row: end it with .squeeze(-1)"
            )
        return values

    def _tried(self, frames: Tensor) -> Tensor:
        found = super()._tried(frames)
        if self.replaced_method(["train_step", "new_rows"]) is None:
            self.values_of(self.policy, frames)
        return found

    def new_rows(self) -> Rows | None:
        """Every row not yet learned from that has an outcome, with its advantage and return; None if there is no new row."""
        found = [each for each in self.new_trajectories() if len(each.actions)]
        if not found:
            return None  # a user's network need not know what to make of nothing
        lived = joined(found)
        states = self.as_input(lived.states, lived.extras)
        with torch.no_grad():
            values_N = self.values_of(self.online, states).cpu().numpy()
        advantages_N = advantages_of(lived, values_N, self.config.gamma, self.config.gae_lambda)
        legal = lived.extras.get("mask", np.empty((len(values_N), 0), np.bool_))
        columns = (legal, lived.actions, lived.extras["log_chance"], advantages_N, advantages_N + values_N)
        usable = self._there(lived.valid)
        rows = Rows(states[usable], *(self._there(column)[usable] for column in columns))
        spread = rows.advantages.std() if len(rows.advantages) > 1 else torch.tensor(1.0)
        return rows._replace(advantages=(rows.advantages - rows.advantages.mean()) / (spread + 1e-8))
