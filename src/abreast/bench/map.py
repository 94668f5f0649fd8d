"""Does a turn cost what changes, or the cells that exist? `take_turn` on a 200x200 map against a 20x20 one.

Both maps have 5 random agents and the same number of changing entities: the same expected number of items appears in a
turn of treasure hunt, and the same number of animals wanders in stag hunt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, seconds_of
from abreast.games import find_game
from abreast.training import Environment

BAR = 2.0


@dataclass(frozen=True)
class Size:
    """What is measured, and how often."""

    repeats: int
    turns: int
    small: int = 20
    large: int = 200


SMALL, FULL = Size(7, 100), Size(15, 200)


def build(game: str, size: int) -> Environment:
    """A game on a map of `size` x `size` cells."""
    overrides = ["model.algorithm=random", "experiment.num_agents=5"]
    overrides += [f"world.height={size}", f"world.width={size}"]
    if game == "treasurehunt":
        overrides.append(f"world.spawn_prob={4 / (size - 2) ** 2}")
    else:
        overrides += ["world.stags=20", "world.hares=20"]
    found = find_game(game)
    env = found.build(found.configure(None, overrides))
    assert isinstance(env, Environment)
    return env


def seconds_a_turn(env: Environment, turns: int) -> float:
    """The mean over some turns of a fresh epoch."""
    env.reset()
    return seconds_of(env.take_turn, turns)


def measure(size: Size) -> Iterator[Row]:
    """Two games, each on two maps in turns."""
    for game in ("treasurehunt", "staghunt"):
        maps = {
            f"{each}x{each}": partial(seconds_a_turn, build(game, each), size.turns)
            for each in (size.small, size.large)
        }
        seconds = in_turns(maps, size.repeats)
        small, large = seconds
        yield Row(f"{game}, {small}", "µs a turn", [each * 1e6 for each in seconds[small]])
        ratios = quotients(seconds[large], seconds[small])
        yield Row(
            f"{game}, {large}", "µs a turn", [each * 1e6 for each in seconds[large]], ratios, small, (), "less", BAR
        )
