"""A game in a batched world (`worlds/batched.py`), as training sees it (`worlds/playable.py`).

play_pass                  if every model can: see, choose and act, turn after turn, in all lanes at once; nothing is read
                           from the device before the pass is over, then the rows of each agent in one piece
decisions, step, finish    otherwise: models of any kind choose from arrays, as in any other game

Random numbers of the world follow from the experiment's seed and the number of the pass; those of an agent's choices from
its own stream and the pass. Lanes draw together, so what happens in one depends on how many there are.

Shapes: T turns, N agents, L lanes, D numbers of a frame.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from PIL import Image
from torch import Tensor

from abreast.agents import Agent
from abreast.errors import ConfigError, RewardError, StateError, WorldError, short
from abreast.models import BaseModel
from abreast.models.stacked import Recorded
from abreast.state import State
from abreast.training.lanes import Pictures
from abreast.training.sizes import enough_memory
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

if TYPE_CHECKING:
    from abreast.training.environment import Environment
    from abreast.worlds.batched import BatchedWorld

log = logging.getLogger("abreast")

OF_PASSES = 0
"""The part of the world's spawn key, after that of the world, that stands for passes in a batched world."""
FEWEST_LANES = 32
"""With fewer lanes, `world.batched: auto` takes the object world: kernels take as long for one lane as for a thousand."""


def why_not_batched(env: "Environment") -> str | None:
    """Why this environment cannot be played in a batched world; None: it can."""
    kind: type[BatchedWorld] | None = vars(type(env)).get("batched_world")  # a subclass may have other rules
    if kind is None:
        return f"{env.name} has no batched world"
    if env.config.multiprocessing.actors > 1:
        return f"multiprocessing.num_actors is {env.config.multiprocessing.actors}, and it takes one actor"
    if env.has_own_factory:
        return "env.factory is a function of your own, which may build other lanes"
    reason: str | None = kind.why_not(env)
    return reason


def why_not_whole(models: Sequence[BaseModel]) -> str | None:
    """Why passes cannot be played on the device as a whole; None: they can."""
    reasons = ((agent, model.why_not_on_device()) for agent, model in enumerate(models))
    return next((f"agent {agent}: {reason}" for agent, reason in reasons if reason is not None), None)


def is_played_batched(env: "Environment") -> bool:
    """Whether an environment is played in its batched world, as `world.batched` says; refuses what cannot be."""
    wanted = getattr(env.config.world, "batched", False)
    if wanted is True:
        if (reason := why_not_batched(env)) is not None:
            raise ConfigError(f"world.batched is true, but {reason}: leave world.batched out.")
        return True
    device, lanes = env.agents[0].model.device, env.config.multiprocessing.lanes
    if wanted != "auto" or device == "cpu" or lanes < FEWEST_LANES:
        return False
    reason = why_not_batched(env) or why_not_whole([agent.model for agent in env.agents])
    if reason is not None:
        log.info("%s is played in its object world, on the CPU: %s", env.name, reason)
    return reason is None


def batched_lanes_of(env: "Environment") -> "BatchedLanes":
    """The batched world of an environment, where its first agent learns."""
    views = [agent.observation_spec for agent in env.agents]
    with enough_memory("multiprocessing.num_envs, or the size of the world"):
        world = type(env).batched_world(  # type: ignore[misc]
            env.config.multiprocessing.lanes, views, env.config.world, env.agents[0].model.device
        )
        return BatchedLanes(env, world)


