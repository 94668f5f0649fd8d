"""Settings of Sokoban."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from abreast.rollouts.config import EnvConfig
from abreast.rollouts.envs.sokoban.rooms import most_boxes

Side = Annotated[int, Field(ge=3, le=30, strict=True)]


class SokobanConfig(EnvConfig):
    """Settings of Sokoban."""

    action_lookup: dict[int, str] = Field({1: "Up", 2: "Down", 3: "Left", 4: "Right"})
    """Actions by number. The names may be changed, say into another language; the numbers and their meaning may not."""
    dim_room: tuple[Side, Side] = Field((6, 6), strict=False)
    """Rows and columns, the walls around included. `dim_x` (rows) and `dim_y` (columns) may be given instead."""
    num_boxes: int = Field(3, ge=1)
    """Boxes, and as many targets. How many there can be depends on the room: 4 in one of 6 by 6, 8 at most."""
    max_steps: int = Field(100, ge=1, le=1_000_000)
    """Steps after which the episode is truncated."""
    search_depth: int = Field(300, ge=1, le=100_000)
    """How many pulls away from the solved room the search for a hard start goes at most."""
    render_mode: Literal["text", "rgb_array"] = "text"
    """What `render` returns: the text of the state, or a picture of the room."""
    observation_format: Literal["grid", "coord", "grid_coord"] = "grid"
    """The text of the state: a grid of symbols, a list of coordinates, or both."""

    @model_validator(mode="before")
    @classmethod
    def _dim_x_and_dim_y(cls, values: Any) -> Any:
        """Another spelling of `dim_room`, over which it wins."""
        if not isinstance(values, Mapping) or not {"dim_x", "dim_y"} & values.keys():
            return values
        rest = {key: value for key, value in values.items() if key not in ("dim_x", "dim_y")}
        default = rest.get("dim_room", cls.model_fields["dim_room"].default)
        if isinstance(default, list | tuple) and len(default) == 2:
            rest["dim_room"] = (values.get("dim_x", default[0]), values.get("dim_y", default[1]))
        return rest

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
        if sorted(self.action_lookup) != [1, 2, 3, 4]:
            raise ValueError(f"action_lookup is {self.action_lookup}: expected names for 1, 2, 3 and 4.")
        return self
