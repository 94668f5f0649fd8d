"""The environment that is checked: found by name, and played."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from abreast.checking import SEED, Fault, Trace
from abreast.codec import digest
from abreast.errors import AbreastError, short, words
from abreast.rollouts.adapters import Adapter, FourTuple, TextAdapter
from abreast.rollouts.drivers.policies.local import listed_action
from abreast.rollouts.episodes.episode import BUILD_S, Episode, TurnResult
from abreast.rollouts.registry import find_tag
from abreast.streams import own_globals

STEPS = 12
"""Actions of an episode that is played for a check."""
LIMIT_S = 60.0
"""Seconds that a call of the environment may take, but for making it."""


@dataclass
class Shown:
    """What an environment returned from reset or a step."""

    call: str
    observation: Any
    render: Any
    reward: Any = 0.0
    done: bool = False
    info: Any = None
    action: Any = None

    def __post_init__(self) -> None:
        """Note what it is now, for comparisons. What cannot be pickled counts as equal."""
        self.seen = [
            digest(each, {}, is_copied=True) for each in (self.observation, self.render, self.reward, self.done)
        ]
        self.told = {key: digest(value, {}, is_copied=True) for key, value in self.info.items()}


class Alone(Adapter):
    """An environment with generators of its own, as an episode gives them to one that draws from the shared ones."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._generators = dict[str, Any]()
        with own_globals(seed or 0, self._generators):
            return self.inner.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        with own_globals(0, self._generators):
            return self.inner.step(action)

    def render(self) -> Any:
        with own_globals(0, self._generators):
            return self.inner.render()


@dataclass
class Trial:
    """An environment, as it is made and played by the checks."""

    target: str
    factory: Callable[[Any], Any]
    config: Any
    custom: Mapping[str, Any] | None = None
    """Tags of the user, among them the target's own settings."""
    made: list[Any] = field(default_factory=list)
    steps: int = STEPS
    """Actions of an episode; fewer after one of them has raised, so that the other checks have something to look at."""

    doing: Callable[[tuple[str, int | None, float]], object] = lambda what: None
    """Called before the environment is: with the call in words, the actions before it, and the seconds it may take."""

    def make(self, config: Any = None, is_alone: bool = True) -> Any:
        """Return a new instance; `config` is ignored, there is only one.

        `is_alone`: it does not draw from the generators that the whole process shares.
        """
        self.doing(("making it", None, BUILD_S))
        with own_globals(0, {}) if is_alone else nullcontext():
            env = self.factory(self.config)
        if not callable(getattr(env, "reset", None)) or not callable(getattr(env, "step", None)):
            raise Fault(f"making it returned {short(env)}, which has no reset and step: return a gymnasium.Env.")
        self.made.append(env)
        return env

    def close(self) -> None:
        """Close all instances."""
        made, self.made = self.made, []
        for env in made:
            if hasattr(env, "close"):
                env.close()

    def play_stepwise(self, env: Any, seed: int, is_alone: bool = True) -> Iterator[Shown]:
        """Play an episode with random actions, the same for every seed.

        They are what the manager sends: numbers if there is an `action_lookup`, else texts. `is_alone`: as of `make`.
        """
        played = Alone(env) if is_alone else env
        rng = np.random.default_rng(0)
        space = copy.deepcopy(getattr(env, "action_space", None))  # instances may share it
        if space is not None:
            space.seed(0)
        self.doing(("reset", None, LIMIT_S))
        observation, info = begin(played, seed)
        yield Shown("reset", copy.deepcopy(observation), _shown(played), info=info)
        for number in range(self.steps):
            action = None
            try:
                action = self._choose(env, space, observation, info, rng)
                self.doing((f"the action {short(action)}, number {number + 1} of an episode,", number, LIMIT_S))
                observation, reward, terminated, truncated, info = step(played, action)
            except (Exception, SystemExit) as error:
                self.steps = number
                if isinstance(error, Fault | AbreastError):
                    raise
                raise Fault(
                    f"the action {short(action)}, number {number + 1} of an episode, {raised(error)}."
                ) from error
            done = bool(terminated or truncated)
            yield Shown("step", copy.deepcopy(observation), _shown(played), reward, done, info, action)
            if done:
                return

    def play(self, env: Any, seed: int) -> list[Shown]:
        """A whole episode."""
        return list(self.play_stepwise(env, seed))

    def actions(self) -> list[Any]:
        """The actions of an episode."""
        return [shown.action for shown in self.play(self.make(), SEED)[1:]]

    def turns(self, actions: Sequence[Any]) -> Iterator[tuple[Episode, TurnResult]]:
        """Play an episode with these actions as the manager plays it: its start, then one turn for each action."""
        lookup = self.config.action_lookup
        episode = Episode(self.make, self.config)
        texts = [lookup[action] if lookup else action for action in actions]
        for number, text in enumerate([None, *texts]):
            self.doing((f"the turn {number} of an episode, with {short(text)},", None, LIMIT_S))
            turn = episode.start(SEED) if number == 0 else episode.take([text], 1)
            if turn.failure is not None:
                raise Fault(f"it raised {turn.failure}.")
            yield episode, turn

    def _choose(self, env: Any, space: Any, observation: Any, info: Any, rng: np.random.Generator) -> Any:
        lookup = self.config.action_lookup
        if lookup:
            return sorted(lookup)[rng.integers(len(lookup))]
        listed = listed_action(info, str(observation), rng)
        if listed is None and space is None and not isinstance(env, FourTuple):
            raise Fault(
                "it has no action_space, and its info has no available_actions, so it is not known what it can be played"
                " with: set action_space, say to gymnasium.spaces.Text(20), or list actions in info['available_actions']."
            )
        if listed is not None or space is None:  # the old form has no info: then as the random policy plays
            return listed or str(rng.integers(100))
        return env.actions.write(space.sample()) if isinstance(env, TextAdapter) else str(space.sample())


