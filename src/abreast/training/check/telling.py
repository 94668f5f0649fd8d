"""What checks of all that is trained share: runs of both kinds, comparing what was learned, and errors in words."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from abreast.checking import SEED, Fault
from abreast.codec import digest
from abreast.errors import AbreastError, log, sentence, words
from abreast.models import BaseModel
from abreast.models.own import CHOSEN, LEARNED
from abreast.state import join
from abreast.training.check.made_up import made_up_run
from abreast.training.experiment import Experiment

HERE = Path(__file__).parent
SMALL = (
    "model.hidden_size=16",
    "model.batch_size=8",
    "model.gradient_steps=1",
    "experiment.epochs=4",
    f"experiment.seed={SEED}",
    "experiment.train_interval=1",
    "multiprocessing.device=cpu",
    "multiprocessing.schedule=lockstep",
    "multiprocessing.workers=processes",
    "multiprocessing.max_restarts=0",
)
"""Settings of a run that takes little time."""


def describe_error(error: BaseException) -> str:
    """What was raised: our own errors are sentences already; of others, the innermost line of the user's own code."""
    if isinstance(error, AbreastError):
        return sentence(error)
    return " ".join([f"it raised {words(error, HERE)}.", *getattr(error, "__notes__", ())])


@contextmanager
def quiet() -> Iterator[None]:
    """Keep what a run logs or prints from the terminal: a verdict says it."""
    before, log.disabled = log.disabled, True
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        log.disabled = before


def trains_alike(build: Callable[[], Experiment], remedy: str) -> str | None:
    """Train sequentially, and with learners in processes: refuse what differs."""
    found, losses = _differences(build)
    if found:
        what = f"after {len(losses)} epochs with learners in processes, {', '.join(found[:3])} is not what it is in the"
        if made_up_run(build()) is not None and _differences(lambda: made_up_run(build()))[0]:
            raise Fault(
                f"{what} sequential run, and the same is seen with a game and models of abreast of these shapes: this is a"
                " bug of abreast, not of what is checked. Please report it with this message and the settings."
            )
        raise Fault(f"{what} sequential run: {remedy}")
    if all(loss is None for loss in losses):
        return "the sequential run and learners in processes give the same; but there was too little to learn from"
    return None


def _differences(build: Callable[[], Any]) -> tuple[list[str], list[float | None]]:
    """Return names of what differs between a sequential run and one with learners in processes, and the losses."""
    runs = []
    for way in ("run_experiment", "run_experiment_mp"):
        experiment = build()
        with quiet():
            result = getattr(experiment, way)(animate=False, logging=False)
        for agent, error in result.given_up.items():
            raise Fault(f"agent {agent} cannot learn in another process: {describe_error(error)}") from error
        losses = [record["loss"] for record in result.epochs]
        rewards = [record["reward"] for record in result.epochs]
        found = {"the course of rewards and losses": repr((rewards, losses)).encode()}
        for agent, player in enumerate(experiment.game.players):
            found |= {f"{name} of the model of agent {agent}": own for name, own in learned(player.model).items()}
        runs.append(found)
    return differing(*runs), losses


def learned(model: BaseModel) -> dict[str, bytes]:
    """All that a model has learned, and where choosing is: by name, and alike wherever it was learned."""
    state = join(learning=model.learning_state(), acting=model.acting_state())
    found = {name: json.dumps(value, sort_keys=True).encode() for name, value in state.facts.items()}
    arrays = {name: array for name, array in state.arrays.items() if name.partition(".")[2] not in (LEARNED, CHOSEN)}
    found |= {name: f"{array.dtype} {array.shape} ".encode() + array.tobytes() for name, array in arrays.items()}
    return found | attributes(model)


def attributes(model: BaseModel) -> dict[str, bytes]:
    """Digests of the attributes that a user's class has added, of those that can be compared."""
    places = model.places()
    found = {name: digest(value, places, is_copied=True) for name, value in model.own_attributes.values.items()}
    return {name: own for name, own in found.items() if own is not None}


def differing(one: Mapping[str, bytes], two: Mapping[str, bytes]) -> list[str]:
    """Names of what is not the same in both, in their order."""
    return [name for name in {**one, **two} if one.get(name) != two.get(name)]
