"""Coins in many lanes at once: the rules of world.py and agents.py over tensors (docs/how-to/gpu.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from abreast.games.coins.agents import CoinsAgent
from abreast.games.coins.entities import COINS, Floor
from abreast.games.coins.world import CoinsConfig, CoinsWorld
from abreast.worlds import EmptyEntity, Entity, OneHotObservationSpec, Wall
from abreast.worlds.batched import BatchedWorld, Draws, Shapes


class BatchedCoins(BatchedWorld):
    """Walls around, and always one coin."""

    WORLD = CoinsWorld
    AGENT = CoinsAgent
    ACTIONS = ("up", "down", "left", "right", "stay")
    GROUND = (Floor.kind,)

    settings: CoinsConfig

    def __init__(self, lanes: int, views: Sequence[OneHotObservationSpec], settings: Any, device: str) -> None:
        super().__init__(lanes, views, settings, device)
        self.check_room(self.agents, (self.height - 2) * (self.width - 2))
        coins, kinds, cost = [self.number(kind) for kind in COINS], range(len(self.kinds) + 1), -settings.coin_penalty
        self._is_coin = self.table([kind in coins for kind in kinds], torch.bool)
        self._coins = self.table(coins, torch.int32)
        owners = [coins.index(kind) if kind in coins else -1 for kind in kinds]
        others = [
            [[cost * (owner == other != agent) for other in range(self.agents)] for owner in owners]
            for agent in range(self.agents)
        ]
        self._costs = self.table(others, torch.float32)
        """By who walks and onto which kind, what that costs each agent."""
        picked = [[[owner >= 0, owner == agent] for owner in owners] for agent in range(self.agents)]
        self._picks = self.table(picked, torch.float32)
        """Likewise, whether it is a coin, and one of its own colour."""
        self.picked_L2 = torch.zeros((lanes, 2), device=device)

    def make_prototypes(self) -> list[Entity]:
        return [EmptyEntity(), Wall(), *(kind(self.settings.coin_value) for kind in COINS)]

    def turn_draws(self) -> Shapes:
        return {"places": (self.height, self.width), "colour": ()}

    def reset(self, draws: Draws) -> None:
        self.clear()
        self.picked_L2.zero_()
        self.enclose(Wall)
        self.place_agents(self.draw_places(draws["places"], self.agents))

    def transition(self, draws: Draws) -> None:
        is_coin = self._is_coin.index_select(0, self.flat).view(self.lanes, -1)
        place_L = self.draw_places(draws["places"], 1)[0]
        before_L = self.at(place_L)
        is_due_L = (before_L == self.empty_kind) & ~is_coin.any(1)  # in a full room no cell is empty
        coin_L = self._coins.index_select(0, (draws["colour"] * len(COINS)).to(torch.int64))
        self.put(place_L, torch.where(is_due_L, coin_L, before_L))

    def act(self, agent: int, actions_L: Tensor) -> Tensor:
        """Walk, and take the coin one walks onto: one of the other's colour costs the other."""
        target_L = self.places_NL[agent] + self._steps.index_select(0, actions_L)
        kinds_L = self.at(target_L)
        self.given_LN += self._costs[agent].index_select(0, kinds_L)
        self.picked_L2 += self._picks[agent].index_select(0, kinds_L)
        return super().act(agent, actions_L)

    def metrics(self) -> Mapping[str, Tensor]:
        picked_L, own_L = self.picked_L2.unbind(1)
        return {"coins": picked_L, "own_colour": own_L / picked_L}
