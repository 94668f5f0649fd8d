"""The bandit as an environment."""

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.spaces import Discrete, Text

from abreast.errors import RolloutError
from abreast.rollouts.envs.bandit.config import BanditConfig


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
        start = self.config.action_space_start
        self.action_space = Discrete(len(self.config.names), start=start)  # type: ignore[assignment]  # its numbers are numpy's
        self._text = ""
        self._pair = 0
        self._playing = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        pairs = self.config.pairs
        self._pair = int(self.np_random.integers(len(pairs))) if len(pairs) > 1 else 0
        # Only the text is shuffled, never the numbers of the actions: the place of a name must not give the arm away.
        self._text = _question(pairs[self._pair], lo_first=self.np_random.random() < 0.5)
        self._playing = True
        return self._text, _info()

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if not self._playing:
            raise RolloutError("the bandit was stepped with no episode under way: call reset first.")
        pair, is_hi = divmod(action - self.config.action_space_start, 2) if self.config.knows(action) else (-1, 0)
        if pair != self._pair:  # no action, or an arm of another pair
            return self._text, 0.0, False, False, _info(valid=False)

        reward = self._pull(bool(is_hi))
        self._text = _answer(self.config.names[action], reward)
        self._playing = False
        return self._text, reward, True, False, _info(success=bool(is_hi), effective=True)

    def render(self) -> str:
        if not self._text:
            raise RolloutError("the bandit was to be rendered before its first episode: call reset first.")
        return self._text

    def _pull(self, is_hi: bool) -> float:
        config = self.config
        if not is_hi:
            return config.lo_reward
        return config.hi_reward if self.np_random.random() < config.hi_probability else config.hi_reward_else


def _question(pair: tuple[str, str], lo_first: bool) -> str:
    first, second = pair if lo_first else reversed(pair)
    return (
        f"Two arms can be pulled: {first} and {second}. Each pays in its own way. You have one choice, then it is over."
    )


def _answer(name: str, reward: float) -> str:
    return f"You pulled {name}. It paid {reward:g}."


def _all_texts(config: BanditConfig) -> list[str]:
    """Everything the environment can ever say."""
    texts = []
    for lo, hi in config.pairs:
        texts += [_question((lo, hi), lo_first) for lo_first in (True, False)]
        texts += [_answer(lo, config.lo_reward), _answer(hi, config.hi_reward), _answer(hi, config.hi_reward_else)]
    return texts


def _info(*, success: bool = False, valid: bool = True, effective: bool = False) -> dict[str, Any]:
    return {"success": success, "action_is_valid": valid, "action_is_effective": effective}
