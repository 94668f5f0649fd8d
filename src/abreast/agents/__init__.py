"""Agents: entities that see, choose, act and remember."""

from abreast.agents.agent import Agent, MovingAgent

__all__ = ["Agent", "MovingAgent"]
