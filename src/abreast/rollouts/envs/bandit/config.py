"""Settings of the bandit."""

from typing import Self

from pydantic import Field, model_validator

from abreast.rollouts.config import EnvConfig


class BanditConfig(EnvConfig):
    """What the two arms are called and what they pay."""

    lo_arm_name: str = Field("Phoenix", min_length=1, max_length=40)
    """The arm that always pays the same."""
    hi_arm_name: str = Field("Dragon", min_length=1, max_length=40)
    """The arm that pays more, but seldom; choosing it is success."""
    lo_reward: float = 0.1
    """What the lo arm pays, always."""
    hi_reward: float = 1.0
    """What the hi arm pays when it pays; otherwise it pays nothing."""
    hi_probability: float = Field(0.25, ge=0, le=1)
    """Chance of the hi arm to pay."""
    action_lookup: dict[int, str] = Field({})
    """Follows from the names: 1 is the lo arm, 2 is the hi arm. There is no need to give it."""

    @model_validator(mode="after")
    def _names_tell_arms_apart(self) -> Self:
        for key, name in (("lo_arm_name", self.lo_arm_name), ("hi_arm_name", self.hi_arm_name)):
            if name != " ".join(name.split()):
                raise ValueError(f"{key} is {name!r}, expected words in one line with single blanks between them.")
        if self.lo_arm_name.casefold() == self.hi_arm_name.casefold():
            raise ValueError(
                f"lo_arm_name is {self.lo_arm_name!r} and hi_arm_name is {self.hi_arm_name!r}: an action could mean either "
                "arm. Give them names that differ in more than upper and lower case."
            )
        return self

    @model_validator(mode="after")
    def _actions_follow_from_names(self) -> Self:
        named = {1: self.lo_arm_name, 2: self.hi_arm_name}
        if self.action_lookup not in ({}, named):
            raise ValueError(
                f"action_lookup is {self.action_lookup}, but the names of the arms make it {named}: "
                "leave it out and set lo_arm_name and hi_arm_name."
            )
        object.__setattr__(self, "action_lookup", named)  # past the freeze, which is for users
        return self