class BatchedLanes(Playable):
    """All lanes of an environment in one batched world. All of them are always played; if fewer are asked for, those after
    them are not reported and not remembered.
    """

    def __init__(self, env: "Environment", world: "BatchedWorld") -> None:
        self._env, self.world = env, world
        self.turns = 0
        self.passes = 0
        """Passes begun so far."""
        self._next_seed: np.random.SeedSequence | None = None
        """Of the next pass, where that does not follow from its number."""
        self._generator = torch.Generator(world.device)
        self._reset_draws, self._turn_draws = _room(world, world.reset_draws()), _room(world, world.turn_draws())
        self._scores_NL = torch.zeros((world.agents, world.lanes), dtype=torch.float64, device=world.device)
        self._whole: WholePass | None = None
        self._has_told = False

    @property
    def players(self) -> Sequence[Agent]:  # type: ignore[override]
        return self._env.agents  # type: ignore[no-any-return]

    @property
    def _models(self) -> list[Any]:
        return [player.model for player in self.players]

    @property
    def _max_turns(self) -> int:
        return int(self._env.config.experiment.max_turns)

    @property
    def _is_in_turn(self) -> bool:
        return bool(self._env.config.experiment.turn_order == "sequential")

    # ---- as any game

    def reset(self, lanes: int) -> None:
        seed = self._next_seed or self._env.seed_of(0, OF_PASSES, self.passes)
        self._next_seed = None
        self.passes += 1
        self._generator.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
        self._draw(self._reset_draws)
        with torch.no_grad():
            self.world.reset(self._reset_draws)
            self._scores_NL.zero_()
        agents = list(range(self.world.agents))
        self._groups = [[agent] for agent in agents] if self._is_in_turn else [agents]
        self._numbers, self._group, self.turns = list(range(lanes)), 0, 0

    def _draw(self, into: Mapping[str, Tensor]) -> None:
        for tensor in into.values():
            tensor.uniform_(generator=self._generator)

    def decisions(self) -> Sequence[Decision] | None:
        with torch.no_grad():
            if not self._group:
                if self.turns == self._max_turns:
                    return None
                self._draw(self._turn_draws)
                self.world.transition(self._turn_draws)
            return [Decision(agent, self._numbers, self._seen(agent)) for agent in self._groups[self._group]]

    def _seen(self, agent: int) -> list[NDArray[Any]]:
        return list(self.world.view(agent)[: len(self._numbers)].to("cpu", copy=True).numpy())

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        lanes = len(self._numbers)
        outcomes = []
        with torch.no_grad():
            for agent, chosen in zip(self._groups[self._group], actions, strict=True):
                others = [0] * (self.world.lanes - lanes)
                rewards_L = _act(self.world, agent, torch.tensor([*chosen, *others], device=self.world.device))
                self._scores_NL[agent] += rewards_L
                outcomes.append(Outcome(rewards_L[:lanes].tolist(), [False] * lanes))
        self._group = (self._group + 1) % len(self._groups)
        self.turns += not self._group
        return outcomes, ()

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        given_NL = self.world.given_LN.T[:, : len(self._numbers)].tolist()
        late = [
            Late(agent, lane, reward)
            for agent, given_L in enumerate(given_NL)
            for lane, reward in enumerate(given_L)
            if reward
        ]
        self._scores_NL += self.world.given_LN.T
        return self._played(self._scores_NL), late

    def _played(self, scores_NL: Tensor) -> list[Played]:
        rewards_LN = scores_NL.T[: len(self._numbers)].tolist()
        figures = {name: values.tolist() for name, values in self.world.metrics().items()}
        return [
            Played(self.turns, rewards_N, {name: values[lane] for name, values in figures.items()})
            for lane, rewards_N in enumerate(rewards_LN)
        ]

    # ---- a pass as a whole

    def play_pass(
        self,
        epoch: int,
        lanes: int,
        beat: Callable[[], None] | None = None,
        on_turn: Callable[[], None] | None = None,
    ) -> list[Played] | None:
        """Play a pass, and remember it, as `play_lanes` does; None: not every model can choose on a device."""
        models = self._models
        if (reason := why_not_whole(models)) is not None:
            if not self._has_told:
                log.info("%s is played turn by turn, not on the device as a whole: %s", self._env.name, reason)
            self._has_told = True
            return None
        self._move_policies()
        for model in models:
            model.start_epoch_action(epoch=epoch)
        with torch.no_grad():
            whole = self._whole_pass(models)
            self.reset(lanes)
            if whole.rehearse():  # which has played a turn or more
                self.world.reset(self._reset_draws)
            whole.begin()
            while self.turns < self._max_turns:
                if on_turn is not None:
                    on_turn()
                self._draw(self._turn_draws)
                whole.turn()
                self.turns += 1
                if beat is not None:
                    beat()
            if on_turn is not None:
                on_turn()
            scores_NL = whole.finish(lanes)
            for model, rows in zip(models, whole.rows(lanes), strict=True):
                model.memory.add_episodes(**rows)
        for model in models:
            model.end_epoch_action(epoch=epoch)
        return self._played(scores_NL)

    def _move_policies(self) -> None:
        for model in self._models:
            model.choose_on(self.world.device)

    def _whole_pass(self, models: Sequence[Any]) -> "WholePass":
        """That of the pass before, unless other models choose now, or otherwise."""
        if self._whole is None or not self._whole.is_for(models):
            self._whole = None  # its memory is free before that of another is asked for
            with enough_memory("multiprocessing.num_envs or experiment.max_turns"):
                self._whole = WholePass(self.world, self._turn_draws, models, self._max_turns, self._is_in_turn)
        return self._whole

    # ---- evaluation

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Let the next epoch follow from these seeds: lanes draw together, from the first."""
        self._next_seed = seeds[0]

    # ---- what it looks like, what is kept

    def picture(self) -> Image.Image:
        self.world.show(0, self._env.world, self._env.agents)
        return self._pictures.draw(self._env.world)

    @cached_property
    def _pictures(self) -> Pictures:
        return Pictures(self._env.world)

    def state(self) -> State:
        return State({"passes": self.passes})

    def set_state(self, state: State) -> None:
        passes = state.facts.get("passes")
        if type(passes) is not int or passes < 0:
            raise StateError(f"the number of passes of a batched world is {short(passes)}, expected a count.")
        self.passes = passes


class WholePass:
    """A pass in all lanes on the device: tensors that are made once, and a turn over them, which can be recorded."""

    def __init__(
        self,
        world: "BatchedWorld",
        draws: Mapping[str, Tensor],
        models: Sequence[Any],
        turns: int,
        is_in_turn: bool,
    ) -> None:
        self._world, self._draws, self._models, self._is_in_turn = world, draws, models, is_in_turn
        self._turns, agents, lanes = turns, len(models), world.lanes
        self._read = _read_by(models)
        self._number = self._zeros((1,), torch.int64)
        """Of the turn."""
        self._chances_TNL2 = self._zeros((turns, agents, lanes, 2), torch.float64)
        self._chances_1NL2 = self._zeros((1, agents, lanes, 2), torch.float64)
        """Those of the turn."""
        self._epsilons_N = self._zeros((agents,), torch.float64)
        self._actions_TNL = self._zeros((turns, agents, lanes), torch.int64)
        self._rewards_TNL = self._zeros((turns, agents, lanes), torch.float32)
        counts = {model.config.n_frames for model in models}
        self._frames = {count: torch.arange(count, device=world.device) for count in counts}
        """By how many frames a model sees, their numbers now."""
        self._states_LTD = [
            self._zeros((lanes, model.config.n_frames - 1 + turns, _size(model)), _torch_type(model.memory.dtype))
            for model in models
        ]
        """Per agent; before the first state there are empty frames."""
        self._extras = [
            {
                name: self._zeros((turns, lanes, *kind.shape), _torch_type(kind.base))
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
        return are_same and self._read == _read_by(models)

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
            generator.manual_seed(model.streams.seed_of_all_lanes())
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
                rewards_NL.append(_act(self._world, agent, actions_NL[-1]))
        else:
            actions_NL = [self._choose(agent) for agent in agents]
            rewards_NL = [_act(self._world, agent, actions_L) for agent, actions_L in enumerate(actions_NL)]
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
        actions_L: Tensor = chosen
        return actions_L

    def _seen(self, agent: int) -> Tensor:
        seen, expected = self._world.view(agent), self._models[agent].observation
        shape, dtype = (self._world.lanes, *expected.input_size), _torch_type(self._models[agent].memory.dtype)
        if tuple(seen.shape) != shape or seen.dtype != dtype:
            raise WorldError(
                f"{type(self._world).__name__}.view of agent {agent} returned {seen.dtype} of shape {tuple(seen.shape)},"
                f" expected {dtype} of shape {shape}: its lanes, then what its observation spec says."
            )
        return seen

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


def _act(world: "BatchedWorld", agent: int, actions_L: Tensor) -> Tensor:
    """Let an agent act, and take what it earns and what it was given since its last step, as `Agent.act_for_reward`."""
    rewards_L = world.act(agent, actions_L)
    given_L = world.given_LN[:, agent]
    rewards_L = rewards_L + given_L
    given_L.zero_()
    return rewards_L


def _room(world: "BatchedWorld", shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    return {name: torch.zeros((world.lanes, *shape), device=world.device) for name, shape in shapes.items()}


def _read_by(models: Sequence[Any]) -> list[Any]:
    """What a recorded turn refers to of models: how they choose, and the memory of their networks."""
    return [(model.is_greedy, [tensor.data_ptr() for tensor in model.choosing_tensors()]) for model in models]


def _size(model: BaseModel) -> int:
    return int(np.prod(model.observation.input_size))


def _torch_type(dtype: DTypeLike) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype)).dtype
