"""`abreast check` for environments written for sorrel: can runs be repeated and resumed, and equal sorrel's own loop?"""

import contextlib
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abreast.checking import Check, Fault, Verdict, judge
from abreast.codec import digest
from abreast.integrations.sorrel.building import own_settings
from abreast.integrations.sorrel.experiment import SorrelExperiment, check_environment, section_of
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.kept import attributes_of, owners_of, shared_places
from abreast.training.check.telling import SEED, describe_error, differing, quiet
from abreast.training.collect import collect_pass
from abreast.training.config import Config
from abreast.training.devices import compute_threads

if TYPE_CHECKING:
    from abreast.integrations.sorrel.source import SorrelSource

TURNS, EPOCHS = 30, 5
"""Of a run for a check, at most."""
SEEDED = (
    "draw from random, numpy.random or torch, which are seeded, not from the clock or from a generator that is made without"
    " a seed"
)
NOT_RESUMED = "(It can be trained, but a run that was stopped cannot go on.)"


def check_sorrel(source: "SorrelSource") -> Iterator[Verdict]:
    """Check an environment."""
    with compute_threads(1):  # as in a run
        yield from judge(CHECKS, SorrelTrial(source), describe_error)


class SorrelTrial:
    """An environment, as its checks build and play it."""

    def __init__(self, source: "SorrelSource") -> None:
        self.source = source

    def configure(self) -> Config[Any, Any]:
        """Its own settings, for epochs that take little time."""
        own = own_settings(self.source.module)
        turns = section_of(own, "experiment").get("max_turns")
        usual = [f"experiment.max_turns={min(TURNS, turns) if isinstance(turns, int) else TURNS}"]
        usual += [f"experiment.epochs={EPOCHS - 1}", f"experiment.seed={SEED}"]
        usual += ["model.save_weights=false"] if "save_weights" in section_of(own, "model") else []
        return self.source.configure(None, usual)

    def make(self) -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return self.source.make_environment(self.configure())

    def build(self) -> SorrelExperiment:
        return SorrelExperiment(self.make(), self.configure())

    def close(self) -> None:
        """There is nothing to close."""


def _play(experiment: SorrelExperiment, epoch: int) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        collect_pass(experiment.game, epoch, seed=SEED)


def _refuse_difference(one: Any, two: Any, fault: str, remedy: str) -> None:
    """Refuse two environments that should be the same and are not; `fault` says when they were compared."""
    if names := differing(_parts(one), _parts(two)):
        raise Fault(f"{fault}, {', '.join(names[:3])} is another: {remedy}")


def _parts(env: Any) -> dict[str, bytes]:
    """Digests of all that can be compared of a world, its agents and models. (Environments may keep dates and paths.)"""
    owners = owners_of(env)
    places = {**owners, **shared_places(env.config)}
    values = {path: value for path, value in attributes_of(owners).items() if not path.startswith("env.")}
    for key, owner in owners.items():
        values |= {f"{key}.{name}": network for name, network in vars(owner).get("_modules", {}).items()}
    digests = {path: digest(value, places, is_copied=True) for path, value in values.items()}
    return {path: each for path, each in digests.items() if each is not None}


# ---- the checks


def _can_be_built(trial: SorrelTrial) -> None:
    _refuse_difference(trial.make(), trial.make(), "built again under the same seed", f"{SEEDED}.")


def _has_models(trial: SorrelTrial) -> None:
    check_environment(trial.make())


def _can_be_played(trial: SorrelTrial) -> str | None:
    experiment = trial.build()
    _play(experiment, 0)
    if not experiment.game.turns:
        raise Fault("its epochs end before the first turn: give experiment.max_turns.")
    if all(player.model.reward is None for player in experiment.game.players):
        return "an epoch can be played; but agents put nothing into their memories, so there is nothing to learn from"
    return None


def _repeats_itself(trial: SorrelTrial) -> None:
    one, two = trial.build(), trial.build()
    for epoch in range(2):
        _play(one, epoch)
        _play(two, epoch)
        fault = f"epoch {epoch + 1} was played twice from the same state of the generators; afterwards"
        remedy = f"{SEEDED}; and keep what changes in attributes of self, not of a class or a module."
        _refuse_difference(one.env, two.env, fault, remedy)


def _outlives_reset(trial: SorrelTrial) -> None:
    stopped, other = trial.build(), trial.build()
    _play(stopped, 0)
    state = stopped.game.state()
    if stopped.game.why_not_resumable is not None:
        raise Fault(f"{stopped.game.why_not_resumable} {NOT_RESUMED}")
    other.game.set_state(state)
    _play(stopped, 1)
    _play(other, 1)
    remedy = f"attributes must not be views into the memory of others, which come apart in a file. {NOT_RESUMED}"
    _refuse_difference(stopped.env, other.env, "after an epoch that goes on from a checkpoint", remedy)


def _trains_alike(trial: SorrelTrial) -> str | None:
    experiment, env = trial.build(), trial.make()
    with quiet():
        result = experiment.run_experiment(animate=False, logging=False)
    remark = "" if any(record["loss"] for record in result.epochs) else ", but there was too little to learn from"
    if experiment.has_own_loop:
        return f"it can be trained{remark}; its own run_experiment is not used"
    env.config.experiment.epochs = EPOCHS - 1  # a function that builds it may not have asked for ours
    with tempfile.TemporaryDirectory() as folder, Generators(SEED), contextlib.redirect_stdout(io.StringIO()):
        env.run_experiment(animate=False, logging=False, output_dir=Path(folder))
    fault = f"after {EPOCHS} epochs in a run of abreast's and in its own loop (run_experiment)"
    remedy = "let learning depend on the memory and on random, numpy.random and torch alone."
    _refuse_difference(experiment.env, env, fault, remedy)
    return f"the run and its own loop learn the same{remark}" if remark else None


BUILD, MODELS, PLAY, REPEAT = "building", "models", "epoch", "seed"
SOUND = (BUILD, MODELS, PLAY, REPEAT)
CHECKS: tuple[Check[SorrelTrial], ...] = (
    Check(BUILD, "can be built, and is the same when it is built again under the same seed", _can_be_built),
    Check(MODELS, "every agent has one of its own, with a memory", _has_models, [BUILD]),
    Check(PLAY, "an epoch can be played, and is remembered", _can_be_played, [BUILD, MODELS]),
    Check(REPEAT, "epochs played twice from the same state are the same", _repeats_itself, [BUILD, MODELS, PLAY]),
    Check("state", "what outlives reset can be kept in a checkpoint", _outlives_reset, SOUND),
    Check("training", "the run and its own loop learn the same", _trains_alike, SOUND),
)
