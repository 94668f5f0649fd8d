"""The live display of a rollout: episodes, success, reward, speed. Without a terminal: a few plain lines."""

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from abreast.rollouts.drivers.play import Played

PLAIN_LINES = 10
"""Lines printed over a whole rollout where the output is not a terminal."""


class RolloutDisplay:
    """Shows each batch of turns as it is taken."""

    def __init__(self, episodes: int) -> None:
        self._episodes = episodes
        self._turns = self._done = self._successes = self._lines = 0
        self._reward = self._elapsed_s = 0.0
        self._console = Console(file=sys.stderr)
        self._live = Live(console=self._console, refresh_per_second=8) if self._console.is_terminal else None

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
        """Turns per second up to the last batch, all time included."""
        return self._turns / self._elapsed_s if self._elapsed_s else 0.0

    def show(self, turns: int, ended: Sequence[Played]) -> None:
        """Count a batch of turns, and the episodes that ended with it."""
        self._turns += turns
        self._elapsed_s = time.perf_counter() - self._started
        self._done += len(ended)
        self._successes += sum(played.tally.success for played in ended)
        self._reward += sum(played.tally.reward for played in ended)
        if self._live is not None:
            self._live.update(self._table())
        elif ended and self._done * PLAIN_LINES // self._episodes > self._lines:
            self._lines = self._done * PLAIN_LINES // self._episodes
            line = f"episodes {self._done:,}/{self._episodes:,}  {'  '.join([*self._results(), *self._speed()])}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(self._episodes, self._done, width=20, finished_style="bar.complete")
        table.add_row("episodes", f"{self._done:,} of {self._episodes:,}", bar, *self._speed())
        if self._done:
            table.add_row("so far", *self._results())
        return table

    def _results(self) -> list[str]:
        return [f"success {self._successes / self._done:.0%}", f"reward {self._reward / self._done:.2f}"]

    def _speed(self) -> list[str]:
        speed = [f"{self.turns_per_s:,.0f} turns/s"]
        if self._done:
            left = timedelta(seconds=round(self._elapsed_s / self._done * (self._episodes - self._done)))
            speed.append(f"{left} left")
        return speed
