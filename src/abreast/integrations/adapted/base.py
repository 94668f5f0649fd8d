"""One environment of another library, as lanes see it: agents are numbers, observations arrays, actions numbers.

copy.reset(seed)
while copy.acting:                                   who has to choose now
    seen = [copy.see(agent) for agent in copy.acting]
    rewards, terminated, news = copy.step(actions)   one for each of them
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.errors import GameError, RewardError, short
from abreast.integrations.adapted.actions import Actions, actions_of
from abreast.integrations.adapted.boxes import View
from abreast.integrations.adapted.views import MASK, view_of
from abreast.worlds.playable import as_reward

Seen = tuple[NDArray[Any], NDArray[np.bool_] | None]
"""An observation, and which actions are legal, if the agent's view is masked."""


class News(NamedTuple):
    """What an agent learns after its step: a reward, or that its episode has ended for good or was cut."""

    agent: int
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class Step(NamedTuple):
    """What came of the actions of the agents that acted."""

    rewards: Sequence[float]
    terminated: Sequence[bool]
    news: Sequence[News] = ()


class AdaptedAgent(NamedTuple):
    """An agent that may appear in an environment."""

    name: str
    view: View
    actions: Actions
    is_masked: bool
    """Whether it is told which actions are legal: in the observation (`view.has_mask`), or else in `info`."""


class Adapted(ABC):
    """One copy of an environment."""

    env: Any
    """The environment itself, for what only its library knows."""
    name: str
    is_in_turn: ClassVar[bool]
    """Whether agents act in turn, one in each step."""

    agents: Sequence[AdaptedAgent]
    """All that may appear; others call an agent by its position."""
    acting: Sequence[int] = ()
    """Who has to choose now, in order: the same object as long as it is the same agents. Empty: the episode is over."""

    @abstractmethod
    def reset(self, seed: int) -> None:
        """Begin an episode, which follows from the seed and from what is done in it."""

    @abstractmethod
    def see(self, agent: int) -> Seen:
        """What an agent that has to choose sees: an array of its own."""

    @abstractmethod
    def step(self, actions: Sequence[Any]) -> Step:
        """Let those who have to choose act."""

    def leave(self) -> Sequence[News]:
        """The episode ends here, although it is not over: what agents do not know yet."""
        return ()

    def render(self) -> NDArray[Any] | str | None:
        """What it looks like now: pixels, text or nothing."""
        return self.env.render()  # type: ignore[no-any-return]

    def close(self) -> None:
        self.env.close()


def possible_agents(env: Any, name: str) -> list[Any]:
    """All agents that an environment says may appear, in its order."""
    given = getattr(env, "possible_agents", ())
    found = list(given)
    if not found:
        raise GameError(f"{name} has no possible_agents: list every agent there that may ever appear.")
    if isinstance(given, Set) or len(set(found)) < len(found):
        raise GameError(
            f"{name}: possible_agents is {short(given)}: make it a list with each agent once, because models belong to"
            " agents by their place in it."
        )
    return found


def declare(
    env: str,
    names: Sequence[Any],
    observation_space: Callable[[Any], Any],
    action_space: Callable[[Any], Any],
    infos: Mapping[Any, Any],
) -> list[AdaptedAgent]:
    """All agents of an environment, by its spaces and what its first `reset` told; what cannot be played is refused."""
    is_masked = any(isinstance(info, Mapping) and MASK in info for info in infos.values())
    found = []
    for name in names:
        view, actions = (
            _understood(env, name, *each)
            for each in (("observations", observation_space, view_of), ("actions", action_space, actions_of))
        )
        if actions.box is not None and (is_masked or view.has_mask):
            raise GameError(
                f"{env} cannot be trained: agent {short(name)} is given an {MASK}, but its actions are"
                " continuous: leave it out."
            )
        found.append(AdaptedAgent(str(name), view, actions, is_masked or view.has_mask))
    return found


