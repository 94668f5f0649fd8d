"""The lake: its cells, what a move does on it, and how a new one comes about.

A lake is kept as the text it is shown as, and a cell is a place in that text. So a neighbour is a fixed distance away,
and where the text ends or a line breaks, there is the border:

    _ _ O ⏎ _ G _ ⏎ _ _ _          size 3: left −1, right +1, up −4, down +4
    0 1 2 3 4 5 6 7 8 9 10
"""

from dataclasses import dataclass

import numpy as np

from abreast.rollouts.envs.frozen_lake.config import FROZEN, GOAL, HOLE, STANDING_ON, FrozenLakeConfig

ACTIONS = (1, 2, 3, 4)  # left, down, right, up: in a circle: the sides of each are the one before and the one after


SPARSE = 0.5
"""Share of ice below which a look at the cells beside the start is worth it."""


@dataclass(frozen=True)
class Lake:
    """Ice, holes and the goal; the player is not part of it."""

    size: int
    text: str

    def neighbour(self, cell: int, direction: int) -> int:
        """The next cell in that direction, or the same one at the border."""
        line = self.size + 1
        target = cell + (-1, line, 1, -line)[direction - 1]
        return target if 0 <= target < len(self.text) and self.text[target] != "\n" else cell

    def with_player(self, cell: int) -> str:
        """What is seen when the player stands on that cell."""
        return self.text[:cell] + STANDING_ON[self.text[cell]] + self.text[cell + 1 :]

    def shortest_path(self, start: int) -> tuple[int, ...] | None:
        """The moves of a shortest way over the ice from `start` to the goal, or None where there is none."""
        ways: dict[int, tuple[int, ...]] = {start: ()}
        frontier = [start]
        for cell in frontier:  # grows while it is walked through: nearest cells first
            if self.text[cell] == GOAL:
                return ways[cell]
            for direction in ACTIONS:
                target = self.neighbour(cell, direction)
                if target not in ways and self.text[target] != HOLE:
                    ways[target] = (*ways[cell], direction)
                    frontier.append(target)
        return None


def slips(config: FrozenLakeConfig, action: int) -> list[tuple[float, int]]:
    """Where a move may go, each with its probability: to one side, ahead, to the other side."""
    if not config.is_slippery:
        return [(1.0, action)]
    aside = (1.0 - config.success_rate) / 2.0
    before, after = (action + 2) % 4 + 1, action % 4 + 1
    return [(aside, before), (config.success_rate, action), (aside, after)]


def new_lake(config: FrozenLakeConfig, rng: np.random.Generator) -> tuple[Lake, int]:
    """Return a random lake and the cell where the player starts; the goal can be reached over the ice.

    There is always one: sooner or later, start and goal are neighbours. The numbers are those that RAGEN draws, in the same
    order: a seed stands for the same lake there and here.
    """
    size = config.size
    while True:
        is_ice = (rng.random(size * size) < config.p).tobytes()
        row, column = rng.integers(size, size=2).tolist()
        goal_row, goal_column = rng.integers(size, size=2).tolist()
        start, goal = row * size + column, goal_row * size + goal_column
        above, below = row > 0 and start - size, row < size - 1 and start + size
        left, right = column > 0 and start - 1, column < size - 1 and start + 1
        # To write a lake down takes far longer than to draw it, and most with hardly any ice have no way.
        if start == goal or (
            config.p < SPARSE
            and not any(cell is not False and (is_ice[cell] or cell == goal) for cell in (right, below, left, above))
        ):
            continue
        cells = [FROZEN if frozen else HOLE for frozen in is_ice]
        cells[start], cells[goal] = FROZEN, GOAL
        lake = Lake(size, "\n".join("".join(cells[i : i + size]) for i in range(0, size * size, size)))
        if lake.shortest_path(start + row) is not None:
            return lake, start + row  # one line break for every row above
