"""The actor–learner system: the actor plays here, learners train in worker processes, shared memory lies between.

     this process                       one block of shared memory                 learner processes
    ┌───────────────────────┐ rows   ┌────────────────────────────┐ batches  ┌──────────────────────────────┐
    │ actor: worlds, bodies │───────▶│ agent 0: replay, published │─────────▶│ host 0: models of agents 0, 2│
    │ and, per agent, the   │        │ agent 1: replay, published │          │ host 1: models of agents 1, 3│
    │ model that chooses    │◀───────│ …                          │◀─────────│ …                            │
    └───────┬───────────────┘ weights└────────────────────────────┘ learned  └──────────────▲───────────────┘
            └─────────── orders (Train, Stop) and answers (Trained), by pipe ───────────────┘

Worlds and agents stay here and need never be pickled. A learner has a model of its own, built from the same configuration,
and owns everything that learning changes; the actor owns everything that choosing changes. What a learner knows is
published whole after every round, so one that dies is replaced by another that goes on from there, with the same result.
"""

import copy
import logging
import pickle
import time
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from abreast.agents import Agent
from abreast.errors import ConfigError, WorkerError
from abreast.models import BaseModel
from abreast.models.base import PlainObservation
from abreast.models.network_model import NetworkModel
from abreast.processes.cores import cores
from abreast.processes.memory import SharedBlock
from abreast.processes.supervisor import Death, Supervisor
from abreast.processes.worker import Child, Stop, start_server
from abreast.replay import Buffer, SharedReplayBuffer
from abreast.training.config import MPConfig
from abreast.training.crew import Crew, HostedCrew, check_factory
from abreast.training.learner import FREE, Free, Host, Job, Round, Train, Trained, learner_process, results_in
from abreast.training.record import EpochRecord, RunRecord
from abreast.training.schedule import LAGS, Actors, InlineLearners, Learners, play_and_learn
from abreast.training.weights import create_shared_models

if TYPE_CHECKING:
    from abreast.training.environment import Environment

log = logging.getLogger("abreast")

STALE_S = 5.0
"""Seconds after which weights that have not moved, in the schedule free, are worth a warning."""


class MARLMultiprocessingSystem:
    """Runs an environment's experiment with learners in workers. `start`, `run`, `stop`; or use it as a context."""

    def __init__(self, env: "Environment", agents: Sequence[Agent], config: object) -> None:
        self.env, self.agents = env, agents
        self.config = MPConfig.from_experiment_config(config)
        self._learners: Learners | None = None
        self._actors: Actors | None = None
        self._recipes = [] if self.config.workers == "inline" else [_recipe(i, a.model) for i, a in enumerate(agents)]
        workers = self.config.num_workers
        if workers is not None and workers > len(agents):
            raise ConfigError(
                f"multiprocessing.num_workers is {workers}, but there are {len(agents)} agents: each learner lives in one"
                f" worker, so the others would idle. Lower num_workers to {len(agents)} or less."
            )

        if self.config.num_actors > 1 and self.config.workers == "processes":
            check_factory(env)

    def start(self) -> None:
        """Make the shared memory and start learners and actors; returns when all are ready."""
        slack = 2 * self.env.config.experiment.max_turns  # rows of the passes played while a round looks at its window
        if self.config.workers == "inline":
            self._learners = PrivateLearners(self.agents, slack)
            self._actors = Crew(self.env)
            return
        threads = self.env.config.experiment.compute_threads
        learners = HostedLearners(self.agents, self._recipes, self.config, slack, threads)
        self._learners = learners
        try:
            self._actors = Crew(self.env) if self.config.num_actors == 1 else learners.make_crew(self.env)
        except BaseException:
            learners.close()
            raise

    def run(self, record: RunRecord | None = None) -> list[EpochRecord]:
        """Play and learn for `experiment.epochs` epochs; returns what each came to. Without a `record`, writes nothing."""
        assert self._learners is not None and self._actors is not None, "start comes before run"
        quietly = RunRecord(self.env, animate=False, logging=False, logger=None, output_dir=None)
        with nullcontext(record) if record is not None else quietly as kept:
            play_and_learn(self.env, self._actors, self._learners, LAGS[self.config.schedule], kept)
        return kept.epochs

    def stop(self) -> None:
        """End actors and learners in order; the agents hold what was learned."""
        if isinstance(self._actors, HostedCrew):
            self._actors.close()
        if isinstance(self._learners, PrivateLearners | HostedLearners):
            self._learners.close()

    @property
    def given_up(self) -> dict[int, Exception]:
        """Agents whose learner failed once too often, and why."""
        return self._learners.given_up if isinstance(self._learners, HostedLearners) else {}

    def __enter__(self) -> "MARLMultiprocessingSystem":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class PrivateLearners(InlineLearners):
    """Learners in this thread, for any schedule: memories with slack while they are at work."""

    def __init__(self, agents: Sequence[Agent], slack: int) -> None:
        super().__init__([agent.model for agent in agents])
        self._own = [model.memory for model in self._models]
        for model in self._models:
            model.memory = model.memory.empty_copy(slack=slack).take_over(model.memory)

    def close(self) -> None:
        """Give the agents their own memories back, with what is in these."""
        for model, memory in zip(self._models, self._own, strict=True):
            model.memory = memory.take_over(model.memory)


