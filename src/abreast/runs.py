"""Many runs: each in a worker of its own, as many at once as there is room, here or on the nodes of a cluster.

    this program: run_many                        a worker for each attempt: RunWork
      which run; files of the attempt before ───▶ run_experiment
      ◀──── every checkpoint (on nodes, as files) ───┤
      ◀──── how it ended (on nodes, with its folder) ┘

A worker here writes to the run folder itself. One on a node, which may have no file system in common with this program,
has a folder of its own there and sends the files; so what is left of a lost node is what is in the run folder here, and the
next attempt goes on from that wherever it is placed.

Runs on a GPU that differ in their seed or learning rate alone are joined: one worker has as many of them as fit into the
memory of the GPU, and their models learn in one stacked update (training/joined.py).
"""

import json
import math
import platform
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

from abreast.cluster.backend import RayBackend
from abreast.cluster.config import ClusterConfig
from abreast.cluster.connection import connect, remove_at_end
from abreast.display import QUIET, set_volume
from abreast.errors import (
    OURS,
    AbreastError,
    ConfigError,
    RunFolderError,
    log,
    nearest,
    need_posix,
    short,
    users_part,
    words,
)
from abreast.files import LEFT_BEHIND, LOCK, WRITTEN, RunFolder, is_locked, locked, make_run_folder, write_whole
from abreast.games import find_game
from abreast.headline import SUM, results_of_run
from abreast.processes.backend import Backend, ChildContext, ChildSpec, Work
from abreast.processes.cores import cores
from abreast.processes.process import ProcessBackend
from abreast.processes.team import Answered, Event, RestartPolicy, Team
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints
from abreast.training.config import ExperimentConfig
from abreast.training.devices import device_for, how_many_fit
from abreast.training.experiment import Experiment
from abreast.training.joined import run_joined
from abreast.training.learners.base import MakeTrainer
from abreast.training.run.metrics import EpochRecord, diverged

BACKENDS = ("processes", "ray")
SEED, LEARNING_RATE = "experiment.seed", "model.learning_rate"
ATTEMPTS = 2
"""How often a run is begun whose worker dies."""
STARTS = 5
"""How often a worker is started for one run. More often than that, because a cluster goes on for some seconds to place
workers on a node that it has just lost."""
SILENCE_S = 3600.0
"""Seconds without a finished epoch after which a run is taken to hang: its worker is killed. An hour, because nothing is
known of a game whose epochs are long, and a run that hangs costs others no more than its place."""
START_S = 3600.0
"""Seconds within which a worker has to start. It may wait for room on a cluster, for `ClusterConfig.start_timeout`."""
LOCKED_S = 30.0
"""Seconds in which a worker of a program that was killed has to end, before its run goes on."""
LOOK_S = 0.5
"""How often `watch` is asked."""


@dataclass(frozen=True)
class RunConfig:
    """A run, as `abreast train` is given it."""

    game: str
    """What `find_game` finds: a name, MODULE:NAME, FILE.py …"""
    settings: Sequence[str]
    """Each is section.key=value."""
    output: Path | str
    """The run folder, which must not hold another run."""


class RunResult(NamedTuple):
    """What became of a run."""

    config: RunConfig
    folder: Path
    attempts: int = 0
    """How often it was begun."""
    node: str = ""
    """Where the last attempt was."""
    epochs: int = 0
    """How many it has played; 0 if it has not finished, or has failed."""
    reward: float | None = None
    """Mean reward of all agents over the last tenth of its epochs; None if it has not finished, or its agents have sides."""
    results: dict[str, float] | None = None
    """The headline, as `abreast train` prints it: `sum`, or each side; None if the run has not finished."""
    last_epoch: EpochRecord | None = None
    """The last line of its metrics."""
    error: str | None = None
    """Why it has failed, if it has. What it has left is in its folder."""


