"""Finding the checkpoint that a run goes on from, and refusing what would change its past."""

import logging
import os
import shlex
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from abreast import __version__
from abreast.errors import AbreastError, CheckpointError, short
from abreast.settings import parse_yaml
from abreast.state import State, part_of
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.facts import check_manifest, check_run
from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints, open_checkpoint
from abreast.training.config import ScheduleName
from abreast.training.run.metrics import end_of_line
from abreast.training.run.record import config_as_yaml

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment
    from abreast.training.loop import Loop

log = logging.getLogger("abreast")

MAY_CHANGE = frozenset(
    {"game", "multiprocessing.enabled", "multiprocessing.schedule", "multiprocessing.mode", "multiprocessing.workers"}
    | {"multiprocessing.num_workers", "multiprocessing.learner_timeout", "multiprocessing.actor_timeout"}
    | {"multiprocessing.max_restarts", "multiprocessing.priority", "experiment.epochs", "experiment.record_period"}
    | {"experiment.checkpoint_interval", "experiment.checkpoint_minutes", "experiment.keep_checkpoints"}
)
"""Settings that change neither what was learned nor what will be. (The schedule that is used is compared by itself.)"""
MAPPINGS = frozenset({"experiment.load_agents", "multiprocessing.priority"})
"""Settings whose value is a mapping."""
INSTEAD = "begin a new run, with its agents if you like (--load-agent)"


class Resumed(NamedTuple):
    """Where a run goes on."""

    checkpoint: Checkpoint
    run: State
    actors: list[State]
    damaged: list[Path]
    """Newer checkpoints that cannot be used."""

    @property
    def rounds(self) -> int:
        """Rounds of training it has behind it."""
        return self.checkpoint.facts["rounds"]  # type: ignore[no-any-return]

    @property
    def record(self) -> State:
        return part_of(self.run, "record")

    def restore_loop(self, loop: "Loop") -> None:
        """Let the loop go on: rounds that were under way are ordered again."""
        loop.set_state(part_of(self.run, "loop"))

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


def find_resumable(given: Path | str, experiment: "Experiment", schedule: ScheduleName) -> Resumed | None:
    """Where a run goes on: its newest checkpoint, or the one given. None: at its beginning, before which it was killed.

    Everything is looked at and compared; nothing is changed.
    """
    run, chosen = split_run(given)
    entries = [each for each in list_checkpoints(run) if isinstance(each, CheckpointError) or each.kind == "run"]
    if chosen is None and not entries:
        _check_beginning(run, experiment)
        return None
    checkpoint, damaged = _choose(run, entries, chosen)
    _check_past(checkpoint, experiment, schedule)
    parts = [
        f"actor_{number}" for number in range(len([part for part in checkpoint.parts if part.startswith("actor_")]))
    ]
    resumed = Resumed(checkpoint, checkpoint.part("run"), [checkpoint.part(name) for name in parts], damaged)
    settings, agents = experiment.config, len(models_of(experiment.game))
    where = str(checkpoint.path / "run.safetensors")
    check_run(resumed.run, checkpoint.facts, agents, settings.experiment.train_interval, where)
    if len(parts) != settings.multiprocessing.actors:
        raise CheckpointError(
            f"{checkpoint.path} has {len(parts)} actors, expected {settings.multiprocessing.actors}: it was changed."
        )
    end_of_line(run / "metrics.jsonl", resumed.record.facts["count"])
    return resumed


def _check_beginning(run: Path, experiment: "Experiment") -> None:
    """A run that was killed before its first checkpoint begins again, with the same result."""
    if not (run / "checkpoints").is_dir() or any((run / "checkpoints").glob("[!.]*")):
        raise CheckpointError(f"{run} has no checkpoint to go on from: {INSTEAD}.")
    _check_settings(
        (run / "config.yaml").read_text(encoding="utf-8", errors="replace"), run / "config.yaml", experiment
    )


def _choose(
    run: Path, entries: list[Checkpoint | CheckpointError], chosen: Path | None
) -> tuple[Checkpoint, list[Path]]:
    """The newest checkpoint, or the one given, whole; and damaged ones that are newer."""
    damaged: list[Path] = []
    for entry in reversed(entries):
        if isinstance(entry, Checkpoint) and (chosen is None or entry.path.name == chosen.name):
            try:
                entry.check()
            except CheckpointError as error:
                raise _with_the_one_before(error, run, entries, entry) from None
            return entry, damaged
        if isinstance(entry, CheckpointError) and (chosen is None or entry.folder == chosen):
            raise _with_the_one_before(entry, run, entries, entry)
        if isinstance(entry, Checkpoint) and _is_whole(entry):
            raise CheckpointError(
                f"{run} goes on to epoch {entry.epochs}, in {entry.path.name}, which would be lost: resume {run}, or copy it"
                " and remove later checkpoints there."
            )
        path = entry.path if isinstance(entry, Checkpoint) else entry.folder
        assert path is not None
        damaged.append(path)
    assert chosen is not None
    open_checkpoint(chosen)  # says what is wrong with it
    raise CheckpointError(f"{chosen} is no checkpoint to go on from: give {run}.")


