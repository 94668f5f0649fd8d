"""Environments that break the contract of rollouts, each in one way; and one that keeps it."""

import enum
import os
import random
import signal
import threading

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, Text

from abreast.rollouts import EnvConfig, EnvKind


class End(enum.IntEnum):
    RUNNING = 0


class Fit(gymnasium.Env):
    """Keeps the contract: a number to be counted down, by as much as is said."""

    metadata = {"render_modes": ["text"]}

    def __init__(self, config=None):
        self.render_mode = "text"
        self.action_space = Discrete(3)
        self.observation_space = Text(100, charset="0123456789- left")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = int(self.np_random.integers(10, 1000))
        return self.render(), {}

    def step(self, action):
        valid = isinstance(action, int | np.integer) and action in (0, 1, 2)
        if valid:
            self.number -= int(action)
        return self.render(), float(valid), self.number <= 0, False, self.told(valid)

    def told(self, valid):
        return {"success": self.number <= 0, "action_is_valid": valid, "action_is_effective": valid}

    def render(self):
        return f"{self.number} left"


class FitText(Fit):
    """The same with texts as actions, which abreast does not adapt."""

    def __init__(self, config=None):
        super().__init__(config)
        self.action_space = Text(1, min_length=1, charset="012")

    def step(self, action):
        return super().step({"0": 0, "1": 1, "2": 2}.get(action))


# ---- its seed


class DrawsFromItsOwnStream(Fit):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = int(np.random.default_rng().integers(10, 10**6))
        return self.render(), {}


class IsAlwaysTheSame(Fit):
    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.number = 100
        return self.render(), {}


class KeepsASecret(Fit):
    """The number is never told."""

    def __init__(self, config=None):
        super().__init__(config)
        self.observation_space = Text(100, charset="some left")

    def render(self):
        return "some left"


class SharesAList(Fit):
    """As one that is made for one instance only."""

    taken = []

    def reset(self, *, seed=None, options=None):
        self.taken.clear()
        return super().reset(seed=seed)

    def step(self, action):
        self.taken.append(action)
        return super().step(action)

    def render(self):
        return f"{self.number - len(self.taken)} left"


class RewardsWithNaN(Fit):
    def step(self, action):
        state, _, terminated, truncated, info = super().step(action)
        return state, float("nan"), terminated, truncated, info


class NeedsASeed(Fit):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=int(seed))


class LeavesSomethingOver(Fit):
    left_over = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number += self.left_over
        return self.render(), {}

    def step(self, action):
        self.left_over += 1
        return super().step(action)


# ---- global random state


class DrawsFromNumpyInStep(Fit):
    def step(self, action):
        self.number += int(np.random.randint(5))  # noqa: NPY002
        return super().step(action)


class SeedsNumpyInReset(Fit):
    def reset(self, *, seed=None, options=None):
        np.random.seed(seed)  # noqa: NPY002
        return super().reset(seed=seed)


class DrawsFromRandomWhenMade(Fit):
    def __init__(self, config=None):
        super().__init__(config)
        self.name = random.random()


class DrawsEverywhere(Fit):
    """As the environments of GEM."""

    def __init__(self, config=None):
        super().__init__(config)
        self.least = random.randint(10, 99)

    def reset(self, *, seed=None, options=None):
        os.write(1, b"rolling\n")
        super().reset(seed=seed)
        self.number = self.least + random.randint(100, 900)
        return self.render(), {"sampled": np.random.random(2)}  # noqa: NPY002

    def step(self, action):
        self.number -= random.randint(0, 3)
        return super().step(action)


class SeedsTorchInReset(Fit):
    def reset(self, *, seed=None, options=None):
        import torch

        torch.manual_seed(seed or 0)
        return super().reset(seed=seed)


# ---- other processes


class UsesHash(Fit):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number += hash("a text") % 1000
        return self.render(), {}


class ChangesWhenLookedAt(Fit):
    looks = 0

    def reset(self, *, seed=None, options=None):
        self.looks = 0
        return super().reset(seed=seed)

    def render(self):
        self.looks += 1
        return f"{self.number}{'-' * self.looks} left"


FROM_A_LAMBDA = lambda config: Fit(config)  # noqa: E731, PLW0108 (that it is one is the point)


# ---- what it gives


class TellsNothing(FitText):
    def told(self, valid):
        return {}


