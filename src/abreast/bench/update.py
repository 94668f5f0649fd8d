"""How near to its products is an update? Everything else it does is overhead.

The floor is every matrix product of an update of the reference learner, with the same shapes, one after the other into
memory that is there, by one thread. All take turns, and the medians are compared.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from abreast.bench.products import computing, flop, products_of_update
from abreast.bench.reference import learner
from abreast.bench.rows import Row, quotients
from abreast.bench.turns import in_turns, median_seconds
from abreast.training.devices import compute_threads

BAR = 1.3
KINDS: dict[str, dict[str, object]] = {
    "update": {},
    "update, bf16": {"precision": "bf16"},
    "update, 12 choosing quantiles": {"choosing_quantiles": 12},
}
"""Settings of each. The bar is that of the first."""


@dataclass(frozen=True)
class Size:
    """How often it is measured."""

    repeats: int
    calls: int
    """Updates of a repeat, whose median counts."""
    hidden: int = 250


SMALL, FULL = Size(5, 5), Size(15, 10)


def measure(size: Size) -> Iterator[Row]:
    """Updates of several kinds, and their products."""
    width = {"hidden_size": size.hidden}
    models = {name: learner({**width, **settings}) for name, settings in KINDS.items()}
    shapes = products_of_update(models["update"])
    kinds: dict[str, Callable[[], object]] = {"products": computing(shapes)}
    kinds |= {name: model.train_step for name, model in models.items()}
    with compute_threads(1):
        seconds = in_turns(
            {name: partial(median_seconds, run, size.calls) for name, run in kinds.items()}, size.repeats
        )
    yield from rows(seconds, f"products of an update ({flop(shapes) / 1e6:.0f} MFLOP)")


def rows(seconds: dict[str, list[float]], what: str) -> Iterator[Row]:
    """The rows of times."""
    floor = seconds["products"]
    yield Row(what, "ms", [each * 1e3 for each in floor])
    for name in KINDS:
        bar = BAR if name == "update" else None
        values, ratios = [each * 1e3 for each in seconds[name]], quotients(seconds[name], floor)
        limits = [1.0] if name == "update" else []
        yield Row(name, "ms", values, ratios, "its products", limits, "less", bar)
