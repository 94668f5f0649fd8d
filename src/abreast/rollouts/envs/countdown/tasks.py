"""Tasks: generated so that each can be solved, or read from a file."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import ConfigError
from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.expression import MOST_DIGITS
from abreast.rollouts.envs.records import load_records, records_of_split

MOST_NUMBERS = 32
MOST_SUMMANDS = 16
LARGEST = 10**MOST_DIGITS - 1
"""The largest number an answer can hold, so the largest a task may ask for."""


class Task(NamedTuple):
    """What is asked."""

    numbers: tuple[int, ...]
    target: int


def choose_task(config: CountdownConfig, rng: np.random.Generator, seed: int | None = None) -> Task:
    """The next task: one of the file's, or a new one."""
    if config.data_path is None:
        return make_task(config, rng)
    tasks = tasks_in_file(config)
    if config.numbering == "by_seed" and seed is not None:
        return tasks[seed % len(tasks)]
    return tasks[int(rng.integers(len(tasks)))]


@cache
def tasks_in_file(config: CountdownConfig) -> Sequence[Task]:
    """The tasks that the configuration leaves of its file, which is read once per process."""
    assert config.data_path is not None
    read = load_records(config.data_path, ("nums", "target"), _task)[: config.max_instances]
    tasks = [task for task in read if not config.plus_minus_only or is_a_sum(task)]
    if not tasks:
        raise ConfigError(
            f"no task of the data file {config.data_path} is solved by addition and subtraction alone: leave"
            " plus_minus_only out."
        )
    return records_of_split(tasks, "all" if config.numbering == "by_seed" else config.split)


def is_a_sum(task: Task) -> bool:
    """Whether some choice of signs makes the numbers add up to the target; not looked for among more than 16 numbers."""
    if len(task.numbers) > MOST_SUMMANDS:
        return False
    sums = {0}
    for number in task.numbers:
        sums = {value + signed for value in sums for signed in (number, -number)}
    return task.target in sums


def make_task(config: CountdownConfig, rng: np.random.Generator) -> Task:
    """Draw numbers and combine them, two at a time, until one is left: that is the target, so there is a solution."""
    count = int(rng.integers(config.min_numbers, config.max_numbers, endpoint=True))
    numbers = rng.integers(1, config.largest_number, endpoint=True, size=count).tolist()
    values = list(numbers)
    while len(values) > 1:
        first = values.pop(int(rng.integers(len(values))))
        second = values.pop(int(rng.integers(len(values))))
        results = _whole_results(first, second, config.largest_target, config.plus_minus_only)
        values.append(results[int(rng.integers(len(results)))])
    return Task(tuple(numbers), values[0])


def _whole_results(first: int, second: int, limit: int, plus_minus_only: bool) -> list[int]:
    """What two whole numbers of 1 to `limit` give within the same bounds; never empty.

    Different numbers have a difference within the bounds, equal ones the quotient 1 (or, without division, one that is not).
    """
    small, large = sorted((first, second))
    results = [small + large, large - small]
    if not plus_minus_only:
        results = [small + large, small * large, large - small, *([] if large % small else [large // small])]
    return [result for result in results if 0 < result <= limit] or [0]


def _task(record: dict[str, Any], place: str) -> Task:
    numbers, target = record["nums"], record["target"]
    is_list = isinstance(numbers, list) and 1 <= len(numbers) <= MOST_NUMBERS
    if not is_list or not all(map(_fits, [*numbers, target])):
        raise ConfigError(
            f"{place}: nums must be a list of 1 to {MOST_NUMBERS} whole numbers, target one, all from 0 to {LARGEST}."
        )
    return Task(tuple(numbers), target)


def _fits(number: object) -> bool:
    return type(number) is int and 0 <= number <= LARGEST
