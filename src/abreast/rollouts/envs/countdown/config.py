"""Settings of countdown."""

from pathlib import Path
from typing import ClassVar, Literal, Self

import pydantic
from pydantic import Field

from abreast.rollouts.config import EnvConfig
from abreast.rollouts.envs.records import Split


class CountdownConfig(EnvConfig):
    """Where tasks come from, how hard the generated ones are, and what an answer is worth."""

    THEIR_KEYS: ClassVar[str] = "countdown"

    action_lookup: None = None
    """Always null: the answer is free text."""
    min_numbers: int = Field(3, ge=2, le=6)
    """Fewest numbers of a generated task."""
    max_numbers: int = Field(4, ge=2, le=6)
    """Most numbers of a generated task."""
    largest_number: int = Field(100, ge=1, le=100_000)
    """Generated numbers run from 1 to this one."""
    largest_target: int = Field(1000, ge=1, le=1_000_000)
    """Generated targets run from 1 to this one; not below `largest_number`."""
    data_path: Path | None = Field(None, strict=False)
    """A file of tasks (.jsonl, .json or .parquet with `nums` and `target`) to choose from; null: tasks are generated."""
    split: Split = "all"
    """Which records of the file to choose from: of every ten, eight are train, one test, one val. A manager takes the
    split of its mode unless this is given. Generated tasks have no splits."""
    max_instances: int | None = Field(None, ge=1)
    """Records of the file to read, from its beginning; null: all."""
    plus_minus_only: bool = False
    """Only tasks that addition and subtraction alone solve: the others of a file are left out, and none generated."""
    numbering: Literal["drawn", "by_seed"] = "drawn"
    """Which record of the file a seed stands for. drawn: one drawn by it; by_seed: the record number seed modulo their
    count, of the whole file, as in RAGEN."""
    unreadable_ends: bool = False
    """Whether an answer that is no expression ends the episode; false: it changes nothing, and another may be given."""
    score: float = 1.0
    """Reward of a correct answer."""
    format_score: float = 0.1
    """Reward of an answer with the right numbers but another value."""
    render_mode: Literal["text"] = "text"
    """What `render` returns: there is only text."""

    @pydantic.model_validator(mode="after")
    def _bounds_agree(self) -> Self:
        if self.min_numbers > self.max_numbers:
            raise ValueError(
                f"min_numbers {self.min_numbers} is more than max_numbers {self.max_numbers}: no task could be made. "
                "Lower min_numbers or raise max_numbers."
            )
        if self.largest_target < self.largest_number:
            raise ValueError(
                f"largest_target {self.largest_target} is below largest_number {self.largest_number}: some numbers could "
                "not be brought down to a target. Raise largest_target or lower largest_number."
            )
        return self
