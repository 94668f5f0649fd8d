"""Level-Based Foraging (the package lbforaging) as a PettingZoo environment."""

from typing import Any

import gymnasium
import lbforaging  # noqa: F401 (it registers the environments)
from pettingzoo import ParallelEnv


class Foraging(ParallelEnv):
    """A fresh instance per reset: what an instance draws follows from its seed alone."""

    metadata = {"name": "foraging", "render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, name: str) -> None:
        self._name = name
        env = gymnasium.make(name, disable_env_checker=True)
        self.possible_agents = [f"player_{number}" for number in range(len(env.action_space))]
        self.observation_spaces = dict(zip(self.possible_agents, env.observation_space, strict=True))
        self.action_spaces = dict(zip(self.possible_agents, env.action_space, strict=True))
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self._env = gymnasium.make(self._name, disable_env_checker=True)
        seen, _ = self._env.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return dict(zip(self.agents, seen, strict=True)), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, int]) -> Any:
        seen, rewards, terminated, truncated, _ = self._env.step([actions[agent] for agent in self.possible_agents])
        agents = self.possible_agents
        found = (
            dict(zip(agents, seen, strict=True)),
            dict(zip(agents, map(float, rewards), strict=True)),
            dict.fromkeys(agents, bool(terminated)),
            dict.fromkeys(agents, bool(truncated)),
            {agent: {} for agent in agents},
        )
        if terminated or truncated:
            self.agents = []
        return found


def make(name: str = "Foraging-5x5-2p-1f-v3") -> Foraging:
    return Foraging(name)
