"""Does an episode follow from its seed? The same seed and the same actions, twice; and does anything outlive `reset`?"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.codec import digest
from abreast.integrations.adapted.base import Adapted
from abreast.integrations.adapted.lanes import as_seed
from abreast.streams import seeded_globals

STEPS = 4
"""Steps that are compared before a run."""
RECORDERS = ("RecordEpisodeStatistics", "RecordVideo")
"""Gymnasium's wrappers that keep something from one episode to the next which changes nothing in them."""
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


def kept_between_episodes(copy: Adapted, seed: np.random.SeedSequence) -> str | None:
    """What says that an episode may depend on those before it; None if nothing was found. Such a thing, say a counter by
    which later episodes are harder, may show in what is seen long after the start of the run.
    """
    found = []
    for _ in range(2):
        episode(copy, seed, STEPS)  # what is made when it is needed is there after the first
        episode(copy, seed, 0)
        found.append(dict(_attributes(copy.env)))
    changed = [name for name, value in found[1].items() if found[0].get(name) != value]
    if not changed:
        return None
    return (
        f"{copy.name} keeps {changed[0]} from one episode to the next, which is part of no checkpoint: if what it does"
        " depends on that, a run that is resumed goes on otherwise than it would have; set it in reset."
    )


def _attributes(env: object) -> Iterator[tuple[str, bytes | None]]:
    """Digests of all attributes of an environment, and of those that it wraps."""
    for name, value in getattr(env, "__dict__", {}).items():
        if hasattr(value, "reset") and hasattr(value, "step"):
            yield from _attributes(value)
        elif type(env).__name__ not in RECORDERS:
            yield f"{type(env).__name__}.{name}", digest(value, {})


def episode(
    copy: Adapted, seed: np.random.SeedSequence, steps: int, between: Callable[[], object] | None = None
) -> Episode:
    """Play the first steps of an episode with drawn actions; `between` is called before each of them."""
    found = Episode([], [])
    choices = np.random.default_rng(seed)
    with seeded_globals(seed):  # as in a run
        copy.reset(as_seed(seed))
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
