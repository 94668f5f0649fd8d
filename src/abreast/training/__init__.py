"""Training: environments, the loop that collects experience and learns from it, and what a run leaves behind."""

from abreast.replay import SharedReplayBuffer
from abreast.training.actors.process import ActorProcess
from abreast.training.config import Config, ExperimentConfig, MPConfig, parse_config
from abreast.training.environment import Environment
from abreast.training.experiment import Experiment, RunResult
from abreast.training.learners.process import learner_process
from abreast.training.published import create_shared_models, publish_model
from abreast.training.system import MARLMultiprocessingSystem

__all__ = [
    "ActorProcess",
    "Config",
    "Environment",
    "Experiment",
    "ExperimentConfig",
    "MARLMultiprocessingSystem",
    "MPConfig",
    "RunResult",
    "SharedReplayBuffer",
    "create_shared_models",
    "learner_process",
    "parse_config",
    "publish_model",
]
