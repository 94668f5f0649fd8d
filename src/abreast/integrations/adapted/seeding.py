"""How episodes of an environment follow from their seeds: tried out before a run, and by `abreast check`."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.checking import Trace, first_difference
from abreast.errors import log
from abreast.integrations.adapted.base import Adapted
from abreast.integrations.adapted.lanes import as_seed
from abreast.streams import seeded_globals

TURNS = 12
"""Turns of the episode that is tried out, at most; where agents act in turn, as many turns of each agent."""
RESETS = 64
"""Seeds whose first observations are compared. In Level-Based Foraging, old positions change one `reset` of eleven: 64 miss
that in one environment of four hundred.
"""
NOTICED_S = 3.0
"""Seconds of resets from which on a user is told beforehand how long they take."""
Sight = tuple[int, NDArray[Any], NDArray[np.bool_] | None]
"""An agent, what it sees, and its mask."""


class Seeding(NamedTuple):
    """How episodes follow from their seeds; both None: in any copy, whatever was played in it before."""

    leak: str | None = None
    """Reason why each episode needs a new copy of the environment, if it does."""
    fault: str | None = None
    """Reason why a run cannot be resumed exactly, if it cannot: not even in a new copy do episodes follow."""


def try_out(copy: Adapted, make: Callable[[], Adapted]) -> Seeding:
    """Play an episode in an unused copy and reset it with other seeds, then all once more in the opposite order; what
    differs is played in a new copy.

    Closes all copies. `make` is called after the first copy was closed, because some environments allow one at a time.
    """
    before = []
    for number in range(RESETS):
        started = time.perf_counter()
        before.append(_tried(copy, number))
        if number == 1 and (expected_s := 2 * RESETS * (time.perf_counter() - started)) > NOTICED_S:
            log.warning(
                "%s takes long to reset: before the run, %d resets show whether its episodes follow from their seeds,"
                " which takes about %.0f s.",
                *(copy.name, 2 * RESETS, expected_s),
            )
    again = ((number, first_difference(before[number], _tried(copy, number))) for number in reversed(range(RESETS)))
    number, place = next(((number, place) for number, place in again if place is not None), (0, None))
    copy.close()
    if place is None:
        return Seeding()
    fresh, other = (_alone(make(), number) for _ in range(2))
    if (where := first_difference(fresh, other)) is None:
        return Seeding(
            leak=f"{copy.name} plays other episodes after `reset` with the same seed, once its instance was played before:"
            f" they differ {place}. A new instance plays the same ones, so a new one is made for each episode. To save the"
            " time for that, set all that an episode depends on in `reset`."
        )
    return Seeding(
        fault=f"{copy.name} does not follow from the seed of its reset: two episodes with the same seed and actions differ"
        f" {where}, in new instances too. Let it draw from a generator that reset(seed=...) makes (`self.np_random` in"
        " Gymnasium)."
    )


def _tried(copy: Adapted, number: int) -> Trace:
    turns = TURNS * (len(copy.agents) if copy.is_in_turn else 1)
    return episode(copy, np.random.SeedSequence(number), 0 if number else turns)


def _alone(copy: Adapted, number: int) -> Trace:
    """Play in a new copy, and close it."""
    with closing(copy):
        return _tried(copy, number)


def episode(copy: Adapted, seed: np.random.SeedSequence, steps: int) -> Trace:
    """Play the first steps of an episode with drawn actions, and see what comes of the last."""
    found: list[tuple[str, Any]] = []
    choices = np.random.default_rng(seed)
    with seeded_globals(seed):  # as in a run
        copy.reset(as_seed(seed))
        for step in range(steps + 1):
            seen: list[Sight] = [(agent, *copy.see(agent)) for agent in copy.acting]
            shown = [(agent, state.tobytes(), mask is not None and mask.tobytes()) for agent, state, mask in seen]
            found.append((f"in what is seen after {step} steps" if step else "in what is seen first", shown))
            if not seen or step == steps:
                break
            found.append((f"in the rewards or ends of step {step + 1}", str(copy.step(drawn(copy, seen, choices)))))
    return found


def drawn(copy: Adapted, seen: Sequence[Sight], choices: np.random.Generator) -> list[Any]:
    """An action for each agent, among those that are legal."""
    return [copy.agents[agent].actions.drawn(choices, mask) for agent, _, mask in seen]
