"""A player that sees the map and plans on it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from abreast.rollouts.envs.frozen_lake.config import FROZEN, GOAL, PLAYER, FrozenLakeConfig
from abreast.rollouts.envs.frozen_lake.lake import ACTIONS, Lake, slips
from abreast.rollouts.envs.grids import read

DISCOUNT = 0.999  # just enough to prefer the shorter of two ways that are equally safe
FARTHEST = 500
"""Moves to look ahead: more change nothing."""


def solve(config: FrozenLakeConfig, history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the next moves: the whole way where the ice is not slippery, else the one best move."""
    actions_left = history[-1]["actions_left"]
    plain = "\n".join(read(config, history[-1]["state"]))
    if PLAYER not in plain or actions_left < 1:  # one in a hole or on the goal does not move
        return []
    lake, player = Lake(config.size, plain.replace(PLAYER, FROZEN)), plain.index(PLAYER)
    if config.is_slippery:
        return [config.action_lookup[best_move(config, lake, player, min(actions_left, config.max_steps))]]
    return [config.action_lookup[move] for move in (lake.shortest_path(player) or ())[:actions_left]]


def best_move(config: FrozenLakeConfig, lake: Lake, player: int, horizon: int) -> int:
    """The move with the best chance of the goal within `horizon` moves: value iteration over the cells."""
    ways = [slips(config, action) for action in ACTIONS]
    chance_AW = np.array([[probability for probability, _ in way] for way in ways])
    # Standing on ice one moves on; holes, the goal (and line breaks, which nobody stands on) keep their value.
    ice = [cell for cell, symbol in enumerate(lake.text) if symbol == FROZEN]
    target_AWI = np.array([[[lake.neighbour(c, direction) for c in ice] for _, direction in way] for way in ways])
    value = np.array([float(symbol == GOAL) for symbol in lake.text])
    for _ in range(min(horizon, FARTHEST)):
        worth_AI = DISCOUNT * np.einsum("aw,awi->ai", chance_AW, value[target_AWI])
        value[ice] = worth_AI.max(axis=0)
    return ACTIONS[int(worth_AI[:, ice.index(player)].argmax())]
