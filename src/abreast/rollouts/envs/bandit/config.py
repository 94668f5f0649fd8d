"""Settings of the bandit."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from abreast.rollouts.config import EnvConfig

PAIRS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        "train": (
            ("Baker", "Gambler"),
            ("Archivist", "Prospector"),
            ("Bus Driver", "Racing Driver"),
            ("Tailor", "Fashion Designer"),
            ("Notary", "Speculator"),
            ("Proofreader", "Novelist"),
            ("Lighthouse Keeper", "Treasure Diver"),
            ("Choir Singer", "Pop Star"),
            ("Shopkeeper", "Inventor"),
            ("Farmer", "Oil Driller"),
            ("Toll Collector", "Stuntman"),
            ("Optician", "Game Show Contestant"),
        ),
        "test": (
            ("Janitor", "Bounty Hunter"),
            ("Bank Clerk", "Bank Robber"),
            ("Beekeeper", "Film Producer"),
            ("Ticket Inspector", "Footballer"),
            ("Dentist", "Day Trader"),
            ("Surveyor", "Gold Digger"),
            ("Stenographer", "Stand-up Comedian"),
            ("Plumber", "Poker Player"),
        ),
    }
)
"""Names of arms, the lo arm first, as `split` has them: a steady trade and one that pays seldom, but then well."""

Name = Annotated[str, Field(max_length=40, pattern=r"^\S+( \S+)*$")]
"""Words in one line with single blanks between them."""


class BanditConfig(EnvConfig):
    """What the two arms are called and what they pay."""

    THEIR_KEYS: ClassVar[str] = "bandit"

    split: Literal["train", "test"] | None = None
    """Draw the names of the arms, by seed, from one of two sets; null: lo_arm_name and hi_arm_name, which win if given."""
    lo_arm_name: Name = "Phoenix"
    """The arm that always pays the same."""
    hi_arm_name: Name = "Dragon"
    """The arm that pays more, but seldom; choosing it is success."""
    lo_reward: float = 0.1
    """What the lo arm pays, always."""
    hi_reward: float = 1.0
    """What the hi arm pays when it pays."""
    hi_reward_else: float = 0.0
    """What the hi arm pays otherwise."""
    hi_probability: float = Field(0.25, ge=0, le=1)
    """Chance of the hi arm to pay."""
    render_mode: Literal["text"] = "text"
    """What `render` returns: there is only text."""
    action_space_start: int = Field(1, ge=0, le=1_000_000)
    """Number of the first action."""
    action_lookup: dict[int, str] | None = Field({})
    """Follows from the names: first the lo arm, then the hi arm, of each pair. There is no need to give it."""

    @model_validator(mode="after")
    def _actions_follow_from_names(self) -> Self:
        if self.lo_arm_name.casefold() == self.hi_arm_name.casefold():
            raise ValueError(
                f"lo_arm_name is {self.lo_arm_name!r} and hi_arm_name is {self.hi_arm_name!r}: an action could mean either "
                "arm. Give them names that differ in more than upper and lower case."
            )
        named = dict(enumerate((name for pair in self.pairs for name in pair), start=self.action_space_start))
        if self.action_lookup not in (None, {}, named):
            raise ValueError(
                f"action_lookup is {self.action_lookup}, but the names of the arms make it {named}: "
                "leave it out and set lo_arm_name and hi_arm_name."
            )
        object.__setattr__(self, "action_lookup", named)  # past the freeze, which is for users
        return self

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of names an episode may have, the lo arm first."""
        if self.split is None or self.model_fields_set & {"lo_arm_name", "hi_arm_name"}:
            return ((self.lo_arm_name, self.hi_arm_name),)
        return PAIRS[self.split]

    @property
    def names(self) -> dict[int, str]:
        """The names of all arms by the numbers of their actions."""
        return self.action_lookup or {}
