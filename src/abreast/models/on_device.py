"""Models that choose for all lanes at once on a device, where whole passes are played there (`training/batched.py`).

    model.choose_on(device)
    model.start_epoch_action(epoch=epoch)
    for each turn                                            nothing is read back from the device
        evaluated_LA = model.evaluate(frames)                stacked frames of all lanes
        actions_L, extras = model.decide_all(evaluated_LA, chances_L2, epsilon)

A recorded turn refers to the memory of the networks, so that stays the same from epoch to epoch.
Shapes: L lanes, A actions.
"""

from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from abreast.replay import Buffer, SharedReplayBuffer

if TYPE_CHECKING:
    from abreast.models.base import BaseModel

REPLACED = (
    "take_action",
    "take_actions",
    "choose",
    "evaluate",
    "evaluated",
    "legal_now",
    "note_masks",
    "decide",
    "decide_all",
    "drawn_action",
    "_random_choices",
    "_drawn",
    "with_history",
    "remember",
    "remember_all",
    "row_extras",
    "amend",
    "end_episode",
)
"""Methods of a model that are not called in such a pass, or otherwise than usual."""


class DeviceModel(Protocol):
    """What such a pass asks of a model, beside what `BaseModel` says."""

    def choose_on(self, device: str) -> None:
        """Choose on this device from now on."""

    def choosing_tensors(self) -> list[Tensor]:
        """What `evaluate` reads beside frames: a turn that was recorded with other tensors has to be recorded again."""

    def evaluate(self, frames: Tensor) -> Tensor:
        """What choosing decides by, from rows of stacked frames: numbers for each row."""

    def decide_all(self, evaluated_LA: Tensor, chances_L2: Tensor, epsilon: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The action in each lane, by two random numbers from 0 to 1 (in 64 bits, as epsilon), and what is remembered with
        it (`BaseModel.lane_extras`).
        """


def why_not_on_device(model: "BaseModel", extras: frozenset[str] = frozenset()) -> str | None:
    """Why a model of one of our algorithms cannot choose so. `extras`: what its `decide_all` returns to be remembered."""
    kind = type(model)
    replaced = kind.replaced_method(REPLACED) or next((name for name in REPLACED if name in vars(model)), None)
    if replaced is not None:
        return f"{kind.__name__}.{replaced} is your own, and is called state by state"
    if type(model.memory) not in (Buffer, SharedReplayBuffer):
        return f"its memory is a {type(model.memory).__name__}, which takes row after row"
    if model.lane_extras.keys() - extras:
        return f"{kind.__name__} remembers {', '.join(sorted(model.lane_extras.keys() - extras))} of each lane"
    return None
