"""What models with a network have in common: choosing from stacked frames, one block of weights, Adam, files.

online   learns, on `device`; its weights, gradients and Adam's moments are one block each
policy   chooses, on the CPU; a copy of `online` taken when an epoch starts, so that learning can go on beside it
"""

import copy
from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from abreast.errors import ConfigError
from abreast.models.base import BaseModel, Recipe, spec_of
from abreast.models.flat import Adam, FlatParameters
from abreast.models.lane_streams import together
from abreast.state import State


class NetworkModel(BaseModel):
    """A model that chooses with one copy of its network and learns with another."""

    CHOOSES_WITH = ("online",)
    KNOWN = BaseModel.KNOWN | {
        "learning_generator",
        "online",
        "online_block",
        "policy",
        "policy_block",
        "optimiser",
        "_adopted",
    }

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        config, observation = self.config, self.observation
        if np.dtype(observation.dtype).kind not in "uif":
            raise ConfigError(
                f"model.algorithm {config.algorithm} needs numbers to learn from, but the observation is made of"
                f" {np.dtype(observation.dtype)}: use one-hot or RGB observations."
            )
        self.learning_generator = generator_from(learning, self.device)
        self.online, self.online_block = self._flat_network(learns=True, device=self.device)
        self.policy, self.policy_block = self._flat_network(learns=False, device="cpu")
        self.initialise(self.online)
        self.optimiser = Adam(self.online_block, config.learning_rate)
        self._adopted: Tensor | None = None

    @abstractmethod
    def make_network(self) -> nn.Module:
        """A network with weights not yet set."""

    @abstractmethod
    def initialise(self, network: nn.Module) -> None:
        """Give a network its first weights, drawn from `learning_generator`."""

    @abstractmethod
    def evaluate(self, frames: Tensor) -> Tensor:
        """What choosing decides by, from `policy`: a number per action for each row of stacked frames."""

    @abstractmethod
    def decide(self, evaluated: Tensor, lanes: Sequence[int]) -> list[int]:
        """The action for each row of evaluated frames."""

    def legal_now(self, lanes: Sequence[int]) -> Tensor | None:
        """Which actions are legal in these lanes, (B, A); None: all are."""
        return None if self._masks_LA is None else torch.from_numpy(self._masks_LA[list(lanes)])

    def choose(self, frames: Tensor, lanes: Sequence[int]) -> list[int]:
        """The action for each row of stacked frames."""
        with torch.inference_mode():
            groups = together(range(len(lanes)), lanes)
            return self.decide(torch.cat([self.evaluate(frames[group[0] : group[-1] + 1]) for group in groups]), lanes)

    def stacked(self, network: nn.Module, models: Sequence[Any]) -> Self:
        """A model whose `evaluate` does that of several models at once, given their networks stacked into one."""
        twin = copy.copy(self)
        twin.policy = network
        return twin

    def take_action(self, state: NDArray[Any], lane: int = 0) -> int:
        return self.choose(self.frame_stack.push([state], [lane]), [lane])[0]

    def take_actions(self, states: Sequence[NDArray[Any]], lanes: Sequence[int]) -> list[int]:
        if type(self).take_action is not NetworkModel.take_action:  # a user's, who is asked lane by lane
            return super().take_actions(states, lanes)
        return self.choose(self.frame_stack.push(states, lanes), lanes)

    def start_epoch_action(self, *, epoch: int) -> None:
        super().start_epoch_action(epoch=epoch)
        self.policy_block.values.copy_(self.online_block.values.data if self._adopted is None else self._adopted)

    # ---- learning

    def descend(self, loss: Tensor) -> None:
        """One step of Adam down the gradient of a loss, its norm limited to `gradient_norm`."""
        gradients = self.online_block.gradients
        gradients.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        shrink = (self.config.gradient_norm / (torch.linalg.vector_norm(gradients) + 1e-6)).clamp(max=1.0)
        gradients.mul_(shrink)
        self.optimiser.step()

    def _flat_network(self, learns: bool, device: str) -> tuple[Any, FlatParameters]:
        network = self.make_network()
        return network, FlatParameters(network, learns, device)

    @property
    def stack_key(self) -> Hashable | None:
        kind = type(self)
        asked = (kind.take_action, kind.take_actions, kind.choose)
        if any(not method.__module__.startswith("abreast.models.") for method in asked):  # a user's has to be asked
            return None
        return kind, self.config, self.input_size, self.n_actions

    @property
    def can_learn(self) -> bool:
        return len(self.memory) >= self.config.batch_size

    @property
    def has_no_gradient(self) -> bool:
        return not bool(self.online_block.gradients.any())

    # ---- state

    def learning_state(self) -> State:
        arrays = {name: block.cpu().numpy() for name, block in self.blocks().items()}
        arrays["generator"] = self.learning_generator.get_state().numpy()
        return self.own_attributes.with_learned(State({**self.counters(), "sampling": self._sampling()}, arrays))

    def set_learning_state(self, state: State) -> None:
        for name, block in self.blocks().items():
            block.copy_(torch.from_numpy(state.arrays[name]))
        self.learning_generator.set_state(torch.from_numpy(state.arrays["generator"].copy()))
        self.memory.rng.bit_generator.state = state.facts["sampling"]
        self.set_counters(state.facts)
        self._adopted = None
        self.own_attributes.take_learned(state, to_learn=True)

    def adopt(self, state: State) -> None:
        super().adopt(state)
        self._adopted = torch.from_numpy(state.arrays["online"])

    def recipe(self) -> Recipe:
        return spec_of(self)

    def blocks(self) -> dict[str, Tensor]:
        """Everything learned, as blocks of the network's layout, by name; first what choosing needs."""
        return {
            "online": self.online_block.values.data,
            "adam_mean": self.optimiser.mean,
            "adam_square": self.optimiser.square,
        }

    def counters(self) -> dict[str, Any]:
        """Everything learning counts, by name."""
        return {
            "updates": self.updates,
            "gradient_steps": self.optimiser.steps,
            "learning_rate": self.optimiser.learning_rate,
            "rows_learned_from": self.rows_learned_from.tolist(),
        }

    def set_counters(self, counters: dict[str, Any]) -> None:
        """Go on counting from there."""
        self.updates = int(counters["updates"])
        self.optimiser.steps = int(counters["gradient_steps"])
        self.optimiser.learning_rate = float(counters["learning_rate"])
        self.rows_learned_from = np.array(counters["rows_learned_from"], dtype=np.int64)

    def file_layout(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Views of the same arrays, with each block split into its parameters."""
        views = {name: array for name, array in arrays.items() if name not in self.blocks()}
        for name in self.blocks():
            parts = self.online_block.views(torch.from_numpy(arrays[name]))
            views |= {f"{name}.{part}": view.numpy() for part, view in parts.items()}
        return views


def generator_from(seed: np.random.SeedSequence, device: str = "cpu") -> torch.Generator:
    """A torch generator seeded from a NumPy seed."""
    return torch.Generator(device).manual_seed(int(seed.generate_state(1, np.uint64)[0]))
