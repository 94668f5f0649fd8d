"""Commons harvest in many lanes at once: the rules of world.py over tensors (docs/how-to/gpu.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from abreast.games.harvest.agents import HarvestAgent
from abreast.games.harvest.entities import Apple, Grass
from abreast.games.harvest.world import NEAR, HarvestConfig, HarvestWorld
from abreast.worlds import EmptyEntity, Entity, OneHotObservationSpec, Wall
from abreast.worlds.batched import BatchedWorld, Draws, Shapes


class BatchedHarvest(BatchedWorld):
    """Walls around, and apples that grow where others are near."""

    WORLD = HarvestWorld
    AGENT = HarvestAgent
    ACTIONS = ("up", "down", "left", "right", "stay")
    GROUND = (Grass.kind,)

    settings: HarvestConfig

    def __init__(self, lanes: int, views: Sequence[OneHotObservationSpec], settings: Any, device: str) -> None:
        super().__init__(lanes, views, settings, device)
        self.check_room(self.agents + self.settings.apples, (self.height - 2) * (self.width - 2))
        self._apple = self.number(Apple)
        rows, columns = torch.arange(self.height, device=device), torch.arange(self.width, device=device)
        self._cells = (rows.unsqueeze(1) * self._stride + columns).view(1, -1) + self.corners_L.unsqueeze(1)
        self._near = (self._cells.unsqueeze(2) + self.steps(NEAR)).view(-1)
        """The places near each cell of each lane: (L · H · W · 12)."""
        roots = [min(count * self.settings.regrow_prob, 1.0) ** 0.5 for count in range(len(NEAR) + 1)]
        self._roots = self.table(roots, torch.float32)
        """By how many apples are near; one grows if two numbers are both below, as in `Chance`."""

    def make_prototypes(self) -> list[Entity]:
        return [EmptyEntity(), Wall(), Apple(self.settings.apple_value)]

    def turn_draws(self) -> Shapes:
        return dict.fromkeys(("grow", "grow_too"), (self.height, self.width))

    def reset(self, draws: Draws) -> None:
        self.clear()
        self.enclose(Wall)
        places = self.draw_places(draws["places"], self.settings.apples + self.agents)
        self.put(places[: self.settings.apples], self._apple)
        self.place_agents(places[self.settings.apples :])

    def transition(self, draws: Draws) -> None:
        count = (self.flat.index_select(0, self._near).view(-1, len(NEAR)) == self._apple).sum(1)
        roots_LHW = self._roots.index_select(0, count).view(self.cells_LHW.shape)
        grows_LHW = (torch.maximum(draws["grow"], draws["grow_too"]) < roots_LHW) & (self.cells_LHW == self.empty_kind)
        self.cells_LHW.masked_fill_(grows_LHW, self._apple)

    def metrics(self) -> Mapping[str, Tensor]:
        return {"apples_left": (self.cells_LHW == self._apple).sum((1, 2)).to(torch.float32)}