def run_many(
    configs: Iterable[RunConfig],
    backend: Literal["processes", "ray"] = "processes",
    *,
    cpus: float = 1.0,
    gpus: float = 0.0,
    at_once: int | None = None,
    cluster: ClusterConfig | Mapping[str, Any] | None = None,
    resume: bool = False,
    joined: bool | None = None,
    on_begin: Callable[[RunConfig], None] = lambda config: None,
    on_done: Callable[[RunResult], None] = lambda result: None,
    watch: Callable[[RunConfig], str | None] | None = None,
) -> list[RunResult]:
    """Run all of these, each as `run_experiment` would, without animations; returns their results in the same order.

    What is wrong with the arguments is raised before anything starts. What happens to a run later is in its result: one
    whose worker dies, raises something unexpected or hangs (`SILENCE_S`) is begun once more, on any node that has room, and
    goes on from its last checkpoint; one that raises an AbreastError, or an error of the user's own code, would do so again
    and is not. One whose losses are not finite has failed, too, when it has played all its epochs. An interrupt ends all
    runs at once; those that have a checkpoint go on with `abreast train --resume`.

    cpus, gpus: what each run has. Processes share out no GPUs; on a cluster, each run sees those that are its own.
    at_once: how many run at once; left out, as many as there are CPUs and GPUs for. On a cluster, there are never more.
    cluster: where the cluster is, for `ray`.
    resume: runs that are there go on, from their last checkpoint or from the beginning. Those that have finished are not
        begun: their results are read.
    joined: whether runs that differ in nothing but their seed or learning rate learn in one worker and one stacked update;
        left out, those on a GPU of this machine. On a GPU, products of more rows may round otherwise than in a run alone.
    on_begin, on_done: called with each run as a worker begins it, and with its result as it ends.
    watch: asked now and then about each run under way; one for which it returns a reason is ended, with that as its error.
    """
    runs = list(configs)
    check_runs(runs, backend, cpus, gpus, at_once, cluster)
    workers, room = _find_room(backend, cpus, gpus, at_once, cluster)
    made: list[RunFolder] = []
    try:
        for config in runs:  # now, so that a folder that cannot be written is refused before hours of work
            if resume and any(Path(config.output, name).exists() for name in LEFT_BEHIND):
                _wait_for_the_end(Path(config.output))
            else:
                made.append(make_run_folder(config.game, config.output))
        done = [finished(config) if resume else None for config in runs]
        results = [found or RunResult(config, Path(config.output)) for config, found in zip(runs, done, strict=True)]
        waiting = [number for number, found in enumerate(done) if found is None]
        may_join = backend == "processes" and watch is None and joined is not False
        numbers = {Path(runs[number].output): number for number in waiting}
        groups = joinable([runs[number] for number in waiting], joined) if may_join else [[runs[n]] for n in waiting]
        order = [[numbers[Path(config.output)] for config in group] for group in groups]
        return _Runs(results, order, workers, room, backend == "ray", resume, (on_begin, on_done, watch)).run()
    finally:
        for folder in reversed(made):
            with suppress(OSError):  # there is something in it
                for path in folder.made:
                    path.rmdir()


def joinable(configs: Sequence[RunConfig], joined: bool | None = None) -> list[list[RunConfig]]:
    """The runs in groups that learn together, in their order: the members of a group differ in nothing but their seed,
    learning rate and folder, and are on a GPU unless `joined` is True."""
    alike = dict[tuple[Any, ...], list[RunConfig]]()
    for config in configs:
        same = tuple(text for text in config.settings if text.partition("=")[0] not in (SEED, LEARNING_RATE))
        alike.setdefault((config.game, same), []).append(config)
    groups = list[list[RunConfig]]()
    for first, *others in alike.values():  # on one device, so one of them is looked at
        parallel = find_game(first.game).configure(None, first.settings).multiprocessing
        is_joined = joined or device_for(0, parallel) != "cpu"
        groups += [[first, *others]] if is_joined else [[each] for each in (first, *others)]
    return groups


# ---- runs that are there


def is_finished(run: Path, wanted: ExperimentConfig) -> bool:
    """Whether a run has ended, with all its epochs or steps."""
    return any(
        isinstance(each, Checkpoint)
        and each.facts.is_complete
        and (each.facts.recorded == wanted.epochs or each.facts.steps >= (wanted.max_steps or math.inf))
        for each in list_checkpoints(run)[-1:]
    )


def finished(config: RunConfig) -> RunResult | None:
    """The result of a run, read from its folder, if it has played all its epochs."""
    folder = Path(config.output)
    wanted = find_game(config.game).configure(None, config.settings).experiment
    if not is_finished(folder, wanted):
        return None
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return RunResult(config, folder, **_figures([json.loads(line) for line in lines]))


