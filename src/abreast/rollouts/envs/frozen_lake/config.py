"""Settings of the frozen lake."""

from typing import ClassVar

from pydantic import Field

from abreast.rollouts.envs.grids import GridConfig, World

PLAYER, FROZEN, HOLE, GOAL, PLAYER_IN_HOLE, PLAYER_ON_GOAL = SYMBOLS = "P_OGX√"
STANDING_ON = {FROZEN: PLAYER, HOLE: PLAYER_IN_HOLE, GOAL: PLAYER_ON_GOAL}

LAKE = World(
    symbols=SYMBOLS,
    meanings=("you", "ice", "hole", "goal", "you in a hole", "you on the goal"),
    labels={
        "Player": PLAYER + PLAYER_IN_HOLE + PLAYER_ON_GOAL,
        "Goal": GOAL + PLAYER_ON_GOAL,
        "Holes": HOLE + PLAYER_IN_HOLE,
    },
    rest="ice",
    moves=("left", "down", "right", "up"),
    place="lake",
    symbols_in_words=(
        f"{PLAYER} you, {FROZEN} ice, {HOLE} hole, {GOAL} goal, {PLAYER_IN_HOLE} you in a hole,"
        f" {PLAYER_ON_GOAL} you on the goal"
    ),
    coordinates_in_words="as (row, column), counted from (0, 0) at the top left. The player is you.",
    picture_in_words=(
        "The state is a picture of the lake from above. Light cells are ice, a dark pool is a hole, the green flag is "
        "the goal. The figure in a red coat is you."
    ),
)


class FrozenLakeConfig(GridConfig):
    """How large, how holey and how slippery the lake is."""

    THEIR_KEYS: ClassVar[str] = "frozen_lake"
    WORLD: ClassVar[World] = LAKE

    size: int = Field(4, ge=2, le=100)
    """Rows, and columns too."""
    p: float = Field(0.8, ge=0, le=1)
    """Chance of a cell to be frozen; the others are holes."""
    is_slippery: bool = True
    """Whether a move may go to a side instead."""
    success_rate: float = Field(1 / 3, ge=0, le=1)
    """Chance of a move on slippery ice to go the intended way; the two sides share the rest evenly."""
    grid_lookup: dict[int, str] | None = None
    """Symbols by number: 0 player, 1 ice, 2 hole, 3 goal, 4 player in a hole, 5 player on the goal; all of the same length,
    one character or more. None: `P _ O G X √`."""
    action_lookup: dict[int, str] = Field({1: "Left", 2: "Down", 3: "Right", 4: "Up"})
    """What the four moves are called: left, down, right and up, in this order."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.size, self.size
