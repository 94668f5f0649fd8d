"""Settings of MetaMathQA."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from abreast.rollouts.config import EnvConfig
from abreast.rollouts.envs.records import Split
from abreast.rollouts.keys import Refused


class MetaMathQAConfig(EnvConfig):
    """Where questions come from, and how often one may try."""

    REFUSED: ClassVar[Mapping[str, Refused]] = MappingProxyType(
        {
            "cache_dir": Refused(
                "nothing is downloaded here, so nothing is kept; leave it out, and set data_path to a file."
            )
        }
    )

    action_lookup: None = None
    """Always none: the answer is free text."""
    max_attempts: int | None = Field(5, ge=1, le=100)
    """Answers an episode takes; when the last of them is wrong, it is cut off. None: as many as max_actions_per_traj."""
    data_path: Path | None = Field(None, strict=False)
    """A file of questions (.jsonl, .json or .parquet with `query` and `response`); none: the set that ships."""
    split: Split = "all"
    """Which questions to choose from: of every ten of the file, eight are train, one test, one val. A manager takes the
    split of its mode unless this is given."""
    numbering: Literal["drawn", "python"] = "drawn"
    """Which question a seed stands for. drawn: one drawn by numpy; python: the one that Python's `random` draws from the
    whole file, as in RAGEN."""
    match: Literal["value", "text"] = "value"
    """When an answer is right. value: numbers by their value, however they are written; text: letter by letter, but for
    case and white space, as in RAGEN."""

    @model_validator(mode="before")
    @classmethod
    def _dataset_path(cls, values: Any) -> Any:
        """Another spelling of `data_path`, as far as it names a file."""
        if not isinstance(values, Mapping) or "dataset_path" not in values:
            return values
        rest = {key: value for key, value in values.items() if key != "dataset_path"}
        given = values["dataset_path"]
        if given is not None and Path(str(given)).suffix not in (".json", ".jsonl", ".parquet"):
            raise ValueError(
                f"dataset_path is {given!r:.80}: data sets are not downloaded here; download it, and set data_path to its"
                " .json, .jsonl or .parquet file."
            )
        return rest if given is None else {"data_path": given, **rest}
