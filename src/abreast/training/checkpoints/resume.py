"""Finding the checkpoint that a run goes on from, and refusing what would change its past."""

import os
import shlex
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np

from abreast import __version__
from abreast.cluster.config import TrainingCluster
from abreast.errors import AbreastError, CheckpointError, log, short
from abreast.replay.rows import as_numbers
from abreast.settings import dotted, parse_yaml
from abreast.state import State
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints
from abreast.training.config import ScheduleName
from abreast.training.run.metrics import end_of_line
from abreast.training.run.record import config_as_yaml
from abreast.training.runnable import Runnable

MAY_CHANGE = frozenset(
    {"game", "multiprocessing.enabled", "multiprocessing.schedule", "multiprocessing.mode", "multiprocessing.workers"}
    | {"multiprocessing.num_workers", "multiprocessing.learner_timeout", "multiprocessing.actor_timeout"}
    | {
        "multiprocessing.max_restarts",
        "multiprocessing.priority",
        "experiment.epochs",
        "experiment.max_steps",
        "experiment.record_period",
    }
    | {"experiment.checkpoint_interval", "experiment.checkpoint_minutes", "experiment.keep_checkpoints"}
    | {"experiment.timeline"}
    | {f"multiprocessing.cluster.{key}" for key in TrainingCluster.model_fields if key != "learner_gpus"}
)
"""Settings that change neither what was learned nor what will be. (The schedule that is used is compared by itself.)"""
MAPPINGS = frozenset({"experiment.load_agents", "multiprocessing.priority"})
"""Settings whose value is a mapping."""
INSTEAD = "begin a new run, with its agents if you like (--load-agent)"


class Resumed(NamedTuple):
    """Where a run goes on."""

    checkpoint: Checkpoint
    actor: State
    damaged: list[Path]
    """Newer checkpoints that cannot be used."""

    def set_aside_damaged(self) -> None:
        """From now on, the run's newest checkpoint is the one that it goes on from."""
        for path in self.damaged:
            names = (f"{path.name}.damaged{number or ''}" for number in count())  # one may be there from another time
            aside = next(each for each in map(path.with_name, names) if not os.path.lexists(each))
            path.rename(aside)
            log.warning("%s is damaged, and was renamed to %s", path, aside.name)


def split_run(given: Path | str) -> tuple[Path, Path | None]:
    """The run folder, and one of its checkpoints, if that is what was given."""
    path = Path(given)
    whole = path if path.name else path.absolute()  # ".": the folder one is in
    if whole.parent.name == "checkpoints" and (whole / "manifest.json").exists():
        return whole.parent.parent, whole
    return path, None


def find_resumable(
    given: Path | str, experiment: Runnable, schedule: ScheduleName, inexact: bool = False
) -> Resumed | None:
    """Where a run goes on: its newest checkpoint, or the one given. None: at its beginning, before which it was killed.

    Everything is looked at and compared; nothing is changed. `inexact`: accept a checkpoint that lacks something.
    """
    run, chosen = split_run(given)
    entries = [each for each in list_checkpoints(run) if isinstance(each, CheckpointError) or each.kind == "run"]
    if chosen is None and not entries:
        _check_beginning(run, experiment)
        log.warning("%s was stopped before its first checkpoint: it begins again, at epoch 0", run)
        return None
    checkpoint, damaged = _choose(run, entries, chosen)
    _check_past(checkpoint, experiment, schedule, inexact)
    end_of_line(run / "metrics.jsonl", checkpoint.facts.recorded)
    return Resumed(checkpoint, checkpoint.part("actor_0"), damaged)


def _check_beginning(run: Path, experiment: Runnable) -> None:
    """A run that was killed before its first checkpoint begins again, with the same result."""
    if not (run / "checkpoints").is_dir() or any((run / "checkpoints").glob("[!.]*")):
        raise CheckpointError(f"{run} has no checkpoint to go on from: {INSTEAD}.")
    _check_settings(
        (run / "config.yaml").read_text(encoding="utf-8", errors="replace"), run / "config.yaml", experiment
    )


def _choose(
    run: Path, entries: Sequence[Checkpoint | CheckpointError], chosen: Path | None
) -> tuple[Checkpoint, list[Path]]:
    """The newest checkpoint, or the one given, whole; and damaged ones that are newer."""
    damaged: list[Path] = []
    for place, entry in reversed([*enumerate(entries)]):
        whole = _read_whole(entry)
        if chosen is None or entry.path.name == chosen.name:
            if isinstance(whole, Checkpoint):
                return whole, damaged
            older = (each for each in map(_read_whole, reversed(entries[:place])) if isinstance(each, Checkpoint))
            raise CheckpointError(f"{whole} {_instead_of_it(run, next(older, None))}")
        if isinstance(whole, Checkpoint):
            raise CheckpointError(
                f"{run} goes on to epoch {whole.epochs}, in {whole.path.name}, which would be lost: resume {run}, or copy it"
                " and remove later checkpoints there."
            )
        damaged.append(entry.path)
    raise CheckpointError(f"{chosen} is no checkpoint to go on from: give {run}.")


