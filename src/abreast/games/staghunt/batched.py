"""Stag hunt in many lanes at once: the rules of world.py, agents.py and entities.py over tensors (docs/how-to/gpu.md).

Animals have numbers, stags first, which they keep when they are caught and come back. A animals in all; other sizes as in
`abreast/worlds/batched.py`.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from abreast.games.staghunt.agents import StaghuntAgent
from abreast.games.staghunt.entities import Hare, Moss, Stag, Tree, neighbours
from abreast.games.staghunt.world import StaghuntConfig, StaghuntWorld
from abreast.worlds import EmptyEntity, Entity, OneHotObservationSpec
from abreast.worlds.batched import BatchedWorld, Chance, Draws, Shapes

BESIDE = [(row, column) for row, column, _ in neighbours((0, 0, 0))]
"""The cells beside one, in the order in which the object world looks at them."""
WAYS = 12
"""Of wandering: each number of free cells beside an animal, 1 to 4, divides it."""
MOST_OTHERS = 3
"""Hunters beside a stag, the attacker aside."""


class BatchedStaghunt(BatchedWorld):
    """Trees around, and animals that wander and come back."""

    WORLD = StaghuntWorld
    AGENT = StaghuntAgent
    ACTIONS = ("up", "down", "left", "right", "stay")
    GROUND = (Moss.kind,)

    settings: StaghuntConfig

    def __init__(self, lanes: int, views: Sequence[OneHotObservationSpec], settings: Any, device: str) -> None:
        super().__init__(lanes, views, settings, device)
        stags, hares = self.settings.stags, self.settings.hares
        self.animals = stags + hares
        self.check_room(self.agents + self.animals, (self.height - 2) * (self.width - 2))
        self.animals_AL = self.nowhere_L.repeat(self.animals, 1)
        """Where each is."""
        self.placed_AL = torch.zeros_like(self.animals_AL)
        """When each was put there: the order in which they wander."""
        self._time = self.table(0, torch.int64)
        self._kinds_A1 = self.table([self.number(Stag)] * stags + [self.number(Hare)] * hares, torch.int32).unsqueeze(1)
        self._numbers_A1 = torch.arange(self.animals, device=device).unsqueeze(1)
        self._after_wandering_A1 = self._numbers_A1 + self.animals
        self._wandering = Chance("wander", self.settings.wander_prob, WAYS, device)
        self._returning = Chance("return", self.settings.respawn_prob, 1, device)
        self._make_tables_of_wandering()
        self._make_tables_of_hunting()

    def _make_tables_of_wandering(self) -> None:
        """An animal's step follows from the way that was drawn and from what stands beside it, as one number:
        way + (WAYS + 1) · (kind above + kinds · kind below + …).
        """
        numbers = len(self.kinds) + 1
        steps: list[tuple[int, int]] = []
        for right, left, below, above in product(range(numbers), repeat=4):
            free = [
                cell for cell, kind in zip(BESIDE, (above, below, left, right), strict=True) if kind == self.empty_kind
            ]
            steps += [free[way * len(free) // WAYS] if free else (0, 0) for way in range(WAYS)] + [(0, 0)]
        self._wander_steps = self.steps(steps)
        self._weights = self.table([(WAYS + 1) * numbers**place for place in range(4)], torch.int32)
        self._beside = self.steps(BESIDE)
        self._ways_AL4 = torch.zeros((*self.animals_AL.shape, 4), dtype=torch.int32, device=self.device)

    def _make_tables_of_hunting(self) -> None:
        """What comes of an action follows from the kind in its target cell and the number of others beside that, as one
        number: others + (MOST_OTHERS + 1) · kind.
        """
        steps = [self.AGENT.DIRECTIONS.get(action, (0, 0)) for action in self.ACTIONS]
        around = [[(row + down, column + right) for down, right in BESIDE] for row, column in steps]
        others = [[cell for cell in cells if cell != (0, 0)][:MOST_OTHERS] for cells in around]
        self._targets = torch.stack([self.steps([step, *cells]) for step, cells in zip(steps, others, strict=True)], 1)
        """By action: the step to the target cell, and to the cells beside that, one's own aside."""
        stag, value, penalty = self.number(Stag), self.settings.stag_value, self.settings.stag_penalty
        is_caught = [others + 1 >= self.settings.hunters_needed for others in range(MOST_OTHERS + 1)]
        numbers = torch.arange(len(self.kinds) + 1, dtype=torch.int32, device=self.device)
        rewards, passes, after = (
            of_kind.unsqueeze(1).repeat(1, MOST_OTHERS + 1)
            for of_kind in (self.values, self.passable, torch.where(self.passable, self.agent_kind, numbers))
        )
        gives = torch.zeros_like(rewards)
        rewards[stag] = self.table([value if caught else -penalty for caught in is_caught], torch.float32)
        gives[stag] = self.table([value if caught else 0.0 for caught in is_caught], torch.float32)
        after[stag] = self.table([self.empty_kind if caught else stag for caught in is_caught], torch.int32)
        self._rewards, self._gives, self._passes, self._after = (
            each.view(-1) for each in (rewards, gives, passes, after)
        )

    def make_prototypes(self) -> list[Entity]:
        wander_prob = self.settings.wander_prob
        return [EmptyEntity(), Tree(), Hare(self.settings.hare_value, wander_prob), Stag(wander_prob)]

    def turn_draws(self) -> Shapes:
        if not self.animals:
            return {}
        chances = self._wandering.draws(self.animals) | self._returning.draws(self.animals)
        return {**chances, "places": (self.height, self.width)}

    def reset(self, draws: Draws) -> None:
        self.clear()
        self.enclose(Tree)
        places = self.draw_places(draws["places"], self.animals + self.agents)
        self.animals_AL.copy_(places[: self.animals])
        self.placed_AL.copy_(self._numbers_A1.expand_as(self.placed_AL))
        self._time.fill_(self.animals)
        self.put(self.animals_AL, self._kinds_A1.expand_as(self.animals_AL))
        self.place_agents(places[self.animals :])

    # ---- animals

    def transition(self, draws: Draws) -> None:
        if not self.animals:
            return
        is_here_AL = self.at(self.animals_AL) == self._kinds_A1  # the others were caught, since the last turn or before
        torch.where(is_here_AL, self.animals_AL, self.nowhere_L, out=self.animals_AL)
        self._wander(is_here_AL * self._kinds_A1, self._wandering(draws).T)
        self._return((self._returning(draws).T == 0) & ~is_here_AL, draws["places"])
        self._time.add_(2 * self.animals)

    def _wander(self, kinds_AL: Tensor, ways_AL: Tensor) -> None:
        """Let the animals take their steps one after the other, in the order in which they were placed.

        One that is gone is OUTSIDE and stands nowhere, where no cell beside it is empty.
        """
        placed, order = self.placed_AL.sort(0)
        before, kinds = self.animals_AL.gather(0, order), kinds_AL.gather(0, order)
        self._ways_AL4[..., 0] = ways_AL.gather(0, order)
        beside_AL4, places = before.unsqueeze(2) + self._beside, before.clone()
        for place_L, beside_L4, ways_L4, kinds_L in zip(places, beside_AL4, self._ways_AL4, kinds, strict=True):
            self.put(place_L, self.empty_kind)
            case_L = torch.addcmul(ways_L4, self.at(beside_L4), self._weights).sum(1)
            place_L.add_(self._wander_steps.index_select(0, case_L))
            self.put(place_L, kinds_L)
        self.animals_AL.scatter_(0, order, places)
        self.placed_AL.scatter_(0, order, torch.where(places == before, placed, self._time + self._numbers_A1))

    def _return(self, returns_AL: Tensor, scores_LHW: Tensor) -> None:
        """Put some of those that are gone into different empty cells, stags first."""
        # There is always room: everybody had a cell of their own at the start.
        rank_AL = torch.add(returns_AL.cumsum(0), returns_AL, alpha=-1)
        places_AL = self.draw_places(scores_LHW, self.animals).gather(0, rank_AL)
        torch.where(returns_AL, places_AL, self.animals_AL, out=self.animals_AL)
        torch.where(returns_AL, self._time + self._after_wandering_A1, self.placed_AL, out=self.placed_AL)
        self.put(torch.where(returns_AL, places_AL, self.nowhere_L), returns_AL * self._kinds_A1)

    # ---- hunters

    def act(self, agent: int, actions_L: Tensor) -> Tensor:
        """Walk, catch the hare one walks onto, or attack the stag one walks into."""
        place_L = self.places_NL[agent]
        self.put(place_L, self.empty_kind)
        cells = self._targets.index_select(1, actions_L).add_(place_L)
        target_L, around = cells[0], cells[1:]
        is_beside_NL = (self.places_NL.unsqueeze(1) == around).any(1)
        case_L = torch.add(is_beside_NL.sum(0), self.at(target_L), alpha=MOST_OTHERS + 1)
        self.put(target_L, self._after.index_select(0, case_L))
        self.move(agent, target_L, self._passes.index_select(0, case_L))
        self.given_LN.T.addcmul_(is_beside_NL, self._gives.index_select(0, case_L))
        return self._rewards.index_select(0, case_L)
