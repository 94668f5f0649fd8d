"""Random numbers that users' code draws from the generators a whole process shares.

Our own parts draw from generators that were handed to them. A user's world or model may call `random.choice`,
`np.random.rand` or `torch.randn` (a `torch.nn.Linear` draws its first weights there), so these generators are seeded
for the time in which such code runs: from the experiment's seed and from what is being done, never from what was done
before, so that it does not matter in which process it happens.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

SHARED_GENERATORS = 1_000_000
"""The part of a seed's spawn key that stands for them."""


@contextmanager
def seeded_globals(seed: np.random.SeedSequence, *path: int) -> Iterator[None]:
    """Seed the generators of `random`, `numpy.random` and torch inside, and restore them afterwards. (Takes 0.1 ms.)"""
    torch = sys.modules.get("torch")
    gpus = torch is not None and torch.cuda.is_initialized()
    before = random.getstate(), np.random.get_state(), torch.get_rng_state() if torch else None  # noqa: NPY002
    gpus_before = torch.cuda.get_rng_state_all() if gpus else []  # type: ignore[union-attr]
    words = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, SHARED_GENERATORS, *path)).generate_state(
        4
    )
    random.seed(int(words[0]))
    np.random.seed(words[1:3])  # noqa: NPY002 (the global one is what this is about)
    if torch is not None:
        torch.default_generator.manual_seed(int(words[3]))
        if gpus:
            torch.cuda.manual_seed_all(int(words[3]))
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        if torch is not None and before[2] is not None:
            torch.set_rng_state(before[2])
            if gpus:
                torch.cuda.set_rng_state_all(gpus_before)
