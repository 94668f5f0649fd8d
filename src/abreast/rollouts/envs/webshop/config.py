"""Settings of the web shop."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from abreast.rollouts.config import EnvConfig


class WebShopConfig(EnvConfig):
    """Which shop, which shoppers' wishes, and how its pages look."""

    THEIR_KEYS: ClassVar[str] = "webshop"

    observation_mode: Literal["text", "text_rich", "html", "url"] = "text"
    """How a page is shown: its texts with [SEP] between them, one a line with buttons marked, its HTML, or its address."""
    split: Literal["train", "val", "test"] = "train"
    """Which part of the goals the seeds choose from. A manager takes that of its mode unless this is given."""
    human_goals: bool = True
    """Goals written by shoppers, where the catalogue has some; false: goals made from attributes and options."""
    limit_goals: int = Field(-1, ge=-1)
    """How many of the goals to use, from the first of their fixed order; -1: all."""
    binary_reward: bool = False
    """true: the reward is 1 for a purchase that fits in everything and 0 for any other, as in RAGEN."""
    max_steps: int | None = Field(15, ge=1, le=100_000)
    """Actions after which an episode is cut off; one that is not valid does not count. None: only the tag limits them."""
    data: Path | None = Field(None, strict=False)
    """Folder of the public product files, or the one items_shuffle*.json to use; null: the generated catalogue."""
    dataset: Literal["small", "full"] | None = None
    """Which product file of the folder `data`: small is items_shuffle_1000.json, full is items_shuffle.json. Without `data`
    there are no such files, and the generated catalogue is used."""
    num_products: int | None = Field(None, ge=1)
    """Products of the catalogue, from its beginning; null: all."""
    cache_dir: Path | None = Field(None, strict=False)
    """Where the search file is kept; null: beside the product files, or else in the user's cache folder."""
