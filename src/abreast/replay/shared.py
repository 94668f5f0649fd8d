"""Replay in shared memory: the actor writes, the learner of the same agent samples."""

import copy
from typing import Any

from abreast.processes.memory import SharedBlock
from abreast.processes.ring import Ring, ring_layout
from abreast.replay.buffer import Buffer


class SharedReplayBuffer(Buffer):
    """A `Buffer` whose rows lie in shared memory. Pickled into a child, it is the same buffer, not an empty one.

    One writer a lane (`add`, `end_episode`), one reader (`sample`, `trajectory`).
    """

    def __init__(
        self,
        capacity: int,
        obs_shape: tuple[int, ...],
        *,
        block: SharedBlock | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        self.block, self._prefix = block, prefix
        super().__init__(capacity, obs_shape, **options)

    @staticmethod
    def layout(like: Buffer, slack: int, prefix: str) -> dict[str, Any]:
        """The arrays in a shared block for a buffer like another one."""
        layout = ring_layout(like.rows_per_lane + slack, like.lanes, like.row_layout())
        return {prefix + name: what for name, what in layout.items()}

    @classmethod
    def like(cls, buffer: Buffer, slack: int, block: SharedBlock, prefix: str) -> "SharedReplayBuffer":
        """The shared twin of a buffer, holding the same rows, in a block that has room for it."""
        twin = cls(buffer.capacity, buffer.obs_shape, slack=slack, block=block, prefix=prefix, **buffer.options())
        twin.take_over(buffer)
        return twin

    def separate(self) -> "SharedReplayBuffer":
        """The same rows through a handle of its own, as a process gets it by pickling; for a thread."""
        twin = copy.copy(self)
        twin.rng, twin._age = copy.deepcopy(self.rng), self._age.copy()
        return twin

    def _make_ring(self) -> Ring:
        if self.block is None:
            self.block = SharedBlock(self.layout(self, self.slack, self._prefix))
        ring = self._attached_ring()
        ring.start()
        return ring

    def _attached_ring(self) -> Ring:
        assert self.block is not None
        return Ring(self.block.part(self._prefix))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_ring"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ring = self._attached_ring()
