"""A Gymnasium `Env`: one agent."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from abreast.errors import GameError, short
from abreast.integrations.adapted.base import News, Seen, Step, begun, declare, earned, look

AGENT = "agent"
"""What its only agent is called."""
ALONE = (0,)


class SingleCopy:
    """One `gymnasium.Env`."""

    def __init__(self, env: Any, name: str) -> None:
        self.env, self.name = env, name
        self.acting: tuple[int, ...] = ()
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
        returned = begun(self.env, self.name, seed)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise GameError(f"{self.name}.reset returned {short(returned)}: expected (observation, info).")
        return returned[0], returned[1] or {}

    def see(self, agent: int) -> Seen:
        return look(self.name, self._agent, self._seen, self._info)

    def step(self, actions: Sequence[int]) -> Step:
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

    def leave(self) -> Sequence[News]:
        return ()

    def render(self) -> NDArray[Any] | str | None:
        return self.env.render()  # type: ignore[no-any-return]

    def close(self) -> None:
        self.env.close()
