"""How long to wait before a request is sent again."""

import logging
import random
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MOST_LOGGED = 3
"""Requests that are sent again and logged, for each kind of reason; the others are counted."""

log = logging.getLogger("abreast")


class Transient(Exception):
    """A request failed in a way that may pass."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        """What the server asked to wait, if it did."""


@dataclass(frozen=True)
class Backoff:
    """Waits that double, each shortened at random by up to half, so that clients do not come back all at once."""

    first_s: float = 0.5
    longest_s: float = 30.0
    longest_asked_s: float = 600.0
    """A server that asks for more than this is asked again after this."""

    def wait_s(self, attempt: int, asked_s: float | None, rng: random.Random) -> float:
        """Seconds to wait after this attempt (0 for the first) failed."""
        own_s = min(self.first_s * 2.0 ** min(attempt, 60), self.longest_s) * rng.uniform(0.5, 1.0)
        return own_s if asked_s is None else max(min(asked_s, self.longest_asked_s), own_s)


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """The seconds that a header Retry-After asks for, which are a number or a date."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            date = parsedate_to_datetime(header)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
    return max(seconds, 0.0) if seconds < float("inf") else None


class RetryLog:
    """Logs why requests are sent again: the first few of each kind, the others as a number at the end."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def note(self, reason: str) -> None:
        """A request is sent again."""
        kind = re.sub(r"(?<!status )\b\d+", "N", reason.partition(" (")[0])
        self._counts[kind] += 1
        if self._counts[kind] <= MOST_LOGGED:
            last = " (the next ones of this kind are only counted)" if self._counts[kind] == MOST_LOGGED else ""
            log.info("a request is sent again, because %s%s", reason, last)

    def close(self) -> None:
        """Log the numbers."""
        counts, self._counts = self._counts, Counter()
        for kind, count in counts.items():
            if count > MOST_LOGGED:
                log.info("%d requests in all were sent again, because %s", count, kind)
