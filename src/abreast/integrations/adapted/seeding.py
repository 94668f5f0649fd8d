"""Does an episode follow from its seed? The same seed and the same actions, twice."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.integrations.adapted.base import Adapted
from abreast.streams import seeded_globals

STEPS = 4
"""Steps that are compared before a run."""
Sight = tuple[int, NDArray[Any], NDArray[np.bool_] | None]
"""An agent, what it sees, and its mask."""


class Episode(NamedTuple):
    """The first steps of an episode, in digests."""

    seen: list[bytes]
    """Before each step."""
    got: list[str]
    """After each step."""

    def first_difference(self, other: "Episode") -> str | None:
        """Where another is not the same, in words."""
        for step, (mine, theirs) in enumerate(zip(self.seen, other.seen, strict=False)):
            if mine != theirs:
                return (
                    f"in what is seen after {step} step{'s' if step > 1 else ''}" if step else "in what is seen first"
                )
            if self.got[step : step + 1] != other.got[step : step + 1]:
                return f"in the rewards or ends of step {step + 1}"
        return None if self == other else f"in their length ({len(self.got)} and {len(other.got)} steps)"


def why_not_seeded(copy: Adapted, seed: np.random.SeedSequence) -> str | None:
    """What says that episodes of an environment do not follow from their seeds; None if nothing was found."""
    first, second = (episode(copy, seed, STEPS) for _ in range(2))
    place = first.first_difference(second)
    if place is None:
        return None
    return (
        f"{copy.name} does not follow from the seed of its reset: two episodes with the same seed and actions differ"
        f" {place}. Let it draw from a generator that reset(seed=...) makes (`self.np_random` in Gymnasium)."
    )


def episode(
    copy: Adapted, seed: np.random.SeedSequence, steps: int, between: Callable[[], object] | None = None
) -> Episode:
    """Play the first steps of an episode with drawn actions; `between` is called before each of them."""
    found = Episode([], [])
    choices = np.random.default_rng(seed)
    with seeded_globals(seed):  # as in a run
        copy.reset(int(seed.generate_state(1)[0]) >> 1)
        for _ in range(steps):
            seen: list[Sight] = [(agent, *copy.see(agent)) for agent in copy.acting]
            found.seen.append(b"".join(b"%d" % agent + state.tobytes() + _bytes(mask) for agent, state, mask in seen))
            if not seen:
                break
            if between is not None:
                between()
            rewards, terminated, news = copy.step(drawn(copy, seen, choices))
            found.got.append(f"{list(rewards)} {list(terminated)} {list(news)}")
    return found


def drawn(copy: Adapted, seen: Sequence[Sight], choices: np.random.Generator) -> list[int]:
    """An action for each agent, among those that are legal."""
    return [
        int(choices.integers(copy.agents[agent].actions.number)) if mask is None else _one_of(mask, choices)
        for agent, _, mask in seen
    ]


def _one_of(mask: NDArray[np.bool_], choices: np.random.Generator) -> int:
    return int(choices.choice(np.flatnonzero(mask)))


def _bytes(mask: NDArray[np.bool_] | None) -> bytes:
    return b"" if mask is None else mask.tobytes()
