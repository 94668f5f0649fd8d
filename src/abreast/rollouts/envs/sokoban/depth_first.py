"""Rooms as gym-sokoban makes them and RAGEN plays them: the same seed gives the same room as theirs.

    carve ──> place ──> depth-first search over single moves backwards ──> the player walks up to three steps away

Random numbers are drawn from the same two generators in the same order: Python's for the walks, numpy's older one for
places. A seed whose rooms all fail is replaced; theirs goes on with `hash` of a text, which differs in every process, so
from there on rooms are our own.
"""

import random
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from abreast.rollouts.envs.sokoban.grid import Room, cells_of, distance, offsets, set_of
from abreast.rollouts.envs.sokoban.rooms import ANY_LENGTH, TURN_CHANCE, WALK_PER_SIDE, Lengths, no_room

HEADINGS = ((1, 0), (0, 1), (-1, 0), (0, -1))
MASKS = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, 0)),
    ((0, -1), (0, 0), (1, -1), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
)
"""What a step of the walk carves, as (row, column) from where it stands."""
ROOMS_PER_SEED = 4
MOST_STATES = 300_000
MOST_SEEDS = 1000
STEPS_AWAY = 3
"""Steps the player walks at most before the episode begins."""


def make_room_by_moves(
    rows: int, columns: int, num_boxes: int, search_depth: int, seed: int, lengths: Lengths = ANY_LENGTH
) -> Room:
    """The room of this seed; rooms that do not fit `lengths` are replaced like those that fail."""
    first: Room | None = None
    tries = min(lengths.tries or MOST_SEEDS, MOST_SEEDS)
    for attempt in range(MOST_SEEDS):
        room = _room_of_seed(rows, columns, num_boxes, search_depth, seed)
        if room is not None and lengths.fit(room):
            return room
        first = first or room
        if attempt + 1 >= tries and (first is not None or lengths.is_strict):
            break
        seed = int.from_bytes(blake2b(str(seed).encode(), digest_size=4).digest())
    if first is not None and not lengths.is_strict:
        return first
    raise no_room(rows, columns, num_boxes, search_depth, attempt + 1, lengths)


def _room_of_seed(rows: int, columns: int, num_boxes: int, depth: int, seed: int) -> Room | None:
    rng, places_rng = random.Random(seed), np.random.RandomState(seed % 2**32)
    for _ in range(ROOMS_PER_SEED):
        floor = _carve(rng, rows, columns)
        free = list(cells_of(floor))
        if len(free) <= num_boxes + 1:
            return None
        player = free.pop(places_rng.randint(len(free)))
        targets = sorted(free.pop(places_rng.randint(len(free))) for _ in range(num_boxes))
        best = _search(floor, targets, player, columns, depth)
        if best is not None and best.displacement:
            boxes = set_of(best.boxes)
            here = _walk_away(rng, floor & ~boxes, best, columns)
            return Room(rows, columns, floor, set_of(targets), boxes, here)
    return None


def _carve(rng: random.Random, rows: int, columns: int) -> int:
    heading = rng.choice(HEADINGS)
    row, column = rng.randint(1, rows - 1), rng.randint(1, columns - 1)
    floor = 0
    for _ in range(int(WALK_PER_SIDE * (rows + columns))):
        if rng.random() < TURN_CHANCE:
            heading = rng.choice(HEADINGS)
        row = min(max(row + heading[0], 1), rows - 2)
        column = min(max(column + heading[1], 1), columns - 2)
        for down, right in rng.choice(MASKS):
            if 0 < row + down < rows - 1 and 0 < column + right < columns - 1:
                floor |= 1 << (row + down) * columns + column + right
    return floor


class _State(NamedTuple):
    """One state of the search; the boxes stand in the order of their own targets."""

    player: int
    boxes: tuple[int, ...]
    pulled: int
    """The set of cells with boxes that have been pulled: theirs tells them from those that have not."""
    last: int
    """Which box was pulled last."""
    swaps: int
    moves: int
    displacement: int = 0


def _search(floor: int, targets: list[int], player: int, columns: int, depth: int) -> _State | None:
    """The state with the highest score (box swaps × box displacement) with nothing on a target, the first of equals."""
    target_set = set_of(targets)
    best: _State | None = None
    best_score = -1
    seen: set[tuple[int, int, int]] = set()
    stack = [_State(player, tuple(targets), 0, -1, 0, 0)]
    while stack:
        state = stack.pop()
        boxes = set_of(state.boxes)
        key = state.player, boxes, state.pulled
        if state.moves >= depth - 1 or len(seen) >= MOST_STATES or key in seen:
            continue
        seen.add(key)
        is_off = not (boxes | 1 << state.player) & target_set
        score = state.swaps * state.displacement if is_off else 0
        if score > best_score:
            best, best_score = state, score
        free = floor & ~boxes
        for offset in reversed(offsets(columns)):  # the last one in is the first one out
            there, behind = state.player + offset, state.player - offset
            if not free >> there & 1:
                continue
            if boxes >> behind & 1:
                stack.append(_after_pull(state, behind, there, targets, columns))
            else:
                stack.append(state._replace(player=there, moves=state.moves + 1))
    return best


def _after_pull(state: _State, box: int, there: int, targets: list[int], columns: int) -> _State:
    """The player has gone to `there`, and the box behind has followed to where the player was."""
    number = state.boxes.index(box)
    boxes = (*state.boxes[:number], state.player, *state.boxes[number + 1 :])
    return _State(
        there,
        boxes,
        state.pulled & ~(1 << box) | 1 << state.player,
        number,
        state.swaps + (number != state.last),
        state.moves + 1,
        sum(distance(box, target, columns) for box, target in zip(boxes, targets, strict=True)),
    )


def _walk_away(rng: random.Random, free: int, start: _State, columns: int) -> int:
    """Where the player stands after a short random walk, so that it is not always beside the box it pulled last."""
    if rng.random() > (0.8 if start.displacement == 1 else 0.5):
        return start.player
    visited = [start.player]
    for step in range(STEPS_AWAY):
        here = visited[-1]
        ways = [
            here + offset for offset in offsets(columns) if free >> here + offset & 1 and here + offset not in visited
        ]
        if not ways:
            break
        visited.append(rng.choice(ways))
        if step + 1 == STEPS_AWAY or rng.random() > 0.5:
            break
    return visited[-1]
