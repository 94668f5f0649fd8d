"""The plan of a long run, for runs that are too short for their start to be worth it."""

from typing import Any, NamedTuple

from abreast.training import Experiment
from abreast.training.checkpoints.keeper import Checkpoints
from abreast.training.plan import Plan, Split, describe
from abreast.training.run.record import RunOptions, RunRecord
from abreast.training.run.session import Session
from abreast.training.system import MARLMultiprocessingSystem

LONG = 100_000
"""Epochs of a run whose start does not count. (Its start and its end are not measured either: reference.py, `speed`.)"""
SETTINGS = ("workers", "num_actors", "num_envs", "num_workers")


class Planned(NamedTuple):
    """What was planned."""

    parallel: dict[str, Any]
    """The plan as a user would set it."""
    told: str
    """The same in a few words."""


class _Decided(Exception):
    """The run has this plan."""


class _UntilDecided(RunRecord):
    """Ends the run."""

    def keep_plan(self, plan: Plan) -> None:
        raise _Decided(plan)


def plan_of(env: Experiment) -> Planned:
    """What a run of this environment is planned as here: it is begun, and ended as soon as it has decided."""
    env.make_lanes()
    system = MARLMultiprocessingSystem(env, env.game.players, env.config)
    options = RunOptions(env.config.multiprocessing.schedule, is_parallel=True, animate=False, logging=False)
    record = _UntilDecided(env, options)  # which writes nothing
    system.start()
    try:
        system.run(Session(env, record, Checkpoints(env, record)))
        raise AssertionError("a run that has ended has a plan")
    except _Decided as decided:
        plan: Plan = decided.args[0]
    finally:
        system.stop()
    applied = plan.applied(env.config.multiprocessing).model_dump()
    parallel = {key: applied[key] for key in SETTINGS if applied[key] is not None}
    return Planned(parallel, describe(plan.workers, Split(plan.num_workers, plan.num_actors), plan.lanes))
