"""The frozen lake as an environment."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from gymnasium.utils.seeding import np_random

from abreast.rollouts.envs.base import Taken, info_of
from abreast.rollouts.envs.frozen_lake.config import GOAL, HOLE, FrozenLakeConfig
from abreast.rollouts.envs.frozen_lake.lake import ACTIONS, new_lake, slips
from abreast.rollouts.envs.frozen_lake.picture import TILES
from abreast.rollouts.envs.grids import GridEnv


class FrozenLakeEnv(GridEnv):
    """Cross the ice to the goal; do not fall into a hole.

    env = FrozenLakeEnv({"size": 4})
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step(3)  # right
    """

    TILES = TILES

    def __init__(self, config: FrozenLakeConfig | Mapping[str, Any] | None = None) -> None:
        self.config = FrozenLakeConfig.parse({} if config is None else config)
        super().__init__(self.config)
        ways = {action: slips(self.config, action) for action in ACTIONS}
        self._slips = {
            action: [*zip(accumulate(chance for chance, _ in way), (each for _, each in way), strict=True)]
            for action, way in ways.items()
        }
        """By action: the directions that a move may take, each with the sum of the chances up to it."""

    def _begin(self, seed: int | None) -> dict[str, Any]:
        # A stream of its own for the lake, and one number of the other for the start, as Gymnasium's FrozenLake draws it:
        # with the same seed and the same moves, the ice is as slippery there as here.
        number = int(self.np_random.integers(2**32)) if seed is None else seed
        self._lake, start = new_lake(self.config, np_random(number)[0])
        self.np_random.random()
        self._steps = 0
        self._stand_on(start)
        return info_of()

    def _take(self, action: int) -> Taken:
        if not self.config.knows(action):
            return 0.0, False, False, info_of(valid=False)

        luck = self.np_random.random()
        for up_to, way in self._slips[action]:  # to the last, if the chances add up to a hair less than 1
            direction = way
            if luck < up_to:
                break
        target = self._lake.neighbour(self._cell, direction)
        moved = target != self._cell
        if moved:
            self._stand_on(target)
        self._steps += 1

        ground = self._lake.text[target]
        success = ground == GOAL
        terminated = success or ground == HOLE
        truncated = not terminated and self._steps >= self.config.max_steps
        return float(success), terminated, truncated, info_of(success=success, effective=moved)

    def _stand_on(self, cell: int) -> None:
        self._cell = cell
        self._see(self.config, self._lake.with_player(cell))
