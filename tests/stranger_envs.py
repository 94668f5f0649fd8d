"""Environments as users bring them: none of them knows abreast, and none has texts for actions."""

import random
import threading

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Text


class Walk(gymnasium.Env):
    """A Discrete environment: walk to the end of a line, against a wind; a list of steps breaks if it is given a text."""

    STEPS = (-1, 1)

    def __init__(self, length=4):
        self.length = length
        self.action_space = Discrete(2)
        self.observation_space = Box(-10, 10, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.turns = 0, 0
        return self.seen(), {"wind": 0}

    def step(self, action):
        wind = int(self.np_random.integers(0, 2))
        self.place += self.STEPS[action] + wind
        self.turns += 1
        won = self.place >= self.length
        return self.seen(), float(won), won, self.turns >= 12, {"wind": wind}

    def seen(self):
        return np.array([self.place, self.turns / 3], dtype=np.float32)


class NamedWalk(Walk):
    """With names, as Atari's environments have them."""

    def get_action_meanings(self):
        return ["BACK", "FORTH"]


class Lock(gymnasium.Env):
    """A MultiDiscrete environment, whose numbers begin at 1, with a Dict to see."""

    def __init__(self):
        self.action_space = MultiDiscrete([3, 4], start=np.array([1, 1]))
        self.observation_space = Dict({"tries": Discrete(100), "hint": Dict({"sum": Discrete(10)})})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.code = self.np_random.integers(1, [4, 5])
        self.tries = 0
        return self.seen(), {}

    def step(self, action):
        assert action.shape == (2,) and action in self.action_space
        self.tries += 1
        opened = bool((action == self.code).all())
        return self.seen(), float(opened), opened, False, {"success": opened}

    def seen(self):
        return {"hint": {"sum": int(self.code.sum())}, "tries": self.tries}


class Continuous(Walk):
    def __init__(self):
        super().__init__()
        self.action_space = Box(-1, 1, (1,), np.float32)


class Oddly(Walk):
    """Its space is none that texts can name, and none that is refused at once."""

    def __init__(self):
        super().__init__()
        self.action_space = Dict({"go": Discrete(2)})

    def step(self, action):
        return super().step(action["go"])


class LivePage(gymnasium.Env):
    """Its answers differ from call to call, and it says so."""

    replayable = False
    visits = 0

    def __init__(self):
        self.render_mode = None
        self.action_space = Text(10)
        self.observation_space = Text(40, charset="visit 0123456789")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.visit(), {}

    def step(self, action):
        info = {"success": False, "action_is_valid": True, "action_is_effective": True}
        return self.visit(), 0.0, False, False, info

    def visit(self):
        LivePage.visits += 1
        return f"visit {LivePage.visits}"


# ---- from before Gymnasium: reset returns an observation, step four values


class Ragen:
    """`reset(seed, mode)`, and texts for actions."""

    def __init__(self, config=None):
        self.config = config

    def reset(self, seed=None, mode="test"):
        self.number, self.mode, self.steps = random.Random(seed).random(), mode, 0
        return self.render()

    def step(self, action):
        self.steps += 1
        info = {"success": action == "end", "action_is_valid": True, "action_is_effective": True}
        return self.render(), 1, action == "end", info | {"available_actions": ["go", "end"]}

    def render(self, mode=None):
        return f"{self.mode} {self.number:.3f} after {self.steps}"


class NeedsBoth(Ragen):
    def reset(self, seed, mode):
        return super().reset(seed, mode)


class OldDiscrete:
    """`reset()` and `seed(seed)`, numbers for actions, and a `render` for a screen."""

    metadata = {"render.modes": ["human"]}

    def __init__(self):
        self.action_space = Discrete(3)
        self.chance = random.Random()

    def seed(self, seed=None):
        self.chance.seed(seed)
        return [seed]

    def reset(self):
        self.number, self.steps = self.chance.randrange(1000), 0
        return np.array([self.number, 0])

    def step(self, action):
        self.number += (-1, 0, 1)[action]
        self.steps += 1
        is_late = self.steps == 5
        return np.array([self.number, self.steps]), 0.5, is_late, {"TimeLimit.truncated": True} if is_late else {}

    def render(self, mode="human"):
        raise RuntimeError("there is no screen")


class Seedless(OldDiscrete):
    """Takes its seed in no way."""

    seed = None

    def __init__(self):
        super().__init__()
        self.chance = random.Random(0)


class TextRender(OldDiscrete):
    metadata = {"render.modes": ["human", "ansi"]}

    def render(self, mode="human"):
        assert mode == "ansi"
        return f"\x1b[41m{self.number}\x1b[0m"


gymnasium.register("StrangersWalk-v0", entry_point=Walk, max_episode_steps=5)


def made_walk(config):
    """A factory that is called with its configuration."""
    return Walk()


class Fragile(Walk):
    """Breaks when it goes forth."""

    def step(self, action):
        if action == 1:
            raise ValueError("it broke")
        return super().step(action)


class ListsWhatIsNot(Walk):
    """Offers an action that it does not have."""

    def reset(self, *, seed=None, options=None):
        seen, info = super().reset(seed=seed)
        return seen, info | {"available_actions": ["fly"]}


class TellsOfALock(Walk):
    """Its info can be neither copied nor sent."""

    def step(self, action):
        *rest, info = super().step(action)
        return *rest, info | {"lock": threading.Lock()}


class DrawsFromShared(Walk):
    """Draws from the generators that the whole process shares: when made, in reset and in every step."""

    def __init__(self):
        super().__init__()
        self.luck = [random.random(), np.random.normal()]  # noqa: NPY002

    def reset(self, *, seed=None, options=None):
        _, info = super().reset(seed=seed)
        self.luck[1:] = [random.randrange(10**6)]
        return str(self.luck), info

    def step(self, action):
        self.luck[2:] = [random.gauss(0, 1), np.random.normal()]  # noqa: NPY002 (one of a pair)
        _, *others = super().step(action)
        return str(self.luck), *others


class ByHand(gymnasium.Wrapper):
    """A wrapper that does not record its arguments, as Gymnasium's own check asks."""


def wrapped_by_hand():
    return ByHand(gymnasium.make("FrozenLake-v1", render_mode="ansi"))
