"""What a model is told about the states of the frozen lake."""

from abreast.rollouts.envs.frozen_lake.cells import FROZEN, GOAL, HOLE, PLAYER, PLAYER_IN_HOLE, PLAYER_ON_GOAL
from abreast.rollouts.envs.frozen_lake.config import FrozenLakeConfig
from abreast.rollouts.envs.moves import moves_in_words

_SYMBOLS = (
    f"{PLAYER} you, {FROZEN} ice, {HOLE} hole, {GOAL} goal, {PLAYER_IN_HOLE} you in a hole,"
    f" {PLAYER_ON_GOAL} you on the goal"
)
_COORDINATES = "as (row, column), counted from (0, 0) at the top left. The player is you."
_PICTURE = (
    "The state is a picture of the lake from above. Light cells are ice, a dark pool is a hole, the green flag is "
    "the goal. The figure in a red coat is you."
)
_MOVES = {1: "left", 2: "down", 3: "right", 4: "up"}


def legend(config: FrozenLakeConfig) -> str:
    """What the state shows, in the variant that the configuration chooses, and how moves end."""
    return f"{_state(config)} {_ice(config)}{moves_in_words(config.action_lookup, _MOVES)}"


def _state(config: FrozenLakeConfig) -> str:
    if config.render_mode == "rgb_array":
        return _PICTURE
    if config.observation_format == "coord":
        return f"The state lists the cells of things {_COORDINATES}"
    is_usual = config.grid_lookup is None and config.grid_vocab is None
    symbols = _SYMBOLS if is_usual else ", ".join(" ".join(each) for each in config.meanings.items())
    grid = f"The state is the lake from above, one symbol a cell: {symbols}."
    if config.observation_format == "grid":
        return grid
    return f"{grid} Below it, the cells of things are listed {_COORDINATES}"


def _ice(config: FrozenLakeConfig) -> str:
    border = "A move against the border leaves you where you are."
    if not config.is_slippery:
        return border
    return (
        f"The ice is slippery: a move goes where you meant with a chance of {config.success_rate:.0%}, otherwise to "
        f"the left or to the right of that. {border}"
    )
