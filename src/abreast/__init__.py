"""abreast: independent agents, learning side by side."""

from abreast.agents import Agent, MovingAgent
from abreast.models import BaseModel
from abreast.replay import Buffer
from abreast.training import Environment
from abreast.worlds import (
    ActionSpec,
    AsciiObservationSpec,
    Entity,
    Gridworld,
    OneHotObservationSpec,
    RGBObservationSpec,
)

__version__ = "0.1.0"

__all__ = [
    "ActionSpec",
    "Agent",
    "AsciiObservationSpec",
    "BaseModel",
    "Buffer",
    "Entity",
    "Environment",
    "Gridworld",
    "MovingAgent",
    "OneHotObservationSpec",
    "RGBObservationSpec",
]
