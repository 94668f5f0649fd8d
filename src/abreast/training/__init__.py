"""Training: environments, the loops that collect experience and learn from it, and what a run leaves behind."""

from abreast.training.config import Config, ExperimentConfig, parse_config
from abreast.training.environment import Environment, RunResult

__all__ = ["Config", "Environment", "ExperimentConfig", "RunResult", "parse_config"]
