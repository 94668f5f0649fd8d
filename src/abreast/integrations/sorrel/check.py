"""`abreast check` for environments written for sorrel: can runs be repeated and resumed, and equal sorrel's own loop?"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.checking import SEED, Check, Fault, Trace, Verdict, first_difference, follows_from_seed, judge
from abreast.codec import digest
from abreast.integrations.sorrel.experiment import SorrelExperiment
from abreast.integrations.sorrel.game import Generators, attributes_of, models_in, owners_of, shared_places
from abreast.training.check.telling import describe_error, quiet
from abreast.training.collect import collect_pass
from abreast.training.devices import compute_threads

if TYPE_CHECKING:
    from abreast.integrations.sorrel.source import SorrelSource

EPOCHS = 5
DRAW = (
    "draw from random, numpy.random or torch, which are seeded, not from the clock or from a generator that is made without"
    " a seed; and keep what changes in attributes of self, not of a class or a module."
)
NOT_RESUMED = "(It can be trained, but a run that was stopped cannot go on.)"


def check_sorrel(source: "SorrelSource") -> Iterator[Verdict]:
    """Check an environment."""
    with compute_threads(1):  # as in a run
        yield from judge(CHECKS, SorrelTrial(source), describe_error)


class SorrelTrial:
    """An environment with its own models, as its checks build and play it."""

    def __init__(self, source: "SorrelSource") -> None:
        self.source = source

    def build(self, seed: int = SEED) -> SorrelExperiment:
        usual = [f"experiment.epochs={EPOCHS - 1}", f"experiment.seed={seed}", "model.save_weights=false"]
        config = self.source.configure(None, usual)
        with quiet():
            return SorrelExperiment(self.source.make_environment(config), config)

    def close(self) -> None:
        """There is nothing to close."""


def _play(experiment: SorrelExperiment, epochs: int) -> Trace:
    with quiet():
        for epoch in range(epochs):
            collect_pass(experiment.game, epoch, seed=SEED)
    return _parts(experiment.env)


def _parts(env: Any) -> Trace:
    """Digests of all that can be compared of a world, its agents and models. (Environments may keep dates and paths.)"""
    owners = {**owners_of(env), **models_in(env)}
    values = {path: value for path, value in attributes_of(owners).items() if not path.startswith("env.")}
    places = {**owners, **shared_places(env.config)}
    return [(f"in {path}", digest(value, places, is_copied=True)) for path, value in values.items()]


# ---- the checks


def _repeats_itself(trial: SorrelTrial) -> str | None:
    fault = "built and played twice under the same seed, it differs {}: " + DRAW
    return follows_from_seed(lambda seed: _play(trial.build(seed), 2), fault.format)


def _outlives_reset(trial: SorrelTrial) -> None:
    stopped, other = trial.build(), trial.build()
    _play(stopped, 1)
    state = stopped.game.state()
    if stopped.game.why_not_resumable is not None:
        raise Fault(f"{stopped.game.why_not_resumable} {NOT_RESUMED}")
    other.game.set_state(state)
    if (place := first_difference(_play(stopped, 1), _play(other, 1))) is not None:
        raise Fault(
            f"after an epoch that goes on from a checkpoint, it differs {place}: attributes must not be views into the"
            f" memory of others, which come apart in a file. {NOT_RESUMED}"
        )


def _trains_alike(trial: SorrelTrial) -> str | None:
    experiment, env = trial.build(), trial.build().env
    with quiet():
        experiment.run_experiment(animate=False, logging=False)
    if experiment.has_own_loop:
        return "it can be trained; its own run_experiment is not used"
    env.config.experiment.epochs = EPOCHS - 1  # a function that builds it may not have asked for ours
    with tempfile.TemporaryDirectory() as folder, Generators(SEED), quiet():
        env.run_experiment(animate=False, logging=False, output_dir=Path(folder))
    if (place := first_difference(_parts(experiment.env), _parts(env))) is not None:
        raise Fault(
            f"after {EPOCHS} epochs in a run of abreast's and in its own loop (run_experiment), it differs {place}: let"
            " learning depend on the memory and on random, numpy.random and torch alone."
        )
    return None


SEEDED = "seed"
CHECKS: tuple[Check[SorrelTrial], ...] = (
    Check(
        SEEDED, "can be built and played; the same seed gives the same epochs, other seeds give others", _repeats_itself
    ),
    Check("state", "what outlives reset can be kept in a checkpoint", _outlives_reset, [SEEDED]),
    Check("training", "the run and its own loop learn the same", _trains_alike, [SEEDED]),
)
