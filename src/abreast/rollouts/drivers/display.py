"""The live display of a rollout: episodes, success, reward, speed. Without a terminal: a few plain lines."""

import sys
import time
from datetime import timedelta
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from abreast.rollouts.drivers.policies.base import Counts
from abreast.rollouts.drivers.results import SESSION, Results

PLAIN_LINES = 10
"""Lines printed over a whole rollout where the output is not a terminal."""


class RolloutDisplay:
    """Shows turns and episodes as they are taken. Success, reward and score are those of `results`, of the whole run; speed,
    requests and tokens are of this session.
    """

    def __init__(self, episodes: int, results: Results, counts: Counts | None = None, is_silent: bool = False) -> None:
        self._episodes, self._results, self._counts = episodes, results, counts
        self._label = SESSION if results.before else ""
        self._turns, self._elapsed_s, self._started = 0, 0.0, time.perf_counter()
        self._console = console = Console(file=sys.stderr, quiet=is_silent)
        is_live = console.is_terminal and not is_silent
        self._live = Live(console=console, refresh_per_second=8, get_renderable=self._table) if is_live else None

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

    def ended(self) -> None:
        """Show that an episode is over, which `results` has counted."""
        over, episodes = self._results.episodes, self._episodes
        is_due = over * PLAIN_LINES // episodes > (over - 1) * PLAIN_LINES // episodes
        if self._live is None and is_due:
            line = f"episodes {over:,}/{episodes:,}  {'  '.join([*self._means(), *self._speed()])}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _table(self) -> RenderableType:
        over = self._results.episodes
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(self._episodes, over, width=20, finished_style="bar.complete")
        table.add_row("episodes", f"{over:,} of {self._episodes:,}", bar, *self._speed())
        if over:
            table.add_row("so far", *self._means())
        if self._counts is not None:
            asked = f"{self._counts.requests:,} requests, {self._counts.retries:,} again"
            tokens = f"tokens: {self._counts.tokens.prompt:,} in, {self._counts.tokens.completion:,} out"
            table.add_row(f"server{self._label}", asked, tokens)
        return table

    def _means(self) -> list[str]:
        mean = self._results.mean
        return [f"success {mean('success'):.0%}", f"reward {mean('reward'):.2f}", f"score {mean('score'):.2f}"]

    def _speed(self) -> list[str]:
        speed, done = [f"{self.turns_per_s:,.0f} turns/s{self._label}"], len(self._results.tallies)
        if done:
            left = self._elapsed_s / done * (self._episodes - self._results.episodes)
            speed.append(f"{timedelta(seconds=round(left))} left")
        return speed
