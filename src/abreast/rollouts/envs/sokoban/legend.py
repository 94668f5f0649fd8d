"""What a model is told about the states of Sokoban."""

from abreast.rollouts.envs.moves import moves_in_words
from abreast.rollouts.envs.sokoban.board import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
)
from abreast.rollouts.envs.sokoban.config import SokobanConfig

_PICTURE = (
    "The state is a picture of the room from above. Dark bricks are walls, bare cells are floor, a red frame with a "
    "red spot is a target, a brown crate is a box, a green crate is a box on a target. The figure in blue is you; in "
    "a red frame, you stand on a target."
)
_SYMBOLS = (
    f"{WALL} wall, {FLOOR} floor, {TARGET} target, {BOX} box, {BOX_ON_TARGET} box on a target, {PLAYER} you, "
    f"{PLAYER_ON_TARGET} you on a target"
)
_COORDINATES = (
    "as (row, column), counted from (0, 0) at the top left; rows grow downwards, columns to the right. The player is "
    "you. A box whose cell is also listed under the targets is on a target."
)
_MOVES = {1: "up", 2: "down", 3: "left", 4: "right"}


def legend(config: SokobanConfig) -> str:
    """What the state shows, in the variant that the configuration chooses."""
    return _state(config) + moves_in_words(config.action_lookup, _MOVES)


def _state(config: SokobanConfig) -> str:
    if config.render_mode == "rgb_array":
        return _PICTURE
    is_usual = config.grid_lookup is None and config.grid_vocab is None
    symbols = _SYMBOLS if is_usual else ", ".join(" ".join(each) for each in config.meanings.items())
    match config.observation_format:
        case "grid":
            return f"The state is the room from above, one symbol a cell: {symbols}."
        case "coord":
            return f"The state lists the cells of things {_COORDINATES}"
        case "grid_coord":
            return (
                f"The state is the room from above, one symbol a cell: {symbols}. Below it, the cells of things are "
                f"listed {_COORDINATES}"
            )
