"""Learning: rounds of updates, each agent from its own memory. The sequential and the parallel run both call `train_round`.

A learner process hosts some of the agents. For each it has a model of its own, built from the same configuration, the
agent's shared replay, and a place to publish what it has learned. It starts from what is published there, so a restart is
the same as a start; a round that was finished before it died is not done again but reported from there.
"""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from abreast.models import BaseModel
from abreast.processes.memory import SharedBlock
from abreast.processes.worker import Connection, Ready, Stop, comes_from_main
from abreast.replay import SharedReplayBuffer
from abreast.training.health import symptoms
from abreast.training.weights import SharedModel, publish_model

FREE = -1
"""Stands for the number of a round where there are no rounds, and for the state before the first."""
RESULTS_KEPT = 3
"""Results published with the state. In `pipelined` two rounds may be done without their answers having been heard."""


class Round(NamedTuple):
    """What a round of training came to for one agent."""

    loss: float | None
    updates: int
    """Updates of this agent since its beginning."""
    symptoms: Sequence[str] = ()
    """What is wrong with it, if anything is (health.py)."""


def train_round(model: BaseModel, updates: int, after_each: Callable[[], None] = lambda: None) -> float | None:
    """Update a model some times from its own memory; the mean loss, None if there was too little to learn from."""
    losses = []
    for _ in range(updates):
        if (loss := model.train_step()) is not None:
            losses.append(loss)
        after_each()
    return sum(losses) / len(losses) if losses else None


@contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Do arithmetic on `count` threads inside, and on as many as before afterwards.

    More than one is a choice, never a default: it changes rounding, and small products are slower for it.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- in a worker


@dataclass(frozen=True)
class Train:
    """An order: train on the rows written so far (per agent and lane) and no later ones."""

    round: int
    updates: int
    written: dict[int, list[int]]


@dataclass(frozen=True)
class Trained:
    """An answer: an agent's round is done and published."""

    agent: int
    round: int
    result: Round
    idle_s: float = 0.0
    """How long its process had waited for this order."""


@dataclass
class Job:
    """An agent's part of a learner process."""

    agent: int
    model: BaseModel | tuple[Any, ...]
    """How to build the model: (class, observation, actions, configuration, seed, lanes); or a foreign model itself."""
    memory: SharedReplayBuffer
    shared: SharedModel
    results: dict[int, Round] = field(default_factory=dict)
    """What the last rounds came to, by number."""

    @property
    def is_from_main(self) -> bool:
        """Whether the model's class was defined in the user's main script, which its process then has to import."""
        return comes_from_main(self.model if isinstance(self.model, BaseModel) else self.model[0])

    def separate(self) -> "Job":
        """The same job with handles of its own on memory and published state, as a process gets them by pickling."""
        return Job(self.agent, copy.copy(self.model), self.memory.separate(), copy.copy(self.shared))

    def publish(self, model: BaseModel, version: int, number: int, result: Round) -> None:
        """Publish what the model has learned up to a round, and what that round and those just before it came to."""
        self.results[number] = result
        self.results = dict(list(self.results.items())[-RESULTS_KEPT:])
        publish_model(model, self.shared, version, updates_done=result.updates, results=list(self.results.items()))

    def build(self) -> BaseModel:
        """The model, as it was last published, with the agent's shared replay as its memory."""
        if isinstance(self.model, BaseModel):
            model = self.model
        else:
            kind, *arguments = self.model
            model = kind(*arguments)
        model.memory = self.memory
        state = self.shared.whole()
        model.set_learned(state.facts, state.arrays)
        self.results = results_in(state.facts)
        return model


def results_in(facts: dict[str, Any]) -> dict[int, Round]:
    """The results of the last rounds, as they were published."""
    return {number: Round(*result) for number, result in facts["results"]}


@dataclass
class Host:
    """What a learner process is given."""

    number: int
    jobs: list[Job]
    block: SharedBlock
    compute_threads: int
    free: "Free | None"

    def beat(self) -> None:
        """Show that this process is alive and doing something."""
        heartbeats: NDArray[np.float64] = self.block["heartbeats"]
        heartbeats[self.number] = time.monotonic()


@dataclass(frozen=True)
class Free:
    """How to train without being told: publish every so many updates; at most so many updates per agent-step."""

    publish_interval: int
    max_updates_per_step: float | None


def learner_process(connection: Connection, host: Host) -> None:
    """The work of a learner process (or thread): train when told, or freely, until told to stop."""
    torch.set_num_threads(host.compute_threads)
    models = {job.agent: job.build() for job in host.jobs}
    host.beat()
    connection.send(Ready())
    if host.free is not None:
        _train_freely(connection, host, models, host.free)
        return
    idle_since = time.perf_counter()
    while not isinstance(order := connection.recv(), Stop):
        idle_s = time.perf_counter() - idle_since
        for job in host.jobs:
            with _blamed_on(job.agent):
                result = _obey(job, models[job.agent], order, host)
            connection.send(Trained(job.agent, order.round, result, idle_s))
        idle_since = time.perf_counter()


def _obey(job: Job, model: BaseModel, order: Train, host: Host) -> Round:
    if order.round in job.results:  # done before a restart, but the answer may have been lost
        return job.results[order.round]
    model.memory.fix_window(order.written[job.agent])
    loss = train_round(model, order.updates, after_each=host.beat)
    result = Round(loss, model.updates, symptoms(model, loss))
    model.memory.fix_window(None)
    job.publish(model, order.round + 1, order.round, result)
    host.beat()
    return result


@contextmanager
def _blamed_on(agent: int) -> Iterator[None]:
    """Say which agent's training an error comes from."""
    try:
        yield
    except Exception as error:
        error.culprit = agent  # type: ignore[attr-defined]
        raise


def _train_freely(connection: Connection, host: Host, models: dict[int, BaseModel], rule: Free) -> None:
    jobs = {job.agent: job for job in host.jobs}
    versions = {agent: job.shared.whole().version for agent, job in jobs.items()}
    unpublished: dict[int, list[float]] = {agent: [] for agent in jobs}

    def publish(agent: int) -> None:
        model, losses = models[agent], unpublished[agent]
        versions[agent] += 1
        loss = sum(losses) / len(losses) if losses else None
        jobs[agent].publish(model, versions[agent], FREE, Round(loss, model.updates, symptoms(model, loss)))
        losses.clear()

    while not connection.poll():
        idle = True
        for agent, model in models.items():
            model.memory.fix_window(None)
            steps = int(model.memory.written.sum())
            if rule.max_updates_per_step is not None and model.updates >= rule.max_updates_per_step * steps:
                continue
            with _blamed_on(agent):
                model.memory.fix_window(model.memory.written.tolist())
                loss = model.train_step()
            host.beat()
            if loss is not None:
                idle = False
                unpublished[agent].append(loss)
                if len(unpublished[agent]) >= rule.publish_interval:
                    publish(agent)
        if idle:
            connection.poll(0.005)  # nothing to learn from yet: wait for rows, or for the end
            host.beat()
    for agent in models:
        publish(agent)
