"""A learner in a worker: some agents, each with a model of its own, its shared replay, and a place to publish its state.

It starts from what is published there, so a restart is the same as a start; a round that was finished before a death is not
done again but reported from there.
"""

import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from abreast.models import BaseModel
from abreast.models.figures import mean_figures
from abreast.models.model_state import Recipe
from abreast.processes.backend import ChildContext, Work
from abreast.processes.spans import span
from abreast.replay import SharedReplayBuffer
from abreast.state import State, copied
from abreast.training.learners.base import RoundResult, Trainer, update
from abreast.training.published import Published, publish_model, restore_published

RESULTS_KEPT = 3
"""Results published with the state. In `pipelined` two rounds may be done without their answers having been received."""
IDLE_S = 0.005
"""How long a free learner waits for rows when there is nothing to learn from."""


@dataclass
class Job:
    """An agent's part of a learner's work."""

    agent: int
    recipe: Recipe
    memory: SharedReplayBuffer
    published: Published
    seed: int
    """Of the experiment."""
    results: dict[int, RoundResult] = field(default_factory=dict)
    """Results of the last rounds, by number."""
    version: int = 0
    """What was published last, by this worker or the one before it."""

    def build(self) -> BaseModel:
        """The model, as it was last published, with the agent's shared replay as its memory."""
        model = self.recipe.build(self.memory)
        model.own_attributes.guard()
        self.version, facts = restore_published(model, self.published)
        self.results = results_in(facts)
        return model

    def publish(self, model: BaseModel, version: int, number: int, result: RoundResult) -> None:
        """Publish what the model has learned up to a round, with the results of that round and those just before it."""
        self.results[number] = result
        self.results = dict(list(self.results.items())[-RESULTS_KEPT:])
        with span("publish"):
            publish_model(model, self.published, version, updates=result.updates, results=list(self.results.items()))
        self.version = version


def results_in(facts: State) -> dict[int, RoundResult]:
    """The results of the last rounds, as they were published."""
    return {number: RoundResult(*result) for number, result in facts.facts["results"]}


class Train(NamedTuple):
    """An order: train on the rows written so far (per agent and lane) and no later ones."""

    updates: int
    written: Sequence[list[int]]
    progress: float
    """Share of the run that is used."""
    acting: Mapping[int, State]
    """Of users' models: what choosing has changed by now."""


class Trained(NamedTuple):
    """An answer: an agent's round is done and published."""

    agent: int
    result: RoundResult
    idle_s: float
    """How long its worker had waited for the order."""


class RoundWork(Work):
    """Trains a round when it is ordered; the number of the round is the key of the order."""

    def __init__(self, context: ChildContext, jobs: list[Job]) -> None:
        self._context, self._jobs = context, jobs
        self._models = {job.agent: job.build() for job in jobs}
        self._trainer = Trainer(self._models, jobs[0].seed)
        by_agent = {job.agent: job for job in jobs}
        self._groups = [[by_agent[agent] for agent in group] for group in self._trainer.groups]
        self._idle_since = time.perf_counter()

    def obey(self, number: Hashable, order: Train) -> None:
        assert isinstance(number, int)
        idle_s = time.perf_counter() - self._idle_since
        for jobs in self._groups:
            if any(
                number not in job.results for job in jobs
            ):  # else done before a restart, but the answers may be lost
                self._train(jobs, number, order)
            self._context.beat()  # what ends this worker from now on is not this agent's fault
            for job in jobs:
                is_last = jobs is self._groups[-1] and job is jobs[-1]
                self._context.answer(number, Trained(job.agent, job.results[number], idle_s), last=is_last)
        self._idle_since = time.perf_counter()

    def _train(self, jobs: Sequence[Job], number: int, order: Train) -> None:
        """Train a group, and publish what each agent has learned.

        An agent that had published before a death is trained again, for nothing: how the others are rounded may depend on
        how many there are.
        """
        done = {job.agent: copied(self._models[job.agent].learning_state()) for job in jobs if number in job.results}
        with ExitStack() as windows:
            for job in jobs:
                model = self._models[job.agent]
                if job.agent in order.acting:
                    model.set_acting_state(order.acting[job.agent])
                windows.enter_context(model.memory.window(order.written[job.agent]))
            results = self._trainer.train(
                [job.agent for job in jobs], order.updates, self._context.beat, order.progress
            )
        for job in jobs:
            if job.agent in done:
                self._models[job.agent].set_learning_state(done[job.agent])
            else:
                self._context.beat()
                job.publish(self._models[job.agent], number + 1, number, results[job.agent])


