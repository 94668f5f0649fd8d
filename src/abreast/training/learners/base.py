"""What a loop asks of its learners, and a round of training."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np

from abreast.display import HasTeam
from abreast.errors import WorkerError, log
from abreast.models import BaseModel
from abreast.models.figures import mean_figures, numbers_of
from abreast.models.network_model import NetworkModel
from abreast.models.stacked import LearnerStack, make_stack, stacks_of
from abreast.processes.backend import NOWHERE
from abreast.processes.spans import span
from abreast.state import State
from abreast.streams import seeded_globals
from abreast.training.run.health import symptoms

LEARNING = 3
"""The part of a seed's spawn key that stands for learning."""


class RoundResult(NamedTuple):
    """The result of a round of training for one agent."""

    figures: Mapping[str, float]
    """What its updates have reported, by name, in their mean; empty if nothing was learned."""
    updates: int
    """Updates of this agent since its beginning."""
    symptoms: Sequence[str] = ()
    """What is wrong with it, if anything is (run/health.py)."""

    @classmethod
    def of(cls, model: BaseModel, figures: Mapping[str, float] | None) -> "RoundResult":
        """Of a model that has just been updated, with these figures in the mean; None: there was nothing to learn from."""
        return cls(figures or {}, model.updates, symptoms(model, figures))


class Learners(HasTeam, Protocol):
    """They train, wherever they live."""

    given_up: Mapping[int, WorkerError]
    """Agents that are not trained any more, and why."""
    rounds: int
    """How many are finished: the number of the next."""

    def acting_versions(self) -> list[int | None]:
        """Which published version of each agent a pass that begins now plays with; None: the newest."""

    def renew(self, agent: int) -> None:
        """An agent that does not learn has other weights, with which actors elsewhere choose from the next pass on."""

    def submit(self, number: int, updates: int, written: Sequence[list[int]], progress: float) -> None:
        """Begin round `number`: so many updates of each agent, from the rows written so far (per agent and lane), with so
        much of the run behind it (`BaseModel.set_progress`).
        """

    def finish(self, number: int) -> list[RoundResult]:
        """Wait for a round; from then on the models choose with what it learned."""

    def learning_states(self) -> list[State]:
        """What each agent knew when the last finished round was done, between two passes; valid until the next call."""

    def health(self) -> dict[str, Any]:
        """How they are, for the record."""

    def pause(self, is_paused: bool) -> None:
        """Train nothing from now on but rounds that have begun; or go on."""

    def close(self) -> None:
        """End; the models then hold what was learned and remembered."""


class Trainer:
    """Trains models in rounds: those that are alike in one stacked update (models/stacked/), the others one by one."""

    def __init__(self, models: Mapping[int, BaseModel], seed: int) -> None:
        """`seed`: of the experiment."""
        self._models, self._seed = models, seed
        self._stacks = {agents[0]: agents for agents in stacks_of(models)}
        self._learners: dict[int, LearnerStack] = {}
        stacked = {agent: agents for agents in self._stacks.values() for agent in agents}
        self.groups = list(dict.fromkeys(tuple(stacked.get(agent, (agent,))) for agent in models))
        """Agents that are trained together, in the order of their first ones."""

    def train(
        self,
        group: Sequence[int],
        updates: int,
        beat: Callable[[int], None] = lambda agent: None,
        progress: float = 0.0,
    ) -> dict[int, RoundResult]:
        """Update each model of one of the `groups` some times from its own memory.

        `beat` is called before and after each update: with the agent, or NOWHERE where it is nobody's in particular.
        """
        models = [self._models[agent] for agent in group]
        for model in models:
            model.own_attributes.look()
            model.set_progress(progress)
        figures: Sequence[Mapping[str, float] | None] | None = None
        with span("train"):
            if group[0] in self._stacks:
                figures = self._train_stacked(group, updates, beat)
            if figures is None:
                figures = [self._train_alone(agent, updates, beat) for agent in group]
        for model in models:
            model.own_attributes.check_learning()
        return {agent: RoundResult.of(self._models[agent], each) for agent, each in zip(group, figures, strict=True)}

    def _train_stacked(
        self, group: Sequence[int], updates: int, beat: Callable[[int], None]
    ) -> list[dict[str, float]] | None:
        first = group[0]
        beat(NOWHERE)
        if first not in self._learners:
            self._learners[first] = make_stack([self._models[agent] for agent in group])  # type: ignore[misc]
        with (
            own_stream(self._models[first], self._seed, first),
            span("update"),
        ):  # which nothing that is stacked draws from
            return self._learners[first].train(updates, lambda: beat(NOWHERE))

    def _train_alone(self, agent: int, updates: int, beat: Callable[[int], None]) -> dict[str, float] | None:
        model, done = self._models[agent], []
        beat(agent)
        with own_stream(model, self._seed, agent):
            for _ in range(updates):
                if (figures := update(model)) is not None:
                    done.append(figures)
                beat(agent)
        return mean_figures(done) if done else None


MakeTrainer = Callable[[Mapping[int, BaseModel], int], Trainer]
"""Of models by number, and the seed of the experiment."""


def tell_who_learns_alone(models: Sequence[BaseModel]) -> None:
    """Of models on a GPU: who is not part of a stacked update, and why, because that is many times as slow."""
    reasons: dict[str, list[str]] = {}
    for agent, model in enumerate(models):
        if (
            model.device != "cpu"
            and isinstance(model, NetworkModel)
            and (reason := model.why_not_stacked()) is not None
        ):
            reasons.setdefault(reason, []).append(str(agent))
    for reason, agents in reasons.items():
        who = f"agent {agents[0]} learns" if len(agents) == 1 else f"agents {', '.join(agents)} learn"
        log.warning("%s one update at a time on the GPU, not in a stacked update: %s", who, reason)


def train_round(models: Mapping[int, BaseModel], updates: int, seed: int) -> dict[int, RoundResult]:
    """A single round of all models."""
    trainer = Trainer(models, seed)
    results = {agent: result for group in trainer.groups for agent, result in trainer.train(group, updates).items()}
    return {agent: results[agent] for agent in models}


def own_stream(model: BaseModel, seed: int, agent: int) -> AbstractContextManager[None]:
    """Seed the generators that a process shares while a user's model learns; ours do not draw from them."""
    if model.is_ours:
        return nullcontext()
    return seeded_globals(np.random.SeedSequence(seed), LEARNING, agent, model.updates)


def update(model: BaseModel) -> dict[str, float] | None:
    """One update, and its figures, if it has learned; counted here if the model does not count."""
    before = model.updates
    with span("update"):
        reported = model.train_step()
    if reported is None:
        return None
    if model.updates == before:
        model.updates += 1
    return numbers_of(reported, type(model))
