"""Training: environments, the loops that collect experience and learn from it, and what a run leaves behind."""

from abreast.training.config import Config, ExperimentConfig, MPConfig, parse_config
from abreast.training.environment import Environment, RunResult
from abreast.training.system import MARLMultiprocessingSystem

__all__ = [
    "Config",
    "Environment",
    "ExperimentConfig",
    "MARLMultiprocessingSystem",
    "MPConfig",
    "RunResult",
    "parse_config",
]
