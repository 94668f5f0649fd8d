"""Making rooms.

    carve ──> place ──> pull apart ──> of all arrangements found, the one with the most box swaps × box displacement

A random walk carves the floor; player and targets are put down, a box on every target. From there the search goes
backwards: the player pulls boxes instead of pushing them. What was pulled can be pushed back, so every room can be
solved. A room in which no arrangement has all boxes off the targets is given up, and another one begun from the next
derived seed; so is one whose shortest solution is too short or too long, where there are limits (`Lengths`).
"""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from abreast.errors import RolloutError
from abreast.rollouts.envs.sokoban.grid import Room, cells_of, distance, offsets, reachable, set_of
from abreast.rollouts.envs.sokoban.plan import Plan

WALK_PER_SIDE = 1.7
"""Steps of the carving walk for each row and each column."""
TURN_CHANCE = 0.35
BRUSHES = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((-1, 0), (0, 0), (0, 1)),
    ((0, 0), (0, 1), (1, 0), (1, 1)),
)
"""What a step of the walk carves, as (row, column) from where it stands: a bar, a pillar, two elbows, a square."""

EFFORT = 200_000
"""Arrangements looked at in all attempts together before a room is given up: a few seconds."""
SOFT_EFFORT = 10_000
"""The same, before lengths that are only preferred are no longer looked at: a tenth of a second."""
CARVING = 10
"""What an attempt costs beside its search, in arrangements."""
MAX_STATES = 3000
"""Arrangements looked at in one room: all there are in a small room, the most promising ones in a large one."""
MOST_BOXES = 8
"""With more, the search runs out before it has moved them all."""
BEAM = 50
"""Arrangements that each round of pulls goes on from. With fewer, the search makes long detours, not hard rooms."""
SHORTER, ALIKE = 12, 3
"""Arrangements of one room that are tried where there is a limit of moves, and of those with the same number of pulls."""


def most_boxes(rows: int, columns: int) -> int:
    """The largest number of boxes for which rooms of this size are found without long trying."""
    if max(rows, columns) < 5:
        return 0  # a pull takes three cells in line: the box, the player, and where the player goes
    by_space = (rows - 2) * (columns - 2) // 3
    by_width = 2 * (min(rows, columns) - 2)  # in a corridor nobody gets past a box, in a narrow room few do
    by_walk = 2 * (rows + columns) // 5  # what the walk carves grows with the sides of a room, not with its space
    return min(by_space, by_width, by_walk, MOST_BOXES)


class Lengths(NamedTuple):
    """Which rooms are taken, by the moves of their shortest solution."""

    least: int = 1
    most: int | None = None
    tries: int | None = None
    """Rooms to draw; none: as many as `EFFORT` allows."""
    is_strict: bool = False
    """Whether it is an error if none is found; otherwise the first room found is taken then."""

    def fit(self, room: Room) -> bool:
        """Whether the room is one of them."""
        if self.most is None:  # no solution has fewer moves than there are boxes
            return self.least <= room.boxes.bit_count() or Plan(room).shortest(self.least - 1) is None
        shortest = Plan(room).shortest(self.most)
        return shortest is not None and shortest >= self.least


ANY_LENGTH = Lengths()


def make_room(
    rows: int, columns: int, num_boxes: int, search_depth: int, seed: int, lengths: Lengths = ANY_LENGTH
) -> Room:
    """The room of this seed: it can be solved, no box is on a target, and its solution is neither too short nor too long."""
    attempt = effort = drawn = 0
    first: Room | None = None
    while effort < EFFORT and drawn != lengths.tries:
        if effort >= SOFT_EFFORT and not lengths.is_strict:
            if first is not None:
                break
            lengths = ANY_LENGTH  # so that there is a room at all
        rng = np.random.default_rng([seed, attempt])
        attempt += 1
        effort += CARVING
        floor = carve(rng, rows, columns)
        places = list(cells_of(floor))
        if len(places) < 2 * num_boxes:
            continue  # too few to have a cell for every target and another one for every box
        player, *targets = (places[i] for i in rng.choice(len(places), num_boxes + 1, replace=False).tolist())
        search = BackwardSearch(floor, targets, columns)
        tried = 1 if lengths.most is None else SHORTER
        for best in islice(search.best_first(player, search_depth, lengths.most), tried):
            room = Room(rows, columns, floor, set_of(targets), set_of(best.boxes), best.player)
            if lengths.fit(room):
                return room
            first = first or room
        drawn += bool(search.found)
        effort += len(search.seen)
    if first is not None and not lengths.is_strict:
        return first
    raise no_room(rows, columns, num_boxes, search_depth, attempt, lengths)


def no_room(rows: int, columns: int, boxes: int, search_depth: int, attempts: int, lengths: Lengths) -> RolloutError:
    """What to say when no room was found."""
    return RolloutError(
        f"no room of {rows} by {columns} with {boxes} boxes and a solution of {lengths.least} to "
        f"{lengths.most or 'any number of'} moves and search_depth {search_depth} was found in {attempts} attempts: take "
        "fewer boxes, a larger room or a larger search_depth, or widen min_moves and max_moves."
    )


