"""A row of a benchmark: what was measured, as a ratio of what, and how far it could go."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One figure with all its repeats. `ratios` and `limits` belong to the same repeats."""

    what: str
    unit: str
    values: Sequence[float]
    ratios: Sequence[float] = ()
    of: str = ""
    """What the ratio is a multiple of."""
    limits: Sequence[float] = ()
    """What the ratio would be if nothing but the machine's own limit held, in each repeat."""

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def ratio(self) -> float | None:
        return median(self.ratios) if self.ratios else None

    @property
    def limit(self) -> float | None:
        return median(self.limits) if self.limits else None

    @property
    def share(self) -> float | None:
        """How much of what the limit allows is reached: 1 is all of it."""
        return median(quotients(self.ratios, self.limits)) if self.ratios and self.limits else None

    def facts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        medians = {"value": self.value, "ratio": self.ratio, "limit": self.limit, "share_of_limit": self.share}
        return self._asdict() | medians


def quotients(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """The ratio in each repeat."""
    return [value / other for value, other in zip(values, base, strict=True)]
