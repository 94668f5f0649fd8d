"""Sokoban as an environment."""

from collections.abc import Mapping
from typing import Any

from abreast.rollouts.envs.base import Taken, info_of
from abreast.rollouts.envs.grids import GridEnv
from abreast.rollouts.envs.sokoban.board import plain
from abreast.rollouts.envs.sokoban.config import SokobanConfig
from abreast.rollouts.envs.sokoban.depth_first import make_room_by_moves
from abreast.rollouts.envs.sokoban.grid import Room
from abreast.rollouts.envs.sokoban.picture import TILES
from abreast.rollouts.envs.sokoban.rooms import make_room

STEP_REWARD = -0.1
BOX_REWARD = 1.0
"""For a box that comes onto a target; the same is taken for one that leaves it."""
SOLVED_REWARD = 10.0


class SokobanEnv(GridEnv):
    """Push every box onto a target.

    env = SokobanEnv({"num_boxes": 1})
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step(1)  # up
    """

    TILES = TILES

    def __init__(self, config: SokobanConfig | Mapping[str, Any] | None = None) -> None:
        self.config = SokobanConfig.parse(config or {})
        super().__init__(self.config)

    def _begin(self, seed: int | None) -> dict[str, Any]:
        self.put(self._make_room(seed))
        return info_of(boxes_on_target=self._room.boxes_on_target)

    def put(self, room: Room) -> None:
        """Begin an episode in this room."""
        self._room = room
        self._see(self.config, plain(room))
        self._steps = 0
        self._playing = True

    def _take(self, action: int) -> Taken:
        before = self._room.boxes_on_target
        if not self.config.knows(action):
            return 0.0, False, False, info_of(valid=False, boxes_on_target=before)

        room = self._room.after(int(action) - 1)
        moved, on_target = room is not self._room, room.boxes_on_target
        solved = on_target == room.boxes.bit_count()
        if moved:
            self._room = room
            self._see(self.config, plain(room))
        self._steps += 1
        reward = STEP_REWARD + BOX_REWARD * (on_target - before) + SOLVED_REWARD * solved
        if self.config.ignore_gym_reward:
            reward = self.config.success_reward if solved else 0.0
        truncated = not solved and self._steps >= self.config.max_steps
        return reward, solved, truncated, info_of(success=solved, effective=moved, boxes_on_target=on_target)

    def _make_room(self, seed: int | None) -> Room:
        (rows, columns), boxes, depth = self.config.shape, self.config.num_boxes, self.config.search_depth
        if self.config.room_search == "moves":
            number = int(self.np_random.integers(2**32)) if seed is None else seed
            return make_room_by_moves(rows, columns, boxes, depth, number, self.config.lengths)
        return make_room(rows, columns, boxes, depth, int(self.np_random.integers(2**63)), self.config.lengths)
