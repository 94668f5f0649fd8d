"""The plan of a long run, for runs that are too short for their start to be worth it."""

from typing import Any, NamedTuple

from abreast.games.treasurehunt import TreasurehuntEnv

LONG = 100_000
"""Epochs of a run whose start does not count. (Its start and its end are not measured either: reference.py, `speed`.)"""
SETTINGS = ("workers", "num_actors", "num_envs", "num_workers", "learner_threads")


class Planned(NamedTuple):
    """What was planned."""

    parallel: dict[str, Any]
    """The plan as a user would set it."""
    told: str
    """The same in a few words."""


def plan_of(env: TreasurehuntEnv) -> Planned:
    """What a run of this environment would be planned as, here and now."""
    plan = env.plan()
    applied = plan.applied(env.config.multiprocessing).model_dump()
    parallel = {key: applied[key] for key in SETTINGS if applied[key] is not None}
    if plan.workers == "inline":
        return Planned(parallel, "inline")
    kind = {"processes": "process", "threads": "thread"}[plan.workers]
    several = {"process": "processes", "thread": "threads"}[kind]
    workers = f"{plan.num_workers} {kind if plan.num_workers == 1 else several}"
    threads = f" of {plan.learner_threads} threads" if plan.learner_threads > 1 else ""
    return Planned(parallel, f"{workers}{threads}, {plan.num_actors} actor{'' if plan.num_actors == 1 else 's'}")
