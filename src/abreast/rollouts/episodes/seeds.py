"""Seeds of episodes that are given none: in training they count on, and none is used twice; validation begins anew."""

from collections.abc import Sequence
from typing import Literal

from abreast.errors import RolloutError
from abreast.rollouts.config import SeedConfig
from abreast.rollouts.episodes.inputs import check_seeds, check_whole
from abreast.rollouts.episodes.slot import Slot

Mode = Literal["train", "val"]


class Seeds:
    """Of one manager. Called inside its guard."""

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
            chosen = check_seeds(seeds, [slot.env_id for slot in slots])
        elif seed is not None:
            chosen = [check_whole("the seed", seed, 0) + group for group in groups]
        elif self._mode == "val":
            chosen = [self._config.val + group for group in groups]
        else:
            rank = {group: rank for rank, group in enumerate(dict.fromkeys(groups))}
            chosen = [self._next + rank[group] for group in groups]
        self._next = max(self._next, max(chosen) + 1)
        return chosen
