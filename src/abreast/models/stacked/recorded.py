"""Calls that are recorded once as a CUDA graph and then replayed: to launch a small kernel takes longer than the kernel."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from abreast.errors import log

WARM_UPS = 3
"""Calls before the recording, in which libraries get their memory and choose their kernels."""


class Recorded:
    """Carries out a function over fixed tensors: it takes nothing and returns nothing, but reads and writes the same memory
    every time. On a GPU it is recorded at the first call; elsewhere it is just called.

    `changed`: all tensors that it changes and that outlive a call. Recording needs a few calls, after which they are put
    back. A function that cannot be recorded, say because it waits for a result, is called every time, after a warning.
    """

    def __init__(self, function: Callable[[], None], device: str, changed: Sequence[Tensor], name: str) -> None:
        """`name`: what it is, for the warning."""
        self._function, self._device, self._changed, self._name = function, torch.device(device), changed, name
        self._graph: torch.cuda.CUDAGraph | None = None
        self.is_recordable = self._device.type == "cuda"

    def __call__(self) -> None:
        if self.is_recordable and self._graph is None:
            self._record()
        if self._graph is None:
            self._function()
        else:
            self._graph.replay()

    def forget(self) -> None:
        """Record it anew at the next call: something that is no tensor has changed."""
        self._graph = None

    def _record(self) -> None:
        kept = [tensor.detach().clone() for tensor in self._changed]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self._device):
            beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                for _ in range(WARM_UPS):
                    self._function()
            torch.cuda.current_stream().wait_stream(beside)
            torch.cuda.synchronize()
            try:
                with no_garbage_collected(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    self._function()
                self._graph = graph
            except RuntimeError as error:
                reason = " ".join(str(error).split())[:200]
                log.warning("%s cannot be recorded as a CUDA graph, so it runs call by call: %s", self._name, reason)
                self.is_recordable = False
            torch.cuda.synchronize()
        with torch.no_grad():
            for tensor, value in zip(self._changed, kept, strict=True):
                tensor.copy_(value)


@contextmanager
def no_garbage_collected() -> Iterator[None]:
    """Inside, no garbage is collected: what belongs to another graph would be freed, which ends the process while one is
    being recorded."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