def _is_whole(checkpoint: Checkpoint) -> bool:
    try:
        checkpoint.check()
    except CheckpointError:
        return False
    return True


def _with_the_one_before(
    error: CheckpointError, run: Path, entries: list[Checkpoint | CheckpointError], damaged: object
) -> CheckpointError:
    """The error, with the checkpoint that can be used instead."""
    older = entries[: entries.index(damaged)]  # type: ignore[arg-type]
    whole = next((each for each in reversed(older) if isinstance(each, Checkpoint) and _is_whole(each)), None)
    if whole is None:
        return CheckpointError(f"{error} There is no other checkpoint in {run}: {INSTEAD}.")
    again = shlex.join(["abreast", "train", "--resume", str(whole.path)])
    return CheckpointError(f"{error} The checkpoint before it is whole; to go on from there: {again}")


# ---- what has to be the same


def _check_past(checkpoint: Checkpoint, experiment: "Experiment", schedule: ScheduleName) -> None:
    facts, where = checkpoint.facts, checkpoint.path
    if checkpoint.version != __version__:
        raise CheckpointError(
            f"{where} was written by abreast {checkpoint.version}, this is {__version__}, which may compute otherwise:"
            f" {INSTEAD}."
        )
    check_manifest(facts, str(where / "manifest.json"))
    if not facts["resumable"]:
        raise CheckpointError(f"{where} cannot be resumed: {facts['reason']} Or {INSTEAD}.")
    if facts["experiment"] != experiment.name:
        raise CheckpointError(
            f"{where} is of the game {facts['experiment']}, this is {experiment.name}: give the same."
        )
    if facts["schedule"] != schedule:
        parallel = f"run_experiment_mp, with multiprocessing.schedule={facts['schedule']}"
        how = f"run_experiment, or {parallel}" if facts["schedule"] == "lockstep" else parallel
        raise CheckpointError(
            f"{where} is of a run with the schedule {facts['schedule']}, this would be {schedule}, with other results:"
            f" resume it with {how}."
        )
    played, wanted = checkpoint.epochs - facts["first_epoch"], experiment.config.experiment.epochs
    if wanted < played:
        raise CheckpointError(
            f"experiment.epochs is {wanted}, but {played} are played already: give more, or leave it out."
        )
    _check_settings(facts["config"], where, experiment)
    devices = [model.device for model in models_of(experiment.game)]
    if facts["devices"] != devices:
        raise CheckpointError(
            f"{where} is of a run that learned on {', '.join(dict.fromkeys(facts['devices']))}, here it would be"
            f" {', '.join(dict.fromkeys(devices))}, which computes otherwise: {INSTEAD}."
        )
    if experiment.epochs_played:
        raise CheckpointError(
            f"{experiment.name} has played {experiment.epochs_played} epochs already: resume {where} with a fresh one."
        )


def _check_settings(text: str, where: Path, experiment: "Experiment") -> None:
    """Refuse settings that differ from those that a run was begun with, if that makes a difference."""
    try:
        before = dict(_flat(parse_yaml(text)))
    except (ValueError, AttributeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"the configuration in {where} is damaged: {reason}.") from None
    hint = " (It follows from experiment.epochs where it is not given: give it.)"
    now = dict(_flat(parse_yaml(config_as_yaml(experiment, False).decode())))
    for key in [*before, *(now.keys() - before.keys())]:
        if before.get(key) != now.get(key) and key not in MAY_CHANGE:
            is_now = f"is {short(now[key])}" if key in now else "is not given"
            was = f"with {short(before[key])}" if key in before else "without it"
            raise CheckpointError(
                f"{key} {is_now}, but the run was begun {was}: with --resume a setting that would change its past stays as"
                f" it was.{hint if key.endswith('epsilon_decay') else ''}"
            )


def _flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """All settings by their dotted names; one that is a mapping itself (by agents) is a single value."""
    for key, value in values.items():
        if isinstance(value, Mapping) and f"{path}{key}" not in MAPPINGS:
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


# ---- taking it over


def restore_agents(checkpoint: Checkpoint, experiment: "Experiment") -> None:
    """Let the models go on from a checkpoint: what they learned, where their random streams are, what they remember."""
    for number, model in enumerate(models_of(experiment.game)):
        try:
            rows = checkpoint.part(f"replay_{number}")
            model.memory.set_state(rows)
            actions = rows.arrays["actions"]
            if actions.size and not 0 <= actions.min() <= actions.max() < model.n_actions:
                raise ValueError(
                    f"actions from {actions.min()} to {actions.max()}, expected 0 to {model.n_actions - 1}"
                )
            state, path = checkpoint.part(f"agent_{number}"), checkpoint.path / f"agent_{number}.safetensors"
            model.take_file_state(state, path)
        except AbreastError:
            raise
        except Exception as error:  # a file may hold anything, and a user's model may be particular
            raise CheckpointError(f"{checkpoint.path} does not fit agent {number}: {short(error)}.") from error
