"""Games of GEM, which draw from the generator of `random`."""

import string

import gem
import gymnasium
from gymnasium.spaces import Text


class Game(gymnasium.Env):
    render_mode = "text"
    observation_space = Text(10_000, charset=string.printable)
    action_space = Text(1000, charset=string.printable)

    def __init__(self, name, moves):
        self.game, self.moves = gem.make(name), [rf"\boxed{{{move}}}" for move in moves]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        text, info = self.game.reset(seed=seed)
        self.text = f"{text}\n{info['suffix']}"
        return self.text, {"available_actions": self.moves}

    def step(self, action):
        text, reward, terminated, truncated, info = self.game.step(action)
        self.text = f"{text}\n{info['suffix']}"
        info = {"success": terminated and reward == 1, "action_is_valid": action in self.moves}
        info |= {"action_is_effective": True, "available_actions": self.moves}
        return self.text, reward, terminated, truncated, info

    def render(self):
        return self.text


def guess_the_number(name="game:GuessTheNumber-v0-hard"):
    return Game(name, range(1, 51))


def game_2048(name="game:Game2048-v0-easy"):
    return Game(name, ["up", "down", "left", "right"])
