"""`verify=True`: every turn of a worker is taken in the main process too, and compared; with `debug`, every turn."""

import pickle
from typing import Any

import numpy as np

from abreast.errors import RolloutError
from abreast.rollouts.episodes.episode import Digest, Episode, TurnResult
from abreast.rollouts.episodes.slot import Slot


class Verifier:
    """Keeps a copy of every environment."""

    def __init__(self, compares_here: bool = False) -> None:
        """`compares_here`: whether turns of the main process are taken once more too."""
        self.compares_here = compares_here
        self.turns = 0
        """Turns and starts that were compared."""
        self._copies: dict[int, tuple[int, Episode]] = {}
        """By environment: the serial of its episode, and the copy."""

    def compare(self, slot: Slot, theirs: TurnResult, digest: Digest | None) -> RolloutError | None:
        """Do the same here, before the result is written; the error, if there is a difference."""
        inputs = slot.inputs
        serial, copy = self._copies.get(slot.env_id) or (0, Episode(slot.tag.kind.env, slot.tag.config))
        if serial != slot.serial or inputs is None or len(copy.executed) != len(slot.executed):
            self._copies[slot.env_id] = (slot.serial, copy)
            ours = copy.rebuild(slot.seed, slot.executed, None) if slot.executed else copy.start(slot.seed)
        if inputs is not None:
            ours = copy.take(inputs["actions"], slot.actions_left)
        ours = TurnResult(*pickle.loads(pickle.dumps((*ours,))))  # as the worker's result was
        differs = [
            name
            for name, a, b in zip(TurnResult._fields, theirs, ours, strict=True)
            if name not in ("seconds", "waited", "trace", "draws") and not _are_same(a, b)
        ]
        if not differs and digest != copy.take_digest():
            differs = ["the state of its random stream"]
        self.turns += 1
        if not differs:
            return None
        return RolloutError(
            f"environment {slot.env_id} ({slot.tag.name}), turn {len(copy.executed)}: it and a copy, in the main"
            f" process, disagree about its {', '.join(differs)}, so it depends on something beside its seed and its actions."
        )

    def close(self) -> None:
        """Close the copies."""
        copies, self._copies = self._copies, {}
        for _, copy in copies.values():
            copy.close()


def _are_same(a: Any, b: Any) -> bool:
    """Whether two values are equal at every depth; NaN equals itself, and a set has no order."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_are_same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_are_same, a, b))
    return bool(a == b) or (a != a and b != b) or pickle.dumps(a) == pickle.dumps(b)
