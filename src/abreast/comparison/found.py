"""Which runs are compared: those in sweep folders and run folders, and what tells them from each other."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import ConfigError, RunFolderError
from abreast.files import is_locked
from abreast.settings import dotted, read_yaml
from abreast.sweeps.asked import label_of
from abreast.sweeps.sweep import ASKED, FINISHED, read_index

ALGORITHM, SEED = "model.algorithm", "experiment.seed"
NO_DIFFERENCE = (SEED, "game")
"""Settings in which runs of the same algorithm may differ."""


class Compared(NamedTuple):
    """A run, and what it is a sample of."""

    folder: Path
    task: str
    """Its game."""
    algorithm: str
    """Label of the algorithm and of the settings in which it differs from others with the same algorithm."""
    seed: int
    settings: str = ""
    """The algorithm and these settings in full, by section.key."""


def find_runs(folders: Sequence[Path]) -> tuple[list[Compared], list[str]]:
    """The finished runs, and a sentence for what was left out. Runs that cannot be compared are refused."""
    found, notes = list[tuple[Path, dict[str, Any]]](), list[str]()
    are_sweeps = all((folder / ASKED).is_file() for folder in folders)
    for folder in dict.fromkeys(folders):
        if (folder / ASKED).is_file():
            rows = read_index(folder)
            done = [row for row in rows if row["state"] == FINISHED]
            if len(done) < len(rows):
                notes.append(f"{len(rows) - len(done)} of {len(rows)} runs in {folder} are not finished, and left out.")
            found += [(folder / row["run"], row["settings"] if are_sweeps else {}) for row in done]
        elif (folder / "config.yaml").is_file():
            if is_locked(folder):
                raise RunFolderError(
                    f"{folder} is still training, and its checkpoints change meanwhile: compare it when it has ended."
                )
            found.append((folder, {}))
        else:
            raise RunFolderError(
                f"{folder} is neither a sweep folder nor a run folder: it has no {ASKED} and no config.yaml. `abreast sweep`"
                " and `abreast train` print theirs."
            )
    if not found:
        raise ConfigError(f"there is no finished run in {', '.join(map(str, folders))}: nothing can be compared yet.")
    configs: dict[Path, Mapping[str, Any]] = {
        folder: dict(dotted(read_yaml(folder / "config.yaml"))) for folder, _ in found
    }
    settings = configs
    if are_sweeps:  # what follows from the settings asked for tells nothing more
        asked = dict.fromkeys(key for _, given in found for key in given)
        settings = {folder: {key: configs[folder].get(key, given.get(key)) for key in asked} for folder, given in found}
    kinds = {folder: (str(config.get("game")), str(config.get(ALGORITHM))) for folder, config in configs.items()}
    runs, labels = [], dict[str, str]()
    for folder, (game, algorithm) in kinds.items():
        same = [settings[other] for other, kind in kinds.items() if kind == (game, algorithm)]
        own = settings[folder]
        differing = {key: own[key] for key in _differing(same) if own.get(key) is not None}
        full = " ".join([algorithm, *(f"{key}={json.dumps(value, default=str)}" for key, value in differing.items())])
        label = labels.setdefault(full, label_of(algorithm, differing, labels.values()))
        runs.append(Compared(folder, game, label, int(configs[folder].get(SEED, 0)), full))
    _check_seeds(runs)
    _check_grid(runs)
    return sorted(runs, key=lambda run: run.seed), notes


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys in which settings differ."""
    keys = dict.fromkeys(key for each in settings for key in each if key not in (*NO_DIFFERENCE, ALGORITHM))
    return [key for key in keys if any(each.get(key) != settings[0].get(key) for each in settings)]


def _check_seeds(runs: Sequence[Compared]) -> None:
    """The same run twice would count as two samples."""
    there = dict[tuple[str, str, int], Path]()
    for run in runs:
        other = there.setdefault((run.task, run.algorithm, run.seed), run.folder)
        if other is not run.folder:
            raise ConfigError(
                f"{other} and {run.folder} are the same run, {run.algorithm} in {run.task} with seed {run.seed}, and would"
                " count as two: leave one out."
            )


def _check_grid(runs: Sequence[Compared]) -> None:
    """Runs of several games can be compared if every algorithm was run in each of them."""
    tasks, there = dict.fromkeys(run.task for run in runs), {(run.task, run.algorithm) for run in runs}
    for algorithm in dict.fromkeys(run.algorithm for run in runs):
        for task in tasks:
            if (task, algorithm) not in there:
                raise ConfigError(
                    f"the runs are of different games ({', '.join(tasks)}), and {algorithm} has none in {task}: compare runs"
                    " of one game, or the same algorithms in every game."
                )
