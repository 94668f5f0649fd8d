"""Story files in Jericho; the seed of an episode selects one. Which words a story knows is not listed."""

import string
import warnings
from pathlib import Path

import gymnasium
import jericho
from gymnasium.spaces import Text

WORDS = ("look", "inventory", "north", "south", "east", "west", "take all", "drop all", "examine me")


class Game(gymnasium.Env):
    render_mode = "text"
    observation_space = Text(10_000, charset=string.printable)
    action_space = Text(1000, charset=string.printable)

    def __init__(self, folder="stories"):
        self.files = sorted(map(str, Path(folder).glob("*.z?")))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        file = self.files[int(self.np_random.integers(len(self.files)))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it knows the scores of well-known stories only
            self.game = jericho.FrotzEnv(file, seed=seed)
        self.text, _ = self.game.reset()
        return self.text, {"available_actions": list(WORDS)}

    def step(self, action):
        before = self.text
        self.text, reward, done, _ = self.game.step(action.replace("\0", " "))  # waits for ever for the rest
        info = {"success": bool(done and self.game.victory()), "action_is_valid": True}
        info |= {"action_is_effective": self.text != before, "available_actions": list(WORDS)}
        return self.text, float(reward), bool(done), False, info

    def render(self):
        return self.text