def _figures(epochs: Sequence[EpochRecord]) -> dict[str, Any]:
    """Return what a result says of the epochs of a run that has played them all."""
    if fault := diverged(epochs):
        return {"error": fault}
    results = results_of_run(epochs)
    return {"epochs": len(epochs), "reward": results.get(SUM), "results": results, "last_epoch": epochs[-1]}


def _wait_for_the_end(folder: Path) -> None:
    """A worker whose program was killed ends by itself, soon, but may still be writing now."""
    end = time.monotonic() + LOCKED_S
    while is_locked(folder):
        if time.monotonic() > end:
            raise RunFolderError(f"another process is writing to {folder}: wait for its end, or stop it.")
        time.sleep(0.05)


# ---- before the start


def check_runs(
    configs: Sequence[RunConfig],
    backend: str = "processes",
    cpus: float = 1.0,
    gpus: float = 0.0,
    at_once: int | None = None,
    cluster: ClusterConfig | Mapping[str, Any] | None = None,
) -> None:
    """Refuse what `run_many` cannot run: here for want of a device, on a cluster for want of the cluster."""
    if backend not in BACKENDS:
        raise ConfigError(f"backend is {short(backend)}: {nearest(str(backend), BACKENDS)}")
    need_posix("many runs at once need", "train one by one (`abreast train`)")
    if not configs:
        raise ConfigError("the list of runs is empty: give one RunConfig at least.")
    if not 0 < cpus < float("inf") or not 0 <= gpus < float("inf") or (at_once is not None and at_once < 1):
        raise ConfigError(
            f"cpus is {cpus}, gpus {gpus} and at_once {at_once}: expected more than 0 CPUs for each run, 0 GPUs or more,"
            " and 1 run at once or more."
        )
    if gpus and backend == "processes":
        raise ConfigError(f"gpus is {gpus:g}, but processes do not share out GPUs: leave it out, or use backend='ray'.")
    first: dict[Path, int] = {}
    for number, config in enumerate(configs):
        same = first.setdefault(Path(config.output).resolve(), number)
        if same != number:
            raise ConfigError(f"runs {same} and {number} have the same output, {config.output}: give each its own.")
        try:
            parsed = find_game(config.game).configure(None, config.settings)
            if backend == "processes":  # nodes have devices of their own
                device_for(0, parsed.multiprocessing)
        except ConfigError as error:
            raise error.inside(f"run {number}") from None
        if parsed.multiprocessing.enabled:
            raise ConfigError(
                f"run {number}: multiprocessing.enabled is true, but each of many runs is in one worker, which cannot have"
                " workers of its own: leave it out."
            )
    if backend == "ray":
        connect(ClusterConfig.parse(cluster or {}))


