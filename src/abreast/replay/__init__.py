"""What agents remember: rows of experience, and how batches are drawn from them."""

from abreast.replay.buffer import Batch, Buffer, Trajectory
from abreast.replay.shared import SharedReplayBuffer

__all__ = ["Batch", "Buffer", "SharedReplayBuffer", "Trajectory"]
