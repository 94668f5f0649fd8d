"""Settings of MetaMathQA."""

from pathlib import Path

from pydantic import Field

from abreast.rollouts.config import EnvConfig


class MetaMathQAConfig(EnvConfig):
    """Where questions come from, and how often one may try."""

    action_lookup: None = None
    """Always none: the answer is free text."""
    max_attempts: int = Field(5, ge=1, le=100)
    """Answers an episode takes; when the last of them is wrong, it is cut off."""
    data_path: Path | None = Field(None, strict=False)
    """A file of questions (.jsonl, .json or .parquet with `query` and `response`); none: the set that ships."""
