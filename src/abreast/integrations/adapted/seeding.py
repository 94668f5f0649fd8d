"""Does an episode follow from its seed? The same seed and the same actions, twice; and does anything outlive `reset`?"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.checking import Trace, first_difference
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


def why_not_seeded(copy: Adapted, seed: np.random.SeedSequence) -> str | None:
    """What says that episodes of an environment do not follow from their seeds; None if nothing was found."""
    place = first_difference(episode(copy, seed, STEPS), episode(copy, seed, STEPS))
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


def episode(copy: Adapted, seed: np.random.SeedSequence, steps: int) -> Trace:
    """Play the first steps of an episode with drawn actions."""
    found: list[tuple[str, Any]] = []
    choices = np.random.default_rng(seed)
    with seeded_globals(seed):  # as in a run
        copy.reset(as_seed(seed))
        for step in range(steps):
            seen: list[Sight] = [(agent, *copy.see(agent)) for agent in copy.acting]
            shown = [(agent, state.tobytes(), mask is not None and mask.tobytes()) for agent, state, mask in seen]
            found.append((f"in what is seen after {step} steps" if step else "in what is seen first", shown))
            if not seen:
                break
            found.append((f"in the rewards or ends of step {step + 1}", str(copy.step(drawn(copy, seen, choices)))))
    return found


def drawn(copy: Adapted, seen: Sequence[Sight], choices: np.random.Generator) -> list[Any]:
    """An action for each agent, among those that are legal."""
    return [copy.agents[agent].actions.drawn(choices, mask) for agent, _, mask in seen]
