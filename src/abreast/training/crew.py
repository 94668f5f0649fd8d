"""The actors of a run. The first plays here, with the user's own environment; others are built from its factory.

    here        ┌ actor 0: lanes 0 … L-1 ┐  the agents that learn belong to this one
    elsewhere   ┌ actor 1: lanes L … 2L-1┐  agents of its own, which choose with the weights they are told to read
                …

Every actor has worlds, bodies and random streams of its own, so it does not matter where it plays: the sequential run
plays them one after the other (`Crew`), a parallel run all at once (`HostedCrew`), with the same result.

An actor in a process keeps nothing that it cannot get again: a pass starts with fresh worlds, from random streams that it
told after the pass before. One that dies is replaced, its half pass is forgotten, and the other plays the pass again.
"""

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import ConfigError, WorkerError
from abreast.models import BaseModel
from abreast.processes.memory import SharedBlock
from abreast.processes.supervisor import Death, Supervisor
from abreast.processes.worker import Child, Connection, Ready, Stop, comes_from_main
from abreast.replay import SharedReplayBuffer
from abreast.training.actor import Played, collect_pass
from abreast.training.config import MPConfig
from abreast.training.learner import compute_threads
from abreast.training.weights import SharedModel

if TYPE_CHECKING:
    from abreast.training.environment import Environment


class Crew:
    """All actors in this thread, one after the other."""

    def __init__(self, env: "Environment") -> None:
        self._env = env
        self._others = [_build_actor(env.factory, number) for number in _others(env)]

    def play(self, epoch: int, count: int, rounds: int, before_turn: Callable[[], None] | None) -> list[Played]:
        played: list[Played] = []
        for actor in [self._env, *self._others]:
            lanes = actor.lanes[: count - len(played)]
            if not lanes:
                break
            if actor is not self._env:
                before_turn = None
                for own, agent in zip(self._env.agents, actor.agents, strict=True):
                    _follow(agent.model, own.model)
            played += collect_pass(lanes, epoch + len(played), before_turn)
        return played

    def health(self) -> dict[str, Any]:
        return {}


def _others(env: "Environment") -> range:
    return range(1, env.config.multiprocessing.num_actors)


def _build_actor(factory: "Callable[[], Environment]", number: int) -> "Environment":
    env = factory()
    env.become_actor(number)
    return env


def _follow(model: BaseModel, leader: BaseModel) -> None:
    """Choose with what another model, in this process, has learned, and remember where it does."""
    facts, (weights, *_) = leader.learned()
    model.adopt(facts, weights)
    model.memory, model.epsilon = leader.memory, leader.epsilon


# ---- in processes


@dataclass(frozen=True)
class Play:
    """An order: play a pass."""

    number: int
    epoch: int
    count: int
    version: int | None
    """Which weights to choose with; None: the newest."""
    epsilons: list[float]


@dataclass(frozen=True)
class Passed:
    """An answer: a pass is played and remembered, and where that leaves the actor's random streams."""

    number: int
    played: list[Played]
    streams: dict[str, Any]


@dataclass
class ActorProcess:
    """An actor in a process (or thread) of its own; `run` is its work."""

    number: int
    factory: "Callable[[], Environment]"
    memories: Sequence[SharedReplayBuffer]
    shared: Sequence[SharedModel]
    block: SharedBlock
    compute_threads: int
    streams: dict[str, Any] | None
    """Where to go on, if it replaces another."""

    def run(self, connection: Connection) -> None:
        """Build the environment, then play when told, until told to stop."""
        with compute_threads(self.compute_threads):
            env = _build_actor(self.factory, self.number)
            models: list[BaseModel] = [agent.model for agent in env.agents]
            if len(models) != len(self.memories):
                raise ConfigError(
                    f"the environment's factory made {len(models)} agents, expected {len(self.memories)}."
                )
            for model, memory in zip(models, self.memories, strict=True):
                model.memory = memory
            if self.streams is not None:
                _set_streams(env, self.streams)
            self._beat()
            connection.send(Ready())
            while not isinstance(order := connection.recv(), Stop):
                for model, shared, epsilon in zip(models, self.shared, order.epsilons, strict=True):
                    _, facts, weights = shared.weights(order.version)
                    model.adopt(facts, weights)
                    model.epsilon = epsilon
                played = collect_pass(env.lanes[: order.count], order.epoch, self._beat)
                connection.send(Passed(order.number, played, _streams(env)))

    def _beat(self) -> None:
        heartbeats: NDArray[np.float64] = self.block["actor_heartbeats"]
        heartbeats[self.number - 1] = time.monotonic()


def _streams(env: "Environment") -> dict[str, Any]:
    return {
        "worlds": [lane.world.rng.bit_generator.state for lane in env.lanes],
        "choosing": [agent.model.choosing() for agent in env.agents],
    }


