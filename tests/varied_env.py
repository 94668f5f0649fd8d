"""An environment whose episodes differ in length, and that shows its seed: for tests of who plays what."""

import re

import gymnasium

from abreast.rollouts import EnvConfig, register

SHOWN = re.compile(r"seed (\d+), turn (\d+) of (\d+)")


class VariedConfig(EnvConfig):
    action_lookup: dict[int, str] = {1: "Go", 2: "Stay"}
    """Actions by number."""


@register("varied", config=VariedConfig, summary="Ends after 1 to 5 turns.", instruction="Go.")
class Varied(gymnasium.Env):
    """Ends after 1 + seed % 5 turns; the reward of a turn is 1, or 0 for Stay."""

    metadata = {"render_modes": ["text"]}
    render_mode = "text"

    def __init__(self, config):
        self.action_space = gymnasium.spaces.Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.turn = seed, 0
        return self.render(), {"success": False, "action_is_valid": True, "action_is_effective": True}

    def step(self, action):
        self.turn += 1
        done = self.turn == length(self.seed)
        told = {"success": done, "action_is_valid": True, "action_is_effective": True}
        return self.render(), float(action == 1), done, False, told

    def render(self):
        return f"seed {self.seed}, turn {self.turn} of {length(self.seed)}."


def length(seed):
    """How many turns an episode has."""
    return 1 + seed % 5


def shown(prompt):
    """Seed, turn and length that the last state in a prompt shows."""
    return tuple(map(int, SHOWN.findall(prompt)[-1]))
