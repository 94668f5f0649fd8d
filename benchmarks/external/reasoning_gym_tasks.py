"""A task of reasoning-gym: one question, one answer."""

import string

import gymnasium
import reasoning_gym
from gymnasium.spaces import Text


class Task(gymnasium.Env):
    render_mode = "text"
    observation_space = Text(10_000, charset=string.printable)
    action_space = Text(1000, charset=string.printable)

    def __init__(self, dataset="letter_counting"):
        self.dataset = dataset

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.tasks = reasoning_gym.create_dataset(self.dataset, size=1, seed=seed)
        return self.render(), {}

    def step(self, action):
        score = float(self.tasks.score_answer(action, self.tasks[0]))
        info = {"success": score == 1, "action_is_valid": True, "action_is_effective": True}
        return self.render(), score, True, False, info

    def render(self):
        return self.tasks[0]["question"]