def _set_streams(env: "Environment", streams: dict[str, Any]) -> None:
    for lane, state in zip(env.lanes, streams["worlds"], strict=True):
        lane.world.rng.bit_generator.state = state
    for agent, state in zip(env.agents, streams["choosing"], strict=True):
        agent.model.set_choosing(state)


class HostedCrew:
    """The first actor here, each of the others in a process."""

    def __init__(
        self,
        env: "Environment",
        config: MPConfig,
        memories: Sequence[SharedReplayBuffer],
        shared: Sequence[SharedModel],
        block: SharedBlock,
    ) -> None:
        self._env, self._config, self._shared, self._block = env, config, shared, block
        self._models: list[BaseModel] = [agent.model for agent in env.agents]
        self._memories = memories
        self._streams: dict[int, dict[str, Any]] = {}
        self._orders: dict[int, Play] = {}
        self._before = [memory.written.tolist() for memory in self._memories]
        self._passes = 0
        self._waited_s = 0.0
        self._given_up: WorkerError | None = None
        self._supervisor = Supervisor(
            self._make_actor,
            block["actor_heartbeats"],
            timeout=config.actor_timeout,
            max_restarts=config.max_restarts,
            on_restart=self._play_again,
            on_give_up=self._give_up,
        )
        self._supervisor.start()

    def play(self, epoch: int, count: int, rounds: int, before_turn: Callable[[], None] | None) -> list[Played]:
        self._before = [memory.written.tolist() for memory in self._memories]
        per_actor = self._config.num_envs
        version = None if self._config.schedule == "free" else rounds
        epsilons = [model.epsilon for model in self._models]
        for number in range(1, -(-count // per_actor)):
            first = number * per_actor
            order = Play(self._passes, epoch + first, min(per_actor, count - first), version, epsilons)
            self._orders[number] = order
            self._supervisor.send(number - 1, order)
        played = collect_pass(self._env.lanes[:count], epoch, before_turn)
        started = time.perf_counter()
        answers: dict[int, Passed] = {}
        while self._orders:
            for worker, answer in self._supervisor.receive(wait_s=3600.0):
                if answer.number == self._passes:  # the actor may have died right after an answer, and played twice
                    answers[worker] = answer
                    self._streams[worker + 1] = answer.streams
                    self._orders.pop(worker + 1, None)
                self._supervisor.rest(worker)
            if self._given_up is not None:
                raise self._given_up
        self._waited_s = time.perf_counter() - started
        self._passes += 1
        return played + [epoch for worker in sorted(answers) for epoch in answers[worker].played]

    def health(self) -> dict[str, Any]:
        """How the actors are: restarts of their processes, and how long the first waited for the others."""
        return {"actor_restarts": sum(self._supervisor.restarts), "waited_for_actors_s": self._waited_s}

    def close(self) -> None:
        """End the processes; what an unfinished pass wrote is forgotten."""
        if self._orders:
            self._supervisor.kill()
            for number in self._orders:
                self._forget_half_a_pass(number)
        self._supervisor.stop(Stop())

    def _make_actor(self, worker: int) -> Child:
        number = worker + 1
        memories = [memory.separate() for memory in self._memories]
        shared = [place.for_reader(number) for place in self._shared]
        threads = self._env.config.experiment.compute_threads
        factory, streams = self._env.factory, self._streams.get(number)
        seat = ActorProcess(number, factory, memories, shared, self._block, threads, streams)
        as_thread = self._config.workers == "threads"
        return Child(f"actor {number}", _run_actor, [seat], as_thread=as_thread, needs_main=_needs_main(factory))

    def _play_again(self, worker: int, death: Death) -> None:
        if worker + 1 in self._orders:
            self._forget_half_a_pass(worker + 1)
            self._supervisor.send(worker, self._orders[worker + 1])

    def _give_up(self, worker: int, error: WorkerError, culprit: int | None) -> bool:
        self._given_up = error
        return False

    def _forget_half_a_pass(self, number: int) -> None:
        for memory, before in zip(self._memories, self._before, strict=True):
            for lane in range(number * self._config.num_envs, (number + 1) * self._config.num_envs):
                if self._config.schedule == "free":  # learners may be looking at these rows
                    memory.cut(lane)
                else:
                    memory.rewind(lane, before[lane])


def _run_actor(connection: Connection, seat: ActorProcess) -> None:
    seat.run(connection)


def check_factory(env: "Environment") -> None:
    """Refuse, before anything starts, an environment that actors in other processes could not build."""
    try:
        pickle.dumps(env.factory)
    except Exception as error:
        raise ConfigError(
            f"multiprocessing.num_actors is {env.config.multiprocessing.num_actors}, but {type(env).__name__} cannot be"
            f" built in another process: {error}. Set env.factory to a function of a module that builds it, or num_actors"
            " to 1: the first actor plays here, and nothing is pickled."
        ) from error


def _needs_main(factory: Any) -> bool:
    """Whether the factory, or what a `Blueprint` is made of, comes from the user's main script."""
    return comes_from_main(factory, getattr(factory, "kind", None), getattr(factory, "world", None))
