"""The game as a PettingZoo environment: `env`, `raw_env` (agents act in turn), `parallel_env` (all act at once)."""

from abreast.games.pettingzoo import makers

env, raw_env, parallel_env = makers("prisoners")