class TellsNumbers(FitText):
    def told(self, valid):
        return {**super().told(valid), "success": 0.5}


class ShowsNothing(Fit):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return None, {}

    def step(self, action):
        return None, *super().step(action)[1:]

    def render(self):
        return None


class ShowsNoNumbers(ShowsNothing):
    """Is adapted."""

    def __init__(self, config=None):
        super().__init__(config)
        self.observation_space = None


class TellsItsClass(FitText):
    def told(self, valid):
        return {**super().told(valid), "class": type(self)}


class TellsAnEnumeration(FitText):
    def told(self, valid):
        return {**super().told(valid), "end": End.RUNNING}


class CountsItsInstances(FitText):
    made = 0

    def __init__(self, config=None):
        super().__init__(config)
        type(self).made += 1

    def told(self, valid):
        return {**super().told(valid), "board": np.full(2, self.made), "lock": threading.Lock()}


class HangsAtZeroByte(FitText):
    """As a native step that does not return: nothing interrupts it."""

    def step(self, action):
        while action == "\x00":
            pass
        return super().step(action)


class DiesAtZeroByte(FitText):
    def step(self, action):
        if action == "\x00":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class HangsAtTheThirdStep(FitText):
    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        while self.steps > 2:
            pass
        return super().step(action)


class ShowsADict(Fit):
    render_as_dict = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return f"{self.number} left", {}

    def step(self, action):
        _, *rest = super().step(action)
        return f"{self.number} left", *rest

    def render(self):
        return {"number": self.number}


class ShowsFloats(ShowsADict):
    def render(self):
        return np.zeros((4, 4, 3))


class IsOutsideItsSpace(Fit):
    def __init__(self, config=None):
        super().__init__(config)
        self.observation_space = Text(100, charset="abc")


class IsNoGymnasiumEnv:
    """Has all the methods, but not the class."""

    render_mode = None

    def __init__(self):
        self.action_space = Discrete(3)
        self.observation_space = Text(9, charset="0123456789")

    def reset(self, *, seed=None, options=None):
        self.number = int(np.random.default_rng(seed).integers(1000))
        return f"{self.number}", {}

    def step(self, action):
        valid = {"success": False, "action_is_valid": True, "action_is_effective": True}
        return f"{self.number}", 0.0, False, False, valid


# ---- what it raises


class RaisesOnJunk(FitText):
    def step(self, action):
        return super().step({"0": "0", "1": "1", "2": "2"}[action])


class RaisesWhenMade(Fit):
    def __init__(self, config=None):
        raise FileNotFoundError("no data here")


class RaisesInReset(Fit):
    def reset(self, *, seed=None, options=None):
        raise ZeroDivisionError("a villain divides by zero")


class RaisesInStep(Fit):
    def step(self, action):
        raise ZeroDivisionError("a villain divides by zero")


class RaisesAtALongWord(FitText):
    """As environments of users do that take the texts of a language model for granted."""

    def __init__(self, config=None):
        super().__init__(config)
        self.action_space = Text(12, min_length=1, charset="012")

    def step(self, action):
        if len(action) == 12:
            raise ValueError("too long")
        return super().step(action)


class RaisesWhenUsedAgain(Fit):
    is_used = False

    def reset(self, *, seed=None, options=None):
        if self.is_used:
            raise RuntimeError("only once")
        self.is_used = True
        return super().reset(seed=seed)


class ExitsInStep(Fit):
    def step(self, action):
        raise SystemExit(3)


class HasOldSteps(FitText):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


class HasOldReset(FitText):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


# ---- other ways to name one


class NamedConfig(EnvConfig):
    """With names for the actions."""

    action_lookup: dict[int, str] = {0: "none", 1: "one", 2: "two"}
    """Actions by number."""


KIND = EnvKind("counted", "Counts down.", Fit, NamedConfig, "Count.")


class RefusesOtherNumbers(Fit):
    """Raises at numbers that have no name, which the manager never passes on."""

    def step(self, action):
        return super().step({0: 0, 1: 1, 2: 2}[action])


NAMED = EnvKind("named", "Counts down.", RefusesOtherNumbers, NamedConfig, "Count.")


def without_arguments(size=3):
    """A factory that needs nothing."""
    assert size == 3
    return Fit()


def of_nothing():
    """A factory of something else."""
    return 7
