"""The newest rows of several agents' replays on a device, and the batches of all of them at once.

    replay (host memory, perhaps shared)  ── rows that are new, once a round ──▶  copy on the device  ──▶  batches

The replay stays what is written to, kept and restored; the copy is only read. It holds each row at the same place of the
ring, and puts frames and n-step returns together as `Buffer.sample` does (a test holds the two equal), but for all agents in
one go and without a word from the host, so that it can be part of a recorded update.

Shapes: S batches, N agents, L lanes, R rows of a ring, B rows of a batch, T stacked frames.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from abreast.replay import Buffer

NOT_COPIED = frozenset({"log_chance", "memory", "frames"})
"""Extras that only models need which are not trained from here."""


class Batches(NamedTuple):
    """What `Buffer.sample` gives, of each agent, for several batches; the states themselves by where they stand."""

    places: Tensor
    """(S, N, 2, B, T): of the states, and of those to bootstrap from."""
    actions: Tensor
    """(S, N, B), as the others:"""
    rewards: Tensor
    discounts: Tensor
    weights: Tensor
    """1/count where valid and 0 elsewhere, so that a weighted sum is a mean."""
    legal_next: Tensor | None
    """(S, N, B, actions)"""


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
            flat = torch.zeros((count * lanes * self._rows + 1, *shape), dtype=empty.dtype, device=device)
            self._fields[name] = flat[:-1].view(count, lanes, self._rows, *shape)
            if name == "states":
                self._states = flat.flatten(1)
                """All of them one after the other, and a row of zeros."""
        self._copied_NL = np.zeros((count, lanes), dtype=np.int64)
        """Rows ever written that were there at the last look."""
        self._windows = torch.zeros((4, count, lanes), dtype=torch.int64, device=device)
        self._first_NL, self._counts_NL, self._ends_NL, self._written_NL = self._windows
        self._agents = torch.arange(count, device=device)
        self._back_T = torch.arange(first.n_frames - 1, -1, -1, device=device)
        self._discounts_K = torch.from_numpy(first.discounts).to(device)

    def renew(self) -> list[NDArray[np.int64]]:
        """Copy the rows that are new, as far as the memories look; returns how far that is, per memory and lane."""
        windows = []
        for agent, memory in enumerate(self._memories):
            assert memory.ring.rows == self._rows, "a ring of another size"
            written_L = memory.written
            self._copy(agent, memory, written_L)
            windows.append((*memory.sampling_window(written_L), written_L))
        first_NL, counts_NL, written_NL = (np.stack(each) for each in zip(*windows, strict=True))
        ends_NL = np.cumsum(counts_NL, axis=1)
        self._windows.copy_(torch.from_numpy(np.stack([first_NL, counts_NL, ends_NL, written_NL])))
        return list(written_NL)

    def _copy(self, agent: int, memory: Buffer, written_L: NDArray[np.int64]) -> None:
        """The newest row at the last look comes along once more: what came late may have been added to it since."""
        begin_L = np.maximum(np.maximum(self._copied_NL[agent] - 1, written_L - self._rows), 0)
        self._copied_NL[agent] = written_L
        fields = memory.ring.fields
        spans: Any = enumerate(zip(begin_L.tolist(), written_L.tolist(), strict=True))
        if (begin_L == begin_L[0]).all() and (written_L == written_L[0]).all():
            spans = [(slice(None), (int(begin_L[0]), int(written_L[0])))]  # all lanes at once
        for lane, (begin, end) in spans:
            for part in _slices(begin, end, self._rows):
                for name in self._names:
                    self._fields[name][agent, lane, part].copy_(torch.from_numpy(fields[name][lane, part]))

    # ---- batches, without a word from the host

    def look_up(self, picks_SNB: Tensor) -> Batches:
        """The batches of the rows that `Buffer.draw` has drawn: of many updates at once, because it takes many
        small operations.
        """
        memory, steps = self._memories[0], len(picks_SNB)
        ends_SNL = self._ends_NL.expand(steps, -1, -1).contiguous()
        lane = torch.searchsorted(ends_SNL, picks_SNB.contiguous(), right=True)
        before = (self._ends_NL - self._counts_NL).expand_as(ends_SNL).gather(2, lane)
        row = self._first_NL.expand_as(ends_SNL).gather(2, lane) + picks_SNB - before
        written = self._written_NL.expand_as(ends_SNL).gather(2, lane)
        rewards = torch.zeros(row.shape, dtype=torch.float64, device=self._device)
        summed = torch.zeros_like(row)
        ended = torch.zeros_like(row, dtype=torch.bool)
        going = torch.ones_like(ended)
        for k in range(memory.n_step):
            at = self._places(lane, row + k)
            done = self._take("dones", at)
            followed = ~self._take("last", at) & (row + k + 1 < written)
            going = going & (done | followed) & (row + k < written)
            gained = self._take("rewards", at).to(torch.float64) * self._discounts_K[k]
            rewards = rewards + torch.where(going, gained, 0.0)
            summed = summed + going
            ended = ended | (going & done)
            going = going & ~ended
        next_row = torch.where(ended, row, row + summed)
        discounts = self._discounts_K[summed].masked_fill(ended, 0.0)
        valid = (summed > 0).to(torch.float32)
        return Batches(
            torch.stack([self._stack(lane, row), self._stack(lane, next_row)], dim=2),
            self._take("actions", self._places(lane, row)),
            rewards.to(torch.float32),
            discounts.to(torch.float32),
            valid / valid.sum(dim=-1, keepdim=True).clamp(min=1.0),
            self._take("mask", self._places(lane, next_row)) if "mask" in self._fields else None,
        )

    def states_at(self, places: Tensor) -> Tensor:
        """Stacked frames, (…, T * size of a frame), from their places, (…, T)."""
        return self._states.index_select(0, places.flatten()).view(*places.shape[:-1], -1)

    def _stack(self, lane: Tensor, row: Tensor) -> Tensor:
        """Where the frames of each row and of the rows before it stand, oldest first; the row of zeros
        before the start of the episode.
        """
        places = self._places(lane[..., None], row[..., None] - self._back_T)
        age = self._take("age", self._places(lane, row))
        return places.masked_fill(self._back_T > age[..., None], len(self._states) - 1)

    def _places(self, lane: Tensor, row: Tensor) -> Tensor:
        """Where rows, (S, N, …), stand among all rows of all agents."""
        agent = self._agents.view(-1, *(1,) * (row.dim() - 2))
        places: Tensor = (agent * self._memories[0].lanes + lane) * self._rows + row % self._rows
        return places

    def _take(self, name: str, places: Tensor) -> Tensor:
        field = self._fields[name].flatten(0, 2)
        return field.index_select(0, places.flatten()).view(*places.shape, *field.shape[1:])


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
    return int(row * memory.lanes * (memory.rows_per_lane + memory.slack))
