"""The frozen lake as an environment."""

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.spaces import Discrete, Text
from gymnasium.utils.seeding import np_random

from abreast.errors import RolloutError
from abreast.rollouts.envs.frozen_lake.cells import GOAL, HOLE
from abreast.rollouts.envs.frozen_lake.config import FrozenLakeConfig
from abreast.rollouts.envs.frozen_lake.lake import ACTIONS, Lake, new_lake, slips
from abreast.rollouts.envs.frozen_lake.picture import Pixels, draw
from abreast.rollouts.envs.frozen_lake.text import CHARACTERS, longest, show


class FrozenLakeEnv(gymnasium.Env[str, int]):
    """Cross the ice to the goal; do not fall into a hole.

    env = FrozenLakeEnv({"size": 4})
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step(3)  # right
    """

    metadata = {"render_modes": ["text", "rgb_array"], "render_fps": 4}  # noqa: RUF012 (Gymnasium's own form)

    def __init__(self, config: FrozenLakeConfig | Mapping[str, Any] | None = None) -> None:
        self.config = FrozenLakeConfig.parse({} if config is None else config)
        self.render_mode = self.config.render_mode
        self.observation_space = _text_space(self.config)
        self.action_space = Discrete(len(ACTIONS), start=1)  # type: ignore[assignment]  # its numbers are numpy's
        self._slips = {action: slips(self.config, action) for action in ACTIONS}
        self._lake = Lake(self.config.size, "")
        self._cell = 0
        self._steps = 0
        self._text = ""
        self._playing = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        # A stream of its own for the lake, and one number of the other for the start, as Gymnasium's FrozenLake draws it:
        # with the same seed and the same moves, the ice is as slippery there as here.
        number = int(self.np_random.integers(2**32)) if seed is None else seed
        self._lake, self._cell = new_lake(self.config, np_random(number)[0])
        self.np_random.random()
        self._steps = 0
        self._see()
        self._playing = True
        return self._text, _info()

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise RolloutError("the frozen lake was stepped with no episode under way: call reset first.")
        if not self.config.knows(action):
            return self._text, 0.0, False, False, _info(valid=False)

        target = self._lake.neighbour(self._cell, self._slip(action))
        moved = target != self._cell
        if moved:
            self._cell = target
            self._see()
        self._steps += 1

        ground = self._lake.text[target]
        success = ground == GOAL
        terminated = success or ground == HOLE
        truncated = not terminated and self._steps >= self.config.max_steps
        self._playing = not (terminated or truncated)
        return self._text, float(success), terminated, truncated, _info(success=success, effective=moved)

    def render(self) -> str | Pixels:
        if not self._text:
            raise RolloutError("the frozen lake was to be rendered before its first episode: call reset first.")
        return self._text if self.render_mode == "text" else draw(self._lake.with_player(self._cell))

    def _see(self) -> None:
        self._text = show(self.config, self._lake.with_player(self._cell))

    def _slip(self, action: int) -> int:
        """The direction a move really takes."""
        luck, up_to = self.np_random.random(), 0.0
        for probability, direction in self._slips[action]:
            up_to += probability
            if luck < up_to:
                return direction
        return direction  # the chances add up to a hair less than 1


def _text_space(config: FrozenLakeConfig) -> Text:
    most, symbols = longest(config), "".join(config.symbols)
    if config.observation_format == "grid":
        return Text(most - 1, min_length=most - 1, charset=frozenset(symbols + "\n"))
    return Text(most, charset=frozenset(CHARACTERS + symbols))


def _info(*, success: bool = False, valid: bool = True, effective: bool = False) -> dict[str, Any]:
    return {"success": success, "action_is_valid": valid, "action_is_effective": effective}
