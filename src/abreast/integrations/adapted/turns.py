"""A PettingZoo `AECEnv`: agents act in turn, and what each gets is known when its next turn comes."""

from collections.abc import Sequence
from typing import Any, ClassVar

from abreast.errors import GameError, short
from abreast.integrations.adapted.base import (
    Adapted,
    News,
    Seen,
    Step,
    begun,
    declare,
    earned,
    look,
    possible_agents,
    undeclared,
)


class TurnCopy(Adapted):
    """One `AECEnv`. An agent's reward is what it got from its action until its next turn, as `last` says: so it is late."""

    is_in_turn: ClassVar[bool] = True

    def __init__(self, env: Any, name: str) -> None:
        self.env, self.name = env, name
        begun(env, name, 0)
        self._names = possible_agents(env, name)
        self._numbers = {each: number for number, each in enumerate(self._names)}
        self._alone = [(number,) for number in range(len(self._names))]
        self.agents = declare(name, self._names, env.observation_space, env.action_space, getattr(env, "infos", {}))
        self._info: Any = {}
        self._owed: set[int] = set()
        """Agents that do not know yet what they got since they acted, or since the start."""

    def reset(self, seed: int) -> None:
        begun(self.env, self.name, seed)
        self._owed.update(range(len(self._names)))
        self._next_turn()
        if not self.acting:
            raise GameError(f"{self.name}: `agents` is empty after reset: list the agents that are there.")

    def see(self, agent: int) -> Seen:
        return look(self.name, self.agents[agent], self.env.observe(self._names[agent]), self._info)

    def step(self, actions: Sequence[Any]) -> Step:
        (agent,), (action,) = self.acting, actions
        self.env.step(self.agents[agent].actions.of(action))
        self._owed.add(agent)
        return Step((0.0,), (False,), self._next_turn())

    def _next_turn(self) -> list[News]:
        """Go on to the next agent that is alive; returns what it, and those who have died, got since their last turns."""
        news: list[News] = []
        for _ in range(2 * len(self._names) + 1):
            if not self.env.agents:
                self.acting = ()
                return [*news, *self.leave()]
            name = self.env.agent_selection
            agent = self._numbers.get(name)
            if agent is None:
                raise undeclared(self.name, name, self.agents)
            _, reward, terminated, truncated, self._info = self._last(name)
            if agent in self._owed:
                got = earned(self.name, self.agents[agent], reward)
                self._owed.discard(agent)
                if got or terminated or truncated:
                    news.append(News(agent, got, bool(terminated), bool(truncated)))
            if not terminated and not truncated:
                self.acting = self._alone[agent]
                return news
            self.env.step(None)
        raise GameError(
            f"{self.name}: agent {short(name)} has ended its episode and stays in `agents`: remove it when it is stepped"
            " with None (`_was_dead_step` does)."
        )

    def _last(self, name: Any) -> Any:
        try:
            return self.env.last(observe=False)
        except KeyError:
            if name in self.env.agents:
                raise
            raise GameError(
                f"{self.name}: agent_selection is {short(name)}, which is not in `agents` any more: select one that is."
            ) from None

    def leave(self) -> list[News]:
        """What agents have got that have no turn any more."""
        news = []
        for agent in sorted(self._owed):
            name = self._names[agent]
            reward = earned(self.name, self.agents[agent], self.env._cumulative_rewards.get(name, 0.0))
            ended, cut = (bool(each.get(name, False)) for each in (self.env.terminations, self.env.truncations))
            if reward or ended or cut:
                news.append(News(agent, reward, ended, cut))
        self._owed.clear()
        return news
