"""What models with a network have in common: choosing from stacked frames, one block of weights, Adam, files.

online   learns, on `device`; its weights, gradients and Adam's moments are one block each
policy   chooses, on the CPU; a copy of `online` taken when an epoch starts, so that learning can go on beside it
"""

import copy
import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from abreast.errors import ConfigError, ModelFileError
from abreast.files import write_whole
from abreast.models.base import BaseModel, ModelConfig, ObservationShape
from abreast.models.flat import Adam, FlatParameters
from abreast.models.frames import FrameStack

FORMAT = 1


class NetworkModel(BaseModel):
    """A model that chooses with one copy of its network and learns with another."""

    def __init__(
        self,
        observation: ObservationShape,
        n_actions: int,
        config: ModelConfig,
        seed: np.random.SeedSequence,
        lanes: int = 1,
        device: str = "cpu",
    ) -> None:
        if np.dtype(observation.dtype).kind not in "uif":
            raise ConfigError(
                f"model.algorithm {config.algorithm} needs numbers to learn from, but the observation is made of"
                f" {np.dtype(observation.dtype)}: use one-hot or RGB observations."
            )
        super().__init__(observation, n_actions, config, seed, lanes, device)
        self.input_size = config.n_frames * int(np.prod(observation.input_size))
        self.device = device
        self.learning_generator = generator_from(self._learning_seed, device)
        self.frames = FrameStack(lanes, config.n_frames, observation.input_size, observation.scale)
        self.online, self.online_block = self._flat_network(learns=True, device=device)
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

    def choose(self, frames: Tensor, lanes: Sequence[int]) -> list[int]:
        """The action for each row of stacked frames."""
        with torch.inference_mode():
            return self.decide(self.evaluate(frames), lanes)

    def stacked(self, network: nn.Module, models: Sequence[Any]) -> Self:
        """A model whose `evaluate` does that of several models at once, given their networks stacked into one."""
        twin = copy.copy(self)
        twin.policy = network
        return twin

    def take_action(self, state: NDArray[Any], lane: int = 0) -> int:
        return self.take_actions([state], [lane])[0]

    def take_actions(self, states: Sequence[NDArray[Any]], lanes: Sequence[int]) -> list[int]:
        return self.choose(self.frames.push(states, lanes), lanes)

    def remember(self, state: NDArray[Any], action: int, reward: float, done: bool, lane: int = 0) -> None:
        super().remember(state, action, reward, done, lane)
        if done:
            self.frames.clear(lane)  # what comes next is another episode, for the replay's stacks too

    def start_epoch_action(self, *, epoch: int) -> None:
        super().start_epoch_action(epoch=epoch)
        self.frames.clear()
        self.policy_block.values.copy_(self.online_block.values.data if self._adopted is None else self._adopted)

    # ---- learning

    def as_input(self, states: NDArray[Any]) -> Tensor:
        """Stacked frames of a batch as rows for the network."""
        inputs = torch.from_numpy(states).view(len(states), self.input_size).to(self.device).to(torch.float32)
        return inputs if self.observation.scale == 1.0 else inputs * self.observation.scale

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

    # ---- what moves between the one who learns and the one who chooses

    def learned(self) -> tuple[dict[str, Any], list[NDArray[Any]]]:
        facts = {**self.counters(), "memory_rng": self.memory.rng.bit_generator.state}
        blocks = [block.cpu().numpy() for block in self.blocks().values()]
        return facts, [*blocks, self.learning_generator.get_state().numpy()]

    def set_learned(self, facts: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
        *blocks, generator = arrays
        for mine, theirs in zip(self.blocks().values(), blocks, strict=True):
            mine.copy_(torch.from_numpy(theirs))
        self.learning_generator.set_state(torch.from_numpy(generator.copy()))
        self.memory.rng.bit_generator.state = facts["memory_rng"]
        self.set_counters(facts)
        self._adopted = None

    def adopt(self, facts: dict[str, Any], weights: NDArray[Any]) -> None:
        self._adopted = torch.from_numpy(weights)

    # ---- files

    def blocks(self) -> dict[str, Tensor]:
        """Everything learned, as blocks of the network's layout, by name."""
        return {
            "online": self.online_block.values.data,
            "adam_mean": self.optimiser.mean,
            "adam_square": self.optimiser.square,
        }

    def counters(self) -> dict[str, Any]:
        """Everything learning counts, by name."""
        return {"updates": self.updates, "gradient_steps": self.optimiser.steps}

    def set_counters(self, counters: dict[str, Any]) -> None:
        """Go on counting from there."""
        self.updates = int(counters["updates"])
        self.optimiser.steps = int(counters["gradient_steps"])

    def save(self, path: Path) -> None:
        tensors = {name: view.cpu().contiguous() for name, view in self._parts().items()}
        about = {"format": FORMAT, "algorithm": self.config.algorithm, "epsilon": self.epsilon, **self.counters()}
        write_whole(path, safetensors.torch.save(tensors, metadata={"abreast": json.dumps(about)}))

    def load(self, path: Path) -> None:
        about, tensors = _read(path)
        if about.get("algorithm") != self.config.algorithm or about.get("format") != FORMAT:
            raise ModelFileError(
                f"{path} holds a model of algorithm {about.get('algorithm')!r} in format {about.get('format')!r},"
                f" expected {self.config.algorithm!r} in format {FORMAT}: set model.algorithm to match."
            )
        places = self._parts()
        expected = {name: tuple(view.shape) for name, view in places.items()}
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if found != expected:
            wrong = next(
                name for name in sorted(found.keys() | expected.keys()) if found.get(name) != expected.get(name)
            )
            raise ModelFileError(
                f"{path} does not fit this model: {wrong} is {found.get(wrong, 'missing')}, expected"
                f" {expected.get(wrong, 'no such tensor')}; the agent's view, actions or model settings differ."
            )
        for name, place in places.items():
            place.copy_(tensors[name])
        self.epsilon = about["epsilon"]
        self.set_counters(about)

    def _parts(self) -> dict[str, Tensor]:
        """Everything learned, tensor by tensor, by dotted name."""
        return {
            f"{name}.{part}": view
            for name, block in self.blocks().items()
            for part, view in self.online_block.views(block).items()
        }


def generator_from(seed: np.random.SeedSequence, device: str = "cpu") -> torch.Generator:
    """A torch generator seeded from a NumPy seed."""
    return torch.Generator(device).manual_seed(int(seed.generate_state(1, np.uint64)[0]))


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        with safetensors.safe_open(str(path), framework="pt") as file:
            about = json.loads((file.metadata() or {})["abreast"])
            about = {**about, "epsilon": float(about["epsilon"]), "updates": int(about["updates"]),
                     "gradient_steps": int(about["gradient_steps"])}  # fmt: skip
            return about, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except FileNotFoundError:
        raise ModelFileError(f"there is no model file {path}: give the folder of a finished run.") from None
    except (OSError, safetensors.SafetensorError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"the model file {path} is damaged or not one of abreast's: {error}.") from None
