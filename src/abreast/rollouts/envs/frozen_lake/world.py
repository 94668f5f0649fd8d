"""What a cell of the lake can be, as one character each, and what is said of it."""

from abreast.rollouts.envs.grids import World

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
