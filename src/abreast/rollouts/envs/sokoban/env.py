"""Sokoban as an environment."""

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from abreast.errors import RolloutError
from abreast.rollouts.envs.sokoban.board import TEXT_CHARACTERS, Board, longest_text
from abreast.rollouts.envs.sokoban.config import SokobanConfig
from abreast.rollouts.envs.sokoban.depth_first import make_room_by_moves
from abreast.rollouts.envs.sokoban.grid import Room
from abreast.rollouts.envs.sokoban.picture import Pixels, draw
from abreast.rollouts.envs.sokoban.rooms import make_room

STEP_REWARD = -0.1
BOX_REWARD = 1.0
"""For a box that comes onto a target; the same is taken for one that leaves it."""
SOLVED_REWARD = 10.0


class SokobanEnv(gymnasium.Env[str, int]):
    """Push every box onto a target.

    env = SokobanEnv({"num_boxes": 1})
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step(1)  # up
    """

    metadata = {"render_modes": ["text", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own form)

    def __init__(self, config: SokobanConfig | Mapping[str, Any] | None = None) -> None:
        self.config = SokobanConfig.parse(config or {})
        self.render_mode = self.config.render_mode
        self.action_space = spaces.Discrete(4, start=1)  # type: ignore[assignment]  # its numbers are numpy's
        self.observation_space = _text_space(self.config)
        self.board: Board | None = None
        self._steps = 0
        self._over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.board = Board(self._make_room(seed), self.config.symbols)
        self._steps = 0
        self._over = False
        return self._text(), self._info(valid=True, effective=False)

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        board = self._board()
        if self._over:
            raise RolloutError("the episode of Sokoban is over: call reset to begin another one.")
        if not self.config.knows(action):
            return self._text(), 0.0, False, False, self._info(valid=False, effective=False)

        before = board.boxes_on_target
        moved = board.move(int(action) - 1)
        self._steps += 1
        reward = STEP_REWARD + BOX_REWARD * (board.boxes_on_target - before)
        if board.solved:
            reward += SOLVED_REWARD
        if self.config.ignore_gym_reward:
            reward = self.config.success_reward if board.solved else 0.0
        truncated = not board.solved and self._steps >= self.config.max_steps
        self._over = board.solved or truncated
        return self._text(), reward, board.solved, truncated, self._info(valid=True, effective=moved)

    def render(self) -> str | Pixels:
        """The text of the state or, with `render_mode` rgb_array, a picture of the room."""
        return draw(self._board().plain_grid()) if self.render_mode == "rgb_array" else self._text()

    def _make_room(self, seed: int | None) -> Room:
        (rows, columns), boxes, depth = self.config.dim_room, self.config.num_boxes, self.config.search_depth
        if self.config.room_search == "moves":
            number = int(self.np_random.integers(2**32)) if seed is None else seed
            return make_room_by_moves(rows, columns, boxes, depth, number, self.config.lengths)
        number = int(self.np_random.integers(2**63))
        return make_room(rows, columns, boxes, depth, number, self.config.lengths)

    def _board(self) -> Board:
        if self.board is None:
            raise RolloutError("there is no room of Sokoban yet: call reset first.")
        return self.board

    def _text(self) -> str:
        board = self._board()
        match self.config.observation_format:
            case "grid":
                return board.grid()
            case "coord":
                return board.coord()
            case "grid_coord":
                return board.grid_coord()

    def _info(self, *, valid: bool, effective: bool) -> dict[str, Any]:
        board = self._board()
        return {
            "success": board.solved,
            "action_is_valid": valid,
            "action_is_effective": effective,
            "boxes_on_target": board.boxes_on_target,
        }


def _text_space(config: SokobanConfig) -> spaces.Text:
    rows, columns = config.dim_room
    symbols, width = "".join(config.symbols), len(config.symbols[0])
    if config.observation_format == "grid":
        length = rows * (columns * width + 1) - 1
        return spaces.Text(min_length=length, max_length=length, charset=frozenset(symbols + "\n"))
    longest = longest_text(rows, columns, config.num_boxes, width)
    return spaces.Text(longest, charset=frozenset(TEXT_CHARACTERS + symbols))
