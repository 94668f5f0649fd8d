"""What every policy is: an async callable that is asked once per turn of an episode.

    answer = await policy(asked)          # asked: which episode, its cache, the messages for a language model
    await episode.step(answer.given)      # a text (the Context of the tag parses it), or a list of actions

An `Unanswered` ends that episode, with its reason; the others go on. Any other exception stops the run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from abreast.errors import RolloutError
from abreast.rollouts.context.context import Message
from abreast.rollouts.context.sampled import Sampled
from abreast.rollouts.episodes.slot import Cache, Tally
from abreast.rollouts.registry import Tag


class Unanswered(RolloutError):
    """A policy has no answer for this turn: its episode ends with this reason."""


class EndOfInput(Exception):
    """The policy wants to stop here: the run ends, and keeps what is finished."""


class Tokens(NamedTuple):
    """Tokens that a server has counted."""

    prompt: int = 0
    completion: int = 0

    def plus(self, other: "Tokens") -> "Tokens":
        """The sum."""
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)


class Answer(NamedTuple):
    """What a policy says."""

    given: str | list[str]
    """The raw text of a language model, or actions."""
    tokens: Tokens | None = None
    """None if they were not counted."""
    finish_reason: str | None = None
    """Why the text ended, as the server says: stop, length (a limit of tokens has cut it off), tool_calls ..."""
    tool_calls: Sequence[str] = ()
    """Names of the tools that the model called: the text holds them only if the context has a form for them."""
    calls: Sequence[tuple[str, str]] = ()
    """The same with their arguments, which are JSON, where the context has tools."""
    sampled: Sampled | None = None
    """Token ids and log-probabilities, where they were asked for; what the server did not give is None in it."""


@dataclass
class Counts:
    """What a policy has used in this run so far."""

    requests: int = 0
    """Sent, also those that failed."""
    retries: int = 0
    """Requests that were sent again."""
    uncounted: int = 0
    """Answers for which the server gave no token counts."""
    tokens: Tokens = field(default_factory=Tokens)
    seconds: list[float] = field(default_factory=list)
    """Of each request that was answered."""


@dataclass
class Asked:
    """One turn of an episode, as a policy sees it."""

    number: int
    """Of the episode, in this run."""
    seed: int
    tag: Tag
    cache: Cache
    make_messages: Callable[[], list[Message]]

    @property
    def turn(self) -> int:
        """0 for the first."""
        return len(self.cache["history"]) - 1

    @cached_property
    def messages(self) -> list[Message]:
        """The chat that a language model is asked to continue. Made when it is first read."""
        return self.make_messages()


class Played(NamedTuple):
    """An episode that is over."""

    number: int
    """Of the episode, in this run; the env_id in its cache is that of the environment that played it."""
    group_id: int
    seed: int
    tag: Tag
    truncated: bool
    error: str | None
    """Why the episode could not go on, if it could not."""
    is_unanswered: bool
    """Whether that was for want of an answer."""
    tally: Tally
    cache: Cache
    answers: list[str | list[str]]
    """What the policy gave in each turn: a text, or actions."""
    tokens: Tokens
    is_over: bool = True
    """Episodes of a manager may be exported before they are."""
    tokens_per_turn: Sequence[Tokens | None] = ()
    """None for a turn whose tokens were not counted."""
    sampling: Mapping[str, Any] | None = None
    """The settings with which answers were sampled, if they are known."""


class Policy:
    """Base of all policies: who plays. Only `__call__` has to be defined."""

    counts: Counts | None = None
    """What it has used, if it counts that."""
    sampling: Mapping[str, Any] | None = None
    """The settings with which it samples, if it does."""
    most_episodes: int | None = None
    """How many episodes it can play at the same time, if there is a limit."""

    async def __call__(self, asked: Asked) -> Answer:
        """The answer for this turn."""
        raise NotImplementedError

    def ended(self, played: Played) -> None:
        """Called when an episode that it played is over."""

    async def start(self) -> None:
        """Called once, in the event loop, before the first turn; raises if nothing can be played."""

    async def close(self) -> None:
        """Called once, in the event loop, after the last turn, also after an error."""
