"""Solving a room: A* over pushes, the shortest way in moves where the search gets that far.

    state ──> every push the player can walk to ──> the state after each, unless a box then stands where it is lost

What is still to do is estimated by the pushes each box needs to its nearest target with nothing else in the way. From a
corner, or along a wall without a target, no target can be reached: a box there is lost, and the state is dropped.
"""

import heapq
from collections.abc import Iterator, Mapping
from itertools import count, takewhile

from abreast.rollouts.envs.sokoban.grid import Room, cells_of, offsets, shifted, waves

State = tuple[int, int]
"""The set of boxes, and the cell of the player."""

SEARCHES = ((1, 5_000), (2, 5_000), (5, 20_000))
"""(weight of the estimate, most states to expand): for the shortest way; in large rooms for a short one, then for any."""


PROOF = 20_000
"""States to expand before a room counts as one without a proven shortest way."""
NO_LIMIT = 1 << 60
NEVER = NO_LIMIT + 1
"""Pushes that a lost box needs."""


class Plan:
    """The search for a way to solve one room. Directions are 0 to 3: up, down, left, right."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.offsets = offsets(room.columns)
        self.pushes_needed = self._pushes_needed()

    def moves(self) -> list[int]:
        """A way to solve the room; where none is found, one that brings boxes nearer, or a single step."""
        way: list[int] = []
        for weight, limit in SEARCHES:
            solved, way = self._search(weight, limit)
            if solved:
                break
        return way or [0]

    def shortest(self, at_most: int = NO_LIMIT) -> int | None:
        """The moves of a shortest way, proven by the search; None: there is none of `at_most` moves, or no proof."""
        solved, way = self._search(1, PROOF, at_most)
        return len(way) if solved else None

    def _search(self, weight: int, limit: int, at_most: int = NO_LIMIT) -> tuple[bool, list[int]]:
        """Whether the room was solved, and the way there or to the state with the least left to do.

        With weight 1 the first way found is a shortest one: a push is estimated at one move, and takes one at least.
        States from which a way must be longer than `at_most` are left out.
        """
        needed = self.pushes_needed
        start = self.room.boxes, self.room.player
        left = sum(needed.get(box, NEVER) for box in cells_of(self.room.boxes))
        if left > at_most:
            return False, []
        order = count()
        queue = [(weight * left, left, next(order), 0, start)]
        cost = {start: 0}
        came_from: dict[State, tuple[State, int, int]] = {}
        nearest = left, start
        while queue and limit:
            _, left, _, moves, state = heapq.heappop(queue)
            if moves > cost[state]:
                continue  # a shorter way to it was found meanwhile
            limit -= 1
            if left < nearest[0]:
                nearest = left, state
            if left == 0:
                break
            boxes, player = state
            for walked, stand, direction in self._pushes(boxes, player):
                box = stand + self.offsets[direction]
                to = box + self.offsets[direction]
                if to not in needed:
                    continue
                after = boxes ^ (1 << box | 1 << to), box
                moves_after, left_after = moves + walked + 1, left - needed[box] + needed[to]
                if moves_after + left_after <= at_most and moves_after < cost.get(after, NO_LIMIT):
                    cost[after] = moves_after
                    came_from[after] = state, stand, direction
                    heapq.heappush(
                        queue, (moves_after + weight * left_after, left_after, next(order), moves_after, after)
                    )
        return nearest[0] == 0, self._way_to(nearest[1], came_from)

    def _pushes(self, boxes: int, player: int) -> Iterator[tuple[int, int, int]]:
        """Every push within reach: (steps to walk before it, where to stand for it, its direction)."""
        free = self.room.floor & ~boxes
        stands = [shifted(boxes, -offset) & shifted(free, -2 * offset) for offset in self.offsets]
        for walked, wave in enumerate(waves(1 << player, free, self.room.columns)):
            for direction, stand in enumerate(stands):
                for cell in cells_of(wave & stand):
                    yield walked, cell, direction

    def _pushes_needed(self) -> dict[int, int]:
        """By cell: pushes from there to the nearest target, for every cell from which there is a way."""
        floor, needed = self.room.floor, dict.fromkeys(cells_of(self.room.targets), 0)
        frontier = list(needed)
        for to in frontier:  # grows while it is walked through: nearest cells first
            for offset in self.offsets:  # a box comes from where the player could have pulled it to
                box, stand = to + offset, to + 2 * offset
                if box not in needed and stand >= 0 and floor >> box & floor >> stand & 1:
                    needed[box] = needed[to] + 1
                    frontier.append(box)
        return needed

    def _way_to(self, state: State, came_from: Mapping[State, tuple[State, int, int]]) -> list[int]:
        pushes = []
        while state in came_from:
            state, stand, direction = came_from[state]
            pushes.append((state, stand, direction))
        way = []
        for (boxes, player), stand, direction in reversed(pushes):
            way += [*self._walk(boxes, player, stand), direction]
        return way

    def _walk(self, boxes: int, here: int, goal: int) -> Iterator[int]:
        """The directions of a shortest walk around the boxes."""
        free = self.room.floor & ~boxes
        nearer = takewhile(lambda wave: not wave >> here & 1, waves(1 << goal, free, self.room.columns))
        for wave in reversed(list(nearer)):
            direction = next(d for d, offset in enumerate(self.offsets) if wave >> here + offset & 1)
            yield direction
            here += self.offsets[direction]