class HostedLearners:
    """Learners in worker processes or threads."""

    def __init__(
        self, agents: Sequence[Agent], recipes: Sequence[Any], config: MPConfig, slack: int, compute_threads: int
    ) -> None:
        self._config, self._compute_threads = config, compute_threads
        self._models: list[BaseModel] = [agent.model for agent in agents]
        self.given_up: dict[int, Exception] = {}
        self._hosted = _spread_over(len(agents), config.num_workers or _sensible_workers(self._models))
        self._shared = create_shared_models(self._models, config.mode, readers=config.num_actors)
        self._block = self._make_block(slack)
        self._own = [model.memory for model in self._models]
        self._jobs = []
        for index, (model, shared, recipe) in enumerate(zip(self._models, self._shared, recipes, strict=True)):
            shared.attach(self._block)
            memory = SharedReplayBuffer.like(model.memory, slack, self._block, f"replay{index}.")
            job = Job(index, recipe, memory, shared)
            job.publish(model, 0, FREE, Round(None, model.updates))
            self._jobs.append(job)
            model.memory = memory
        self._orders: list[deque[Train]] = [deque() for _ in self._hosted]
        self._answers: dict[int, dict[int, Round]] = {}
        self._next = 0
        self._last = [Round(None, model.updates) for model in self._models]
        self._versions, self._lags = [0] * len(agents), [0] * len(agents)
        self._moved = [time.monotonic()] * len(agents)
        self._idle_s = [0.0] * len(agents)
        start_server(["abreast.training"])
        self._supervisor = Supervisor(
            self._make_host,
            self._block["heartbeats"],
            timeout=config.learner_timeout,
            max_restarts=config.max_restarts,
            on_restart=self._tell_again,
            on_give_up=self._give_up,
        )
        try:
            self._supervisor.start()
        except BaseException:
            self._give_back()
            raise
        if config.schedule == "free":
            for number in range(len(self._hosted)):
                self._supervisor.watch(number)

    def make_crew(self, env: "Environment") -> HostedCrew:
        """Actors in processes of their own, who write and read the same shared memory."""
        memories = [job.memory for job in self._jobs]
        return HostedCrew(env, self._config, memories, self._shared, self._block)

    # ---- rounds

    def submit(self, number: int, updates: int) -> None:
        if self._config.schedule == "free":
            return
        written = [model.memory.written.tolist() for model in self._models]
        for host, agents in enumerate(self._hosted):
            if agents:
                order = Train(number, updates, {agent: written[agent] for agent in agents})
                self._orders[host].append(order)
                self._supervisor.send(host, order)

    def finish(self, number: int) -> list[Round]:
        if self._config.schedule == "free":
            return self._newest()
        self._next = number
        answers = self._answers.setdefault(number, {})
        while any(agent not in answers for agents in self._hosted for agent in agents):
            for host, message in self._supervisor.receive(wait_s=3600.0):
                self._note(host, message)
            if not any(self._hosted):
                raise WorkerError("every learner has been given up.") from next(iter(self.given_up.values()))
        for agent, result in self._answers.pop(number).items():
            self._last[agent] = result
            if agent not in self.given_up:
                self._lags[agent] = self._shared[agent].version - number - 1
                _, facts, weights = self._shared[agent].weights(number + 1)
                self._models[agent].adopt(facts, weights)
        self._next = number + 1
        return list(self._last)

    def _newest(self) -> list[Round]:
        for host, message in self._supervisor.receive(wait_s=0.0):
            self._note(host, message)
        for agent, shared in enumerate(self._shared):
            version, facts, weights = shared.weights()
            self._models[agent].adopt(facts, weights)
            self._lags[agent], self._versions[agent] = version - self._versions[agent], version
            self._last[agent] = self._checked(agent, results_in(facts)[FREE])
        return list(self._last)

    def _checked(self, agent: int, result: Round) -> Round:
        """The result, with a symptom if the weights have not moved for long although there is enough to learn from."""
        now, model = time.monotonic(), self._models[agent]
        can_learn = isinstance(model, NetworkModel) and len(model.memory) >= model.config.batch_size
        if self._lags[agent] or agent in self.given_up or not can_learn:
            self._moved[agent] = now
        if now - self._moved[agent] < STALE_S:
            return result
        stale = f"its weights have stayed at version {self._versions[agent]} for {STALE_S:g} s: is its learner at work?"
        return result._replace(symptoms=[*result.symptoms, stale])

    def health(self) -> dict[str, Any]:
        """How the learners are: restarts of their processes, by how many versions each agent's play was behind, and how
        long each learner had waited for something to do.
        """
        return {
            "restarts": sum(self._supervisor.restarts),
            "lag_per_agent": list(self._lags),
            "learner_idle_s": list(self._idle_s),
        }

    def _note(self, host: int, message: Any) -> None:
        assert isinstance(message, Trained), message
        self._idle_s[message.agent] = message.idle_s
        if message.round >= self._next:  # an answer heard twice, before and after a restart, may come late
            self._answers.setdefault(message.round, {})[message.agent] = message.result
        orders = self._orders[host]
        while orders and all(agent in self._answers.get(orders[0].round, {}) for agent in self._hosted[host]):
            orders.popleft()
        if not orders:
            self._supervisor.rest(host)

    # ---- workers

    def _make_host(self, number: int) -> Child:
        free = None
        if self._config.schedule == "free":
            free = Free(self._config.publish_interval, self._config.max_updates_per_step)
        jobs = [self._jobs[agent].separate() for agent in self._hosted[number]]
        host = Host(number, jobs, self._block, self._compute_threads, free)
        who = ", ".join(str(agent) for agent in self._hosted[number])
        needs_main = any(job.is_from_main for job in jobs)
        as_thread = self._config.workers == "threads"
        return Child(f"learner of agent {who}", learner_process, [host], as_thread=as_thread, needs_main=needs_main)

    def _tell_again(self, number: int, death: Death) -> None:
        for agent in self._hosted[number]:
            facts = self._shared[agent].facts()
            log.info("learner of agent %d goes on from update %s", agent, f"{facts['updates_done']:,}")
        for order in self._orders[number]:
            self._supervisor.send(number, order)

    def _give_up(self, number: int, error: WorkerError, culprit: int | None) -> bool:
        """Stop training the culprit, or the whole host if nobody in particular is to blame; the others go on."""
        agents = self._hosted[number]
        gone = [culprit] if culprit in agents else list(agents)
        self.given_up.update(dict.fromkeys(gone, error))
        self._hosted[number] = [agent for agent in agents if agent not in gone]
        return bool(self._hosted[number])

    # ---- the end

    def close(self) -> None:
        """End the workers; the agents take over what was learned and remembered."""
        self._supervisor.stop(Stop())
        for model, shared in zip(self._models, self._shared, strict=True):
            state = shared.whole()
            model.set_learned(state.facts, state.arrays)
        self._give_back()

    def _give_back(self) -> None:
        for model, memory in zip(self._models, self._own, strict=True):
            model.memory = memory.take_over(model.memory)

    def _make_block(self, slack: int) -> SharedBlock:
        layout: dict[str, Any] = {
            "heartbeats": ((len(self._hosted),), np.float64),
            "actor_heartbeats": ((self._config.num_actors - 1,), np.float64),
        }
        for index, (model, shared) in enumerate(zip(self._models, self._shared, strict=True)):
            layout |= shared.layout()
            layout |= SharedReplayBuffer.layout(model.memory, slack, f"replay{index}.")
        return SharedBlock(layout)


