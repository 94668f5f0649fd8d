"""Where the time of a run went, by its timeline.json: shares of working and waiting, who waits for whom, and what to do."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from abreast.errors import RunFolderError

MUCH = 0.25
"""A share of waiting from which on there is something to gain."""
MOST = 0.4
"""A share of one kind of work from which on it is what to change."""
GAME = "game (see and act: its turns and views)"
OTHER = "other"
"""What is in no span."""
LEARNERS, ACTORS, WORKERS = "learner ", "actor ", "rollout "
"""How the names of workers begin, by role."""


class Process(NamedTuple):
    """A process, or a worker thread, and what it did."""

    name: str
    started: float
    ended: float
    """Seconds after the start of the run."""
    shares: Mapping[str, float]
    """Of the time from its start to its last span: by name of the span, without those of spans inside."""
    waiting: float
    """Share of its time in which it waited, or was being restarted."""
    waits: Sequence[tuple[str, float, float]]
    """Names, begins and ends of its waits that are in the file."""
    known_from: float
    """Seconds from which on all its waits are there."""


class RunShares(NamedTuple):
    """What a timeline says of a run."""

    seconds: float
    cores: int
    main: Process
    workers: Sequence[Process]
    plan: str = ""
    """How a parallel run was planned, and why."""

    def of(self, role: str) -> list[Process]:
        """The workers of this role."""
        return [each for each in self.workers if each.name.startswith(role)]


def read_timeline(run: Path) -> RunShares:
    """The timeline of a run, by its folder or its file."""
    path = run if run.is_file() else run / "timeline.json"
    if not path.is_file():
        reason = "no such folder" if not run.exists() else "it has no timeline.json"
        raise RunFolderError(
            f"{run} has no timeline: {reason}; a run writes it with its checkpoints and at its end, unless its setting"
            " `timeline` is false."
        )
    try:
        found = shares_of(json.loads(path.read_bytes()))
        path = path.with_name("plan.json")
        if not path.is_file():
            return found
        told = json.loads(path.read_bytes())
        pace, why = str(told["reasons"][0]).partition("; ")[2], f": {told['reasons'][1]}"
        return found._replace(plan=pace if told["timing"] else pace.rstrip(".") + why)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise RunFolderError(f"{path} is cut off, or no {path.stem} of a run ({error!r}).") from None


def shares_of(found: Mapping[str, Any]) -> RunShares:
    """The content of a timeline.json."""
    told = found["abreast"]
    main, *workers = [_process(each, found["traceEvents"]) for each in told["processes"]]
    return RunShares(float(told["seconds"]), int(told["cores"]), main, workers)


def _process(told: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Process:
    started, ended, totals = float(told["started"]), float(told["ended"]), told["totals"]
    life = max(ended - started, 1e-9)
    shares = {name: each["own_seconds"] / life for name, each in totals.items() if not each["is_async"]}
    waiting = sum(share for name, share in shares.items() if totals[name]["is_wait"])
    shares[OTHER] = max(0.0, 1.0 - sum(shares.values()))
    own = [each for each in events if each["ph"] == "X" and each["pid"] == told["pid"] and each["cat"] == "wait"]
    waits = [(each["name"], each["ts"] / 1e6, (each["ts"] + each["dur"]) / 1e6) for each in own]
    counts, firsts = Counter(name for name, _, _ in waits), {name: begin for name, begin, _ in reversed(waits)}
    known_from = max([0.0, *(begin for name, begin in firsts.items() if counts[name] < totals[name]["count"])])
    return Process(told["name"], started, ended, shares, waiting, waits, known_from)


def who_waits(run: RunShares) -> list[str]:
    """A sentence for each that waits for another."""
    main = run.main
    waits = {name.removeprefix("wait "): share for name, share in main.shares.items() if name.startswith("wait for ")}
    told = [f"{main.name} waits {share:.0%} {for_whom}" for for_whom, share in waits.items()]
    for role, what in ((LEARNERS, "learners wait"), (ACTORS, "other actors wait"), (WORKERS, "workers wait")):
        if group := run.of(role):
            told.append(f"{what} {_waiting(group):.0%} for the {main.name}")
    return told


def _waiting(group: Sequence[Process]) -> float:
    """For orders, in the mean."""
    return fmean(each.shares.get("wait", 0.0) for each in group) if group else 0.0


def advice(run: RunShares) -> str:
    """One sentence, by the first rule that holds: what costs most, and can be helped, comes first."""
    main, learners, workers = run.main, run.of(LEARNERS), run.of(WORKERS)
    of_learners, of_workers, is_alone = _waiting(learners), _waiting(workers), not run.workers
    waits = ("wait for learners", "wait for actors", "wait for workers", "wait for calls")
    for_learners, for_actors, for_workers, for_calls = (main.shares.get(name, 0.0) for name in waits)
    train = sum(main.shares.get(name, 0.0) for name in ("train", "update", "sample"))
    at_once = sum(1.0 - each.waiting for each in (main, *run.workers))
    game, choosing, kept = (
        sum(main.shares.get(name, 0.0) for name in names)
        for names in (("see", "act"), ("choose",), ("record", "film", "checkpoint"))
    )
    longest, part = max(
        (share, name) for name, share in main.shares.items() if not name.startswith(("wait", "paused", "restart"))
    )
    starting = fmean(each.shares.get("start", 0.0) for each in run.workers) if run.workers else 0.0
    shares_worker = any(" of agents " in each.name for each in learners) and len(learners) < run.cores
    more = "more workers (num_workers, up to one an agent), or " if shares_worker else ""
    why_kept = f"the plan of this run kept it in one ({run.plan.rstrip('.')})." if run.plan else ""
    why_alone = why_kept or "a parallel run (--parallel) does both at once, where its plan says that this pays."
    rules = (
        (starting >= MUCH, f"workers took {starting:.0%} of their time to start: a longer run shows where its time goes."),
        (min(for_learners, of_learners) >= MUCH, f"the actor waits {for_learners:.0%} for learners, and learners"
         f" {of_learners:.0%} for the actor: let them overlap (multiprocessing.schedule=pipelined)."),
        (for_learners >= MUCH, f"the actor waits {for_learners:.0%} for learners: {more}fewer or smaller updates."),
        (of_learners >= MUCH and game > choosing, f"learners wait {of_learners:.0%}, and the actor spends {game:.0%} in the"
         f" {GAME}: another actor (num_actors), or a faster game; more lanes would not help."),
        (of_learners >= MUCH, f"learners wait {of_learners:.0%}: more lanes (num_envs), or another actor (num_actors)."),
        (for_actors >= MUCH, f"the first actor waits {for_actors:.0%} for the others: fewer actors (num_actors), or a core"
         " for each."),
        ("play" in main.shares and kept >= MOST, f"the actor spends {kept:.0%} on what it keeps (record, film,"
         " checkpoint): no films (--no-animate), fewer loggers, or a longer run."),
        (is_alone and game >= MOST, f"one process spends {game:.0%} in the {GAME}: a faster game, or actors that play"
         " lanes at the same time (--parallel, num_envs, num_actors)."),
        (is_alone and run.cores > 1 and 0.1 < train < 0.9, f"one process plays, and trains {train:.0%} of its time:"
         f" {why_alone}"),
        (bool(workers) and for_workers + for_calls >= MUCH > of_workers, f"workers work {1 - of_workers:.0%}, and the main"
         f" process waits {for_workers + for_calls:.0%} for them: more workers (es_manager.max_workers)."),
        (for_calls >= MUCH, f"the main process waits {for_calls:.0%} for calls of the model: more episodes at a time"
         " (--in-flight, --slots), or a faster model."),
        (not is_alone and at_once > run.cores + 0.5, f"{at_once:.1f} processes work at a time and share {run.cores} cores:"
         " if they compute all the time, fewer workers would do as much, and more cores more."),
        (game >= MOST, f"the actor spends {game:.0%} in the {GAME}: another actor (num_actors), or a faster game; more"
         " lanes would not help."),
        (choosing >= MOST, f"the actor spends {choosing:.0%} in choose: more lanes (num_envs), for all of which it chooses"
         " at once, or a smaller network."),
        (True, f"the {main.name} works {1 - main.waiting:.0%}, most of it in {part} ({longest:.0%}), and nobody waits for"
         " long: nothing to gain by settings."),
    )  # fmt: skip
    return next(told for holds, told in rules if holds)
