"""What a cell of the lake can be, as one character each."""

FROZEN, HOLE, GOAL, PLAYER, PLAYER_IN_HOLE, PLAYER_ON_GOAL = SYMBOLS = "_OGPX√"
BY_NUMBER = PLAYER + FROZEN + HOLE + GOAL + PLAYER_IN_HOLE + PLAYER_ON_GOAL
"""The symbols in the order of their numbers in `grid_lookup`."""
STANDING_ON = {FROZEN: PLAYER, HOLE: PLAYER_IN_HOLE, GOAL: PLAYER_ON_GOAL}
GROUND_UNDER = {symbol: ground for ground, symbol in STANDING_ON.items()}
