"""A row of a benchmark: what was measured, as a ratio of what, and how far it could go."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    """One figure with all its repeats. `ratios` and `limits` belong to the same repeats."""

    what: str
    unit: str
    values: Sequence[float]
    ratios: Sequence[float] = ()
    of: str = ""
    """What the ratio is a multiple of."""
    limits: Sequence[float] = ()
    """What the ratio would be if nothing but the machine's own limit held, in each repeat or once for all of them."""
    better: Literal["more", "less"] = "more"
    """Whether a high ratio is good or a low one."""
    bar: float | None = None
    """What the ratio should be at least (or at most, where less is better)."""
    bar_of: Literal["ratio", "share"] = "ratio"
    """What the bar is for: the ratio, or its share of the limit."""

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
        if not self.ratios or not self.limits:
            return None
        limits = self.limits if len(self.limits) > 1 else [self.limits[0]] * len(self.ratios)
        shares = [ratio / limit for ratio, limit in zip(self.ratios, limits, strict=True)]
        return median(shares if self.better == "more" else [1 / share for share in shares])

    @property
    def verdict(self) -> Literal["reached", "missed"] | None:
        """Whether the bar is reached, if there is one."""
        found = self.ratio if self.bar_of == "ratio" else self.share
        if self.bar is None or found is None:
            return None
        more = self.better == "more" or self.bar_of == "share"
        return "reached" if (found >= self.bar if more else found <= self.bar) else "missed"

    def facts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "what": self.what,
            "unit": self.unit,
            "value": self.value,
            "values": list(self.values),
            "ratio": self.ratio,
            "ratios": list(self.ratios),
            "of": self.of or None,
            "limit": self.limit,
            "limits": list(self.limits),
            "share_of_limit": self.share,
            "better": self.better,
            "bar": self.bar,
            "bar_of": self.bar_of if self.bar is not None else None,
            "verdict": self.verdict,
        }


def quotients(values: Sequence[float], base: Sequence[float]) -> list[float]:
    """The ratio in each repeat."""
    return [value / other for value, other in zip(values, base, strict=True)]
