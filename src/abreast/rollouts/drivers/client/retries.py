"""How long to wait before a request is sent again."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


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
