"""How long the shortest solutions of Sokoban rooms are, for every tag that ships, and what making a room costs.

    python benchmarks/sokoban_rooms.py [--seeds 2000] [--json FILE]

Each room is solved by A* over pushes, which proves that no shorter solution exists. Seeds are those of the first groups in
training. Rooms as RAGEN makes them (`preset: ragen`) are measured with the budgets of its tags.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from abreast.rollouts import find_tag
from abreast.rollouts.config import SeedConfig, TagConfig, shipped_tags
from abreast.rollouts.envs.sokoban.board import read_room
from abreast.rollouts.envs.sokoban.plan import Plan
from abreast.rollouts.registry import Tag

SEEDS = 2000
LONGEST = 100
"""Solutions beyond it are not looked for."""
RAGEN_SETTINGS = {
    "SimpleSokoban": {"dim_x": 6, "dim_y": 6, "num_boxes": 1, "max_steps": 100},
    "LargerSokoban": {"dim_x": 8, "dim_y": 8, "num_boxes": 2, "max_steps": 100, "search_depth": 10},
}
"""Settings of RAGEN's tags, all with a budget of 10 actions, used here without its preset."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="rooms of each tag")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    print(f"{'rooms':34}  one move  beyond budget  unproven  median  longest  ms a room")
    figures = {}
    for name, tag in tags():
        found = figures[name] = measure(tag, args.seeds)
        print(
            f"{name:34} {found['one_move']:9.1%} {found['beyond_budget']:14.1%} {found['unproven']:9} {found['median']:7.0f}"
            f" {found['longest']:8} {found['ms']:10.2f}"
        )
    if args.json:
        args.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def tags() -> Iterator[tuple[str, Tag]]:
    """Every tag to measure, with what it is called in the table."""
    for preset in (None, "ragen"):
        for name, settings in shipped_tags(preset).items():
            if settings.env_type == "sokoban" and (preset is None or name in RAGEN_SETTINGS):
                yield f"{name}{', preset ragen' if preset else ''}", find_tag(name, {}, preset=preset)
    for name, settings in RAGEN_SETTINGS.items():
        own = TagConfig(env_type="sokoban", max_actions_per_traj=10, env_config=settings)
        yield f"{name} of RAGEN, no preset", find_tag(name, {name: own})


def measure(tag: Tag, seeds: int) -> dict[str, Any]:
    """Shares of rooms by the length of their shortest solution, and the time a room takes to make."""
    config = tag.config.model_copy(update={"render_mode": "text", "observation_format": "grid"})
    env, first = tag.kind.env(config), SeedConfig().train
    env.reset(seed=first)
    started = time.process_time()
    texts = [env.reset(seed=first + number)[0] for number in range(seeds)]
    seconds = time.process_time() - started
    lengths = [Plan(read_room(config, text)).shortest(LONGEST) for text in texts]  # type: ignore[arg-type]
    known = [length for length in lengths if length is not None]
    return {
        "budget": tag.budget,
        "rooms": seeds,
        "one_move": known.count(1) / seeds,
        "beyond_budget": sum(length is None or length > tag.budget for length in lengths) / seeds,
        "unproven": seeds - len(known),
        "median": float(np.median(known)),
        "longest": max(known),
        "ms": 1000 * seconds / seeds,
    }


if __name__ == "__main__":
    main()