def _understood(
    env: str, name: object, what: str, space_of: Callable[[Any], Any], convert: Callable[[Any], Any]
) -> Any:
    try:
        space = space_of(name)
    except (KeyError, AttributeError, NotImplementedError, TypeError) as error:
        raise GameError(
            f"{env} does not say what the {what} of agent {short(name)} are ({type(error).__name__}: {error}): define"
            f" {what[:-1]}_space(agent) for every agent in possible_agents."
        ) from None
    try:
        return convert(space)
    except GameError as error:
        raise GameError(f"{env} cannot be trained: of agent {short(name)}, the {what} are {error}.") from None


def begun_with(env: Any, name: str, seed: int, expected: str) -> tuple[Any, Any]:
    """What `reset` returns: two things."""
    returned = begun(env, name, seed)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise GameError(f"{name}.reset returned {short(returned)}: expected {expected}.")
    return returned


def begun(env: Any, name: str, seed: int) -> Any:
    """What `reset` returns."""
    try:
        return env.reset(seed=seed)
    except TypeError as error:
        if "unexpected keyword argument 'seed'" not in str(error):
            raise
        raise GameError(
            f"{name}.reset takes no seed: define it as reset(self, seed=None, options=None), and draw all random numbers"
            " from a generator that it makes from the seed."
        ) from None


def look(env: str, agent: AdaptedAgent, observation: object, info: Mapping[str, Any]) -> Seen:
    """An observation of an environment as training has it. What does not fit the agent's space is refused."""
    try:
        seen = agent.view.read(observation)
    except GameError as error:
        raise GameError(f"{env}: agent {agent.name!r} observes {error}") from None
    if not agent.is_masked:
        if MASK in info:
            raise GameError(
                f"{env}: info of agent {agent.name!r} has an {MASK} now, but had none after the first reset: give it with"
                " every reset and step, or put it into the observation."
            )
        return seen, None
    given = observation[MASK] if agent.view.has_mask else info.get(MASK)  # type: ignore[index]
    return seen, _mask(env, agent, given)


def _mask(env: str, agent: AdaptedAgent, given: object) -> NDArray[np.bool_]:
    count = agent.actions.number
    if given is None:  # of one who is told sometimes: nothing is forbidden now
        return np.ones(count, dtype=np.bool_)
    try:
        mask = np.array(given, dtype=np.bool_)
    except (TypeError, ValueError):
        mask = np.empty(0, dtype=np.bool_)
    if mask.shape != (count,) or not (mask == given).all():  # of other numbers, such as -inf, zero may be what is legal
        raise GameError(
            f"{env}: the {MASK} of agent {agent.name!r} is {short(given)}: expected {count} numbers, one for each action, 1"
            " where it is legal and else 0."
        )
    if not mask.any():
        raise GameError(
            f"{env}: the {MASK} of agent {agent.name!r} allows nothing, but it is its turn: allow at least one action, or"
            " end its episode (terminated or truncated)."
        )
    return mask


def earned(env: str, agent: AdaptedAgent, value: object) -> float:
    """A reward as a finite number."""
    try:
        return as_reward(value)
    except RewardError as error:
        several = isinstance(value, Mapping | Sequence | np.ndarray) and not isinstance(value, str)
        told = "these are several; make a pettingzoo.ParallelEnv if each belongs to an agent, else " if several else ""
        raise RewardError(f"{env}: of agent {agent.name!r}, {error}: {told}let `step` return one.") from None


def missing(env: str, agent: AdaptedAgent, what: str, given: object) -> GameError:
    """A dictionary of an environment lacks an agent."""
    has = ", ".join(map(str, given)) if isinstance(given, Mapping) else short(given)
    return GameError(
        f"{env}: the {what} lack agent {agent.name!r} (there is {has or 'nothing'}): return an entry for every agent that"
        " acted, and an observation for every agent in `agents`."
    )


def undeclared(env: str, name: object, agents: Sequence[AdaptedAgent]) -> GameError:
    """An agent has appeared that was not announced."""
    known = ", ".join(agent.name for agent in agents)
    return GameError(
        f"{env}: agent {short(name)} has appeared, which is not in possible_agents ({known}): declare every agent there that"
        " may ever join, because each needs a model of its own before the run begins."
    )
