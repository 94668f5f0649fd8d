"""Treasure hunt in many lanes at once: the rules of world.py and agents.py over tensors (docs/how-to/gpu.md)."""

from collections.abc import Sequence
from typing import Any

import torch

from abreast.games.treasurehunt.agents import TreasurehuntAgent
from abreast.games.treasurehunt.entities import Sand, Wall
from abreast.games.treasurehunt.world import TreasurehuntConfig, TreasurehuntWorld, items
from abreast.worlds import EmptyEntity, Entity, OneHotObservationSpec
from abreast.worlds.batched import BatchedWorld, Chance, Draws, Shapes


class BatchedTreasurehunt(BatchedWorld):
    """Walls around, and items that appear on empty cells, each kind with the same chance."""

    WORLD = TreasurehuntWorld
    AGENT = TreasurehuntAgent
    ACTIONS = ("up", "down", "left", "right")
    GROUND = (Sand.kind,)

    settings: TreasurehuntConfig

    def __init__(self, lanes: int, views: Sequence[OneHotObservationSpec], settings: Any, device: str) -> None:
        super().__init__(lanes, views, settings, device)
        self.check_room(self.agents, (self.height - 2) * (self.width - 2))
        kinds = items(self.settings)
        self._spawning = Chance("spawn", self.settings.spawn_prob, len(kinds), device)
        after = [[number] * (len(kinds) + 1) for number in range(len(self.kinds) + 1)]
        after[self.empty_kind][:-1] = [self.number(kind) for kind in kinds]
        self._after = self.table(after, torch.int32).view(-1)
        """What becomes of each kind in each way of spawning, the last of which is that nothing appears."""

    def make_prototypes(self) -> list[Entity]:
        return [EmptyEntity(), Wall(), *(kind(value) for kind, value in items(self.settings).items())]

    def turn_draws(self) -> Shapes:
        return self._spawning.draws(self.height, self.width)

    def reset(self, draws: Draws) -> None:
        self.clear()
        self.enclose(Wall)
        self.place_agents(self.draw_places(draws["places"], self.agents))

    def transition(self, draws: Draws) -> None:
        case_LHW = torch.add(self._spawning(draws), self.cells_LHW, alpha=self._spawning.ways + 1)
        self.cells_LHW.copy_(self._after.index_select(0, case_LHW.view(-1)).view(case_LHW.shape))
