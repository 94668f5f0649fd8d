"""The subjects of `abreast bench`: which there are, and how each is measured. Without torch, until one is measured."""

from collections.abc import Iterator, Sequence
from importlib import import_module

from abreast.bench.rows import Row
from abreast.errors import ConfigError, nearest

SUBJECTS = {
    "floors": "what this machine can do: matrix products and copies of one core and of all, a message, a worker's start",
    "update": "an update of the reference learner against its matrix products",
    "action": "an agent-step of play, with world and memory, against the matrix products of choosing",
    "parts": "where the time of the sequential run goes: world, choosing, update",
    "training": "parallel runs as a multiple of the sequential one, and as a share of what the products alone allow",
    "agents": "the time of an agent-step with 200 small agents, against 5",
    "map": "a turn on a 200x200 map against one on a 20x20 map",
    "checkpoint": "what a checkpoint costs the actor, against a plain write of as many bytes",
    "rollouts": "text environments under `auto` against one after the other, and what bare processes reach",
}
"""Name and question of each, in the order in which they are measured. Each is the module of its name."""


def chosen(names: Sequence[str]) -> list[str]:
    """The subjects of these names, in their order; none given: all."""
    for name in names:
        if name not in SUBJECTS:
            raise ConfigError(f"there is no benchmark {name!r}: {nearest(name, SUBJECTS)}")
    return [name for name in SUBJECTS if name in names or not names]


def measure(name: str, full: bool) -> Iterator[Row]:
    """The rows of a subject, small or in full."""
    module = import_module(f"abreast.bench.{name}")
    rows: Iterator[Row] = module.measure(module.FULL if full else module.SMALL)
    return rows
