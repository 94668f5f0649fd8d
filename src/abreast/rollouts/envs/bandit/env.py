"""The bandit as an environment."""

import string
from collections.abc import Mapping
from typing import Any

from gymnasium.spaces import Discrete, Text

from abreast.rollouts.envs.bandit.config import BanditConfig
from abreast.rollouts.envs.base import Taken, TextEnv, info_of

_LONGEST_STATE = 300


class BanditEnv(TextEnv[int]):
    """Choose one of two arms, once.

    env = BanditEnv()
    text, info = env.reset(seed=1)
    text, reward, terminated, truncated, info = env.step(2)  # the hi arm
    """

    def __init__(self, config: BanditConfig | Mapping[str, Any] | None = None) -> None:
        self.config = BanditConfig.parse({} if config is None else config)
        names, start = self.config.names, self.config.action_space_start
        self.observation_space = Text(_LONGEST_STATE, charset=frozenset(string.printable).union(*names.values()))
        self.action_space = Discrete(len(names), start=start)  # type: ignore[assignment]  # its numbers are numpy's

    def _begin(self, seed: int | None) -> dict[str, Any]:
        pairs = self.config.pairs
        self._pair = int(self.np_random.integers(len(pairs))) if len(pairs) > 1 else 0
        # Only the text is shuffled, never the numbers of the actions: the place of a name must not give the arm away.
        lo, hi = pairs[self._pair]
        shown = f"{lo} and {hi}" if self.np_random.random() < 0.5 else f"{hi} and {lo}"
        self._text = f"Two arms can be pulled: {shown}. Each pays in its own way. You have one choice, then it is over."
        return info_of()

    def _take(self, action: int) -> Taken:
        pair, is_hi = divmod(action - self.config.action_space_start, 2) if self.config.knows(action) else (-1, 0)
        if pair != self._pair:  # no action, or an arm of another pair
            return 0.0, False, False, info_of(valid=False)

        reward = self.config.lo_reward
        if is_hi:
            pays = self.np_random.random() < self.config.hi_probability
            reward = self.config.hi_reward if pays else self.config.hi_reward_else
        self._text = f"You pulled {self.config.names[action]}. It paid {reward:g}."
        return reward, True, False, info_of(success=bool(is_hi), effective=True)
