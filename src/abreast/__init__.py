"""abreast: independent agents, learning side by side."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abreast.agents import Agent, MovingAgent
    from abreast.models import DQN, IQN, PPO, SAC, BaseModel, RandomModel
    from abreast.replay import Buffer, SharedReplayBuffer
    from abreast.rollouts import EnvStateManager
    from abreast.training import Environment, MARLMultiprocessingSystem, MPConfig
    from abreast.worlds import (
        ActionSpec,
        AsciiObservationSpec,
        EmptyEntity,
        Entity,
        Gridworld,
        OneHotObservationSpec,
        RGBObservationSpec,
        Wall,
    )

__version__ = "0.1.0"

__all__ = [
    "DQN",
    "IQN",
    "PPO",
    "SAC",
    "ActionSpec",
    "Agent",
    "AsciiObservationSpec",
    "BaseModel",
    "Buffer",
    "EmptyEntity",
    "Entity",
    "EnvStateManager",
    "Environment",
    "Gridworld",
    "MARLMultiprocessingSystem",
    "MPConfig",
    "MovingAgent",
    "OneHotObservationSpec",
    "RGBObservationSpec",
    "RandomModel",
    "SharedReplayBuffer",
    "Wall",
]

_PARTS = {
    "abreast.agents": ("Agent", "MovingAgent"),
    "abreast.models": ("DQN", "IQN", "PPO", "SAC", "BaseModel", "RandomModel"),
    "abreast.replay": ("Buffer", "SharedReplayBuffer"),
    "abreast.rollouts": ("EnvStateManager",),
    "abreast.training": ("Environment", "MARLMultiprocessingSystem", "MPConfig"),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: who steps text environments need not wait for torch, nor hold it."""
    if name not in __all__:
        raise AttributeError(f"module 'abreast' has no attribute {name!r}")
    part = next((part for part, names in _PARTS.items() if name in names), "abreast.worlds")
    return getattr(import_module(part), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
