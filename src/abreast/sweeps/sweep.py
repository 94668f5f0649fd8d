"""A sweep: one folder with what was asked for (sweep.yaml), its runs, and what became of each (index.jsonl).

What has become of a run is in its own folder. The index says it once more, for readers: it is written whole at every change,
and made again when a sweep goes on.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

import yaml

from abreast.display import Display, Row, Shown
from abreast.errors import ConfigError, RunFolderError, log
from abreast.files import locked, logged_to, make_run_folder, write_whole
from abreast.headline import SUM
from abreast.runs import RunConfig, RunResult, check_runs, finished
from abreast.settings import read_yaml
from abreast.sweeps.asked import Asked, Range, SweepRun, examples, expand, label_of
from abreast.training.checkpoints.folder import FOLDER, Checkpoint, list_checkpoints, write_checkpoint

ASKED, INDEX = "sweep.yaml", "index.jsonl"
WAITING, UNDER_WAY, FINISHED, FAILED, PRUNED = "waiting", "under way", "finished", "failed", "pruned"
"""States of a run."""
FIGURES = ("agent_steps", "reward_per_agent", "metrics")
"""What the index tells of the last epoch of a run."""


class Execute(Protocol):
    """Whatever carries out a list of runs: `run_many`, with some of its arguments given."""

    def __call__(
        self,
        configs: Sequence[RunConfig],
        *,
        on_begin: Callable[[RunConfig], None],
        on_done: Callable[[RunResult], None],
        watch: Callable[[RunConfig], str | None] | None = None,
    ) -> list[RunResult]:
        """Carry out those that have not finished, and read the results of the others; tell of each as it begins or ends."""


class Sweep:
    """A sweep in its folder."""

    def __init__(self, folder: Path, asked: Asked) -> None:
        self.folder, self.asked = folder, asked
        self.runs = list[SweepRun]()
        """All of them; those of a search are added as they are chosen."""
        self._rows = dict[Path, dict[str, Any]]()
        try:
            self._before = {row["run"]: row for row in read_index(folder)}
        except RunFolderError:  # it has to be made again
            self._before = {}
        self.add([] if asked.search else expand(asked))
        if not asked.search and (others := self._before.keys() - {row["run"] for row in self.index}):
            raise self._changed(min(others))

    def add(self, runs: Sequence[SweepRun]) -> list[RunConfig]:
        """Take in more runs, and look what is there of each."""
        self.runs += runs
        configs = [run.config(self.folder) for run in runs]
        for run, config in zip(runs, configs, strict=True):
            row = {"run": f"runs/{run.name}", "game": run.game, "settings": run.settings, "seed": run.seed}
            before = self._before.get(f"runs/{run.name}", {})
            if any(before.get(key, value) != value for key, value in json.loads(json.dumps(row)).items()):
                raise self._changed(f"runs/{run.name}")
            self._rows[Path(config.output)] = row
            self.note(_result(config))
        return configs

    def _changed(self, run: str) -> RunFolderError:
        """What is wrong if a run was begun that is no longer asked for, or with other settings."""
        return RunFolderError(
            f"{self.folder / ASKED} was changed after the sweep was begun, and {run} is no longer a run of it: undo that, or"
            " begin another sweep in a folder of its own (`abreast compare` takes several)."
        )

    @property
    def index(self) -> list[dict[str, Any]]:
        """What became of each run."""
        return list(self._rows.values())

    def count(self, state: str) -> int:
        """How many runs are in this state."""
        return sum(row["state"] == state for row in self._rows.values())

    def run(self, execute: Execute, display: "SweepDisplay") -> None:
        """Carry out what is missing."""
        with self.at_work(display):
            self.carry_out([run.config(self.folder) for run in self.runs], execute, display)

    @contextmanager
    def at_work(self, display: "SweepDisplay") -> Iterator[None]:
        """A context in which this program alone writes to the sweep."""
        with locked(self.folder), logged_to(self.folder / "log.txt"), display:
            self.write_index()
            yield
            self.write_index()

    def carry_out(
        self,
        configs: Sequence[RunConfig],
        execute: Execute,
        display: "SweepDisplay",
        watch: Callable[[RunConfig], str | None] | None = None,
    ) -> list[RunResult]:
        """Carry out some of the runs, with the index kept up to date."""

        def begun(config: RunConfig) -> None:
            self._rows[Path(config.output)]["state"] = UNDER_WAY
            self.write_index()
            display.begun()

        def done(result: RunResult) -> None:
            self.note(result)
            self.write_index()
            if result.error is not None and self._rows[result.folder]["state"] == FAILED:
                log.error("%s has failed: %s", result.folder.name, result.error)
            display.done()

        return execute(configs, on_begin=begun, on_done=done, watch=watch)

    def note(self, result: RunResult) -> None:
        """Have a result in the index; of a run that has finished, keep what is compared."""
        ended = PRUNED if str(result.error).startswith(PRUNED) else FAILED if result.error else FINISHED
        last: Mapping[str, Any] = result.last_epoch or {}
        self._rows[result.folder] = {
            **{key: self._rows[result.folder][key] for key in ("run", "game", "settings", "seed")},
            "state": ended if result.error or result.epochs else WAITING,
            "epochs": result.epochs,
            "reward": result.reward,
            "results": result.results,
            "error": result.error,
            **{key: value for key, value in last.items() if key in FIGURES},
        }
        if result.epochs:
            keep_agents_alone(result.folder)

    def write_index(self) -> None:
        """Write the index as it is now, with the trials of a search that goes on and has not come to them yet."""
        rows = self._before | {row["run"]: row for row in self.index}
        lines = "".join(f"{json.dumps(row, allow_nan=False)}\n" for row in rows.values())
        write_whole(self.folder / INDEX, lines.encode())


class SweepDisplay(Display):
    """Shows how many runs are done, under way and failed, and the reward of those with the same settings."""

    def __init__(self, sweep: Sweep, total: int) -> None:
        super().__init__()
        self._sweep, self._total, self._started = sweep, total, time.monotonic()
        self._before = sweep.count(FINISHED)

    def begun(self) -> None:
        """A run has begun."""
        self.progressed()
        self.now("the runs are under way")

    def done(self) -> None:
        """A run has ended."""
        self.ended(self._over(), self._total)

    def _over(self) -> int:
        return sum(self._sweep.count(state) for state in (FINISHED, FAILED, PRUNED))

    def figures(self) -> Shown:
        done, new = self._over(), self._over() - self._before
        left = (time.monotonic() - self._started) / new * (self._total - done) if new > 0 else None
        facts = [f"{count} {state}" for state in (UNDER_WAY, FAILED, PRUNED) if (count := self._sweep.count(state))]
        values, labels = dict[str, list[float]](), dict[str, str]()
        varying = [
            key for key, found in self._sweep.asked.settings.items() if isinstance(found, Range) or len(found) > 1
        ]
        for row in self._sweep.index:
            varied = {key: value for key, value in row["settings"].items() if key in varying}
            what = json.dumps([row["game"], varied], default=str)
            label = labels.setdefault(what, label_of(row["game"], varied, labels.values()))
            for name, value in (row["results"] or {}).items():
                values.setdefault(label if name == SUM else f"{label}, {name}", []).append(value)
        means = [Row(label, fmean(found), [f"{len(found)} finished"]) for label, found in values.items()]
        return Shown("runs", done, self._total, left, facts, means)


# ---- folders


def begin_sweep(folder: Path | None, asked: Asked, backend: str = "processes", at_once: int | None = None) -> Sweep:
    """A new sweep in its folder, a new one in runs/ if none is given. What cannot be run is refused before."""
    if folder is not None and (folder / ASKED).exists():
        raise RunFolderError(f"{folder} already holds a sweep: go on with it by --resume, or give another folder.")
    check_runs([run.config(Path()) for run in examples(asked)], backend, at_once=at_once)
    made = make_run_folder(f"sweep-{'-'.join(asked.games)}"[:80], folder)
    write_whole(made.path / ASKED, yaml.safe_dump(asked.as_yaml_values(), sort_keys=False).encode())
    return Sweep(made.path, asked)


def open_sweep(folder: Path) -> Sweep:
    """A sweep that is there."""
    if not (folder / ASKED).is_file():
        raise RunFolderError(f"{folder} is not a sweep folder: it has no {ASKED}. `abreast sweep` prints its own.")
    try:
        asked = Asked.read(read_yaml(folder / ASKED))
    except ConfigError as error:
        raise error.inside(str(folder / ASKED)) from None
    return Sweep(folder, asked)


def read_index(folder: Path) -> list[dict[str, Any]]:
    """What the index of a sweep says of its runs."""
    try:
        rows = [json.loads(line) for line in (folder / INDEX).read_text(encoding="utf-8").splitlines()]
        if not all(
            isinstance(row, dict) and row.keys() >= {"run", "game", "settings", "seed", "state"} for row in rows
        ):
            raise ValueError("a line does not say what became of a run")
        return rows
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{folder / INDEX} cannot be read ({getattr(error, 'strerror', None) or error}): `abreast sweep --resume"
            f" {folder}` makes it again."
        ) from None


def _result(config: RunConfig) -> RunResult:
    """What became of a run that may have finished."""
    folder = Path(config.output)
    try:
        return finished(config) or RunResult(config, folder)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunFolderError(
            f"{folder} has finished, but its metrics.jsonl cannot be read ({getattr(error, 'strerror', None) or error}):"
            f" remove {folder}, and the run is made again."
        ) from None


def keep_agents_alone(run: Path) -> None:
    """Of all checkpoints but the newest, keep the agents, which is what a comparison needs: replays are large."""
    found = [each for each in list_checkpoints(run) if isinstance(each, Checkpoint) and each.kind == "run"]
    for each in found[:-1]:
        facts = each.facts.model_dump() | {
            "resumable": False,
            "unfinished": [],
            "reason": "Only its agents were kept.",
        }
        with locked(run):
            write_checkpoint(
                run / FOLDER / each.path.name, "agents", facts, {name: each.part(name) for name in each.agents}
            )
