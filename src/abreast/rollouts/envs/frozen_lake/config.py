"""Settings of the frozen lake."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from abreast.rollouts.config import EnvConfig
from abreast.rollouts.envs.frozen_lake.cells import BY_NUMBER
from abreast.rollouts.envs.symbols import meanings_of, symbols_of
from abreast.rollouts.ragen import KEYS, Keys

MEANINGS = ("you", "ice", "hole", "goal", "you in a hole", "you on the goal")
"""What the symbols stand for, in the order of their numbers in `grid_lookup`."""


class FrozenLakeConfig(EnvConfig):
    """How large, how holey and how slippery the lake is."""

    THEIR_KEYS: ClassVar[Keys] = KEYS["frozen_lake"]

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
    observation_format: Literal["grid", "coord", "grid_coord"] = "grid"
    """The text of the state: a grid of symbols, a list of coordinates, or both."""
    grid_lookup: dict[int, str] | None = None
    """Symbols by number: 0 player, 1 ice, 2 hole, 3 goal, 4 player in a hole, 5 player on the goal; all of the same length,
    one character or more. None: `P _ O G X √`."""
    grid_vocab: dict[str, str] | None = None
    """What each symbol means, for the legend in the instruction; none: in the words of the README."""
    action_lookup: dict[int, str] = Field({1: "Left", 2: "Down", 3: "Right", 4: "Up"})
    """What the four moves are called: left, down, right and up, in this order."""

    @model_validator(mode="after")
    def _names_all_moves(self) -> Self:
        if set(self.action_lookup) != {1, 2, 3, 4}:
            raise ValueError(
                f"action_lookup is {self.action_lookup}, expected four names for 1 (left), 2 (down), 3 (right) and 4 (up): "
                "leave it out, or name all four."
            )
        meanings_of(self.grid_vocab, self.symbols, MEANINGS)
        return self

    @property
    def symbols(self) -> tuple[str, ...]:
        """What player, ice, hole, goal, player in a hole and player on the goal are shown as."""
        return symbols_of(self.grid_lookup, BY_NUMBER)

    @property
    def meanings(self) -> dict[str, str]:
        """What each symbol means, for a legend."""
        return meanings_of(self.grid_vocab, self.symbols, MEANINGS)
