"""Checks of what callers give: any mistake is an error before anything is stepped. And seeds, where they give none."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

import numpy as np

from abreast.errors import RolloutError, short
from abreast.rollouts.config import SeedConfig
from abreast.rollouts.episodes.slot import OVER, READY, Inputs, Slot

Mode = Literal["train", "val"]


def check_inputs(inputs: Sequence[Inputs], slots: Sequence[Slot]) -> dict[Slot, Inputs | None]:
    """The inputs of a batch, by slot."""
    if not isinstance(inputs, (list, tuple)):
        raise RolloutError(f"inputs are {short(inputs)}: expected a list of mappings with env_id and actions.")
    checked: dict[Slot, Inputs | None] = {}
    for asked in inputs:
        try:
            env_id, actions = asked["env_id"], asked["actions"]
        except (TypeError, KeyError, IndexError):
            raise RolloutError(f"an input is {short(asked)}: expected a mapping with env_id and actions.") from None
        if type(env_id) is not int or not 0 <= env_id < len(slots):
            env_id = check_whole("env_id", env_id, 0, len(slots) - 1)
        slot = slots[env_id]
        if slot in checked:
            raise RolloutError(f"environment {env_id} is given twice: give one input for each.")
        if slot.phase is not READY:
            raise RolloutError(_why_not(slot))
        checked[slot] = asked
        for action in actions if type(actions) is list else (None,):
            if type(action) is not str:
                checked[slot] = {**asked, "actions": check_actions(env_id, actions)}
                break
    return checked


def check_actions(env_id: int, actions: Any) -> list[str]:
    """The actions as instances of the class str: a worker may not know subclasses of it."""
    if not isinstance(actions, (list, tuple)) or not all(isinstance(action, str) for action in actions):
        raise RolloutError(f"actions of environment {env_id} are {short(actions)}: expected a list of texts.")
    return [str.__str__(action) for action in actions]


def check_env_ids(env_ids: Any, count: int) -> list[int]:
    """Environments of a batch of so many that are to begin anew."""
    if not isinstance(env_ids, Collection) or isinstance(env_ids, str) or not len(env_ids):
        raise RolloutError(f"env_ids are {short(env_ids)}: expected a list of numbers of environments.")
    checked = [check_whole("env_id", env_id, 0, count - 1) for env_id in env_ids]
    if len(set(checked)) < len(checked):
        raise RolloutError(f"env_ids are {short(env_ids)}: give each environment once.")
    return checked


def check_whole(name: str, given: Any, least: int | None = None, most: int | None = None) -> int:
    """A whole number, of Python or numpy, within bounds."""
    is_whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not is_whole or (least is not None and given < least) or (most is not None and given > most):
        bounds = "" if least is None else f", {least} or more" if most is None else f" from {least} to {most}"
        raise RolloutError(f"{name} is {short(given)}: expected a whole number{bounds}.")
    return int(given)


def _why_not(slot: Slot) -> str:
    """Why an environment cannot be given an input."""
    if slot.phase is not OVER:
        return f"the turn of environment {slot.env_id} is already under way: recv or await it first."
    if not slot.history:
        return f"environment {slot.env_id} has no episode yet: call reset first."
    return f"the episode of environment {slot.env_id} is over: leave it out, or call reset."


class Seeds:
    """Of episodes that are given none: in training they count on, and none is used twice; validation begins anew.

    Called inside the guard of the manager.
    """

    def __init__(self, config: SeedConfig, mode: Mode) -> None:
        self._config, self._mode = config, mode
        self._next = config.train
        self._singles = 0

    def of_single(self, seed: int | None) -> int:
        """Of a single episode."""
        self._singles += 1
        if seed is None:
            seed = self._next if self._mode == "train" else self._config.val + self._singles - 1
        self._next = max(self._next, seed + 1)
        return seed

    def of_batch(self, slots: Sequence[Slot], seed: int | None, seeds: Sequence[int] | None) -> list[int]:
        """A seed for each slot; a group has one."""
        if seed is not None and seeds is not None:
            raise RolloutError("seed and seeds were given: give one of them.")
        groups = [slot.env_id if slot.group_id is None else slot.group_id for slot in slots]
        if seeds is not None:
            if not isinstance(seeds, Collection) or isinstance(seeds, str) or len(seeds) != len(slots):
                raise RolloutError(f"seeds are {short(seeds)}: expected {len(slots)}, one for each environment.")
            chosen = [check_whole("the seed", seed, 0) for seed in seeds]
        elif seed is not None:
            chosen = [check_whole("the seed", seed, 0) + group for group in groups]
        elif self._mode == "val":
            chosen = [self._config.val + group for group in groups]
        else:
            rank = {group: rank for rank, group in enumerate(dict.fromkeys(groups))}
            chosen = [self._next + rank[group] for group in groups]
        self._next = max(self._next, max(chosen) + 1)
        return chosen
