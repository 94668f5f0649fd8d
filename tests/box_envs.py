"""Environments with continuous actions, as users bring them."""

import functools

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import ParallelEnv


class Aim(gymnasium.Env):
    """What is seen says which number is wanted: as far as the answer is off, as large is the fine. Nothing else matters."""

    max_steps = 16

    def __init__(self, low=0.0, high=10.0, shape=(1,), dtype="float32"):
        self.observation_space = Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = Box(low, high, tuple(shape), np.dtype(dtype).type)
        self.given = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        return self._look(), {}

    def _look(self):
        self.wanted = self.np_random.uniform(-1.0, 1.0)
        return np.array([self.wanted], dtype=np.float32)

    def step(self, action):
        assert self.action_space.contains(action), action
        self.given.append(action)
        low, high = self.action_space.low, self.action_space.high
        answer = 2.0 * (action - low) / (high - low) - 1.0
        fine = float(np.abs(answer - 0.8 * self.wanted).mean())
        self.turn += 1
        return self._look(), -fine, False, self.turn == self.max_steps, {}


class AimInTwo(Aim):
    """Actions are no row of numbers, and have bounds of their own."""

    def __init__(self):
        super().__init__()
        low, high = np.array([[-1.0, 0.0], [5.0, -3.0]]), np.array([[1.0, 10.0], [5.5, 0.0]])
        self.action_space = Box(low, high, dtype=np.float64)


class Unbounded(Aim):
    def __init__(self):
        super().__init__(low=-np.inf, high=np.inf)


class WholeNumbers(Aim):
    def __init__(self):
        super().__init__(0, 10, dtype="int64")


class Mixed(Aim):
    def __init__(self):
        super().__init__()
        self.action_space = Dict({"gas": Box(0.0, 1.0, (1,)), "gear": Discrete(3)})


class Masked(Aim):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"action_mask": [1]}


class Steering(ParallelEnv):
    """Three agents steer towards a place of their own, each by a turn and a speed; who arrives is done."""

    metadata = {"name": "steering"}
    possible_agents = ["red", "green", "blue"]
    TURNS = 5

    @functools.cache  # noqa: B019 (as PettingZoo asks for)
    def observation_space(self, agent):
        return Box(-20.0, 20.0, (2,), np.float32)

    @functools.cache  # noqa: B019
    def action_space(self, agent):
        return Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 2.0], np.float32))

    def reset(self, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.agents, self.turn = list(self.possible_agents), 0
        self.way = {agent: self.rng.normal(size=2) for agent in self.agents}
        return self._seen(), {agent: {} for agent in self.agents}

    def _seen(self):
        return {agent: self.way[agent].astype(np.float32) for agent in self.agents}

    def step(self, actions):
        self.turn += 1
        for agent, (turn, speed) in actions.items():
            self.way[agent] = self.way[agent] - speed * np.array([np.cos(3 * turn), np.sin(3 * turn)])
        off = {agent: float(np.linalg.norm(self.way[agent])) for agent in self.agents}
        ends, cuts = {agent: away < 0.3 for agent, away in off.items()}, dict.fromkeys(off, self.turn == self.TURNS)
        self.agents = [agent for agent in self.agents if not ends[agent] and not cuts[agent]]
        seen = {agent: self.way[agent].astype(np.float32) for agent in off}
        return seen, {agent: -away for agent, away in off.items()}, ends, cuts, {agent: {} for agent in off}
