"""Sokoban as an environment."""

from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from abreast.rollouts.envs.base import Taken, TextEnv, info_of
from abreast.rollouts.envs.grids import Pixels, show, text_space
from abreast.rollouts.envs.sokoban.board import Board
from abreast.rollouts.envs.sokoban.config import SokobanConfig
from abreast.rollouts.envs.sokoban.depth_first import make_room_by_moves
from abreast.rollouts.envs.sokoban.grid import Room
from abreast.rollouts.envs.sokoban.picture import draw
from abreast.rollouts.envs.sokoban.rooms import make_room

STEP_REWARD = -0.1
BOX_REWARD = 1.0
"""For a box that comes onto a target; the same is taken for one that leaves it."""
SOLVED_REWARD = 10.0


class SokobanEnv(TextEnv[int]):
    """Push every box onto a target.

    env = SokobanEnv({"num_boxes": 1})
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step(1)  # up
    """

    metadata = {"render_modes": ["text", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own form)
    name = "Sokoban"

    def __init__(self, config: SokobanConfig | Mapping[str, Any] | None = None) -> None:
        self.config = SokobanConfig.parse(config or {})
        self.render_mode = self.config.render_mode
        self.action_space = spaces.Discrete(4, start=1)  # type: ignore[assignment]  # its numbers are numpy's
        self.observation_space = text_space(self.config)

    def _begin(self, seed: int | None) -> dict[str, Any]:
        self.put(self._make_room(seed))
        return info_of(boxes_on_target=self._board.boxes_on_target)

    def put(self, room: Room) -> None:
        """Begin an episode in this room."""
        self._board = Board(room)
        self._text = show(self.config, self._board.plain())
        self._steps = 0
        self._playing = True

    def _take(self, action: int) -> Taken:
        board = self._board
        before = board.boxes_on_target
        if not self.config.knows(action):
            return 0.0, False, False, info_of(valid=False, boxes_on_target=before)

        moved = board.move(int(action) - 1)
        if moved:
            self._text = show(self.config, board.plain())
        self._steps += 1
        solved = board.boxes_on_target == board.boxes
        reward = STEP_REWARD + BOX_REWARD * (board.boxes_on_target - before)
        if solved:
            reward += SOLVED_REWARD
        if self.config.ignore_gym_reward:
            reward = self.config.success_reward if solved else 0.0
        truncated = not solved and self._steps >= self.config.max_steps
        info = info_of(success=solved, effective=moved, boxes_on_target=board.boxes_on_target)
        return reward, solved, truncated, info

    def render(self) -> str | Pixels:
        """The text of the state or, with `render_mode` rgb_array, a picture of the room."""
        text: str = super().render()
        return draw(self._board.plain()) if self.render_mode == "rgb_array" else text

    def _make_room(self, seed: int | None) -> Room:
        (rows, columns), boxes, depth = self.config.shape, self.config.num_boxes, self.config.search_depth
        if self.config.room_search == "moves":
            number = int(self.np_random.integers(2**32)) if seed is None else seed
            return make_room_by_moves(rows, columns, boxes, depth, number, self.config.lengths)
        number = int(self.np_random.integers(2**63))
        return make_room(rows, columns, boxes, depth, number, self.config.lengths)
