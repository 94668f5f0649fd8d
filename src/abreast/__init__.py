"""abreast: independent agents, learning side by side."""

from abreast.agents import Agent, MovingAgent
from abreast.models import BaseModel
from abreast.replay import Buffer, SharedReplayBuffer
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
    "ActionSpec",
    "Agent",
    "AsciiObservationSpec",
    "BaseModel",
    "Buffer",
    "EmptyEntity",
    "Entity",
    "Environment",
    "Gridworld",
    "MARLMultiprocessingSystem",
    "MPConfig",
    "MovingAgent",
    "OneHotObservationSpec",
    "RGBObservationSpec",
    "SharedReplayBuffer",
    "Wall",
]
