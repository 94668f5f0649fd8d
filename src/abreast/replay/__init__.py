"""What agents remember: rows of experience, and how batches are drawn from them."""

from abreast.replay.batch import Batch, Trajectory
from abreast.replay.buffer import Buffer
from abreast.replay.shared import SharedReplayBuffer

__all__ = ["Batch", "Buffer", "SharedReplayBuffer", "Trajectory"]
