"""Settings of countdown."""

from pathlib import Path
from typing import Self

import pydantic
from pydantic import Field

from abreast.rollouts.config import EnvConfig


class CountdownConfig(EnvConfig):
    """Where tasks come from, and how hard the generated ones are."""

    action_lookup: None = None
    """Always none: the answer is free text."""
    min_numbers: int = Field(3, ge=2, le=6)
    """Fewest numbers of a generated task."""
    max_numbers: int = Field(4, ge=2, le=6)
    """Most numbers of a generated task."""
    largest_number: int = Field(100, ge=1, le=100_000)
    """Generated numbers run from 1 to this one."""
    largest_target: int = Field(1000, ge=1, le=1_000_000)
    """Generated targets run from 1 to this one; not below `largest_number`."""
    data_path: Path | None = Field(None, strict=False)
    """A file of tasks (.jsonl, .json or .parquet with `nums` and `target`) to choose from; none: tasks are generated."""

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