def _read_whole(entry: Checkpoint | CheckpointError) -> Checkpoint | CheckpointError:
    """A checkpoint all of whose parts were read, or what is wrong with it."""
    try:
        if isinstance(entry, Checkpoint):
            entry.check()
    except CheckpointError as error:
        return error
    return entry


def _instead_of_it(run: Path, before: Checkpoint | None) -> str:
    """What can be done where a checkpoint is damaged."""
    if before is None:
        return f"There is no other checkpoint in {run}: {INSTEAD}."
    again = shlex.join(["abreast", "train", "--resume", str(before.path)])
    return f"The checkpoint before it is whole; to go on from there: {again}"


# ---- what has to be the same


def _check_past(checkpoint: Checkpoint, experiment: Runnable, schedule: ScheduleName, inexact: bool) -> None:
    """Refuse a run that would not go on as it was begun."""
    facts, where = checkpoint.facts, checkpoint.path
    if not facts.resumable and not inexact:
        raise CheckpointError(
            f"{where} cannot be resumed exactly: {facts.reason} To resume all the same, with other results than without the"
            f" stop, give --inexact (inexact=True); or {INSTEAD}."
        )
    devices = [model.device for model in models_of(experiment.game)]
    parallel = f"run_experiment_mp, with multiprocessing.schedule={facts.schedule}"
    how = f"run_experiment, or {parallel}" if facts.schedule == "lockstep" else parallel
    for what, there, here, remedy in (
        ("version of abreast", checkpoint.version, __version__, INSTEAD),
        ("game", facts.experiment, experiment.name, "give the same"),
        ("schedule", facts.schedule, schedule, f"resume it with {how}"),
        ("devices", facts.devices, devices, INSTEAD),
        ("number of epochs played", 0, experiment.epochs_played, "resume it with a fresh environment"),
    ):
        if there != here:
            raise CheckpointError(
                f"{where} needs the {what} {short(there)}, but here it is {short(here)}, which may compute otherwise:"
                f" {remedy}."
            )
    played, wanted = checkpoint.epochs - facts.first_epoch, experiment.config.experiment.epochs
    if wanted < played:
        raise CheckpointError(
            f"experiment.epochs is {wanted}, but {played} are played already: give more, or leave it out."
        )
    _check_settings(facts.config, where, experiment)


def _check_settings(text: str, where: Path, experiment: Runnable) -> None:
    """Refuse settings that differ from those that a run was begun with, if that makes a difference."""
    try:
        before = dict(dotted(parse_yaml(text), MAPPINGS))
    except (ValueError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"the configuration in {where} is damaged: {reason}.") from None
    hint = " (It follows from experiment.epochs where it is not given: give it.)"
    now = dict(dotted(parse_yaml(config_as_yaml(experiment, False).decode()), MAPPINGS))
    for key in [*before, *(now.keys() - before.keys())]:
        if before.get(key) != now.get(key) and key not in MAY_CHANGE:
            is_now = f"is {short(now[key])}" if key in now else "is not given"
            was = f"with {short(before[key])}" if key in before else "without it"
            raise CheckpointError(
                f"{key} {is_now}, but the run was begun {was}: with --resume a setting that would change its past stays as"
                f" it was.{hint if key.endswith('epsilon_decay') else ''}"
            )


# ---- taking it over


def restore_agents(checkpoint: Checkpoint, experiment: Runnable) -> None:
    """Let the models go on from a checkpoint: what they learned, where their random streams are, what they remember."""
    for number, model in enumerate(models_of(experiment.game)):
        try:
            rows = checkpoint.part(f"replay_{number}")
            there = [(states.shape[1:], states.dtype) for name, states in rows.arrays.items() if name == "states"]
            empty = as_numbers(np.empty((1, *model.memory.obs_shape), model.memory.dtype))
            here = (empty.shape[1:], empty.dtype)
            if there and there[0] != here:
                raise CheckpointError(
                    f"agent {number} now sees {here[1]} of shape {here[0]}, but in that run {there[0][1]} of shape"
                    f" {there[0][0]}: undo what was changed in the game's observation, or begin a new run."
                )
            model.memory.set_state(rows)
            actions = rows.arrays["actions"]
            if model.action_box is not None and not np.isfinite(actions).all():
                raise ValueError("actions that are not finite")
            if model.action_box is None and actions.size and not 0 <= actions.min() <= actions.max() < model.n_actions:
                raise ValueError(
                    f"actions from {actions.min()} to {actions.max()}, expected 0 to {model.n_actions - 1}"
                )
            state, path = checkpoint.part(f"agent_{number}"), checkpoint.path / f"agent_{number}.safetensors"
            model.take_file_state(state, path)
        except AbreastError:
            raise
        except Exception as error:  # a file may hold anything, and a user's model may be particular
            raise CheckpointError(f"{checkpoint.path} does not fit agent {number}: {short(error)}.") from error
