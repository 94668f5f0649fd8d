"""metrics.jsonl: a line for each epoch, in order."""

import json
import math
import numbers
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from abreast.errors import GameError, RunFolderError, short


class EpochRecord(TypedDict):
    """One line of metrics.jsonl. Everything that depends on the clock is under `time`."""

    epoch: int
    reward: float
    reward_per_agent: list[float]
    agents: NotRequired[list[str]]
    """What the game calls its agents, if it has names for them, in the same order."""
    loss: float | None
    loss_per_agent: list[float | None]
    learning: list[dict[str, float | None]]
    """Per agent, what its updates have reported, by name, in their mean; empty if nothing was learned."""
    epsilon: float
    steps: int
    """Steps of the environment in this run so far, in all lanes."""
    agent_steps: int
    updates: int
    updates_per_agent_step: float
    """In this run so far: the update-to-data ratio."""
    metrics: NotRequired[dict[str, float | None]]
    """The game's own figures (`Environment.metrics`), if it has any; None where one is not finite."""
    opponents: NotRequired[dict[str, dict[str, Any]]]
    """Per opponent from a pool: which member it was, the mean reward of the agents that learn, and whether that is more than
    its own (1, 0.5 or 0)."""
    time: dict[str, Any]


def figures_of(metrics: Mapping[str, Any], game: str) -> dict[str, float | None]:
    """The game's own figures, as plain numbers; None where one is not finite."""
    if not isinstance(metrics, Mapping):
        raise GameError(f"the metrics of {game} are {short(metrics)}: expected names with numbers.")
    for name, value in metrics.items():
        if not isinstance(name, str) or not isinstance(value, numbers.Real | np.bool_):
            raise GameError(f"the metric {name!r} of {game} is {short(value)}: expected a name with a number.")
    return {name: finite(float(value)) for name, value in metrics.items()}


def finite(value: float | None) -> float | None:
    """The value, or None if it is not finite (training has diverged, say): JSON has no word for such numbers."""
    return value if value is not None and math.isfinite(value) else None


def diverged(epochs: Sequence[EpochRecord]) -> str:
    """Return a sentence that says since when losses were not finite; nothing if all were."""
    first = {
        agent: record["epoch"]
        for record in reversed(epochs)
        for agent, figures in enumerate(record["learning"])
        if figures.get("loss", 0.0) is None
    }
    since = ", ".join(f"agent {agent} since epoch {epoch}" for agent, epoch in sorted(first.items()))
    return since and (
        f"the loss is not a finite number ({since}): what was learned since is of no use. Lower model.learning_rate, or"
        " repeat the run with --debug, which ends it at the first such number."
    )


class MetricsFile:
    """Appends lines to the file; what a run that goes on had written after its first `lines` is cut off."""

    def __init__(self, path: Path, lines: int = 0) -> None:
        self._path = path
        if path.exists():
            os.truncate(path, end_of_line(path, lines))
        self._file = path.open("ab")

    def add(self, record: EpochRecord) -> None:
        """Write a line, for others to read at once."""
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def sync(self) -> None:
        """Have all lines on the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def read(self) -> list[EpochRecord]:
        """All lines, those from before the run went on too."""
        with self._path.open("rb") as file:
            return [json.loads(line) for line in file]


def end_of_line(path: Path, lines: int) -> int:
    """The position after so many lines of a metrics file, which must be whole."""
    found = 0
    if lines:
        if not path.exists():
            raise RunFolderError(
                f"{path} is missing, but the checkpoint counts {lines} lines: its metrics cannot go on without a gap."
            )
        with path.open("rb") as file:
            for number in range(lines):
                line = file.readline()
                if _epoch_of(line) is None:
                    raise RunFolderError(
                        f"line {number + 1} of {path} is cut off, damaged or missing, but the checkpoint counts {lines}:"
                        " its metrics cannot go on without a gap."
                    )
                found += len(line)
    return found


def read_epochs(path: Path) -> tuple[list[EpochRecord], list[str]]:
    """The epochs in a metrics file, also of a run that goes on meanwhile, and a sentence for each line that is not one."""
    epochs, faults = list[EpochRecord](), list[str]()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                record: Any = {} if _epoch_of(line) is None else json.loads(line)
                if record.keys() >= EpochRecord.__required_keys__:
                    epochs.append(record)
                else:
                    faults.append(f"line {number} of {path} is cut off or damaged, and left out.")
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror or error}.") from None
    return epochs, faults


def last_rewards(path: Path, lines: int, count: int) -> list[list[float]]:
    """Return the rewards, by agent, of the newest `count` epochs among the first `lines`."""
    with path.open("rb") as file:
        return [json.loads(line)["reward_per_agent"] for line in islice(file, max(0, lines - count), lines)]


def _epoch_of(line: bytes) -> int | None:
    """The number of the epoch that a line is of, if it is whole."""
    try:
        record = json.loads(line) if line.endswith(b"\n") else None
        epoch, reward = record["epoch"], record["reward"]  # type: ignore[index]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return epoch if type(epoch) is int and isinstance(reward, float | int) else None
