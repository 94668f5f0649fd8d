"""An environment whose actions are numbers, played with texts."""

import copy
from typing import Any

from gymnasium.utils.env_checker import data_equivalence

from abreast.errors import RolloutError, short
from abreast.rollouts.adapters.actions import Actions, Names, action_space_of, names_of
from abreast.rollouts.adapters.base import Adapter, five_values, number_of, two_values
from abreast.rollouts.adapters.observations import text_of, without_escapes

INFO_KEYS = frozenset({"success", "action_is_valid", "action_is_effective"})
SILENT_MODES = (None, "human")
"""Render modes without a result: the observation is shown."""


class TextAdapter(Adapter):
    """Plays an environment with Discrete, MultiDiscrete or Text actions by texts, and shows it as a text or a picture.

        env = TextAdapter(gymnasium.make("FrozenLake-v1", render_mode="ansi"))
        env.reset(seed=1)
        env.step("2")            # as env.step(2)
        env.knows_action("9")    # False: the manager drops such an action, and the penalty is due

    Discrete actions are named by number ("2") or by name, if `names` are given or the environment itself has some;
    MultiDiscrete ones as "1 0 2", "1,0,2" or "[1, 0, 2]". An unknown action changes nothing.

    Where `info` lacks them, it gets `success`, `action_is_valid`, `action_is_effective` (the observation has changed, or the
    episode has ended) and `available_actions`. Success: the episode has ended, and the sum of its rewards is at least
    `success_reward`; without that number, at least the `reward_threshold` of its specification; without one, it has
    terminated and its last reward is positive.
    """

    def __init__(self, env: Any, names: Names | None = None, success_reward: float | None = None) -> None:
        super().__init__(env)
        self.action_space = space = action_space_of(env)
        self._only_named = names is not None
        if names is not None and not all(number in space for number in names):
            raise RolloutError(
                f"action_lookup is {short(names)}, but its action space is {short(space)}: leave it out."
            )
        self.actions = Actions(space, names if names is not None else names_of(env, space))
        self._listed = self.actions.listed(only_named=self._only_named)
        self._drawn = self.render_mode not in SILENT_MODES
        self.render_mode = self.render_mode if self._drawn else "text"
        threshold = getattr(self.spec, "reward_threshold", None)
        self._success_reward = success_reward if success_reward is not None else threshold
        self._observation: Any = None
        self._total = 0.0
        self.filled: set[str] = set()
        """The keys of `info` that the environment itself has not given."""

    def knows_action(self, text: Any) -> bool:
        """Whether this names an action."""
        return self.actions.read(text) is not None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = two_values(self.inner.reset(seed=seed))
        self._observation, self._total = copy.deepcopy(observation), 0.0  # it could change what it has returned
        self._list_actions(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, with the action that a text names, or with an action itself."""
        known = self.actions.read(action)
        if known is None:
            info = {"success": False, "action_is_valid": False, "action_is_effective": False}
            return self._observation, 0.0, False, False, info
        observation, reward, terminated, truncated, info = five_values(self.inner.step(known))
        self._total += number_of(reward)
        missing = INFO_KEYS - info.keys()
        self.filled |= missing
        info = dict(info)
        if "success" in missing:
            info["success"] = self._is_success(float(reward), bool(terminated), bool(truncated))
        info.setdefault("action_is_valid", True)
        if "action_is_effective" in missing:
            is_same = data_equivalence(self._observation, observation, exact=True)
            info["action_is_effective"] = bool(terminated or truncated or not is_same)
        self._list_actions(info)
        self._observation = copy.deepcopy(observation)
        return observation, reward, terminated, truncated, info

    def render(self) -> Any:
        """A text, or a picture if that is its render mode."""
        drawn = self.inner.render() if self._drawn else None
        if drawn is None:
            return None if self._observation is None else text_of(self._observation)
        if isinstance(drawn, str):
            return without_escapes(drawn)
        if not isinstance(drawn, list | tuple):
            return drawn
        return list(drawn[-1:]) if str(self.render_mode).endswith("_list") else drawn

    # ---- inside

    def _is_success(self, reward: float, terminated: bool, truncated: bool) -> bool:
        if self._success_reward is None:
            return terminated and reward > 0
        return (terminated or truncated) and self._total >= self._success_reward

    def _list_actions(self, info: dict[str, Any]) -> None:
        if "available_actions" in info or self._listed is None:
            return
        mask = info.get("action_mask")
        info["available_actions"] = self._listed if mask is None else self.actions.listed(mask, self._only_named)