def carve(rng: np.random.Generator, rows: int, columns: int) -> int:
    """The floor a random walk leaves behind; all of it hangs together, and the border stays wall."""
    steps = int(WALK_PER_SIDE * (rows + columns))
    turns = (rng.random(steps) < TURN_CHANCE).tolist()
    new_headings = rng.integers(1, 4, size=steps).tolist()
    brushes = rng.integers(len(BRUSHES), size=steps).tolist()
    row, column, heading = int(rng.integers(1, rows - 1)), int(rng.integers(1, columns - 1)), int(rng.integers(4))
    floor = 0
    for turn, new_heading, brush in zip(turns, new_headings, brushes, strict=True):
        if turn:
            heading = (heading + new_heading) % 4
        down, right = ((-1, 0), (0, 1), (1, 0), (0, -1))[heading]
        row, column = min(max(row + down, 1), rows - 2), min(max(column + right, 1), columns - 2)
        for y, x in BRUSHES[brush]:
            if 0 < row + y < rows - 1 and 0 < column + x < columns - 1:
                floor |= 1 << (row + y) * columns + column + x
    return floor


class Arrangement(NamedTuple):
    """One state of the search; the boxes stand in the order of their own targets."""

    score: int
    """Box swaps × box displacement."""
    boxes: tuple[int, ...]
    player: int
    region: int
    """All cells the player can walk to."""
    free: int
    """All cells without a wall or a box."""
    pulled: int
    """Which box was pulled last."""
    swaps: int
    """How often another box was pulled than just before; the very first pull counts."""
    displacement: int
    """The distances of all boxes from their own targets, counted along rows and columns."""
    pulls: int
    """How many pulls led to it: as many pushes solve it."""


class BackwardSearch:
    """Pulls boxes away from their targets, round by round, and remembers the best arrangement."""

    def __init__(self, floor: int, targets: list[int], columns: int) -> None:
        self.floor, self.targets, self.columns = floor, targets, columns
        cells = list(cells_of(floor))
        self.pulls = {cell: list(self._pulls(cell)) for cell in cells}
        self.distances = [{cell: distance(cell, target, columns) for cell in cells} for target in targets]
        self.seen: set[tuple[tuple[int, ...], int]] = set()
        self.found: list[Arrangement] = []
        """Arrangements with all boxes off the targets."""

    def best_first(self, player: int, depth: int, most_moves: int | None = None) -> Iterator[Arrangement]:
        """Arrangements after at most `depth` pulls, those with the highest scores first; none if some box cannot leave.

        Of those with the same number of pulls, which mostly have solutions of the same length, there are only a few.
        """
        self.found = self._all_off_targets(player, min(depth, most_moves or depth))
        offered: Counter[int] = Counter()
        for each in sorted(self.found, key=itemgetter(0), reverse=True):
            if offered[each.pulls] < ALIKE:
                offered[each.pulls] += 1
                yield each

    def _all_off_targets(self, player: int, depth: int) -> list[Arrangement]:
        """Every arrangement found with all boxes off the targets, in the order they were found."""
        targets = set_of(self.targets)
        free = self.floor & ~targets
        region = reachable(1 << player, free, self.columns)
        boxes = tuple(self.targets)
        start = Arrangement(0, boxes, player, region, free, pulled=-1, swaps=0, displacement=0, pulls=0)
        self.seen = {(boxes, region)}
        layer, all_off = [start], []
        for _ in range(depth):
            found = [after for state in layer for after in self._unseen_after(state)]
            all_off += [after for after in found if after.score and after.free & targets == targets]
            if not found or len(self.seen) > MAX_STATES:
                break
            # Left targets before score: else the search pulls a few boxes far and never gets round to the others.
            found.sort(key=lambda after: ((after.free & targets).bit_count(), after.score), reverse=True)
            layer = found[:BEAM]
        return all_off

    def _unseen_after(self, state: Arrangement) -> Iterator[Arrangement]:
        """The arrangements one pull away; from now on they count as seen."""
        seen = self.seen
        _, boxes, _, region, free, pulled, swaps_before, displacement_before, pulls = state
        for number, box in enumerate(boxes):
            distances = self.distances[number]
            for needed, to, player in self.pulls[box]:
                if region & needed != needed:
                    continue
                free_after = free ^ (1 << box | 1 << to)
                boxes_after = (*boxes[:number], to, *boxes[number + 1 :])
                region_after = reachable(1 << player, free_after, self.columns)
                if (boxes_after, region_after) in seen:
                    continue
                seen.add((boxes_after, region_after))
                swaps = swaps_before + (number != pulled)
                moved = displacement_before - distances[box] + distances[to]
                yield Arrangement(
                    swaps * moved, boxes_after, player, region_after, free_after, number, swaps, moved, pulls + 1
                )

    def _pulls(self, box: int) -> Iterator[tuple[int, int, int]]:
        """Every way to pull a box: the two cells that the player needs, the one it stands on and the one it goes to."""
        for offset in offsets(self.columns):
            stand, goal = box + offset, box + 2 * offset
            if goal >= 0 and self.floor >> stand & self.floor >> goal & 1:
                yield 1 << stand | 1 << goal, stand, goal
