"""What models with a network have in common: choosing from stacked frames, one block of weights, Adam, files.

frames ─▶ torso, if any (torsos/) ─▶ layers of the algorithm ─▶ actions

online   learns, on `device`; its weights, gradients and Adam's moments are one block each
policy   chooses, on the CPU (or where `choose_on` says); a copy of `online` taken when an epoch starts, so that learning can
         go on beside it, and when a state is loaded
"""

import copy
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pydantic
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from abreast.errors import AbreastError, ConfigError, ModelError, short
from abreast.models.base import BaseModel, shipped
from abreast.models.config import ModelConfig
from abreast.models.figures import Figures, figures_with_loss, named_figures
from abreast.models.flat import Adam, FlatParameters
from abreast.models.lane_memory import LaneMemory
from abreast.models.torsos import Torso, check_network, make_torso, network_for
from abreast.models.torsos.choice import is_picture, warn_of_pixels
from abreast.models.torsos.users import check_users_module, why_not_built
from abreast.plugins import is_target
from abreast.replay import Buffer, SharedReplayBuffer
from abreast.state import State
from abreast.streams import seeded_globals

if TYPE_CHECKING:
    from abreast.models.stacked.learning import LearnerStack

STACKED_BELOW = 3_000_000
"""Rows of a batch times parameters, up to which models learn in a stacked update on a CPU (benchmarks/README.md)."""
OF_EACH_AGENT = frozenset(
    {"per_agent", "agent_vision_radius", "epsilon", "epsilon_decay", "epsilon_min", "learning_rate"}
)
"""Settings in which models may differ that learn in one stacked update. (What is seen is compared by its shape.)"""
CHOSEN_BY = ("take_action", "take_actions", "choose", "evaluate", "evaluated")
"""Methods between an agent and what its network says of the actions."""
CHOSEN_TOGETHER = (*CHOSEN_BY, "make_network")
"""Methods that a stacked choice (models/stacked/choice.py) stands for."""


LISTED = pydantic.BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)


class NetworkConfig(ModelConfig):
    """Settings of models with a network."""

    network: str = "auto"
    """mlp, cnn (pictures), lstm (a memory of the episode: all but IQN), auto (cnn for pictures, else mlp), or a
    torch.nn.Module of your own in front of the hidden layers, as module:Class or file.py:Class."""

    anneal: Annotated[tuple[Literal["learning_rate"], ...], LISTED] = ()
    """Settings that fall linearly to 0 by the end of the run: learning_rate; of PPO, clip too."""

    @pydantic.field_validator("network")
    @classmethod
    def _known(cls, name: str) -> str:
        return check_network(name)


