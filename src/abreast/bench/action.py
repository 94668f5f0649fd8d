"""How near to its products is an agent-step of play? With world and memory, by the number of lanes that choose together.

Choices at random (epsilon of them) need no product. What is left beside the products of the others is the world, the
memory and a dozen calls into torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from abreast.bench.products import computing, products_of_choice
from abreast.bench.reference import AGENTS, TURNS, build
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, median_seconds, seconds_of
from abreast.models.iqn import IQN
from abreast.models.lane_streams import LANES_TOGETHER
from abreast.training.collect import collect_pass
from abreast.training.devices import compute_threads


@dataclass(frozen=True)
class Size:
    """What is measured, and how often."""

    repeats: int
    lanes: tuple[int, ...]
    epsilons: tuple[float, ...]
    turns: int = TURNS
    hidden: int = 250


SMALL, FULL = Size(3, (1, 8, 16), (0.6, 0.01)), Size(9, (1, 8, 16, 32), (0.6, 0.01))


def measure(size: Size) -> Iterator[Row]:
    """Passes of play without learning."""
    with compute_threads(1):
        for lanes in size.lanes:
            env = build(lanes, lanes, turns=size.turns, model={"hidden_size": size.hidden})
            env.make_lanes()
            model = env.agents[0].model
            assert isinstance(model, IQN)
            together = min(lanes, LANES_TOGETHER)
            products = computing(products_of_choice(model, together))
            play = partial(collect_pass, env.game, 0, lanes)
            variants = {"products": partial(median_seconds, products, 50), "play": partial(seconds_of, play)}
            for epsilon in size.epsilons:
                for agent in env.agents:
                    agent.model.epsilon = epsilon
                in_turns(variants, 1)
                seconds = in_turns(variants, size.repeats)
                steps = [each / (lanes * AGENTS * size.turns) for each in seconds["play"]]
                floors = [(1 - epsilon) * each / together for each in seconds["products"]]
                yield row(f"{lanes} lane{'' if lanes == 1 else 's'}, epsilon {epsilon:g}", steps, floors)


def row(what: str, steps: list[float], floors: list[float]) -> Row:
    """The row of an agent-step and its products."""
    return Row(
        what,
        "µs an agent-step",
        [each * 1e6 for each in steps],
        quotients(steps, floors),
        "its products",
        [1.0],
        "less",
    )
