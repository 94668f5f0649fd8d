"""Replay in shared memory: the actor writes, the learner of the same agent samples."""

from functools import cached_property
from typing import Any

from abreast.processes.memory import SharedBlock
from abreast.processes.ring import Ring
from abreast.replay.buffer import Buffer


class SharedReplayBuffer(Buffer):
    """A `Buffer` whose rows lie in shared memory. Pickled into a child, it is the same buffer, not an empty one.

    One writer a lane (`add`, `end_episode`), one reader (`sample`, `trajectory`). Without a `block` it makes its own.
    """

    def __init__(
        self,
        capacity: int,
        obs_shape: tuple[int, ...],
        *,
        block: SharedBlock | None = None,
        prefix: str = "",
        slack: int = 1,
        **options: Any,
    ) -> None:
        # A writer in the middle of a row has overwritten the oldest one already, which a reader must not look at.
        super().__init__(capacity, obs_shape, slack=max(slack, 1), **options)
        self._prefix = prefix
        self.block = block or SharedBlock({prefix + name: what for name, what in self.layout(self.slack).items()})
        if block is None:
            self.ring.start()

    @classmethod
    def like(cls, buffer: Buffer, slack: int, block: SharedBlock, prefix: str) -> "SharedReplayBuffer":
        """A buffer for rows of the same kind over a ring that lies in a block already."""
        return cls(buffer.capacity, buffer.obs_shape, block=block, prefix=prefix, slack=slack, **buffer.options())

    def _allocate(self, slack: int) -> dict[str, Any]:
        return {}  # the rows are in the block

    @cached_property
    def ring(self) -> Ring:
        return Ring(self.block.part(self._prefix))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "ring"}
