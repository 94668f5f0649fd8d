"""Settings of the whole suite."""

import sys
from pathlib import Path

import torch
from hypothesis import settings

from abreast.processes.fork_server import FORK_SERVER

sys.path.insert(0, str(Path(__file__).parent))  # tests import fakes.py by name

torch.set_num_threads(1)
# Before any test starts a process: what comes later has no effect.
FORK_SERVER.preload += ["abreast.training", "abreast.rollouts.workers.worker"]
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")
