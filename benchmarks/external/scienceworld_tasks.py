"""A task of ScienceWorld; the seed of an episode selects its variation."""

import os
import string

import gymnasium
from gymnasium.spaces import Text
from scienceworld import ScienceWorldEnv

SAME_HASHES = "-XX:+UnlockExperimentalVMOptions -XX:hashCode=2"  # or else the order of objects differs from run to run


class Task(gymnasium.Env):
    render_mode = "text"
    observation_space = Text(20_000, charset=string.printable)
    action_space = Text(1000, charset=string.printable)

    def __init__(self, task="find-living-thing", steps=30, simplifications="easy"):
        os.environ.setdefault("JAVA_TOOL_OPTIONS", SAME_HASHES)
        self.world, self.task, self.simplifications = ScienceWorldEnv("", envStepLimit=steps), task, simplifications

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        variation = int(self.np_random.integers(self.world.get_max_variations(self.task)))
        self.world.load(self.task, variation, self.simplifications)
        self.text, info = self.world.reset()
        self.text, self.valid = f"{info['taskDesc']}\n{self.text}", info["valid"]
        return self.text, {"available_actions": self.valid}

    def step(self, action):
        is_valid = action in self.valid
        self.text, reward, done, info = self.world.step(action)
        self.valid = info["valid"]
        said = {"success": info["score"] == 100, "action_is_valid": is_valid, "action_is_effective": True}
        return self.text, reward / 100, done, False, {**said, "available_actions": self.valid}

    def render(self):
        return self.text

    def close(self):
        self.world.close()
