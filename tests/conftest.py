"""Settings of the whole suite."""

import signal
import sys
from pathlib import Path

import torch
from hypothesis import settings

from abreast.processes.fork_server import FORK_SERVER

sys.path.insert(0, str(Path(__file__).parent))  # tests import fakes.py by name

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # `nohup make test &`: children would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
# Before any test starts a process: what comes later has no effect. (Models with an optimiser of torch import _dynamo: 2 s.)
FORK_SERVER.preload += ["abreast.training", "abreast.rollouts.workers.worker", "torch._dynamo"]
settings.register_profile("suite", deadline=None, print_blob=True)
settings.load_profile("suite")
