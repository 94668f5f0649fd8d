"""Settings of Sokoban."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from abreast.rollouts.envs.grids import GridConfig, World
from abreast.rollouts.envs.sokoban.rooms import Lengths, most_boxes
from abreast.rollouts.envs.sokoban.world import ROOM
from abreast.rollouts.ragen import KEYS, Keys

Side = Annotated[int, Field(ge=3, le=30, strict=True)]
SOFT_TRIES = 10
"""Rooms drawn for `solvable_within` before one that does not fit is taken: a start must stay cheap."""
_MAY_BE_NULL = ("dim_x", "dim_y", "min_solution_steps")


class SokobanConfig(GridConfig):
    """Settings of Sokoban."""

    THEIR_KEYS: ClassVar[Keys] = KEYS["sokoban"]
    WORLD: ClassVar[World] = ROOM

    action_lookup: dict[int, str] = Field({1: "Up", 2: "Down", 3: "Left", 4: "Right"})
    """Actions by number. The names may be changed, say into another language; the numbers and their meaning may not."""
    dim_room: tuple[Side, Side] = Field((6, 6), strict=False)
    """Rows and columns, the walls around included. `dim_x` (rows) and `dim_y` (columns) may be given instead."""
    num_boxes: int = Field(3, ge=1)
    """Boxes, and as many targets. How many there can be depends on the room: 4 in one of 6 by 6, 8 at most."""
    max_steps: int = Field(100, ge=1, le=1_000_000)
    """Steps after which the episode is truncated."""
    search_depth: int = Field(300, ge=1, le=100_000)
    """How far from the solved room the search for a hard start goes at most: in pulls, or in moves (`room_search`)."""
    room_search: Literal["pulls", "moves"] = "pulls"
    """pulls: over pulls of boxes, the best of each round; moves: depth-first over single moves, then a short random walk of
    the player, as gym-sokoban and RAGEN make rooms (the same room as theirs for the same seed)."""
    min_moves: int | None = Field(None, ge=1, le=1000)
    """Fewest moves of a room's shortest solution; rooms with fewer are drawn anew. None: see `solvable_within`."""
    max_moves: int | None = Field(None, ge=1, le=1000)
    """Most moves of a room's shortest solution; rooms with more are drawn anew. None: see `solvable_within`."""
    solvable_within: int | None = Field(None, ge=1)
    """Without min_moves and max_moves: rooms of one move, or of more than this many, are drawn anew, ten times at most.
    By default a tag's max_actions_per_traj, unless there is a preset. None: every room is taken."""
    max_reset_tries: int | None = Field(None, ge=1)
    """Rooms drawn before none is found with min_moves and max_moves; none: as many as take a few seconds."""
    ignore_gym_reward: bool = False
    """true: the only reward is `success_reward`, when the room is solved."""
    success_reward: float = 1.0
    """What solving the room brings with `ignore_gym_reward`."""
    grid_lookup: dict[int, str] | None = None
    """Symbols by number: 0 wall, 1 floor, 2 target, 3 box on a target, 4 box, 5 player, 6 player on a target; all of the
    same length, one character or more. None: `# _ O √ X P S`."""

    @model_validator(mode="before")
    @classmethod
    def _dim_x_and_dim_y(cls, values: Any) -> Any:
        """Other spellings: `dim_x` and `dim_y` win over `dim_room`; `min_solution_steps` is min_moves and max_moves."""
        if not isinstance(values, Mapping):
            return values
        values = {key: value for key, value in values.items() if value is not None or key not in _MAY_BE_NULL}
        pair = values.pop("min_solution_steps", None)
        if pair is not None:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise ValueError(
                    f"min_solution_steps is {pair!r:.80}: expected the fewest and the most moves, such as [2, 10]."
                )
            values = dict(zip(("min_moves", "max_moves"), pair, strict=True)) | values
        sides = {key: values.pop(key) for key in ("dim_x", "dim_y") if key in values}
        default = values.get("dim_room", cls.model_fields["dim_room"].default)
        if sides and isinstance(default, list | tuple) and len(default) == 2:
            values["dim_room"] = (sides.get("dim_x", default[0]), sides.get("dim_y", default[1]))
        return values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        rows, columns = self.dim_room
        most = most_boxes(rows, columns)
        if self.num_boxes > most:
            raise ValueError(
                f"num_boxes is {self.num_boxes}, but a room of {rows} by {columns} has space for {most}: "
                "take fewer boxes or a larger dim_room."
            )
        if self.search_depth < self.num_boxes:
            raise ValueError(
                f"search_depth is {self.search_depth} with {self.num_boxes} boxes: each of them must be pulled once "
                "at least, so raise search_depth."
            )
        if self.max_moves is not None and self.max_moves < max(self.min_moves or 1, self.num_boxes):
            raise ValueError(
                f"max_moves is {self.max_moves} with min_moves {self.min_moves or 1} and {self.num_boxes} boxes, each of "
                "which must be pushed once at least: raise max_moves."
            )
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.dim_room

    @property
    def lengths(self) -> Lengths:
        """Which rooms are taken, by the moves of their shortest solution."""
        if self.min_moves is None and self.max_moves is None:
            return Lengths(most=self.solvable_within, least=1 if self.solvable_within is None else 2, tries=SOFT_TRIES)
        return Lengths(self.min_moves or 1, self.max_moves, self.max_reset_tries, is_strict=True)
