"""Models: how an agent chooses, and how it learns from what it remembers.

Each algorithm has a folder with the same four files: `config`, `network`, `loss`, `update`.
"""

from abreast.errors import ConfigError, nearest
from abreast.models.base import BaseModel, ModelConfig, ObservationShape, RandomModel
from abreast.models.dqn import DQN
from abreast.models.iqn import IQN
from abreast.models.ppo import PPO

ALGORITHMS: dict[str, type[BaseModel]] = {"random": RandomModel, "dqn": DQN, "iqn": IQN, "ppo": PPO}


def algorithm(name: object) -> type[BaseModel]:
    """The model class of an algorithm's name."""
    if not isinstance(name, str) or name not in ALGORITHMS:
        raise ConfigError(f"model.algorithm is {name!r}: {nearest(str(name), ALGORITHMS)}")
    return ALGORITHMS[name]


__all__ = [
    "ALGORITHMS",
    "DQN",
    "IQN",
    "PPO",
    "BaseModel",
    "ModelConfig",
    "ObservationShape",
    "RandomModel",
    "algorithm",
]
