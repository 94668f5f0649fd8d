"""Does an episode follow from its seed? A short look: the same seed and the same actions, twice."""

import numpy as np

from abreast.integrations.adapted.base import Adapted
from abreast.streams import seeded_globals

STEPS = 4
"""Steps that are compared."""


def why_not_seeded(copy: Adapted, seed: np.random.SeedSequence) -> str | None:
    """What says that episodes of an environment do not follow from their seeds; None if nothing was found."""
    first, second = (episode(copy, seed, STEPS) for _ in range(2))
    for index, (one, two) in enumerate(zip(first, second, strict=False)):
        if one != two:
            steps = (index + 1) // 2  # what is seen and what is got take turns
            when = f"after {steps} step{'s' if steps > 1 else ''}" if steps else "after reset"
            return (
                f"{copy.name} does not follow from the seed of its reset: with the same seed and actions it is different"
                f" {when}. Let it draw from a generator that reset(seed=...) makes (`self.np_random` in Gymnasium)."
            )
    return None


def episode(copy: Adapted, seed: np.random.SeedSequence, steps: int) -> list[object]:
    """What is seen and got in the first steps of an episode with drawn actions: a digest for each."""
    found: list[object] = []
    choices = np.random.default_rng(seed)
    with seeded_globals(seed):  # as in a run
        copy.reset(int(seed.generate_state(1)[0]) >> 1)
        for _ in range(steps):
            seen = [(agent, *copy.see(agent)) for agent in copy.acting]
            found.append([(agent, state.tobytes(), mask is not None and mask.tobytes()) for agent, state, mask in seen])
            if not seen:
                break
            actions = [
                int(choices.choice(np.flatnonzero(mask)))
                if mask is not None
                else int(choices.integers(copy.agents[agent].actions.count))
                for agent, _, mask in seen
            ]
            rewards, terminated, news = copy.step(actions)
            found.append((list(rewards), list(terminated), list(news)))
    return found
