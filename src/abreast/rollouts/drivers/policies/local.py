"""Policies that need no language model: `random` and `solver`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from abreast.errors import RolloutError
from abreast.rollouts.context.context import Context
from abreast.rollouts.drivers.policies.base import Answer, Asked, Policy
from abreast.rollouts.episodes.slot import Cache
from abreast.rollouts.registry import KINDS, Solver, Tag

_PLACEHOLDER = re.compile(r"<\w+>")
_FORM = re.compile(r"\b(\w+)\[\w+\]")
_WORD = re.compile(r"[^\W\d_]{3,}")


class RandomPolicy(Policy):
    """One random action per turn: a known one, if there are any, else a number as text.

    Each turn of each episode has its own random stream, so that its actions depend on nothing else: not on the other
    episodes, not on the environment that plays it, not on where a resumed run was stopped.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    async def __call__(self, asked: Asked) -> Answer:
        rng = np.random.default_rng([self._seed, asked.number, asked.turn])
        return Answer([random_action(asked.tag, asked.cache, rng)])


def random_action(tag: Tag, cache: Cache, rng: np.random.Generator) -> str:
    """A random action for the next turn of an episode."""
    if tag.config.action_lookup:
        return _one_of(list(tag.config.action_lookup.values()), rng)
    history = cache["history"]
    info = history[-2]["info"] if len(history) > 1 else cache.get("info", {})
    # If no action is listed, an instruction may say what one looks like, say search[words].
    forms = [f"{verb}[<words>]" for verb in _FORM.findall(Context(tag).instruction)[:1]]
    return listed_action(info, history[-1]["state"], rng, forms) or str(rng.integers(100))


def listed_action(
    info: Mapping[str, Any], text: str, rng: np.random.Generator, otherwise: Sequence[str] = ()
) -> str | None:
    """A random one of `info["available_actions"]`, or of `otherwise`; a <placeholder> is replaced by words of a text."""
    listed = info.get("available_actions")
    if not isinstance(listed, list | tuple) or not all(isinstance(action, str) for action in listed):
        listed = []
    actions = listed or otherwise
    if not actions:
        return None
    words = _WORD.findall(str(info.get("instruction") or text)) or ["anything"]
    some = " ".join(_one_of(words, rng) for _ in range(rng.integers(1, 4)))
    return _PLACEHOLDER.sub(lambda _: some, _one_of(actions, rng))


def _one_of(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]


class SolverPolicy(Policy):
    """The solver of the environment type, if it has one."""

    def __init__(self, tag: Tag) -> None:
        _solver_of(tag)

    async def __call__(self, asked: Asked) -> Answer:
        return Answer(_solver_of(asked.tag)(asked.tag.config, asked.cache["history"]))


def _solver_of(tag: Tag) -> Solver:
    if tag.kind.solver is None:
        able = ", ".join(name for name in KINDS.names() if KINDS.ships(name) and KINDS.find(name).solver)
        raise RolloutError(
            f"the environment type {tag.kind.name!r} has no solver: take the policy random, or one of these types: {able}."
        )
    return tag.kind.solver