class TrainFreely(NamedTuple):
    """An order: train without being told, and publish every so many updates; at most so many updates per agent-step, times
    the agent's weight.
    """

    publish_interval: int
    max_updates_per_step: float | None
    head_start: Mapping[int, float]
    """Updates that agents of other runs brought with them: they do not count."""
    weights: Mapping[int, float]
    """Of agents whose weight is not 1."""
    progress: float = 0.0
    """Share of the run that is used."""


class Acting(NamedTuple):
    """An order: this is what choosing has changed in users' models."""

    states: Mapping[int, State]


class FreeWork:
    """Trains whenever there is something to learn from, first the agent that is furthest behind: the one with the fewest
    updates for its steps and its weight. Its one order stays outstanding; every publish answers it.
    """

    def __init__(self, context: ChildContext, jobs: list[Job]) -> None:
        self._context = context
        self._jobs = {job.agent: job for job in jobs}
        self._models = {job.agent: job.build() for job in jobs}
        self._done: dict[int, list[dict[str, float]]] = {agent: [] for agent in self._jobs}
        """Figures of the updates since the last publish."""
        self._key: Hashable = None
        self._rule: TrainFreely | None = None

    def obey(self, key: Hashable, order: TrainFreely | Acting) -> None:
        if isinstance(order, TrainFreely):
            self._key, self._rule = key, order
            return
        for agent, state in order.states.items():
            if agent in self._models:
                self._models[agent].set_acting_state(state)
        self._context.answer(key, None)

    def idle(self) -> float | None:
        if self._rule is None:
            return None
        ratios = self._ratios(self._rule)
        learned = any(self._train(agent, self._rule) for agent in sorted(ratios, key=ratios.__getitem__))
        self._context.beat()
        return 0.0 if learned else IDLE_S

    def _ratios(self, rule: TrainFreely) -> dict[int, float]:
        """Updates per agent-step, relative to its weight, of each agent that may be updated."""
        most, ratios = rule.max_updates_per_step, {}
        for agent, model in self._models.items():
            steps = int(model.memory.written.sum()) * rule.weights.get(agent, 1.0)
            updates = model.updates - rule.head_start.get(agent, 0.0)
            if steps and (most is None or updates < most * steps):
                ratios[agent] = updates / steps
        return ratios

    def _train(self, agent: int, rule: TrainFreely) -> bool:
        """One update, if there is something to learn from."""
        self._context.beat(agent)
        self._models[agent].set_progress(rule.progress)
        figures = update(self._models[agent])
        if figures is None:
            return False
        self._done[agent].append(figures)
        if len(self._done[agent]) >= rule.publish_interval:
            self._publish(agent)
        return True

    def _publish(self, agent: int) -> None:
        model, job = self._models[agent], self._jobs[agent]
        done = self._done[agent]
        result = RoundResult.of(model, mean_figures(done) if done else None)
        model.own_attributes.check_learning()
        self._context.beat(agent)
        job.publish(model, job.version + 1, job.version, result)
        self._context.answer(self._key, agent, last=False)
        self._done[agent].clear()

    def close(self) -> None:
        for agent in self._models:
            self._publish(agent)


def learner_process(context: ChildContext, jobs: list[Job], compute_threads: int, freely: bool) -> Any:
    """The work of a learner process (or thread)."""
    torch.set_num_threads(compute_threads)
    return (FreeWork if freely else RoundWork)(context, jobs)
