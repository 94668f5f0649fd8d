"""Rollouts: hundreds of text environments, stepped side by side."""

from abreast.rollouts.config import EnvConfig, RolloutConfig, TagConfig
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.context import Context
from abreast.rollouts.manager import EnvStateManager
from abreast.rollouts.registry import EnvKind, Tool, find_kind, find_tag, list_kinds, register

__all__ = [
    "Context",
    "ContextConfig",
    "EnvConfig",
    "EnvKind",
    "EnvStateManager",
    "RolloutConfig",
    "TagConfig",
    "Tool",
    "find_kind",
    "find_tag",
    "list_kinds",
    "register",
]