def _find_room(
    backend: str, cpus: float, gpus: float, at_once: int | None, cluster: ClusterConfig | Mapping[str, Any] | None
) -> tuple[Backend, Callable[[], int]]:
    """Where workers are started, and for how many there is room, which changes as nodes come and go."""
    near = ProcessBackend(preload=["abreast.runs"])
    if backend == "processes":
        return near, lambda: at_once or max(1, int(cores() // cpus))
    settings = ClusterConfig.parse(cluster or {})
    connection = connect(settings)
    workers = RayBackend(connection, cpus, gpus, settings.start_timeout, near)
    return workers, lambda: max(1, min(connection.room_for(cpus, gpus), at_once or sys.maxsize))


# ---- while they run


class _Runs:
    """Those under way, and those that wait for room. Each attempt has a worker of its own: no run finds what another has
    left in its process. (Runs that are joined share one.)"""

    def __init__(
        self,
        results: list[RunResult],
        waiting: Sequence[Sequence[int]],
        workers: Backend,
        room: Callable[[], int],
        is_elsewhere: bool,
        goes_on: bool,
        tells: tuple[
            Callable[[RunConfig], None], Callable[[RunResult], None], Callable[[RunConfig], str | None] | None
        ],
    ) -> None:
        self._results, self._waiting = results, deque(waiting)
        self._room, self._is_elsewhere, self._goes_on = room, is_elsewhere, goes_on
        self._on_begin, self._on_done, self._watch = tells
        self._looked = time.monotonic()
        self._under_way: dict[int, set[int]] = {}
        """By the number of a worker: its runs that are not over."""
        self._starts = [0] * len(results)
        self._numbers = count()
        self._team = Team(workers, self._spec, 0, RestartPolicy(ATTEMPTS, SILENCE_S, START_S))

    def run(self) -> list[RunResult]:
        """Run all of them."""
        try:
            while self._waiting or self._under_way:
                while self._waiting and self._has_room_for(self._waiting[0]):
                    self._begin(self._waiting.popleft())
                self._team.wait()
                for event in self._team.events():
                    if event.worker in self._under_way:  # one that has answered may die as well
                        self._handle(event)
                self._look()
        finally:
            self._team.kill()
        return self._results

    def _has_room_for(self, group: Sequence[int]) -> bool:
        return not self._under_way or sum(map(len, self._under_way.values())) + len(group) <= self._room()

    def _spec(self, worker: int) -> ChildSpec:
        first, *others = sorted(self._under_way[worker])
        return ChildSpec(f"run {first} and {len(others)} more" if others else f"run {first}", RunWork)

    def _begin(self, group: Sequence[int]) -> None:
        worker, orders = next(self._numbers), list[Order]()
        self._under_way[worker] = set(group)
        for number in group:
            config, folder, attempts, *_ = self._results[number]
            self._starts[number] += 1
            goes_on = self._goes_on or attempts > 0
            files = files_of(folder) if self._is_elsewhere and goes_on else {}
            orders.append(Order(number, config, attempts + 1, goes_on, self._is_elsewhere, files))
        self._team.add(worker)
        self._team.submit(worker, worker, orders)

    def _look(self) -> None:
        """End the runs that are not to go on."""
        if self._watch is None or time.monotonic() - self._looked < LOOK_S:
            return
        for worker, number in [(worker, number) for worker, left in self._under_way.items() for number in left]:
            reason = self._watch(self._results[number].config)
            if reason is not None:  # it is alone: what is watched is not joined
                self._team.retire(worker)
                del self._under_way[worker]
                self._results[number] = self._results[number]._replace(error=reason)
                self._on_done(self._results[number])
        self._looked = time.monotonic()

    def _handle(self, event: Event) -> None:
        """Take in what a worker says, or its death; then see which of its runs are over, or are to be begun again."""
        left = self._under_way[event.worker]
        if isinstance(event, Answered):
            if event.value is not None:
                self._take_in(left, event.value)
            if not event.last:
                return
        self._team.retire(event.worker)  # the team does not replace it: there may be less room than before
        del self._under_way[event.worker]
        again = list[int]()
        for number in sorted(left):
            if isinstance(event, Answered):  # it did not fit beside the others
                self._starts[number] -= 1
            else:
                self._results[number] = self._results[number]._replace(error=str(event.error))
                log.info("its stack:", exc_info=event.error)
                if self._results[number].attempts == ATTEMPTS or self._starts[number] == STARTS:
                    self._on_done(self._results[number])
                    continue
                log.warning("run %d is begun again", number)
            again.append(number)
        if again:
            self._waiting.appendleft(again)

    def _take_in(self, left: set[int], told: "Told") -> None:
        """What a worker says of one of its runs."""
        run = self._results[told.number]
        if run.attempts == 0:
            self._on_begin(run.config)
        run = run._replace(**told.known)
        try:
            write_files(run.folder, told.files)
        except (OSError, RunFolderError) as error:
            run = run._replace(error=f"the files of run {told.number} cannot be written to {run.folder}: {error}")
        self._results[told.number] = run
        if told.is_over:
            left.remove(told.number)
            self._on_done(run)


# ---- in a worker


class Order(NamedTuple):
    """What a worker is told of a run."""

    number: int
    config: RunConfig
    attempt: int
    goes_on: bool
    """Whether it goes on with what is there."""
    is_elsewhere: bool
    """Whether it sends its files."""
    files: Mapping[str, bytes]
    """Those that are there."""


class Told(NamedTuple):
    """What a worker says of a run."""

    number: int
    known: Mapping[str, Any]
    """By the names in `RunResult`."""
    files: Mapping[str, bytes]
    is_over: bool


class RunWork(Work):
    """Carries out a run, or several that learn together."""

    def __init__(self, context: ChildContext) -> None:
        self._context = context

    def obey(self, key: Hashable, orders: Sequence[Order]) -> None:
        """Carry out these runs. Those that do not fit beside the others are not begun."""
        set_volume(QUIET)  # many displays at once are none; log.txt has what they say
        attempts = [Attempt(self._context, key, order) for order in orders]
        if len(attempts) == 1:
            attempts[0].run()
        else:
            fitting = attempts[: attempts[0].count_fitting(len(attempts))]
            for found in run_joined([each.run for each in fitting]):
                if isinstance(found, BaseException):
                    raise found  # the death of this worker: those that are not over are begun again
        self._context.answer(key, None)


class Attempt:
    """An attempt at a run, and its logger."""

    def __init__(self, context: ChildContext, key: Hashable, order: Order) -> None:
        self._context, self._key, self._order = context, key, order
        self._folder, self._sent = Path(order.config.output), list[Path]()
        if order.is_elsewhere:
            self._folder = Path(tempfile.mkdtemp(prefix="abreast_run_"))
            self._cleaner = remove_at_end(self._folder)

    @cached_property
    def experiment(self) -> Experiment:
        """What is run."""
        game = find_game(self._order.config.game)
        return game.build(game.configure(None, self._order.config.settings))

    def count_fitting(self, wanted: int) -> int:
        """How many runs like this one fit onto its device, at most so many."""
        try:
            return how_many_fit(models_of(self.experiment.game)[0], self.experiment.config, wanted)
        except AbreastError:  # each of them says so itself
            return wanted

    def run(self, trainer: MakeTrainer | None = None) -> None:
        """Carry it out, and say how it has ended."""
        self._tell()  # where it is: if it dies, that may be the reason
        write_files(self._folder, self._order.files)
        try:
            if trainer is not None:
                self.experiment.trainer = trainer
            epochs = self._run()
        except Exception as error:
            is_ours = isinstance(error, AbreastError)
            if not is_ours and users_part(error) is None:
                raise  # the death of this worker: elsewhere it may fare better
            self._tell(is_over=True, error=str(error) if is_ours else words(error, OURS))
            return
        self._tell(is_over=True, **_figures(epochs))

    def _run(self) -> list[EpochRecord]:
        """Begin the run, or go on where the attempt before was."""
        goes_on = self._order.goes_on
        found = [each for each in list_checkpoints(self._folder) if isinstance(each, Checkpoint)] if goes_on else []
        if any(each.kind == "run" and each.facts.resumable for each in found):
            return self.experiment.run_experiment(animate=False, logger=self, resume=self._folder).epochs
        if goes_on:  # there is nothing to go on from
            RunFolder(self._folder, (), frozenset()).take_back()
        return self.experiment.run_experiment(animate=False, logger=self, output_dir=self._folder).epochs

    def record_epoch(self, epoch: int, loss: float, reward: float, epsilon: float, **more: Any) -> None:
        """Show a sign of life; on a node, send what there is whenever there is another checkpoint."""
        self._context.beat()
        there = sorted((self._folder / "checkpoints").iterdir())
        if self._order.is_elsewhere and there != self._sent:
            try:
                self._tell()
                self._sent = there
            except OSError as error:  # the next epoch tries again; raised, it would end the signs of life
                log.warning("what there is of this run could not be sent: %s", error)

    def _tell(self, is_over: bool = False, **known: Any) -> None:
        """Say what is known of the run."""
        files = files_of(self._folder) if self._order.is_elsewhere else {}
        told = {"attempts": self._order.attempt, "node": platform.node(), "error": None, **known}
        self._context.answer(self._key, Told(self._order.number, told, files, is_over), last=False)


# ---- run folders as messages


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a run, by their names in its folder; what else is in it is none of ours."""
    roots = [folder / name for name in WRITTEN if name != LOCK]
    paths = [path for root in roots for path in (root, *sorted(root.rglob("*"))) if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put the files of a run into its folder, in the place of those that it has. Each file, and `checkpoints` with all that
    is in it, is there whole or not at all."""
    if not files:
        return
    with locked(folder), tempfile.TemporaryDirectory(prefix=".part", dir=folder) as beside:
        for name, data in files.items():
            path = Path(beside, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        for path in sorted(Path(beside).iterdir(), reverse=True):  # metrics before checkpoints, which count their lines
            place = folder / path.name
            if place.is_dir():  # a folder cannot be renamed over one that is not empty
                place.rename(Path(beside, f"{path.name}.old"))
            path.rename(place)