def digests_of(target: str, custom: Mapping[str, Any] | None, actions: Sequence[Any]) -> Trace:
    """Return the digests of an episode with these actions, as rollouts compute them."""
    with closing(find_trial(target, custom)) as trial:
        return [(place(number), turn[0].take_digest()[1]) for number, turn in enumerate(trial.turns(actions))]


def trace_of(episode: Sequence[Shown]) -> Trace:
    """Return an episode as `abreast.checking` compares it."""
    return [(place(number), shown.seen) for number, shown in enumerate(episode)]


def place(step: int) -> str:
    """A step of an episode, in words."""
    return f"after step {step}" if step else "at the start"


def begin(env: Any, seed: int) -> tuple[Any, dict[str, Any]]:
    """Reset an environment, and check the form of what it returns."""
    result = env.reset(seed=seed)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
        raise Fault(f"reset returned {short(result)}: return (observation, info), where info is a dict.")
    return result


def step(env: Any, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
    """Take a step, and check the form of what it returns."""
    result = env.step(action)
    if not isinstance(result, tuple) or len(result) != 5 or not isinstance(result[4], dict):
        raise Fault(
            f"step returned {short(result)}: return (observation, reward, terminated, truncated, info), info being a dict;"
            " abreast.rollouts.adapters.FourTuple wraps an environment of the old form."
        )
    return result


def _shown(env: Any) -> Any:
    """What `render` returns; None without a render mode."""
    return None if getattr(env, "render_mode", "text") is None else copy.deepcopy(env.render())


def find_trial(target: str, custom: Mapping[str, Any] | None = None) -> Trial:
    """Return the environment of MODULE:ENV, of a type or a tag (of `custom`, too), or of an id of Gymnasium."""
    tag = find_tag(target, custom or {})
    return Trial(target, tag.kind.env, tag.config, custom)


def told(error: BaseException) -> str:
    """What was raised, as a verdict: our own errors are sentences already."""
    return str(error) if isinstance(error, AbreastError) else f"it {raised(error)}."


def raised(error: BaseException) -> str:
    """What was raised, and where."""
    return f"raised {words(error, Path(__file__).parent)}"
