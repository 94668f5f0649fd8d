"""What is promised of a run, in one table: subject × way of running × what happens to it.

    subject      promises/subjects.py
    schedule     lockstep: as the sequential run; pipelined: as the pipelined run in one thread
    workers      where learners live; moves: inline at first, and then in processes; ray: on nodes of a cluster
    actors, mode who plays the two lanes; how weights are read
    happens      nothing; it is stopped and resumed; learners or actors are killed

Whatever happens, the end is byte for byte that of the reference: metrics, weights, moments, streams, replay, worlds. The
suite runs a cover of all pairs, `make chaos` the full product. Each row is a run of its own; references are shared.
"""

from itertools import combinations, product

import pytest

from abreast.training import plan as plan_module
from abreast.training.actors.base import Play
from abreast.training.learners.process import Train
from abreast.training.plan import Split
from fakes import outcome
from nodes import on_nodes
from promises.cover import IS_FULL, cover, rows
from promises.strikes import strike
from promises.subjects import EPOCHS, SUBJECTS

TABLE = {
    "subject": SUBJECTS,
    "schedule": ["lockstep", "pipelined"],
    "workers": ["processes", "threads", "inline", "moves", "ray"],
    "actors": [1, 2],
    "mode": ["snapshot", "double_buffer"],
    "happens": ["nothing", "resumed", "learners killed", "actors killed"],
}


ALSO_IN_OTHERS = ("ppo", "cnn", "frozen")
"""Subjects whose parts other subjects have, too: run in the full table."""
ON_NODES = ("own network", "zoo, at once", *(("iqn", "ppo", "dqn, backlog") if IS_FULL else ()))
"""Subjects that are run there: it takes seconds to start a worker on a node."""


def is_valid(subject, schedule, workers, actors, mode, happens):
    if subject in ALSO_IN_OTHERS and not IS_FULL:
        return False
    if workers == "ray" and subject not in ON_NODES:
        return False
    if workers == "ray" and not IS_FULL and (actors > 1 or happens not in ("nothing", "learners killed")):
        return False  # cluster/test_training.py has a run with actors there, and one that goes on
    if happens == "learners killed" and workers not in ("processes", "moves", "ray"):
        return False
    if happens == "actors killed" and (workers not in ("processes", "ray") or actors != 2):
        return False
    if workers in ("inline", "moves") and actors > 1:
        return False  # moving lanes, too: test_plan.py
    if workers == "inline" and mode != "snapshot":
        return False  # nothing is published
    if subject == "batched world" and (actors > 1 or workers == "moves"):
        return False  # one actor, beside its learners
    return (schedule, workers, happens) != ("pipelined", "inline", "nothing")  # that is the reference


class StopsAt:
    """A logger that ends the run when an epoch is recorded."""

    def __init__(self, epoch=None):
        self._epoch = epoch

    def record_epoch(self, epoch, *_, **__):
        if epoch == self._epoch:
            raise Stop


class Stop(BaseException):
    """No Exception: a logger that raises one is left out, and the run goes on."""


def settings(schedule, workers, actors, mode):
    where = {"schedule": schedule, "workers": "auto" if workers == "moves" else workers, "mode": mode}
    where |= {"num_actors": actors, "num_envs": 2, "max_restarts": 1000}
    if workers in ("processes", "threads", "ray"):
        where["num_workers"] = 2 if workers != "ray" or IS_FULL else 1  # one on a node takes seconds to start
    given = [f"multiprocessing.{key}={value}" for key, value in where.items()]
    return [*given, *on_nodes()] if workers == "ray" else given


def end_of(experiment, run):
    """All that has to be the same in the end."""
    epochs, learned = outcome(experiment, run)
    facts, arrays = experiment.game.state()
    return epochs, learned, facts, {name: array.tobytes() for name, array in arrays.items()}


@pytest.fixture(scope="module")
def reference():
    """Of a subject, schedule and number of actors, the end in one thread. Computed once."""
    known = {}

    def of(subject, schedule, actors):
        key = (subject, schedule, actors)
        if key not in known:
            experiment = SUBJECTS[subject](*settings(schedule, "inline", actors, "snapshot"))
            is_lockstep = schedule == "lockstep"
            known[key] = end_of(experiment, experiment.run_experiment if is_lockstep else experiment.run_experiment_mp)
            assert known[key][0][-1]["updates"] > 0, "nothing was learned, so the comparison would be empty"
        return known[key]

    return of


def by_subject(table):
    """Rows whose references are computed in one worker of pytest."""
    groups = ("ray" if "ray" in row else f"promises: {row[0]}" for row in table)
    return [pytest.param(*row, marks=pytest.mark.xdist_group(group)) for row, group in zip(table, groups, strict=True)]


@pytest.mark.parametrize(tuple(TABLE), by_subject(rows(TABLE, is_valid)))
def test_the_end_is_that_of_the_reference(
    subject, schedule, workers, actors, mode, happens, reference, tmp_path, monkeypatch
):
    monkeypatch.setattr(plan_module, "choose", lambda timing, splits: Split(1))  # where it is left to the run
    monkeypatch.setattr(plan_module, "cores", lambda: 2)

    def build():
        return SUBJECTS[subject](*settings(schedule, workers, actors, mode))

    is_sequential = (schedule, workers, happens) == (
        "lockstep",
        "inline",
        "resumed",
    )  # that the loop is the same: "nothing"
    how = "run_experiment" if is_sequential else "run_experiment_mp"
    experiment, more = build(), {}
    if happens == "resumed":
        with pytest.raises(Stop):
            getattr(experiment, how)(animate=False, logger=StopsAt(7), output_dir=tmp_path / "run")
        experiment, more = build(), {"resume": tmp_path / "run", "logging": True, "logger": StopsAt()}
    kind = {"learners killed": Train, "actors killed": Play}.get(happens, Stop)
    with strike(kind, at={1, 4}) as struck:
        found = end_of(experiment, lambda **usual: getattr(experiment, how)(**usual | more))
    assert found == reference(subject, schedule, actors)
    assert bool(struck) == ("killed" in happens)


@pytest.mark.parametrize("subject", by_subject([(name,) for name in SUBJECTS if IS_FULL or name not in ALSO_IN_OTHERS]))
def test_pipelined_differs_from_lockstep_or_the_comparison_would_be_empty(subject, reference):
    assert reference(subject, "pipelined", 1) != reference(subject, "lockstep", 1)


FREE = {"subject": SUBJECTS, "workers": ["processes", "threads"], "actors": [1, 2]}


@pytest.mark.parametrize(
    tuple(FREE), by_subject(rows(FREE, lambda subject, workers, actors: actors == 1 or "batched" not in subject, 1))
)
def test_free_plays_every_epoch_once(subject, workers, actors):
    experiment = SUBJECTS[subject](*settings("free", workers, actors, "snapshot"))
    epochs = experiment.run_experiment_mp(animate=False, logging=False).epochs
    assert [record["epoch"] for record in epochs] == list(range(EPOCHS))


def test_the_cover_has_all_pairs():
    every = [row for row in product(*TABLE.values()) if is_valid(*row)]
    chosen = cover(every)

    def pairs(some):
        return {pair for row in some for pair in combinations(enumerate(row), 2)}

    assert pairs(chosen) == pairs(every) and len(chosen) < len(every) / 10
    assert len(cover(every, together=1)) == len({row[0] for row in every})