@shipped
class NetworkModel(BaseModel):
    """A model that chooses with one copy of its network and learns with another."""

    config: NetworkConfig
    STACK: ClassVar["type[LearnerStack] | None"] = None
    """How several of these models learn in one update; None: each by itself."""
    TORSOS: ClassVar[int] = 1
    """How many torsos its network has."""
    CHOOSES_WITH = ("online",)
    KNOWN = BaseModel.KNOWN | {
        "learning_generator",
        "online",
        "online_block",
        "policy",
        "policy_block",
        "optimiser",
        "_adopted",
        "lane_memory",
        "chooses_on",
    }
    MADE_BY = (*BaseModel.MADE_BY, ("_adopted", "setup"))
    DECIDED_EXTRAS: ClassVar[frozenset[str] | None] = frozenset()
    NETWORK: ClassVar[type[nn.Module]]
    """The network of ours, which `initialise` knows."""

    def setup(self, learning: np.random.SeedSequence, more: np.random.SeedSequence) -> None:
        config, observation = self.config, self.observation
        if np.dtype(observation.dtype).kind not in "uif":
            raise ConfigError(
                f"model.algorithm {config.algorithm} needs numbers to learn from, but the observation is made of"
                f" {np.dtype(observation.dtype)}: use one-hot or RGB observations."
            )
        self._check_network()
        self.lane_memory: LaneMemory | None = None
        if self.has_memory:
            self.lane_memory = LaneMemory(self.memory.lanes, config.n_frames, self._memory_size)
            self.lane_extras.update(self.lane_memory.extras)
        self.learning_generator = torch.Generator(self.device)
        self.learning_generator.manual_seed(int(learning.generate_state(1, np.uint64)[0]))
        self.online, self.online_block = self._flat_network(learns=True, device=self.device)
        self.policy, self.policy_block = self._flat_network(learns=False, device="cpu")
        self.chooses_on = "cpu"
        """The device of `policy`."""
        if isinstance(self.online, self.NETWORK) or self.replaced_method(["initialise"]):
            self.initialise(self.online)  # another one begins as torch made it
        self.optimiser = Adam(self.online_block, config.learning_rate)
        self._adopted: Tensor | None = None

    def _check_network(self) -> None:
        """Refuse a network that this model cannot have."""
        name, kind = self.config.network, type(self)
        replaced = kind.replaced_method(["make_network", *(("evaluate", "choose") if self.has_memory else ())])
        if name != "auto" and replaced is not None:
            raise ConfigError(
                f"model.network is {name}, but {kind.__name__} defines {replaced} itself: leave model.network out."
            )
        if name == "mlp" and is_picture(self.observation):
            warn_of_pixels(tuple(self.observation.input_size))
        if is_target(name):
            check_users_module(name, (self.config.n_frames, *map(int, self.observation.input_size)))

    def check_whole(self) -> None:
        """Also: a user's network is tried, in a copy, so that this changes nothing."""
        super().check_whole()
        if self.replaced_method(["make_network"]) is None or self.replaced_method(CHOSEN_BY):
            return
        twin = copy.copy(self)
        try:
            twin.policy = copy.deepcopy(self.policy).eval()
            with seeded_globals(np.random.SeedSequence(0)), torch.inference_mode():
                found = twin._tried(torch.zeros(2, self.input_size))
        except Exception as error:
            raise ModelError(
                f"the network of its make_network raised {type(error).__name__} for rows of {self.input_size} numbers"
                f" ({self.config.n_frames} frames of {tuple(self.observation.input_size)}, flattened):"
                f" {' '.join(str(error).split()).rstrip('.')}"
            ) from error
        shape = tuple(found.shape) if isinstance(found, Tensor) else short(found)
        if shape != (2, self.n_actions):
            raise ModelError(
                f"the network of its make_network gives {shape} for 2 rows, expected (2, {self.n_actions}), a number for"
                " each action: end it with self.n_actions numbers"
            )

    def _tried(self, frames: Tensor) -> Tensor:
        """`evaluate` before the first epoch."""
        return self.evaluate(frames)

    @property
    def network_name(self) -> str:
        """What `model.network` means here: mlp, cnn, lstm, or where a user's module is."""
        return network_for(self.config.network, self.observation)

    @property
    def has_memory(self) -> bool:
        """Whether its network has a memory of the episode."""
        return self.config.network == "lstm"

    @property
    def _memory_size(self) -> int:
        return self.TORSOS * 2 * self.config.hidden_size

    def memory_options(self) -> dict[str, Any]:
        return {"extras": LaneMemory.extras_dtypes(self._memory_size)} if self.has_memory else {}

    def make_torso(self, number: int = 0) -> Torso | None:
        """What a network of ours has in front of its layers; none: the frames go there as they are."""
        config = self.config
        return make_torso(self.network_name, self.observation, config.n_frames, config.hidden_size, number, self.TORSOS)

    @abstractmethod
    def make_network(self) -> nn.Module:
        """A network with weights not yet set."""

    @abstractmethod
    def initialise(self, network: nn.Module) -> None:
        """Give a network its first weights, drawn from `learning_generator`."""

    @abstractmethod
    def evaluate(self, frames: Tensor) -> Tensor:
        """What choosing decides by, from `policy`: a number per action for each row of stacked frames."""

    def evaluate_with_memory(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The same from rows of a frame and a memory, and the memory after that frame; only for models that offer lstm."""
        raise NotImplementedError(f"{type(self).__name__} has no network with a memory.")

    @abstractmethod
    def decide(self, evaluated: Tensor, lanes: Sequence[int]) -> list[Any]:
        """The action for each row of evaluated frames."""

    @abstractmethod
    def decide_all(self, evaluated_LA: Tensor, chances_L2: Tensor, epsilon: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The same on the device of `policy`, where nothing is waited for (`training/batched.py`)."""

    def why_not_on_device(self) -> str | None:
        if self.has_memory:
            return f"its network is {self.network_name}, whose memory is kept lane by lane"
        return super().why_not_on_device()

    def choose_on(self, device: str) -> None:
        """Choose on this device from now on; `choose` takes frames on the CPU all the same."""
        if device == self.chooses_on:
            return
        before, self.chooses_on = self.policy_block, device
        with seeded_globals(np.random.SeedSequence(0)):  # a torch.nn.Linear draws weights, which are not used
            self.policy, self.policy_block = self._flat_network(learns=False, device=device)
        self.policy_block.values.copy_(before.values)

    def choosing_tensors(self) -> list[Tensor]:
        """What `evaluate` reads beside frames."""
        return [self.policy_block.values]

    def evaluated(self, frames: Tensor) -> Tensor:
        """`evaluate` of frames on the CPU, there again."""
        return self.evaluate(frames.to(self.chooses_on)).cpu()

    def legal_now(self, lanes: Sequence[int]) -> Tensor | None:
        """Which actions are legal in these lanes, (B, A); None: all are."""
        return None if self._masks_LA is None else torch.from_numpy(self._masks_LA[list(lanes)])

    def choose(self, frames: Tensor, lanes: Sequence[int]) -> list[Any]:
        """The action for each row of stacked frames."""
        with torch.inference_mode():
            groups = self.streams.together(range(len(lanes)), lanes)
            if self.lane_memory is None:
                return self.decide(torch.cat([self.evaluated(rows_of(frames, group)) for group in groups]), lanes)
            newest = frames[:, -(self.input_size // self.config.n_frames) :]
            rows = self.lane_memory.rows(newest, lanes)
            of_groups = (self.evaluate_with_memory(rows_of(rows, group)) for group in groups)
            evaluated, memories = zip(*of_groups, strict=True)
            self.lane_memory.carry_on(lanes, torch.cat(memories))
            return self.decide(torch.cat(evaluated), lanes)

    def stacked(self, network: nn.Module, models: Sequence[Any]) -> Self:
        """A model whose `evaluate` does that of several models at once, given their networks stacked into one."""
        twin = copy.copy(self)
        twin.policy = network
        return twin

    def take_action(self, state: NDArray[Any], lane: int = 0) -> Any:
        return self.choose(self.frame_stack.push([state], [lane]), [lane])[0]

    def take_actions(self, states: Sequence[NDArray[Any]], lanes: Sequence[int]) -> list[Any]:
        if type(self).take_action is not NetworkModel.take_action:  # a user's, who is asked lane by lane
            return super().take_actions(states, lanes)
        return self.choose(self.frame_stack.push(states, lanes), lanes)

    def start_epoch_action(self, *, epoch: int) -> None:
        super().start_epoch_action(epoch=epoch)
        self._renew_policy()

    def _renew_policy(self) -> None:
        """Copy the weights that were adopted, or else those of `online`, to `policy`."""
        self.policy_block.values.copy_(self.online_block.values.data if self._adopted is None else self._adopted)

    def _forget_frames(self, lane: int | None) -> None:
        super()._forget_frames(lane)
        if self.lane_memory is not None:
            self.lane_memory.clear(lane)

    # ---- learning

    def as_input(self, states: NDArray[Any], extras: Mapping[str, NDArray[Any]] = MappingProxyType({})) -> Tensor:
        """As in `BaseModel`; a network with a memory needs the extras of the same rows too."""
        inputs = super().as_input(states)
        if self.lane_memory is None:
            return inputs
        memory, frames = self._there(extras["memory"]), self._there(extras["frames"])
        return torch.cat([inputs, memory, frames[:, None].to(torch.float32)], dim=1)

    def _there(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def gradient_step(self, reported: Tensor | Figures) -> Figures:
        """One step down the loss that `loss` or `loss_of` has reported; returns its figures, where they are."""
        figures = figures_with_loss(reported, type(self))
        return named_figures({**figures, "gradient_norm": self.descend(figures["loss"])})

    def descend(self, loss: Tensor) -> Tensor:
        """One step of Adam down the gradient of a loss, its norm limited to `gradient_norm`; returns what it was."""
        gradients = self.online_block.gradients
        gradients.zero_()
        with nullcontext() if self.device == "cpu" else torch.backends.cudnn.flags(deterministic=True):
            loss.backward()  # type: ignore[no-untyped-call]
        norm: Tensor = torch.linalg.vector_norm(gradients)
        gradients.mul_((self.config.gradient_norm / (norm + 1e-6)).clamp(max=1.0))
        self.optimiser.step()
        return norm

    def _flat_network(self, learns: bool, device: str) -> tuple[Any, FlatParameters]:
        try:
            network = self.make_network()
        except AbreastError:
            raise
        except Exception as error:
            raise ModelError(f"{type(self).__name__}.make_network failed: {why_not_built(error)}") from error
        if not isinstance(network, nn.Module):
            raise ModelError(
                f"{type(self).__name__}.make_network returned {short(network)}: expected a torch.nn.Module."
            )
        return network, FlatParameters(network, learns, device)

    @property
    def stack_key(self) -> Hashable | None:
        if self.replaced_method(CHOSEN_TOGETHER) or self.network_name != "mlp":  # a user's has to be asked
            return None
        return type(self), self.config, self.input_size, self.chooses_from

    def why_not_stacked(self) -> str | None:
        """Why it cannot learn in one stacked update with others of its kind, if so."""
        kind = type(self)
        if kind.STACK is None:
            return f"{kind.__name__} has no stacked update"
        if (replaced := kind.replaced_method(kind.STACK.STANDS_FOR)) is not None:
            return f"{kind.__name__}.{replaced} is your own"
        if own := self.own_attributes.values:  # those of one model would be used for all
            return f"it has attributes of its own: {', '.join(own)}"
        if type(self.memory) not in (Buffer, SharedReplayBuffer):
            return f"its memory is a {type(self.memory).__name__}"
        if type(self.optimiser) is not Adam:
            return f"its optimiser is a {type(self.optimiser).__name__}"
        return None if self.network_name == "mlp" else f"its network is {self.network_name}"

    @property
    def gains_by_stacking(self) -> bool:
        """Whether a stacked update is faster: on a GPU always, on a CPU where calls take longer than products."""
        return self.device != "cpu" or self.config.batch_size * len(self.online_block) <= STACKED_BELOW

    @property
    def learning_key(self) -> Hashable | None:
        if self.why_not_stacked() is not None or not self.gains_by_stacking:
            return None
        settings = [(name, value) for name, value in self.config if name not in OF_EACH_AGENT]
        memory = self.memory
        rows = memory.obs_shape, memory.dtype, memory.lanes, tuple(memory.extras_dtypes), memory.rows_per_lane
        reads = memory.n_frames, memory.n_step, memory.gamma
        return type(self), tuple(settings), self.device, rows, reads, self.observation.scale, self.chooses_from

    def move_learned_to(self, blocks: Mapping[str, Tensor], gradients: Tensor) -> None:
        """Keep all that is learned in other memory from now on: `blocks`, by name, and the gradients."""
        self.online_block.move_to(blocks["online"], gradients)
        self.optimiser.move_to(blocks["adam_mean"], blocks["adam_square"])

    @property
    def runs_users_code(self) -> bool:
        return super().runs_users_code or is_target(self.config.network)

    @property
    def can_learn(self) -> bool:
        return len(self.memory) >= self.config.batch_size

    def backlog(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return per lane the first row that waits for an update, and how many do, as far as they are still there."""
        written_L = self.memory.written  # one look: in the schedule free it grows
        first_L = np.clip(self.rows_learned_from, written_L - self.memory.rows_per_lane, written_L)
        return first_L, written_L - first_L

    def set_progress(self, progress: float) -> None:
        if "learning_rate" in self.config.anneal:
            self.optimiser.learning_rate = self.config.learning_rate * (1.0 - progress)

    @property
    def annealed(self) -> tuple[float, ...]:
        """What may fall with the run, as it is now."""
        return (self.optimiser.learning_rate,)

    @property
    def has_no_gradient(self) -> bool:
        return not bool(self.online_block.gradients.any())

    # ---- state

    def learned_arrays(self) -> dict[str, NDArray[Any]]:
        blocks = {name: block.cpu().numpy() for name, block in self.blocks().items()}
        return {**blocks, "generator": self.learning_generator.get_state().numpy()}

    def set_learning_state(self, state: State) -> None:
        for name, block in self.blocks().items():
            block.copy_(torch.from_numpy(state.arrays[name]))
        self.learning_generator.set_state(torch.from_numpy(state.arrays["generator"].copy()))
        self._adopted = None
        super().set_learning_state(state)
        self._renew_policy()  # a user's own loop may go on in the middle of an epoch

    def adopt(self, state: State) -> None:
        super().adopt(state)
        self._adopted = torch.from_numpy(state.arrays["online"])

    def blocks(self) -> dict[str, Tensor]:
        """Everything learned, as blocks of the network's layout, by name; first what choosing needs."""
        return {
            "online": self.online_block.values.data,
            "adam_mean": self.optimiser.mean,
            "adam_square": self.optimiser.square,
        }

    def counters(self) -> dict[str, Any]:
        optimiser = self.optimiser
        return {**super().counters(), "gradient_steps": optimiser.steps, "learning_rate": optimiser.learning_rate}

    def set_counters(self, counters: dict[str, Any]) -> None:
        super().set_counters(counters)
        self.optimiser.steps = int(counters["gradient_steps"])
        self.optimiser.learning_rate = float(counters["learning_rate"])

    def file_layout(self, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Views of the same arrays, with each block split into its parameters."""
        views = {name: array for name, array in arrays.items() if name not in self.blocks()}
        for name in self.blocks():
            parts = self.online_block.views(torch.from_numpy(arrays[name]))
            views |= {f"{name}.{part}": view.numpy() for part, view in parts.items()}
        return views


def rows_of(frames: Tensor, rows: Sequence[int]) -> Tensor:
    """Some rows in memory of their own: how a row is rounded depends on where in memory it lies."""
    return frames if len(rows) == len(frames) else frames[list(rows)]
