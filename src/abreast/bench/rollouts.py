"""What are worker processes worth for text environments? Batches of 16 environments under `auto`, in workers, and one after
the other in the main process.

The limit: bare processes, one per worker, that are told "go" and do the same computations without environments. `auto` is
measured from its third epoch on, when it has decided.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal, NamedTuple

from abreast.bench.bare import BareProcesses
from abreast.bench.busy import rounds_for, stepping
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, rate_of
from abreast.processes.cores import cores
from abreast.rollouts import EnvStateManager

TURNS = 50
"""Turns of an episode. (Episodes without end would measure how Python's garbage collector copes with endless histories.)"""
MOST_WORKERS = 8
MANAGERS: dict[str, bool | Literal["auto"]] = {"sequential": False, "auto": "auto", "workers": True}


class Size(NamedTuple):
    """What is measured, and how often."""

    repeats: int
    seconds: float
    """Of each repeat of each variant."""
    microseconds: tuple[float, ...] = (0, 100, 1000)
    envs: int = 16
    workers: int | None = None
    """None: one a core, and no more than 8."""


SMALL, FULL = Size(5, 0.1), Size(30, 0.1)


class Endless:
    """Steps all environments again and again; when their episodes are over, new ones begin."""

    def __init__(self, stepper: Any, envs: int) -> None:
        self.stepper = stepper
        self.inputs = [{"env_id": env_id, "actions": ["go"]} for env_id in range(envs)]
        self.goes_on: Any = None

    def batch(self) -> None:
        """One step of each."""
        if not self.goes_on:
            self.stepper.reset(0)
        self.goes_on = self.stepper.step(self.inputs)


def settings(rounds: int, envs: int, workers: int) -> dict[str, Any]:
    """The configuration of a manager."""
    groups = {"env_groups": envs, "group_size": 1, "env_configs": {"tags": ["Busy"], "n_groups": [envs]}}
    tag = {"env_type": "abreast.bench.busy:KIND", "max_actions_per_traj": TURNS, "env_config": {"rounds": rounds}}
    return {"es_manager": {"train": groups, "val": groups, "max_workers": workers}, "custom_envs": {"Busy": tag}}


def shares(rounds: int, envs: int, workers: int) -> list[tuple[int, int]]:
    """What each bare process steps, so that all environments are."""
    return [(rounds, (envs + worker) // workers) for worker in range(workers)]


def measure(size: Size) -> Iterator[Row]:
    """For environments of each cost, all variants in turns."""
    workers = size.workers or min(MOST_WORKERS, cores())
    for microseconds in size.microseconds:
        rounds = rounds_for(microseconds)
        with ExitStack() as stack:
            steppers: dict[str, Callable[[], None]] = {}
            for name, use in MANAGERS.items():
                manager = stack.enter_context(EnvStateManager(settings(rounds, size.envs, workers)))
                manager.use_multiprocessing = use
                steppers[name] = Endless(manager, size.envs).batch
            bare = stack.enter_context(BareProcesses(stepping, shares(rounds, size.envs, workers)))
            for _ in range(2 * TURNS + 1):
                steppers["auto"]()  # two epochs, so that it has decided
            steppers["limit"] = bare.batch
            variants = {name: partial(rate_of, batch, size.seconds) for name, batch in steppers.items()}
            in_turns(variants, 1)  # workers start
            rates = in_turns(variants, size.repeats)
        yield from rows(rates, microseconds, size.envs, workers)


def rows(rates: dict[str, list[float]], microseconds: float, envs: int, workers: int) -> Iterator[Row]:
    """The rows of batches per second."""
    base = rates["sequential"]
    limits = quotients(rates["limit"], base)
    named = {name: f"{envs} environments of {microseconds:g} µs, {name}" for name in MANAGERS}
    yield Row(named["sequential"], "steps/s", [each * envs for each in base])
    for name in ("auto", "workers"):
        steps = [each * envs for each in rates[name]]
        yield Row(named[name], "steps/s", steps, quotients(rates[name], base), "sequential", limits)
    what = f"{envs} environments of {microseconds:g} µs, {workers} bare process{'' if workers == 1 else 'es'}"
    yield Row(what, "steps/s", [each * envs for each in rates["limit"]], limits, "sequential")
