"""Settings of the web shop."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from abreast.rollouts.config import EnvConfig


class WebShopConfig(EnvConfig):
    """Which shop, which shoppers' wishes, and how its pages look."""

    observation_mode: Literal["text", "text_rich", "html", "url"] = "text"
    """How a page is shown: its texts with [SEP] between them, one a line with buttons marked, its HTML, or its address."""
    split: Literal["train", "val", "test"] = "train"
    """Which part of the goals the seeds choose from."""
    human_goals: bool = True
    """Goals written by shoppers, where the catalogue has some; false: goals made from attributes and options."""
    max_steps: int = Field(15, ge=1, le=100_000)
    """Actions after which an episode is cut off; an action that is not valid does not count."""
    data: Path | None = Field(None, strict=False)
    """Folder of the public product files, or the one items_shuffle*.json to use; none: the generated catalogue."""
    cache_dir: Path | None = Field(None, strict=False)
    """Where the search file is kept; none: beside the product files, or else in the user's cache folder."""
