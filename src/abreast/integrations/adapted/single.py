"""A Gymnasium `Env`: one agent."""

from collections.abc import Sequence
from typing import Any, ClassVar

from gymnasium.spaces import Tuple

from abreast.errors import GameError, short
from abreast.integrations.adapted.base import Adapted, Seen, Step, begun_with, declare, earned, look

AGENT = "agent"
"""What its only agent is called."""
ALONE = (0,)


class SingleCopy(Adapted):
    """One `gymnasium.Env`."""

    is_in_turn: ClassVar[bool] = False

    def __init__(self, env: Any, name: str) -> None:
        self.env, self.name = env, name
        if isinstance(env.action_space, Tuple):
            raise GameError(
                f"{name} has a Tuple of {len(env.action_space.spaces)} action spaces, usually one for each of several"
                " agents, but a gymnasium.Env is one agent here: wrap it in a pettingzoo.ParallelEnv in which each agent has"
                " one of them (pettingzoo:FILE.py:CLASS). For one agent, offer a Dict or MultiDiscrete space."
            )
        self._seen, self._info = self._reset(0)
        self.agents = declare(
            name, [AGENT], lambda _: env.observation_space, lambda _: env.action_space, {AGENT: self._info}
        )
        self._agent = self.agents[0]
        self._is_plain, self._action = self._agent.actions.is_plain, self._agent.actions.of

    def reset(self, seed: int) -> None:
        self._seen, self._info = self._reset(seed)
        self.acting = ALONE

    def _reset(self, seed: int) -> tuple[Any, Any]:
        seen, info = begun_with(self.env, self.name, seed, "(observation, info)")
        return seen, info or {}

    def see(self, agent: int) -> Seen:
        return look(self.name, self._agent, self._seen, self._info)

    def step(self, actions: Sequence[Any]) -> Step:
        returned = self.env.step(actions[0] if self._is_plain else self._action(actions[0]))
        try:
            self._seen, reward, terminated, truncated, info = returned
        except (TypeError, ValueError):
            raise GameError(
                f"{self.name}.step returned {short(returned)}: expected (observation, reward, terminated, truncated, info)."
            ) from None
        self._info = info or {}
        if terminated or truncated:
            self.acting = ()
        return Step((earned(self.name, self._agent, reward),), (bool(terminated),))
