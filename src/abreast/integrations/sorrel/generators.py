"""The generators that all code of a process shares (NumPy's, Python's, torch's), as one part of a run sees them.

A loop of sorrel's draws everything from them: worlds, choices, batches, noise. Learners that train side by side cannot draw
from one stream, so playing has a place in these streams of its own, and so has each agent's learning.
"""

import random
from types import TracebackType
from typing import Any

import numpy as np
import torch

from abreast.errors import StateError
from abreast.state import State, fit


class Generators:
    """Where the three generators are for one part of a run. Inside `with generators:` code draws from there."""

    def __init__(self, seed: np.random.SeedSequence | None = None) -> None:
        """Begin where `seed` says; without one, where the generators of the process are now."""
        self._place = _place()
        self._outer: Any = None
        self._depth = 0
        if seed is not None:
            words = seed.generate_state(4)
            with self:
                random.seed(int(words[0]))
                np.random.seed(words[1:3])  # noqa: NPY002 (the global one is what this is about)
                torch.default_generator.manual_seed(int(words[3]))

    def __enter__(self) -> "Generators":
        if not self._depth:
            self._outer = _place()
            _go_to(self._place)
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self._place = _place()
            _go_to(self._outer)

    def begin_again(self) -> None:
        """Forget that code was inside: an error has ended it, and the generators of the process were put back since."""
        self._depth = 0

    def state(self) -> State:
        """Where they are, between two uses."""
        plain, numpys, torchs = self._place
        version, words, normal = plain
        numbers = np.array([np.nan if normal is None else normal, numpys["gauss"]], dtype=np.float64)
        facts = {"random": version, "position": int(numpys["state"]["pos"]), "has_gauss": int(numpys["has_gauss"])}
        arrays = {
            "random": np.array(words, dtype=np.uint32),
            "numpy": numpys["state"]["key"].astype(np.uint32),
            "torch": torchs.numpy().copy(),
            "normals": numbers,
        }
        return State(facts, arrays)

    def set_state(self, state: State) -> None:
        """Go on from there."""
        plain, numpys, torchs = _place()
        here = {
            "random": np.array(plain[1], dtype=np.uint32),
            "numpy": numpys["state"]["key"].astype(np.uint32),
            "torch": torchs.numpy().copy(),
            "normals": np.zeros(2),
        }
        fit(here, state, "the state of random generators")
        position, has_gauss = state.facts.get("position"), state.facts.get("has_gauss")
        if type(position) is not int or not 0 <= position <= 624 or has_gauss not in (0, 1):
            raise StateError(f"the position of NumPy's generator is {position!r}, expected 0 to 624.")
        normal = None if np.isnan(here["normals"][0]) else float(here["normals"][0])
        self._place = (
            (plain[0], tuple(here["random"].tolist()), normal),
            {
                "bit_generator": "MT19937",
                "state": {"key": here["numpy"], "pos": position},
                "has_gauss": has_gauss,
                "gauss": float(here["normals"][1]),
            },
            torch.from_numpy(here["torch"]),
        )


class Unchanged:
    """Inside, code may draw from the generators of the process; afterwards they are where they were."""

    def __enter__(self) -> None:
        self._before = _place()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _go_to(self._before)


def _place() -> tuple[Any, dict[str, Any], torch.Tensor]:
    numpys: Any = np.random.get_state(legacy=False)  # noqa: NPY002
    return random.getstate(), numpys, torch.get_rng_state()


def _go_to(place: tuple[Any, dict[str, Any], torch.Tensor]) -> None:
    random.setstate(place[0])
    np.random.set_state(place[1])  # noqa: NPY002
    torch.set_rng_state(place[2])
