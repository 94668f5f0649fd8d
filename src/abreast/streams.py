"""Random numbers that users' code draws from the generators a whole process shares.

Our own parts draw from generators that were handed to them. A user's world or model may call `random.choice`,
`np.random.rand` or `torch.randn` (a `torch.nn.Linear` draws its first weights there), so these generators are seeded
for the time in which such code runs: from the experiment's seed and from what is being done, never from what was done
before, so that it does not matter in which process it happens.
"""

import pickle
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

IN_USE = threading.RLock()
"""Held by the thread that has set these generators for its own work."""
_spares: list[np.random.MT19937] = []
"""Generators that are not in use. (To make one takes 90 µs.)"""
SHARED_GENERATORS = 1_000_000
"""The part of a seed's spawn key that stands for them."""


@contextmanager
def seeded_globals(seed: np.random.SeedSequence, *path: int) -> Iterator[None]:
    """Seed the generators of `random`, `numpy.random` and torch inside, and restore them afterwards.

    One thread at a time: they are shared, so another thread that comes meanwhile draws from what is there. (Takes 0.07 ms;
    another generator takes the place of NumPy's, because to copy its state back and forth takes as long again.)
    """
    if not IN_USE.acquire(blocking=False):
        yield
        return
    torch = sys.modules.get("torch")
    gpus = torch is not None and torch.cuda.is_initialized()
    plain, numpys = random.getstate(), np.random.get_bit_generator()  # type: ignore[attr-defined]
    legacy: Any = np.random.get_state()  # noqa: NPY002
    torchs = torch.get_rng_state() if torch is not None else None
    of_gpus = torch.cuda.get_rng_state_all() if gpus else []  # type: ignore[union-attr]
    spare = _spares.pop() if _spares else np.random.MT19937()
    key = (*seed.spawn_key, SHARED_GENERATORS, *path)
    words = np.random.SeedSequence(seed.entropy, spawn_key=key).generate_state(4)
    random.seed(int(words[0]))
    np.random.set_bit_generator(spare)  # type: ignore[attr-defined]
    np.random.seed(words[1:3])  # noqa: NPY002 (the global one is what this is about)
    if torch is not None:
        torch.default_generator.manual_seed(int(words[3]))
        if gpus:
            torch.cuda.manual_seed_all(int(words[3]))
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_bit_generator(numpys)  # type: ignore[attr-defined]
        if legacy[3]:  # the second of a pair of normal numbers, which is kept beside the generator
            np.random.set_state(legacy)  # noqa: NPY002
        _spares.append(spare)
        if torch is not None and torchs is not None:
            torch.set_rng_state(torchs)
            if gpus:
                torch.cuda.set_rng_state_all(of_gpus)
        IN_USE.release()


def shared_streams() -> dict[str, bytes]:
    """Where the generators are that all code of a process shares, by name: different, if something has drawn from them.
    Torch has one only if it was imported. (40 µs.)
    """
    torch = sys.modules.get("torch")
    numpys = pickle.dumps(np.random.get_state())  # noqa: NPY002
    streams = {"the module random": pickle.dumps(random.getstate()), "numpy.random": numpys}
    return streams if torch is None else {**streams, "torch": torch.get_rng_state().numpy().tobytes()}
