"""Random numbers that users' code draws from the generators a whole process shares.

Our own parts draw from generators that were handed to them. A user's world or model may call `random.choice`,
`np.random.rand` or `torch.randn` (a `torch.nn.Linear` draws its first weights there), so these generators are seeded
for the time in which such code runs: from the experiment's seed and from what is being done, never from what was done
before, so that it does not matter in which process it happens.
"""

import math
import pickle
import random
import sys
import threading
import time
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
    return {name: pickle.dumps(state) for name, state in _states().items()}


def changed_streams(before: dict[str, bytes]) -> list[str]:
    """Return the names of the shared generators that differ from `shared_streams` as it was before."""
    torch = sys.modules.get("torch")  # it may have been imported since then, and is fresh if nothing has drawn from it
    fresh = {} if torch is None else {"torch": pickle.dumps(torch.Generator().get_state().numpy())}
    return [name for name, state in shared_streams().items() if state != {**fresh, **before}[name]]


def _states() -> dict[str, Any]:
    states = {"the module random": random.getstate(), "numpy.random": np.random.get_state()}  # noqa: NPY002
    torch = sys.modules.get("torch")
    return states if torch is None else {**states, "torch": torch.get_rng_state().numpy()}


def _restore(states: dict[str, Any]) -> None:
    random.setstate(states["the module random"])
    np.random.set_state(states["numpy.random"])  # noqa: NPY002
    if "torch" in states:
        torch = sys.modules["torch"]
        torch.set_rng_state(torch.from_numpy(states["torch"]))


# ---- generators of an environment's own


class Draws:
    """Record which shared generators the environments of a tag draw from; their first calls are compared."""

    def __init__(self) -> None:
        self.names = ""
        """The generators that a call has changed; empty if none has."""
        self.left: dict[str, float] = {"begin": 8, "turn": 16}
        """Number of calls still to be compared, by kind: then they are believed to leave the shared generators alone. It is
        infinite for environments that do not.
        """

    @contextmanager
    def compare(self, kind: str) -> Iterator[None]:
        """Record if something inside draws from the shared generators: then these are as before, and `Drew` is raised."""
        with IN_USE:
            _comparing.add(me := threading.get_ident())
            before = shared_streams()
        try:
            yield
        finally:
            self.left[kind] -= 1
            names = changed_streams(before)
            if names:
                self.names, self.left = " and ".join(names), dict.fromkeys(self.left, math.inf)
                _restore({name: pickle.loads(state) for name, state in before.items()})
            _comparing.discard(me)
            if names and isinstance(sys.exception() or Drew(), Exception):
                raise Drew


class Drew(Exception):
    """Raised after a call that has drawn from the shared generators: do it again, with generators of its own."""


_comparing = set[int]()
"""Threads with a call that is compared under way: no thread has generators of its own meanwhile."""


@contextmanager
def own_globals(seed: int, states: dict[str, Any]) -> Iterator[None]:
    """Put other generators in the place of the shared ones, in one thread at a time: first seeded, then as `states` says.

    `states` is empty at first, and is then as the generators were left.
    """
    with IN_USE:
        while _comparing - {threading.get_ident()}:
            time.sleep(1e-3)
        with seeded_globals(np.random.SeedSequence(seed)):
            if states:
                _restore(states)
            try:
                yield
            finally:
                states.update(_states())
