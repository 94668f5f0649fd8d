"""The bandit as an environment."""

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.spaces import Discrete, Text

from abreast.errors import RolloutError
from abreast.rollouts.envs.bandit.config import BanditConfig

LO, HI = 1, 2


class BanditEnv(gymnasium.Env[str, int]):
    """Choose one of two arms, once.

    env = BanditEnv()
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step(2)  # the hi arm
    """

    metadata = {"render_modes": ["text"], "render_fps": 1}  # noqa: RUF012 (Gymnasium's own form)

    def __init__(self, config: BanditConfig | Mapping[str, Any] | None = None) -> None:
        self.config = BanditConfig.parse({} if config is None else config)
        self.render_mode = "text"
        texts = _all_texts(self.config)
        self.observation_space = Text(
            max(map(len, texts)), min_length=min(map(len, texts)), charset=frozenset("".join(texts))
        )
        self.action_space = Discrete(2, start=1)  # type: ignore[assignment]  # its numbers are numpy's
        self._text = ""
        self._playing = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        # Only the text is shuffled, never the numbers of the actions: the place of a name must not give the arm away.
        self._text = _question(self.config, lo_first=self.np_random.random() < 0.5)
        self._playing = True
        return self._text, _info()

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise RolloutError("the bandit was stepped with no episode under way: call reset first.")
        if not self.config.knows(action):
            return self._text, 0.0, False, False, _info(valid=False)

        reward = self._pull(action)
        self._text = _answer(self.config.action_lookup[action], reward)
        self._playing = False
        return self._text, reward, True, False, _info(success=bool(action == HI), effective=True)

    def render(self) -> str:
        if not self._text:
            raise RolloutError("the bandit was to be rendered before its first episode: call reset first.")
        return self._text

    def _pull(self, action: int) -> float:
        if action == LO:
            return self.config.lo_reward
        return self.config.hi_reward if self.np_random.random() < self.config.hi_probability else 0.0


def _question(config: BanditConfig, lo_first: bool) -> str:
    names = [config.lo_arm_name, config.hi_arm_name]
    first, second = names if lo_first else reversed(names)
    return (
        f"Two arms can be pulled: {first} and {second}. Each pays in its own way. You have one choice, then it is over."
    )


def _answer(name: str, reward: float) -> str:
    return f"You pulled {name}. It paid {reward:g}."


def _all_texts(config: BanditConfig) -> list[str]:
    """Everything the environment can ever say."""
    return [
        _question(config, lo_first=True),
        _question(config, lo_first=False),
        _answer(config.lo_arm_name, config.lo_reward),
        _answer(config.hi_arm_name, config.hi_reward),
        _answer(config.hi_arm_name, 0.0),
    ]


def _info(*, success: bool = False, valid: bool = True, effective: bool = False) -> dict[str, Any]:
    return {"success": success, "action_is_valid": valid, "action_is_effective": effective}
