"""The newest rows of several agents' replays on a device, and the batches of all of them at once.

    replay (host memory, perhaps shared)  ── rows that are new, once a round ──▶  copy on the device  ──▶  batches

The replay stays what is written to, kept and restored; the copy is only read. It holds each row at the same place of the ring,
and puts frames and n-step returns together as `Buffer.sample` does (a test holds the two equal), but for all agents in one go
and without a word from the host, so that it can be part of a recorded update.

Shapes: N agents, L lanes, R rows of a ring, B rows of a batch, T stacked frames.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abreast.replay import Buffer

NOT_COPIED = frozenset({"log_chance", "memory", "frames"})
"""Extras that only models need which are not trained from here."""


class StackedBatch(NamedTuple):
    """What `Buffer.sample` gives, of each agent."""

    states: Tensor
    """(N, B, T * size of a frame)"""
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    discounts: Tensor
    valid: Tensor
    next_masks: Tensor | None


class DeviceRows:
    """A copy of the rows of `memories`, which are alike, on a device."""

    def __init__(self, memories: Sequence[Buffer], device: str) -> None:
        self._memories, self._device = memories, device
        first, count = memories[0], len(memories)
        self._rows, lanes = first.ring.rows, first.lanes
        self._names = [name for name in first.row_layout() if name not in NOT_COPIED]
        self._fields: dict[str, Tensor] = {}
        for name in self._names:
            shape, dtype = first.row_layout()[name]
            empty = torch.from_numpy(np.empty(0, dtype))
            self._fields[name] = torch.zeros((count, lanes, self._rows, *shape), dtype=empty.dtype, device=device)
        self._copied_NL = np.zeros((count, lanes), dtype=np.int64)
        """Rows ever written that were there at the last look."""
        self._first_NL, self._ends_NL, self._counts_NL, self._written_NL = (
            torch.zeros((count, lanes), dtype=torch.int64, device=device) for _ in range(4)
        )

    def renew(self) -> list[int]:
        """Copy the rows that are new, as far as the memories look; returns from how many rows each draws."""
        windows = []
        for agent, memory in enumerate(self._memories):
            assert memory.ring.rows == self._rows, "a ring of another size"
            written_L = memory.written
            self._copy(agent, memory, written_L)
            windows.append((*memory.sampling_window(written_L), written_L))
        first_NL, counts_NL, written_NL = (np.stack(each) for each in zip(*windows, strict=True))
        ends_NL = np.cumsum(counts_NL, axis=1)
        for there, here in (
            (self._first_NL, first_NL),
            (self._counts_NL, counts_NL),
            (self._ends_NL, ends_NL),
            (self._written_NL, written_NL),
        ):
            there.copy_(torch.from_numpy(here))
        return [int(total) for total in ends_NL[:, -1]]

    def _copy(self, agent: int, memory: Buffer, written_L: NDArray[np.int64]) -> None:
        """The newest row at the last look comes along once more: what came late may have been added to it since."""
        begin_L = np.maximum(np.maximum(self._copied_NL[agent] - 1, written_L - self._rows), 0)
        self._copied_NL[agent] = written_L
        fields = memory.ring.fields
        if (begin_L == begin_L[0]).all() and (written_L == written_L[0]).all():
            for part in _slices(int(begin_L[0]), int(written_L[0]), self._rows):
                for name in self._names:
                    self._fields[name][agent, :, part].copy_(torch.from_numpy(fields[name][:, part]))
            return
        for lane, (begin, end) in enumerate(zip(begin_L.tolist(), written_L.tolist(), strict=True)):
            for part in _slices(begin, end, self._rows):
                for name in self._names:
                    self._fields[name][agent, lane, part].copy_(torch.from_numpy(fields[name][lane, part]))

    # ---- batches, without a word from the host

    def batch(self, picks_NB: Tensor) -> StackedBatch:
        """The batches of rows that `Buffer.sample` picks by these numbers."""
        memory = self._memories[0]
        lane_NB = torch.searchsorted(self._ends_NL, picks_NB, right=True)
        before_NB = (self._ends_NL - self._counts_NL).gather(1, lane_NB)
        row_NB = self._first_NL.gather(1, lane_NB) + picks_NB - before_NB
        written_NB = self._written_NL.gather(1, lane_NB)
        rewards_NB = torch.zeros(row_NB.shape, dtype=torch.float64, device=self._device)
        steps_NB = torch.zeros_like(row_NB)
        ended_NB = torch.zeros_like(row_NB, dtype=torch.bool)
        going_NB = torch.ones_like(ended_NB)
        for k in range(memory.n_step):
            at_NB = self._places(lane_NB, row_NB + k)
            done_NB = self._take("dones", at_NB)
            followed_NB = ~self._take("last", at_NB) & (row_NB + k + 1 < written_NB)
            going_NB = going_NB & (done_NB | followed_NB) & (row_NB + k < written_NB)
            gained_NB = self._take("rewards", at_NB).to(torch.float64) * self._discounts_K[k]
            rewards_NB = rewards_NB + torch.where(going_NB, gained_NB, 0.0)
            steps_NB = steps_NB + going_NB
            ended_NB = ended_NB | (going_NB & done_NB)
            going_NB = going_NB & ~ended_NB
        next_NB = torch.where(ended_NB, row_NB, row_NB + steps_NB)
        discounts_NB = self._discounts_K[steps_NB].masked_fill(ended_NB, 0.0)
        masks = self._take("mask", self._places(lane_NB, next_NB)) if "mask" in self._fields else None
        return StackedBatch(
            self._stack(lane_NB, row_NB),
            self._take("actions", self._places(lane_NB, row_NB)),
            rewards_NB.to(torch.float32),
            self._stack(lane_NB, next_NB),
            discounts_NB.to(torch.float32),
            steps_NB > 0,
            masks,
        )

    def _stack(self, lane_NB: Tensor, row_NB: Tensor) -> Tensor:
        """The frames of each row and of the rows before it, oldest first; zero before the start of the episode."""
        wanted_NBT = row_NB[..., None] - self._back_T
        frames = self._take("states", self._places(lane_NB[..., None], wanted_NBT)).flatten(3)
        age_NB = self._take("age", self._places(lane_NB, row_NB))
        missing_NBT = self._back_T > age_NB[..., None]
        return frames.masked_fill(missing_NBT[..., None], 0).flatten(2)

    def _places(self, lane: Tensor, row: Tensor) -> Tensor:
        """Where rows stand among all rows of all agents."""
        lanes = self._memories[0].lanes
        agent = self._agents.view(-1, *(1,) * (row.dim() - 1))
        return (agent * lanes + lane) * self._rows + row % self._rows

    def _take(self, name: str, places: Tensor) -> Tensor:
        field = self._fields[name].flatten(0, 2)
        return field.index_select(0, places.flatten()).view(*places.shape, *field.shape[1:])

    @cached_property
    def _agents(self) -> Tensor:
        return torch.arange(len(self._memories), device=self._device)

    @cached_property
    def _back_T(self) -> Tensor:
        return torch.arange(self._memories[0].n_frames - 1, -1, -1, device=self._device)

    @cached_property
    def _discounts_K(self) -> Tensor:
        return torch.from_numpy(self._memories[0].discounts).to(self._device)


def _slices(begin: int, end: int, rows: int) -> list[slice]:
    """Where the rows from `begin` to `end` stand in a ring, in one piece or two."""
    if begin == end:
        return []
    start, stop = begin % rows, (end - 1) % rows + 1
    return [slice(start, stop)] if start < stop else [slice(start, rows), slice(0, stop)]


def bytes_of(memory: Buffer) -> int:
    """Of the rows of one agent on a device."""
    layout: dict[str, tuple[tuple[int, ...], Any]] = memory.row_layout()
    row = sum(
        int(np.prod(shape)) * np.dtype(dtype).itemsize
        for name, (shape, dtype) in layout.items()
        if name not in NOT_COPIED
    )
    return row * memory.lanes * memory.ring.rows
