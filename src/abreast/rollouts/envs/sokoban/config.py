"""Settings of Sokoban."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from abreast.rollouts.envs.grids import GridConfig, World
from abreast.rollouts.envs.sokoban.rooms import Lengths, most_boxes

Side = Annotated[int, Field(ge=3, le=30, strict=True)]
Moves = Annotated[int, Field(ge=1, le=1000, strict=True)]
SOFT_TRIES = 10
"""Rooms drawn for `solvable_within` before one that does not fit is taken: a start must stay cheap."""

WALL, FLOOR, TARGET, BOX_ON_TARGET, BOX, PLAYER, PLAYER_ON_TARGET = SYMBOLS = "#_O√XPS"

ROOM = World(
    symbols=SYMBOLS,
    meanings=("wall", "floor", "target", "box on a target", "box", "you", "you on a target"),
    labels={
        "Player": PLAYER + PLAYER_ON_TARGET,
        "Boxes": BOX + BOX_ON_TARGET,
        "Targets": TARGET + BOX_ON_TARGET + PLAYER_ON_TARGET,
        "Floor": SYMBOLS.replace(WALL, ""),
    },
    rest="wall",
    moves=("up", "down", "left", "right"),
    place="room",
    symbols_in_words=(
        f"{WALL} wall, {FLOOR} floor, {TARGET} target, {BOX} box, {BOX_ON_TARGET} box on a target, {PLAYER} you, "
        f"{PLAYER_ON_TARGET} you on a target"
    ),
    coordinates_in_words=(
        "as (row, column), counted from (0, 0) at the top left; rows grow downwards, columns to the right. The player is "
        "you. A box whose cell is also listed under the targets is on a target."
    ),
    picture_in_words=(
        "The state is a picture of the room from above. Dark bricks are walls, bare cells are floor, a red frame with a "
        "red spot is a target, a brown crate is a box, a green crate is a box on a target. The figure in blue is you; in "
        "a red frame, you stand on a target."
    ),
    only_in_coord=frozenset({"Floor"}),
)


class SokobanConfig(GridConfig):
    """Settings of Sokoban."""

    THEIR_KEYS: ClassVar[str] = "sokoban"
    WORLD: ClassVar[World] = ROOM

    action_lookup: dict[int, str] = Field({1: "Up", 2: "Down", 3: "Left", 4: "Right"})
    """Actions by number. The names may be changed, say into another language; the numbers and their meaning may not."""
    dim_room: tuple[Side, Side] = Field((6, 6), strict=False)
    """Rows and columns, the walls around included."""
    dim_x: Side | None = None
    """Rows; null: those of `dim_room`."""
    dim_y: Side | None = None
    """Columns; null: those of `dim_room`."""
    num_boxes: int = Field(3, ge=1)
    """Boxes, and as many targets. How many there can be depends on the room: 4 in one of 6 by 6, 8 at most."""
    search_depth: int = Field(300, ge=1, le=100_000)
    """How far from the solved room the search for a hard start goes at most: in pulls, or in moves (`room_search`)."""
    room_search: Literal["pulls", "moves"] = "pulls"
    """pulls: over pulls of boxes, the best of each round; moves: depth-first over single moves, then a short random walk of
    the player, as gym-sokoban and RAGEN make rooms (the same room as theirs for the same seed)."""
    min_moves: Moves | None = None
    """Fewest moves of a room's shortest solution; rooms with fewer are drawn anew. None: see `solvable_within`."""
    max_moves: Moves | None = None
    """Most moves of a room's shortest solution; rooms with more are drawn anew. None: see `solvable_within`."""
    min_solution_steps: tuple[Moves, Moves] | None = Field(None, strict=False)
    """min_moves and max_moves in one, as in RAGEN; these win where they are given."""
    solvable_within: int | None = Field(None, ge=1)
    """Without min_moves and max_moves: rooms of one move, or of more than this many, are drawn anew, ten times at most.
    By default a tag's max_actions_per_traj, unless there is a preset. None: every room is taken."""
    max_reset_tries: int | None = Field(None, ge=1)
    """Rooms drawn before none is found with min_moves and max_moves; null: as many as take a few seconds."""
    ignore_gym_reward: bool = False
    """true: the only reward is `success_reward`, when the room is solved."""
    success_reward: float = 1.0
    """What solving the room brings with `ignore_gym_reward`."""
    grid_lookup: dict[int, str] | None = None
    """Symbols by number: 0 wall, 1 floor, 2 target, 3 box on a target, 4 box, 5 player, 6 player on a target; all of the
    same length, one character or more. None: `# _ O √ X P S`."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        (rows, columns), lengths = self.shape, self.lengths
        most = most_boxes(rows, columns)
        if self.num_boxes > most:
            raise ValueError(
                f"num_boxes is {self.num_boxes}, but a room of {rows} by {columns} has space for {most}: "
                "take fewer boxes or a larger dim_room."
            )
        if lengths.is_strict and lengths.most is not None and lengths.most < max(lengths.least, self.num_boxes):
            raise ValueError(
                f"max_moves is {lengths.most} with min_moves {lengths.least} and {self.num_boxes} boxes, each of "
                "which must be pushed once at least: raise max_moves."
            )
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.dim_x or self.dim_room[0], self.dim_y or self.dim_room[1]

    @property
    def lengths(self) -> Lengths:
        """Which rooms are taken, by the moves of their shortest solution."""
        fewest, most = self.min_solution_steps or (None, None)
        least, most = self.min_moves or fewest, self.max_moves or most
        if least is None and most is None:
            return Lengths(most=self.solvable_within, least=1 if self.solvable_within is None else 2, tries=SOFT_TRIES)
        return Lengths(least or 1, most, self.max_reset_tries, is_strict=True)
