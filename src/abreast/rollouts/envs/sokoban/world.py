"""What a cell of the room can be, as one character each, and what is said of it."""

from abreast.rollouts.envs.grids import World

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
