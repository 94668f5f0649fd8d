"""Figures of single episodes under the names that RAGEN gives them, for trainers that read `cache["metrics"]`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from abreast.rollouts.episodes.summary import Tally, numbers
from abreast.rollouts.registry import Tag


class Begun(Protocol):
    """An environment of the manager."""

    tag: Tag
    cache: dict[str, Any]
    tally: Tally

    @property
    def history(self) -> list[dict[str, Any]]: ...


def metrics_of(tag: Tag, history: Sequence[Mapping[str, Any]], success: bool) -> dict[str, float]:
    """The figures of an episode: TAG/success, TAG/num_actions (those executed), and TAG/KEY for numbers in `info`.

    A number in `info` becomes its sum over the turns, divided by how many there are (a turn without it counts as 0). If the
    type names the keys for which that is right (`EnvKind.turn_metrics`), others are TAG/traj_sum/KEY, and not divided.
    """
    turns = [entry for entry in history if "actions" in entry]
    try:
        sums = _plain_sums(turns)
    except (OverflowError, TypeError):  # integers too large for a float, keys that are no texts
        sums = {}
        for entry in turns:
            for key, number in numbers(entry["info"]):
                sums[key] = sums.get(key, 0.0) + number
    sums.pop("success", None)
    by_turn = tag.kind.turn_metrics
    figures = {
        key if by_turn is None or key in by_turn else f"traj_sum/{key}": (
            total / len(turns) if by_turn is None or key in by_turn else total
        )
        for key, total in sums.items()
    }
    figures = {"success": float(success), "num_actions": sum(len(entry["actions"]) for entry in turns), **figures}
    return {f"{tag.name}/{key}": figure for key, figure in figures.items()}


def _plain_sums(turns: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Sums of the numbers in infos, the quick way: 1,024 episodes may end in one batch."""
    sums: dict[str, float] = {}
    for entry in turns:
        for key, value in entry["info"].items():
            kind = type(value)
            if kind is bool or kind is float or kind is int:
                sums[key] = sums.get(key, 0.0) + value
            elif type(key) is not str or (kind is not str and isinstance(value, int | float | np.number | np.bool_)):
                raise TypeError
    return sums


def write_metrics(groups: Iterable[Sequence[Begun]]) -> None:
    """Put the metrics into the caches of all episodes, over or not, with TAG/pass@K for groups of K episodes."""
    for group in groups:
        passed = float(any(env.tally.success for env in group))
        for env in group:
            if env.history:
                figures = metrics_of(env.tag, env.history, env.tally.success)
                env.cache["metrics"] = {**figures, f"{env.tag.name}/pass@{len(group)}": passed}
