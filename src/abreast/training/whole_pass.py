"""A pass of a batched world, played on the device as a whole (`batched.py`).

Shapes: T turns, N agents, L lanes, D numbers of a frame.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor

from abreast.errors import RewardError, WorldError
from abreast.models.lane_streams import ALL_LANES
from abreast.models.stacked import Recorded
from abreast.worlds.batched import BatchedWorld


class WholePass:
    """A pass in all lanes on the device: tensors that are made once, and a turn over them, which can be recorded."""

    def __init__(
        self,
        world: BatchedWorld,
        draws: Mapping[str, Tensor],
        models: Sequence[Any],
        turns: int,
        is_in_turn: bool,
    ) -> None:
        self._world, self._draws, self._models, self._is_in_turn = world, draws, models, is_in_turn
        self._turns, agents, lanes = turns, len(models), world.lanes
        self._read = tensors_read_by(models)
        self._number = self._zeros((1,), torch.int64)
        """Of the turn."""
        self._chances_TNL2 = self._zeros((turns, agents, lanes, 2), torch.float64)
        self._chances_1NL2 = self._zeros((1, agents, lanes, 2), torch.float64)
        """Those of the turn."""
        self._epsilons_N = self._zeros((agents,), torch.float64)
        self._actions_TNL = self._zeros((turns, agents, lanes), torch.int64)
        self._rewards_TNL = self._zeros((turns, agents, lanes), torch.float32)
        self._frames = {
            count: torch.arange(count, device=world.device) for count in {model.config.n_frames for model in models}
        }
        """By how many frames a model sees, their numbers now."""
        self._states_LTD = [
            self._zeros(
                (lanes, model.config.n_frames - 1 + turns, int(np.prod(model.observation.input_size))),
                torch_type(model.memory.dtype),
            )
            for model in models
        ]
        """Per agent; before the first state there are empty frames."""
        self._extras = [
            {
                name: self._zeros((turns, lanes, *kind.shape), torch_type(kind.base))
                for name, kind in model.memory.extras_dtypes.items()
            }
            for model in models
        ]
        """Per agent, by name, (T, L, …)."""
        self._pinned: dict[Any, Tensor] = {}
        self._play = Recorded(self._play_turn, world.device, (), f"a turn of {type(world).__name__}")
        if any(model.runs_users_code for model in models):  # a network of a user's may do something else in every call
            self._play.is_recordable = False
        self._has_played = False

    def _zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype, device=self._world.device)

    def is_for(self, models: Sequence[Any]) -> bool:
        """Whether these models choose as those did with which this was made, from the same memory."""
        are_same = all(mine is other for mine, other in zip(self._models, models, strict=True))
        return are_same and self._read == tensors_read_by(models)

    def rehearse(self) -> bool:
        """Record the turn, if that is to be done and has not been: it needs turns that do not count."""
        is_due = self._play.is_recordable and not self._has_played
        if is_due:
            self._play()
            self._has_played = True
        return is_due

    def begin(self) -> None:
        """The pass begins."""
        self._number.zero_()
        for count, numbers in self._frames.items():
            numbers.copy_(torch.arange(count))
        self._epsilons_N.copy_(torch.tensor([model.epsilon for model in self._models], dtype=torch.float64))
        generator = torch.Generator(self._world.device)
        for agent, model in enumerate(self._models):
            generator.manual_seed(model.streams.seed_of_pass(ALL_LANES))
            drawn_TL2 = torch.empty_like(self._chances_TNL2[:, agent], memory_format=torch.contiguous_format)
            self._chances_TNL2[:, agent] = drawn_TL2.uniform_(generator=generator)

    def turn(self) -> None:
        """Play a turn, with the draws that are there."""
        self._play()
        self._number += 1
        for numbers in self._frames.values():
            numbers += 1

    def _play_turn(self) -> None:
        self._world.transition(self._draws)
        torch.index_select(self._chances_TNL2, 0, self._number, out=self._chances_1NL2)
        actions_NL, rewards_NL = [], []
        agents = range(len(self._models))
        if self._is_in_turn:
            for agent in agents:
                actions_NL.append(self._choose(agent))
                rewards_NL.append(let_act(self._world, agent, actions_NL[-1]))
        else:
            actions_NL = [self._choose(agent) for agent in agents]
            rewards_NL = [let_act(self._world, agent, actions_L) for agent, actions_L in enumerate(actions_NL)]
        self._actions_TNL.index_copy_(0, self._number, torch.stack(actions_NL)[None])
        self._rewards_TNL.index_copy_(0, self._number, torch.stack(rewards_NL)[None])

    def _choose(self, agent: int) -> Tensor:
        """What an agent does in each lane; what it sees, and what else it remembers, is noted."""
        model, states_LTD = self._models[agent], self._states_LTD[agent]
        numbers, lanes = self._frames[model.config.n_frames], self._world.lanes
        states_LTD.index_copy_(1, numbers[-1:], self._seen(agent).reshape(lanes, 1, -1))
        frames = states_LTD.index_select(1, numbers).view(lanes, -1).to(torch.float32)
        if model.observation.scale != 1.0:
            frames *= model.observation.scale
        chosen, extras = model.decide_all(model.evaluate(frames), self._chances_1NL2[0, agent], self._epsilons_N[agent])
        for name, values in extras.items():
            self._extras[agent][name].index_copy_(0, self._number, values[None])
        return chosen  # type: ignore[no-any-return]

    def _seen(self, agent: int) -> Tensor:
        seen, expected = self._world.view(agent), self._models[agent].observation
        shape, dtype = (self._world.lanes, *expected.input_size), torch_type(self._models[agent].memory.dtype)
        if tuple(seen.shape) != shape or seen.dtype != dtype:
            raise WorldError(
                f"{type(self._world).__name__}.view of agent {agent} returned {seen.dtype} of shape {tuple(seen.shape)},"
                f" expected {dtype} of shape {shape}: its lanes, then what its observation spec says."
            )
        return seen

    def scores(self, lane: int, turns: int) -> Tensor:
        """What each agent has got in a lane after so many turns."""
        return self._rewards_TNL[:turns, :, lane].sum(dim=0)

    def finish(self, lanes: int) -> Tensor:
        """The pass is over: returns the scores of all agents and lanes, in 64 bits. What an agent was given since its last
        step belongs to that.
        """
        given_NL = self._world.given_LN.T
        scores_NL = self._rewards_TNL.sum(dim=0, dtype=torch.float64) + given_NL
        self._rewards_TNL[-1] += given_NL
        if not torch.isfinite(self._rewards_TNL[:, :, :lanes]).all():
            turn, agent, lane = (~torch.isfinite(self._rewards_TNL[:, :, :lanes])).nonzero()[0].tolist()
            action, reward = self._actions_TNL[turn, agent, lane].item(), self._rewards_TNL[turn, agent, lane].item()
            raise RewardError(
                f"agent {agent}, turn {turn + 1}, action {action}: the reward is {reward!r}, expected a finite number."
            )
        return scores_NL

    def reward_times(self, lanes: int) -> list[list[float]]:
        """Per lane and agent, the mean number of the turns that brought a reward above 0; NaN: there were none."""
        is_paid_TNL = self._rewards_TNL[:, :, :lanes] > 0
        numbers_T = torch.arange(1, self._turns + 1, dtype=torch.float64, device=self._world.device)
        sums_NL = (is_paid_TNL * numbers_T.view(-1, 1, 1)).sum(dim=0)
        return (sums_NL / is_paid_TNL.sum(dim=0)).T.tolist()

    # ---- from the device

    def rows(self, lanes: int) -> Iterator[dict[str, NDArray[Any]]]:
        """Per agent, what happened in the first lanes, (lanes, T, …) of each field; valid until the next is asked for.

        While the rows of an agent are written to its replay, those of the next one are on their way here.
        """
        actions = self._sent("actions", self._actions_TNL.permute(1, 2, 0))
        rewards = self._sent("rewards", self._rewards_TNL.permute(1, 2, 0))
        coming = self._sent_rows(0)
        for agent, model in enumerate(self._models):
            fields, arrived = coming
            if agent + 1 < len(self._models):
                coming = self._sent_rows(agent + 1)
            arrived()
            states = fields.pop("states").numpy().reshape(self._world.lanes, self._turns, *model.memory.obs_shape)
            each = {"states": states, "actions": actions[agent].numpy(), "rewards": rewards[agent].numpy()}
            each |= {name: values.numpy() for name, values in fields.items()}
            yield {name: values[:lanes] for name, values in each.items()}

    def _sent_rows(self, agent: int) -> tuple[dict[str, Tensor], Callable[[], None]]:
        """States and extras of an agent, on their way to the host, and a function that waits until they are there."""
        before = self._models[agent].config.n_frames - 1
        parts = {"states": self._states_LTD[agent][:, before:]}
        parts |= {name: values.transpose(0, 1) for name, values in self._extras[agent].items()}
        sent = {name: self._sent((name, agent % 2), part) for name, part in parts.items()}
        if torch.device(self._world.device).type != "cuda":
            return sent, lambda: None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._world.device))
        return sent, event.synchronize

    def _sent(self, name: Any, tensor: Tensor) -> Tensor:
        """A tensor of the device, on its way into memory of the host that is used in every pass; on the CPU, itself."""
        tensor = tensor.contiguous()
        if tensor.device.type == "cpu":
            return tensor
        key = (name, tensor.shape, tensor.dtype)
        if key not in self._pinned:
            self._pinned[key] = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return self._pinned[key].copy_(tensor, non_blocking=True)


def let_act(world: BatchedWorld, agent: int, actions_L: Tensor) -> Tensor:
    """Let an agent act, and take what it earns and what it was given since its last step, as `Agent.act_for_reward`."""
    rewards_L = world.act(agent, actions_L)
    given_L = world.given_LN[:, agent]
    rewards_L = rewards_L + given_L
    given_L.zero_()
    return rewards_L


def tensors_read_by(models: Sequence[Any]) -> list[Any]:
    """What a recorded turn refers to of models: how they choose, and the memory of their networks."""
    return [(model.is_greedy, [tensor.data_ptr() for tensor in model.choosing_tensors()]) for model in models]


def torch_type(dtype: DTypeLike) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype
