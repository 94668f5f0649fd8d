"""Requests that fail in a way that may pass, and how long to wait before they are sent again."""

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_S, LONGEST_S = 0.5, 30.0
LONGEST_ASKED_S = 600.0
"""A server that asks for more than this is asked again after this."""


class Transient(Exception):
    """A request failed in a way that may pass. `said` are the words of the server or of a library, as they came."""

    def __init__(self, reason: str, said: str = "", wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.said, self.wait_s = reason, said, wait_s


def wait_s(attempt: int, asked_s: float | None, rng: random.Random) -> float:
    """Seconds to wait after this attempt (0 for the first) failed.

    Waits double, each shortened at random by up to half, so that clients do not come back all at once.
    """
    own_s = min(FIRST_S * 2.0 ** min(attempt, 60), LONGEST_S) * rng.uniform(0.5, 1.0)
    return own_s if asked_s is None else max(min(asked_s, LONGEST_ASKED_S), own_s)


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """The seconds that a header Retry-After asks for, which are a number or a date."""
    try:
        seconds = float(header or "")
    except ValueError:
        try:
            date = parsedate_to_datetime(header or "")
            seconds = (date.replace(tzinfo=date.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if seconds < float("inf") else None
