"""The first actor here, each of the others in a process or thread of its own.

An actor keeps nothing that it cannot get again: a pass starts with fresh worlds, from the state that it told after the pass
before. One that dies is replaced, its half pass is forgotten, and its successor plays the pass again.
"""

import time
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from abreast.errors import ConfigError, StateError, WorldError
from abreast.processes.backend import ChildContext, ChildSpec
from abreast.processes.memory import SharedBlock
from abreast.processes.process import _pack, comes_from_main
from abreast.processes.ring import Ring
from abreast.processes.team import Answered, Died, Lost, RestartPolicy, Team
from abreast.state import State
from abreast.training.actors.base import (
    Factory,
    Play,
    actor_state,
    build_game,
    check_kinds,
    models_of,
    set_actor_state,
    track,
)
from abreast.training.collect import collect_pass
from abreast.training.config import MPConfig
from abreast.training.learners.hosted import HostedLearners, make_backend
from abreast.training.published import Published, adopt_published
from abreast.worlds.playable import Played

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment


TELL = "tell"
"""The key of an order to tell where an actor is."""


class Passed(NamedTuple):
    """An answer: a pass is played and remembered, and where that leaves the actor."""

    played: list[Played]
    state: State


class ActorProcess:
    """The work of an actor in a process (or thread) of its own."""

    def __init__(
        self,
        context: ChildContext,
        factory: Factory,
        config: MPConfig,
        block: SharedBlock,
        published: Sequence[Published],
        compute_threads: int,
        kinds: Sequence[str],
        state: State | None,
    ) -> None:
        """`kinds` are those of the models; `state` says where to go on, if it replaces another."""
        torch.set_num_threads(compute_threads)
        self._context, self._published = context, published
        self._game = build_game(factory, context.number + 1, config)
        self._models = models_of(self._game)
        if len(self._models) != len(published):
            raise ConfigError(f"the environment's factory made {len(self._models)} agents, expected {len(published)}.")
        check_kinds(self._models, kinds)
        for agent, model in enumerate(self._models):
            model.memory.use(Ring(block.part(f"replay{agent}.")))
        track(self._game)
        if state is not None:
            set_actor_state(self._game, state)

    def obey(self, key: Hashable, order: Play | None) -> None:
        """Play a pass, or (no order) tell where this actor is, for a file."""
        if order is None:
            try:
                self._context.answer(key, actor_state(self._game))
            except StateError as error:
                self._context.answer(key, StateError(str(error)))
            return
        for agent, model in enumerate(self._models):
            adopt_published(model, self._published[agent], order.versions[agent])
            model.epsilon = order.epsilons[agent]
        played = collect_pass(
            self._game,
            order.epoch,
            order.lanes,
            order.seed,
            first_epoch=order.first_epoch,
            is_dealt=order.is_dealt,
            beat=self._context.beat,
        )
        self._context.answer(key, Passed(played, actor_state(self._game)))

    def idle(self) -> float | None:
        return None

    def close(self) -> None:
        pass


