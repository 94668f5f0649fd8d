"""Settings of the frozen lake."""

from typing import Literal, Self

from pydantic import Field, model_validator

from abreast.rollouts.config import EnvConfig


class FrozenLakeConfig(EnvConfig):
    """How large, how holey and how slippery the lake is."""

    size: int = Field(4, ge=2, le=100)
    """Rows, and columns too."""
    p: float = Field(0.8, ge=0, le=1)
    """Chance of a cell to be frozen; the others are holes."""
    is_slippery: bool = True
    """Whether a move may go to a side instead."""
    success_rate: float = Field(1 / 3, ge=0, le=1)
    """Chance of a move on slippery ice to go the intended way; the two sides share the rest evenly."""
    max_steps: int = Field(100, ge=1, le=1_000_000)
    """Moves after which an episode is cut off; an unknown action is no move."""
    render_mode: Literal["text", "rgb_array"] = "text"
    """What `render` returns: the text of the state, or a picture of it."""
    action_lookup: dict[int, str] = Field({1: "Left", 2: "Down", 3: "Right", 4: "Up"})
    """What the four moves are called: left, down, right and up, in this order."""

    @model_validator(mode="after")
    def _names_all_moves(self) -> Self:
        if set(self.action_lookup) != {1, 2, 3, 4}:
            raise ValueError(
                f"action_lookup is {self.action_lookup}, expected four names for 1 (left), 2 (down), 3 (right) and 4 (up): "
                "leave it out, or name all four."
            )
        return self
