"""A PettingZoo `ParallelEnv`: all agents that are alive act at once."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from abreast.errors import GameError, short
from abreast.integrations.adapted.base import (
    Adapted,
    News,
    Seen,
    Step,
    begun_with,
    declare,
    earned,
    look,
    missing,
    possible_agents,
    undeclared,
)

NOTHING: Mapping[str, Any] = {}


class ParallelCopy(Adapted):
    """One `ParallelEnv`. Agents are those in `possible_agents`; alive are those in `agents`."""

    is_in_turn: ClassVar[bool] = False

    def __init__(self, env: Any, name: str) -> None:
        self.env, self.name = env, name
        self._listed: tuple[Any, ...] = ()
        """`agents`, as they were."""
        self._lingering: frozenset[int] = frozenset()
        """Agents whose episode has ended and that are still listed, against the rules: they have to leave to come back."""
        self._names: list[Any] = []
        observations, infos = self._reset(0)
        if not hasattr(env, "agents"):
            raise GameError(
                f"{name} has no `agents` after reset: list those there that are alive, and update it in step."
            )
        self._all_names = possible_agents(env, name)
        self._numbers = {each: number for number, each in enumerate(self._all_names)}
        self.agents = declare(name, self._all_names, env.observation_space, env.action_space, infos)
        self._seen, self._infos = observations, infos

    def reset(self, seed: int) -> None:
        self._seen, self._infos = self._reset(seed)
        self._lingering = frozenset()
        self._note_living(())
        if not self.acting:
            raise GameError(f"{self.name}: `agents` is empty after reset: list the agents that are there.")

    def _reset(self, seed: int) -> tuple[Mapping[Any, Any], Mapping[Any, Any]]:
        observations, infos = begun_with(self.env, self.name, seed, "(observations, infos)")
        return observations, infos if isinstance(infos, Mapping) else NOTHING

    def see(self, agent: int) -> Seen:
        name = self._all_names[agent]
        try:
            seen = self._seen[name]
        except (KeyError, TypeError, IndexError):
            raise missing(self.name, self.agents[agent], "observations", self._seen) from None
        return look(self.name, self.agents[agent], seen, self._infos.get(name) or NOTHING)

    def step(self, actions: Sequence[Any]) -> Step:
        names, agents = self._names, self.agents
        if self._are_plain:
            chosen = dict(zip(names, actions, strict=True))
        else:
            chosen = {
                name: agents[agent].actions.of(action)
                for name, agent, action in zip(names, self.acting, actions, strict=True)
            }
        returned = self.env.step(chosen)
        try:
            self._seen, paid, terminations, truncations, infos = returned
        except (TypeError, ValueError):
            raise GameError(
                f"{self.name}.step returned {short(returned)}: expected (observations, rewards, terminations, truncations,"
                " infos)."
            ) from None
        self._infos = infos if isinstance(infos, Mapping) else NOTHING
        rewards: list[float] = []
        terminated: list[bool] = []
        ended: list[int] = []
        for name, agent in zip(names, self.acting, strict=True):
            try:
                rewards.append(earned(self.name, agents[agent], paid[name]))
                is_terminated, is_truncated = terminations[name], truncations[name]
            except (KeyError, TypeError, IndexError):
                raise self._missing(agent, paid, terminations, truncations) from None
            terminated.append(bool(is_terminated))
            if is_terminated or is_truncated:
                ended.append(agent)
        if self._lingering:
            self._check_lingering(terminations, truncations)
        news = [] if len(paid) == len(names) else self._paid_to_others(paid)
        if not ended and tuple(self.env.agents) == self._listed:
            return Step(rewards, terminated, news)
        before = dict(zip(self.acting, terminated, strict=True))
        self._note_living(ended)
        cut = [agent for agent in before if not before[agent] and (agent in ended or agent not in self.acting)]
        return Step(rewards, terminated, [*news, *(News(agent, truncated=True) for agent in cut)])

    def _check_lingering(self, terminations: Mapping[Any, Any], truncations: Mapping[Any, Any]) -> None:
        for agent in sorted(self._lingering):
            name = self._all_names[agent]
            if name in terminations and not terminations[name] and not truncations.get(name):
                raise GameError(
                    f"{self.name}: agent {short(name)} has ended its episode, stayed in `agents`, and is not ended any more:"
                    " take one that ends out of `agents`; it may be there again after the next step."
                )

    def _paid_to_others(self, paid: Mapping[Any, Any]) -> list[News]:
        """What agents got that did not act, such as one that is dead and whose team has won."""
        unknown = [name for name in paid if name not in self._numbers]
        if unknown:
            raise undeclared(self.name, unknown[0], self.agents)
        others = ((self._numbers[name], reward) for name, reward in paid.items() if name not in self._names)
        news = [News(agent, earned(self.name, self.agents[agent], reward)) for agent, reward in others]
        return [each for each in news if each.reward]

    def _missing(self, agent: int, *dictionaries: Any) -> GameError:
        name, kinds = self._all_names[agent], ("rewards", "terminations", "truncations")
        each = zip(kinds, dictionaries, strict=True)
        lacking = ((kind, given) for kind, given in each if not isinstance(given, Mapping) or name not in given)
        return missing(self.name, self.agents[agent], *next(lacking))

    def _note_living(self, ended: Sequence[int]) -> None:
        """Find out who is alive, if any have come or gone."""
        self._listed = tuple(self.env.agents)
        try:
            listed = {self._numbers[name] for name in self._listed}
        except KeyError as error:
            raise undeclared(self.name, error.args[0], self.agents) from None
        self._lingering = (self._lingering | set(ended)) & listed
        acting = tuple(sorted(listed - self._lingering))
        if acting != self.acting:
            self.acting = acting
        self._names = [self._all_names[agent] for agent in acting]
        self._are_plain = all(self.agents[agent].actions.is_plain for agent in acting)
