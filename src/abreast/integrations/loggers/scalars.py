"""What an epoch comes to, as names and numbers: the same names in every logger (docs/how-to/log.md has them in a table)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abreast.settings import dotted, read_yaml

COUNTED = ("agent_steps", "updates", "updates_per_agent_step")


def scalars(reward: float, epsilon: float, more: Mapping[str, Any]) -> dict[str, float]:
    """The figures of an epoch, by name, from what `record_epoch` is told. What is not a finite number is left out."""
    rewards: Sequence[float] = more["reward_per_agent"]
    names: Sequence[str] = more.get("agents", ())
    if len(set(names)) != len(rewards):  # the game has none, or they do not tell its agents apart
        names = [f"agent_{agent}" for agent in range(len(rewards))]
    found: dict[str, float | None] = {"reward/total": reward}
    found |= {f"reward/{name}": value for name, value in zip(names, rewards, strict=True)}
    for name, figures in zip(names, more["learning"], strict=True):
        found |= {f"{figure}/{name}": value for figure, value in figures.items()}
    found |= {f"game/{figure}": value for figure, value in more.get("metrics", {}).items()}
    found |= {"train/epsilon": epsilon, **{f"train/{key}": more[key] for key in COUNTED}}
    for key, value in more["time"].items():
        if isinstance(value, Sequence):
            whose = names if len(value) == len(names) else range(len(value))
            found |= {f"{key.removesuffix('_per_agent')}/{who}": each for who, each in zip(whose, value, strict=True)}
        else:
            found[f"time/{key}"] = value
    return {name: float(value) for name, value in found.items() if value is not None}


def settings_of(run: Path) -> dict[str, Any]:
    """The settings of a run by their dotted names, as they are typed; those that are not set are left out."""
    return {
        key: value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in dotted(read_yaml(run / "config.yaml"))
        if value is not None
    }
