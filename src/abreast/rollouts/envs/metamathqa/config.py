"""Settings of MetaMathQA."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from abreast.rollouts.config import EnvConfig
from abreast.rollouts.envs.records import Split


class MetaMathQAConfig(EnvConfig):
    """Where questions come from, and how often one may try."""

    THEIR_KEYS: ClassVar[str] = "metamathqa"

    action_lookup: None = None
    """Always null: the answer is free text."""
    max_attempts: int | None = Field(5, ge=1, le=100)
    """Answers an episode takes; when the last of them is wrong, it is cut off. None: as many as max_actions_per_traj."""
    data_path: Path | None = Field(None, strict=False)
    """A file of questions (.jsonl, .json or .parquet with `query` and `response`); null: the set that ships."""
    split: Split = "all"
    """Which questions to choose from: of every ten of the file, eight are train, one test, one val. A manager takes the
    split of its mode unless this is given."""
    numbering: Literal["drawn", "python"] = "drawn"
    """Which question a seed stands for. drawn: one drawn by numpy; python: the one that Python's `random` draws from the
    whole file, as in RAGEN."""
    match: Literal["value", "text"] = "value"
    """When an answer is right. value: numbers by their value, however they are written; text: letter by letter, but for
    case and white space, as in RAGEN."""
