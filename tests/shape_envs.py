"""A PettingZoo environment of any shape: observations, actions, agents, and lengths of episodes are arguments."""

from typing import ClassVar

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class AnyShape(ParallelEnv):
    """Observations and rewards are drawn, so that no number is round. Agents may end before the episode does."""

    metadata: ClassVar = {"name": "any_shape", "render_modes": []}

    def __init__(self, agents=3, size=5, actions=4, continuous=False, pictures=False, turns=8, random_lengths=False):
        self.possible_agents = [f"agent_{number}" for number in range(agents)]
        self.agents: list[str] = []
        self.turns, self.random_lengths = turns, random_lengths
        self.seen = spaces.Box(0, 255, (size, size, 3), np.uint8) if pictures else spaces.Box(-3.0, 3.0, (size,))
        self.acts = spaces.Box(-1.0, 1.0, (actions,)) if continuous else spaces.Discrete(actions)

    def observation_space(self, agent):
        return self.seen

    def action_space(self, agent):
        return self.acts

    def reset(self, seed=None, options=None):
        self.rng, self.turn = np.random.default_rng(seed), 0
        self.agents = list(self.possible_agents)
        count = len(self.agents)
        self.ends = self.rng.integers(1, self.turns + 1, count) if self.random_lengths else [self.turns] * count
        return self._look(), {agent: {} for agent in self.agents}

    def _look(self):
        if self.seen.dtype == np.uint8:
            return {agent: self.rng.integers(0, 256, self.seen.shape).astype(np.uint8) for agent in self.agents}
        return {agent: self.rng.normal(size=self.seen.shape).clip(-3, 3).astype(np.float32) for agent in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.turn += 1
        there = self.agents
        rewards = {agent: float(self.rng.normal() + np.sum(actions[agent])) for agent in there}
        ends = {agent: bool(self.turn >= self.ends[self.possible_agents.index(agent)]) for agent in there}
        seen, cuts = self._look(), dict.fromkeys(there, False)
        self.agents = [agent for agent in there if not ends[agent]]
        return seen, rewards, ends, cuts, {agent: {} for agent in there}
