"""Games that `tw-make` has made; the seed of an episode selects one."""

import string
from pathlib import Path

import gymnasium
import textworld
from gymnasium.spaces import Text


class Game(gymnasium.Env):
    render_mode = "text"
    observation_space = Text(10_000, charset=string.printable)
    action_space = Text(1000, charset=string.printable)

    def __init__(self, folder="stories"):
        self.files = sorted(map(str, Path(folder).glob("*.z8")))
        self.wanted = textworld.EnvInfos(admissible_commands=True, won=True)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.close()
        self.game = textworld.start(self.files[int(self.np_random.integers(len(self.files)))], self.wanted)
        self.state, self.score = self.game.reset(), 0
        return self.render(), {"available_actions": self.state["admissible_commands"]}

    def step(self, action):
        known = self.state["admissible_commands"]
        self.state, score, done = self.game.step(action.replace("\0", " "))  # waits for ever for the rest
        reward, self.score = float(score - self.score), score
        info = {"success": bool(self.state["won"]), "action_is_valid": action in known, "action_is_effective": True}
        return self.render(), reward, done, False, {**info, "available_actions": self.state["admissible_commands"]}

    def render(self):
        return self.state["feedback"]

    def close(self):
        if hasattr(self, "game"):
            self.game.close()