def _sensible_workers(models: Sequence[BaseModel]) -> int:
    """One for each agent, but not more than there are cores, nor than two for each GPU: more get in each other's way.

    (One H200, 5 agents, times the sequential run: 1 worker 1.1, 2 workers 1.4, 5 workers 0.9.)
    """
    gpus = {model.device for model in models if isinstance(model, NetworkModel) and model.device != "cpu"}
    return min(len(models), cores(), 2 * len(gpus) or len(models))


def _spread_over(agents: int, hosts: int) -> list[list[int]]:
    """Which agents each host has: as even as can be."""
    return [list(range(host, agents, hosts)) for host in range(hosts)]


def _recipe(index: int, model: BaseModel) -> BaseModel | tuple[Any, ...]:
    """How a learner process gets this model: by building it from its configuration, or, if it is foreign, as a pickle."""
    if isinstance(model, NetworkModel):
        seen = model.observation
        plain = PlainObservation(tuple(seen.input_size), np.dtype(seen.dtype), seen.scale)
        return (
            type(model),
            plain,
            model.n_actions,
            model.config,
            np.random.SeedSequence(0),
            model.memory.lanes,
            model.device,
        )
    without_memory = copy.copy(model)
    without_memory.memory = None  # type: ignore[assignment]
    try:
        if not isinstance(model.memory, Buffer):
            raise TypeError(f"its memory is a {type(model.memory).__name__}, not a Buffer")
        pickle.dumps(without_memory)
    except Exception as error:
        raise ConfigError(
            f"the model of agent {index} ({type(model).__name__}) cannot be sent to a learner process: {error}."
            " Make it picklable, or set multiprocessing.workers to inline."
        ) from error
    return without_memory
