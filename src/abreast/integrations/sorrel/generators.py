"""The generators that all code of a process shares (NumPy's, Python's, torch's), as one run sees them.

A loop of sorrel's draws everything from them: worlds, choices, batches, noise. A run has a place in these three streams of
its own, so that nothing else that happens in the process changes it.
"""

import random
from types import TracebackType
from typing import Any

import numpy as np
import torch

Place = tuple[Any, dict[str, Any], torch.Tensor]
LARGEST_SEED = 2**32
"""NumPy takes no other."""


class Generators:
    """Where the three generators are for a run. Inside `with generators:` code draws from there.

    With Generators(seed) it is where `random.seed(seed)`, `numpy.random.seed(seed)` and `torch.manual_seed(seed)` lead to;
    without a seed, where the generators of the process are now.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._outer: Place | None = None
        self._place = _place()
        if seed is not None:
            self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begin anew."""
        with self:
            random.seed(seed)
            np.random.seed(seed % LARGEST_SEED)  # noqa: NPY002 (the global one is what this is about)
            torch.default_generator.manual_seed(seed % LARGEST_SEED)

    def __enter__(self) -> "Generators":
        self._outer = _place()
        _go_to(self._place)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._outer is not None, "__enter__ comes before"
        self._place, outer, self._outer = _place(), self._outer, None
        _go_to(outer)


def _place() -> Place:
    numpys: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return random.getstate(), numpys, torch.get_rng_state()


def _go_to(place: Place) -> None:
    random.setstate(place[0])
    np.random.set_state(place[1])  # noqa: NPY002
    torch.set_rng_state(place[2])
