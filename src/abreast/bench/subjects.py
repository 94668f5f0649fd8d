"""The subjects of `abreast bench`: which there are, and how each is measured. Without torch, until one is measured."""

from collections.abc import Iterator, Sequence
from importlib import import_module

from abreast.bench.rows import Row
from abreast.errors import ConfigError, nearest

SUBJECTS = {
    "floors": "what this machine can do: matrix products of one core and of all, a message, a worker's start",
    "training": "training in parallel, as a multiple of the sequential run",
    "rollouts": "text environments under `auto` and in workers, as a multiple of one after the other",
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
