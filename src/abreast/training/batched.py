"""A game in a batched world (`worlds/batched.py`), as training sees it (`worlds/playable.py`).

play_pass                  if every model can: see, choose and act, turn after turn, in all lanes at once; nothing is read
                           from the device before the pass is over, then the rows of each agent in one piece
decisions, step, finish    otherwise: models of any kind choose from arrays, as in any other game

Random numbers of the world follow from the experiment's seed and the number of the pass; those of an agent's choices from
its own stream and the pass. Lanes draw together, so what happens in one depends on how many there are.

Shapes: N agents, L lanes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abreast.errors import ConfigError, StateError, log, short
from abreast.models import BaseModel
from abreast.state import State
from abreast.training.devices import enough_memory
from abreast.training.lanes import AgentsInWorlds, Environment
from abreast.training.social import with_social_outcomes
from abreast.training.whole_pass import WholePass, let_act
from abreast.worlds.batched import BatchedWorld
from abreast.worlds.painting import Scene
from abreast.worlds.playable import Decision, Late, Outcome, Played

OF_PASSES = 0
"""The part of the world's spawn key, after that of the world, that stands for passes in a batched world."""
FEWEST_LANES = 32
"""With fewer lanes, `world.batched: auto` takes the object world: kernels take as long for one lane as for a thousand."""


def why_not_batched(env: Environment) -> str | None:
    """Why this environment cannot be played in a batched world; None: it can."""
    kind: type[BatchedWorld] | None = vars(type(env)).get("batched_world")  # a subclass may have other rules
    if kind is None:
        return f"{env.name} has no batched world"
    if env.config.multiprocessing.actors > 1:
        return f"multiprocessing.num_actors is {env.config.multiprocessing.actors}, and it takes one actor"
    if env._factory is not None:
        return "env.factory is a function of your own, which may build other lanes"
    return kind.why_not(env)


def why_not_whole(models: Sequence[BaseModel]) -> str | None:
    """Why passes cannot be played on the device as a whole; None: they can."""
    reasons = ((agent, model.why_not_on_device()) for agent, model in enumerate(models))
    return next((f"agent {agent}: {reason}" for agent, reason in reasons if reason is not None), None)


def is_played_batched(env: Environment) -> bool:
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


def batched_lanes_of(env: Environment) -> "BatchedLanes":
    """The batched world of an environment, where its first agent learns."""
    views = [agent.observation_spec for agent in env.agents]
    with enough_memory("multiprocessing.num_envs, or the size of the world"):
        world = type(env).batched_world(
            env.config.multiprocessing.lanes, views, env.config.world, env.agents[0].model.device
        )
        return BatchedLanes(env, world)


class BatchedLanes(AgentsInWorlds):
    """All lanes of an environment in one batched world. All of them are always played; if fewer are asked for, those after
    them are not reported and not remembered.
    """

    has_cheap_snapshots = True

    def __init__(self, env: Environment, world: BatchedWorld) -> None:
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
                rewards_L = let_act(self.world, agent, torch.tensor([*chosen, *others], device=self.world.device))
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
        models: list[Any] = [player.model for player in self.players]
        beat, on_turn = beat or (lambda: None), on_turn or (lambda: None)
        if (reason := why_not_whole(models)) is not None:
            if not self._has_told:
                log.info("%s is played turn by turn, not on the device as a whole: %s", self._env.name, reason)
            self._has_told = True
            return None
        for model in models:
            model.choose_on(self.world.device)
            model.start_epoch_action(epoch=epoch)
        with torch.no_grad():
            whole = self._whole_pass(models)
            self.reset(lanes)
            if whole.rehearse():  # which has played a turn or more
                self.world.reset(self._reset_draws)
            whole.begin()
            while self.turns < self._max_turns:
                on_turn()
                self._draw(self._turn_draws)
                whole.turn()
                self.turns += 1
                beat()
            on_turn()
            scores_NL = whole.finish(lanes)
            for model, rows in zip(models, whole.rows(lanes), strict=True):
                model.memory.add_episodes(**rows)
        for model in models:
            model.end_epoch_action(epoch=epoch)
        return with_social_outcomes(self._played(scores_NL), whole.reward_times(lanes))

    def _whole_pass(self, models: Sequence[Any]) -> WholePass:
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

    def snapshot(self) -> Sequence[Tensor]:
        return self.world.seen(0)

    def _scene_of(self, seen: Sequence[Tensor]) -> Scene:
        self.world.show_seen(seen, self._env.world, self._env.agents)
        return Scene.of(self._env.world, self._env.agents, self._env.world.changing)

    def rewards_so_far(self) -> Tensor:
        """On the device, which is not waited for."""
        return self._scores_NL[:, 0].clone() if self._whole is None else self._whole.scores(0, self.turns)

    def state(self) -> State:
        return State({"passes": self.passes})

    def set_state(self, state: State) -> None:
        passes = state.facts.get("passes")
        if type(passes) is not int or passes < 0:
            raise StateError(f"the number of passes of a batched world is {short(passes)}, expected a count.")
        self.passes = passes


def _room(world: BatchedWorld, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    return {name: torch.zeros((world.lanes, *shape), device=world.device) for name, shape in shapes.items()}
