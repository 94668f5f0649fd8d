"""Models: how an agent chooses, and how it learns from what it remembers.

Each algorithm has a folder with the same four files: `config`, `network`, `loss`, `update`.
"""

import sys

from abreast.errors import ConfigError, nearest, short
from abreast.files import seen_from_here
from abreast.models.action_box import ActionBox
from abreast.models.base import BaseModel, Mode
from abreast.models.config import ModelConfig
from abreast.models.dqn import DQN
from abreast.models.iqn import IQN
from abreast.models.observation import ObservationShape
from abreast.models.ppo import PPO
from abreast.models.random import RandomModel
from abreast.models.sac import SAC
from abreast.plugins import import_target, is_target

ALGORITHMS: dict[str, type[BaseModel]] = {"random": RandomModel, "dqn": DQN, "iqn": IQN, "ppo": PPO, "sac": SAC}


def algorithm(name: object, where: str = "model.algorithm") -> type[BaseModel]:
    """The model class of an algorithm's name, of `module:Class` or `file.py:Class`; a class stands for itself."""
    found = name
    if isinstance(name, str) and is_target(name):
        found = import_target(name, "model", ConfigError, BaseModel, is_of_run=True)
    if isinstance(found, str) and found in ALGORITHMS:
        return ALGORITHMS[found]
    if isinstance(found, type) and issubclass(found, BaseModel):
        return found
    if found is name and not isinstance(name, type):
        hint = nearest(str(name), ALGORITHMS)
        raise ConfigError(f"{where} is {name!r}: {hint} A class of your own is MODULE:CLASS or FILE.py:CLASS.")
    said = f"{name!r}, which is {short(found)}" if isinstance(name, str) else short(name)
    raise ConfigError(f"{where} is {said}: expected a class derived from abreast.BaseModel.")


def name_of(kind: type[BaseModel]) -> str:
    """What `algorithm` finds a model class by; for a class of the script that runs, `script.py:Class`."""
    for name, shipped in ALGORITHMS.items():
        if kind is shipped:
            return name
    script = getattr(sys.modules["__main__"], "__file__", None)
    if kind.__module__ != "__main__" or script is None:
        return f"{kind.__module__}:{kind.__qualname__}"
    return f"{seen_from_here(script)}:{kind.__qualname__}"


__all__ = [
    "ALGORITHMS",
    "DQN",
    "IQN",
    "PPO",
    "SAC",
    "ActionBox",
    "BaseModel",
    "Mode",
    "ModelConfig",
    "ObservationShape",
    "RandomModel",
    "algorithm",
    "name_of",
]
