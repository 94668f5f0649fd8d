"""What a loop asks of its learners, and a round of training."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from abreast.errors import WorkerError
from abreast.models import BaseModel
from abreast.training.run.health import symptoms


class RoundResult(NamedTuple):
    """The result of a round of training for one agent."""

    loss: float | None
    updates: int
    """Updates of this agent since its beginning."""
    symptoms: Sequence[str] = ()
    """What is wrong with it, if anything is (run/health.py)."""


class Learners(Protocol):
    """They train, wherever they live."""

    given_up: Mapping[int, WorkerError]
    """Agents that are not trained any more, and why."""
    keeps_to_windows: bool
    """Whether learners look only at rows written before their order, so that newer ones may be taken back."""

    rounds: int
    """How many are finished: the number of the next."""

    def acting_versions(self) -> list[int | None]:
        """Which published version of each agent a pass that begins now plays with; None: the newest."""

    def submit(self, number: int, updates: int, written: Sequence[list[int]]) -> None:
        """Begin round `number`: so many updates of each agent, from the rows written so far (per agent and lane)."""

    def finish(self, number: int) -> list[RoundResult]:
        """Wait for a round; from then on the models choose with what it learned."""

    def health(self) -> dict[str, Any]:
        """How they are, for the record."""

    def close(self) -> None:
        """End; the models then hold what was learned and remembered."""


def train_round(
    models: Mapping[int, BaseModel], updates: int, beat: Callable[[int], None] = lambda agent: None
) -> dict[int, RoundResult]:
    """Update each model some times from its own memory; `beat` is called with the agent before each update.

    The loss is the mean of the updates; None if there was too little to learn from.
    """
    results = {}
    for agent, model in models.items():
        losses = []
        beat(agent)
        for _ in range(updates):
            if (loss := model.train_step()) is not None:
                losses.append(float(loss))
            beat(agent)
        mean = sum(losses) / len(losses) if losses else None
        results[agent] = RoundResult(mean, model.updates, symptoms(model, mean))
    return results
