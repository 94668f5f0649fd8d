"""Does a turn cost what changes, or the cells that exist? `take_turn` on a 200x200 map against a 20x20 one.

    python benchmarks/map_size.py

Both maps have 5 random agents and the same number of changing entities: the same expected number of items appears in a
turn of treasure hunt, and the same number of animals wanders in stag hunt. The bar: at most 2 times the cost.
"""

import time
from statistics import median

from abreast.games import find_game
from abreast.training import Environment

BAR = 2.0
SIZES = (20, 200)


def build(game: str, size: int) -> Environment:
    """A game on a map of `size` x `size` cells."""
    overrides = ["model.algorithm=random", "experiment.num_agents=5"]
    overrides += [f"world.height={size}", f"world.width={size}"]
    if game == "treasurehunt":
        overrides.append(f"world.spawn_prob={4 / (size - 2) ** 2}")
    else:
        overrides += ["world.stags=20", "world.hares=20"]
    found = find_game(game)
    return found.build(found.configure(None, overrides))


def seconds_a_turn(env: Environment, turns: int) -> float:
    """The mean over some turns of a fresh epoch."""
    env.reset()
    started = time.perf_counter()
    for _ in range(turns):
        env.take_turn()
    return (time.perf_counter() - started) / turns


def main() -> None:
    for game in ("treasurehunt", "staghunt"):
        small, large = (build(game, size) for size in SIZES)
        ratios, costs = [], []
        for _ in range(15):  # one after the other, so that a slow moment of the machine hits both
            a, b = seconds_a_turn(small, 200), seconds_a_turn(large, 200)
            ratios.append(b / a)
            costs.append((a, b))
        a, b = (median(cost[i] for cost in costs) * 1e6 for i in (0, 1))
        verdict = "reached" if median(ratios) <= BAR else "MISSED"
        print(f"{game}: {a:.0f} us a turn on {SIZES[0]}x{SIZES[0]}, {b:.0f} us on {SIZES[1]}x{SIZES[1]}:"
              f" {median(ratios):.2f} times (bar {BAR:g}: {verdict})")  # fmt: skip


if __name__ == "__main__":
    main()
