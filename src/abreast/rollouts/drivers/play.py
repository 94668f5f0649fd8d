"""Playing whole episodes: policies that need no language model, and the loop that calls them.

   ┌────────── caches of episodes that go on ──────────┐
   ▼                                                   │
policy(tag, cache) ──▶ actions of each ──▶ EnvStateManager.step
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import RolloutError, nearest
from abreast.rollouts.context.context import Context
from abreast.rollouts.episodes.slot import Cache
from abreast.rollouts.episodes.summary import Tally
from abreast.rollouts.manager import EnvStateManager
from abreast.rollouts.registry import Tag, find_kind, list_kinds

Policy = Callable[[Tag, Cache], list[str]]
"""Called with the tag of an environment and the cache of its episode; returns the actions of the next turn."""
OnProgress = Callable[[int, "list[Played]"], None]
"""Called after each batch with the number of turns taken, and the episodes that ended with it."""

_PLACEHOLDER = re.compile(r"<\w+>")
_FORM = re.compile(r"\b(\w+)\[\w+\]")
_WORD = re.compile(r"[^\W\d_]{3,}")


class Played(NamedTuple):
    """An episode that is over. Its numbers continue over resets; those in the cache begin at 0 after each."""

    env_id: int
    group_id: int
    seed: int
    truncated: bool
    error: str | None
    """Why the episode could not go on, if it could not."""
    num_actions: int
    tally: Tally
    cache: Cache


def play_episodes(
    manager: EnvStateManager, policy: Policy, on_progress: OnProgress, episodes: int | None = None
) -> None:
    """Play `episodes` episodes (default: one in each environment); the manager is reset as often as necessary.

    with EnvStateManager(config) as manager:
        play_episodes(manager, make_policy("random", manager.tag_of(0)), lambda turns, ended: print(turns, len(ended)))
    """
    wanted, begun, groups = len(manager) if episodes is None else episodes, 0, 0
    while begun < wanted:
        manager.reset()
        caches = manager.caches
        going, ended = _split(manager, caches[: wanted - begun], begun, groups)  # some may fail at their start
        on_progress(0, ended)
        while going:
            turns = len(going)
            manager.step([{"env_id": cache["env_id"], "actions": _ask(manager, policy, cache)} for cache in going])
            going, ended = _split(manager, going, begun, groups)
            on_progress(turns, ended)
        begun, groups = begun + len(caches), groups + caches[-1]["group_id"] + 1


def _ask(manager: EnvStateManager, policy: Policy, cache: Cache) -> list[str]:
    return policy(manager.tag_of(cache["env_id"]), cache)


def _split(
    manager: EnvStateManager, caches: Sequence[Cache], begun: int, groups: int
) -> tuple[list[Cache], list[Played]]:
    """The caches of episodes that go on, and the episodes that have ended."""
    statuses = manager.statuses()
    going, ended = [], []
    for cache in caches:
        status = statuses[cache["env_id"]]
        if not status["terminated"]:
            going.append(cache)
            continue
        ended.append(
            Played(
                env_id=begun + cache["env_id"],
                group_id=groups + cache["group_id"],
                seed=status["seed"],
                truncated=status["truncated"],
                error=_error(cache),
                num_actions=status["num_actions"],
                tally=manager.envs[cache["env_id"]].tally,
                cache=cache,
            )
        )
    return going, ended


def _error(cache: Cache) -> str | None:
    told = (entry.get("info", {}) for entry in cache["history"][-2:])
    return next((info["error"] for info in told if "error" in info), None)


# ---- policies


def make_policy(name: str, tag: Tag, seed: int = 0) -> Policy:
    """The policy of that name, for a tag."""
    if name == "random":
        return RandomPolicy(seed)
    if name != "solver":
        raise RolloutError(f"there is no policy {name!r}: {nearest(name, ['random', 'solver'])}")
    if tag.kind.solver is None:
        able = ", ".join(kind for kind in list_kinds() if _has_solver(kind))
        raise RolloutError(
            f"the environment type {tag.kind.name!r} has no solver: take the policy random, or one of these types: {able}."
        )
    return _solve


class RandomPolicy:
    """One random action per turn: a known one, if there are any, else a number as text.

    Each environment has its own random stream, so that its actions do not depend on the other environments.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[int, np.random.Generator] = {}

    def __call__(self, tag: Tag, cache: Cache) -> list[str]:
        env_id, history = cache["env_id"], cache["history"]
        if env_id not in self._streams:
            self._streams[env_id] = np.random.default_rng([self._seed, env_id])
        rng = self._streams[env_id]
        if tag.config.action_lookup:
            return [_one_of(list(tag.config.action_lookup.values()), rng)]
        info = history[-2]["info"] if len(history) > 1 else cache.get("info", {})
        # Where no action is listed, an instruction may say what one looks like, say search[words].
        forms = [f"{verb}[<words>]" for verb in _FORM.findall(Context(tag).instruction)[:1]]
        return [listed_action(info, history[-1]["state"], rng, forms) or str(rng.integers(100))]


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


def _solve(tag: Tag, cache: Cache) -> list[str]:
    assert tag.kind.solver is not None
    return tag.kind.solver(tag.config, cache["history"])


def _has_solver(name: str) -> bool:
    try:
        return find_kind(name).solver is not None
    except RolloutError:  # an installed type that does not load
        return False
