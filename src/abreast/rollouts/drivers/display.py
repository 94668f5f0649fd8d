"""The live display of a rollout: episodes, success, reward, speed. Without a terminal: a few plain lines."""

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType

import numpy as np
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from abreast.rollouts.drivers.policies.base import Counts
from abreast.rollouts.drivers.results import SESSION, Result

PLAIN_LINES = 10
"""Lines printed over a whole rollout where the output is not a terminal."""


class RolloutDisplay:
    """Shows turns and episodes as they are taken. `before`: episodes that a resumed rollout already has.

    Episodes, success, reward and score are of the whole run; speed, requests and tokens are of this session.
    """

    def __init__(
        self, episodes: int, before: Sequence[Result] = (), counts: Counts | None = None, is_silent: bool = False
    ) -> None:
        self._episodes, self._counts = episodes, counts
        self._before = self._over = len(before)
        self._sums = np.sum([(0, 0, 0), *map(_shown, before)], axis=0, dtype=float)
        self._label = SESSION if before else ""
        self._turns, self._elapsed_s, self._started = 0, 0.0, time.perf_counter()
        console = Console(file=sys.stderr, quiet=is_silent)
        is_live = console.is_terminal and not is_silent
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._table) if is_live else None
        self._console = console

    def __enter__(self) -> "RolloutDisplay":
        self._started = time.perf_counter()
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def turns_per_s(self) -> float:
        """Turns per second up to the last one, all time included."""
        return self._turns / self._elapsed_s if self._elapsed_s else 0.0

    def turn(self) -> None:
        """Count a turn."""
        self._turns += 1
        self._elapsed_s = time.perf_counter() - self._started

    def ended(self, result: Result) -> None:
        """Count an episode that is over."""
        self._over += 1
        self._sums += _shown(result)
        is_due = self._over * PLAIN_LINES // self._episodes > (self._over - 1) * PLAIN_LINES // self._episodes
        if self._live is None and is_due:
            line = f"episodes {self._over:,}/{self._episodes:,}  {'  '.join([*self._means(), *self._speed()])}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _table(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(self._episodes, self._over, width=20, finished_style="bar.complete")
        table.add_row("episodes", f"{self._over:,} of {self._episodes:,}", bar, *self._speed())
        if self._over:
            table.add_row("so far", *self._means())
        if self._counts is not None:
            asked = f"{self._counts.requests:,} requests, {self._counts.retries:,} again"
            tokens = f"tokens: {self._counts.tokens.prompt:,} in, {self._counts.tokens.completion:,} out"
            table.add_row(f"server{self._label}", asked, tokens)
        return table

    def _means(self) -> list[str]:
        success, reward, score = self._sums / self._over
        return [f"success {success:.0%}", f"reward {reward:.2f}", f"score {score:.2f}"]

    def _speed(self) -> list[str]:
        speed, done = [f"{self.turns_per_s:,.0f} turns/s{self._label}"], self._over - self._before
        if done:
            left = self._elapsed_s / done * (self._episodes - self._over)
            speed.append(f"{timedelta(seconds=round(left))} left")
        return speed


def _shown(result: Result) -> tuple[float, float, float]:
    return result.tally.success, result.tally.reward, result.score