class ProcessActors:
    """Plays actor 0 in this thread while the others play elsewhere."""

    def __init__(self, experiment: "Experiment", learners: HostedLearners, states: Sequence[State] = ()) -> None:
        """`states`: where each of the other actors goes on, if the run does."""
        self._experiment, self._learners = experiment, learners
        self._config = experiment.parallel
        self._memories = [model.memory for model in models_of(experiment.game)]
        self.states: dict[int, State] = dict(enumerate(states))
        """Where each of the other actors was after its last pass, by worker."""
        self._orders: dict[int, Play] = {}
        """Passes under way, by worker; worker w is actor w + 1."""
        self._deaths = [0] * (self._config.actors - 1)
        self._written_before: list[list[int]] = []
        self._waited_s = 0.0
        policy = RestartPolicy(self._config.max_restarts, self._config.actor_timeout)
        self._team = Team(make_backend(self._config), self._spec, self._config.actors - 1, policy)
        self._team.start(wait=self._config.workers == "threads")

    def _spec(self, worker: int) -> ChildSpec:
        factory = self._experiment.factory
        published = [place.for_reader(worker + 1) for place in self._learners.published]
        threads = self._experiment.config.experiment.compute_threads
        kinds = [type(model).__qualname__ for model in models_of(self._experiment.game)]
        arguments = (factory, self._config, self._learners.block, published, threads, kinds, self.states.get(worker))
        return ChildSpec(f"actor {worker + 1}", ActorProcess, arguments, _needs_main(factory))

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        self._written_before = [memory.written.tolist() for memory in self._memories]
        lanes = self._config.num_envs
        for worker, first in enumerate(range(lanes, order.lanes, lanes)):
            theirs = order._replace(epoch=order.epoch + first, lanes=min(lanes, order.lanes - first))
            self._orders[worker] = theirs
            self._team.submit(worker, order.number, theirs)
        here = min(lanes, order.lanes)
        game = self._experiment.game
        played = collect_pass(game, order.epoch, here, order.seed, is_dealt=order.is_dealt, on_turn=on_turn)
        started = time.perf_counter()
        others: dict[int, list[Played]] = {}
        while self._orders:
            self._team.wait()
            for event in self._team.events():
                if isinstance(event, Answered):
                    others[event.worker], self.states[event.worker] = event.value
                    del self._orders[event.worker]
                    self._deaths[event.worker] = 0
                else:
                    self._handle_death(event)
        self._waited_s = time.perf_counter() - started
        return played + [each for worker in sorted(others) for each in others[worker]]

    def file_states(self) -> list[State]:
        told: dict[int, State | StateError] = {}
        for worker in range(len(self._deaths)):
            self._team.submit(worker, TELL, None)
        while len(told) < len(self._deaths):
            self._team.wait()
            for event in self._team.events():
                if isinstance(event, Answered):
                    told[event.worker] = event.value
                else:
                    self._handle_death(event)
                    if event.worker not in told:
                        self._team.submit(event.worker, TELL, None)
        states = [actor_state(self._experiment.game)]
        for _, state in sorted(told.items()):
            if isinstance(state, StateError):
                raise state
            states.append(state)
        return states

    def _handle_death(self, died: Died) -> None:
        """Have the pass played again, from rows as they were before it."""
        self._deaths[died.worker] += 1
        if isinstance(died, Lost) or self._deaths[died.worker] > self._config.max_restarts:
            raise died.given_up(self._config.max_restarts)
        if died.worker in self._orders:
            self._forget_half_a_pass(died.worker)
            self._team.submit(died.worker, self._orders[died.worker].number, self._orders[died.worker])

    def _forget_half_a_pass(self, worker: int) -> None:
        lanes = self._config.num_envs
        for memory, before in zip(self._memories, self._written_before, strict=True):
            for lane in range((worker + 1) * lanes, (worker + 2) * lanes):
                if self._learners.keeps_to_windows:
                    memory.rewind(lane, before[lane])
                else:  # learners may be looking at these rows
                    memory.cut(lane)

    def health(self) -> dict[str, Any]:
        """Restarts of actors so far, and how long the first waited for the others."""
        return {"actor_restarts": self._team.restarts, "waited_for_actors_s": self._waited_s}

    @property
    def pids(self) -> list[int]:
        """Process ids of the other actors."""
        return list(self._team.pids.values())

    def close(self) -> None:
        if self._orders:
            self._team.kill()
            for worker in self._orders:
                self._forget_half_a_pass(worker)
        else:
            self._team.stop()


def check_factory(experiment: "Experiment", in_processes: bool) -> None:
    """Refuse, before anything starts, what other actors, perhaps in processes of their own, could not build."""
    count = experiment.config.multiprocessing.actors
    if count > 1 and (reason := why_not_built(experiment, in_processes)) is not None:
        raise ConfigError(f"multiprocessing.num_actors is {count}, but {reason}.")


def why_not_built(experiment: "Experiment", in_processes: bool) -> str | None:
    """Why other actors cannot build the game, perhaps in processes of their own; None if they can."""
    try:
        factory = experiment.factory
    except WorldError as error:
        return str(error).rstrip(".")
    if factory is None:
        return (
            f"{experiment.name} has no factory to build it for other actors: give Experiment a factory, or set num_actors to"
            " 1"
        )
    try:
        if in_processes:
            _pack(vars(factory) or {"factory": factory})
    except Exception as error:
        return (
            f"{experiment.name} cannot be built in another process: {error}. Set env.factory to a function that builds it"
            " there, or num_actors to 1: the first actor plays here, and nothing is pickled"
        )
    return None


def _needs_main(factory: Any) -> bool:
    """Whether the factory, or what a `Blueprint` is made of, comes from the user's main script."""
    return comes_from_main(factory, getattr(factory, "kind", None), getattr(factory, "world", None))
