"""The live display of a rollout: episodes, success, reward, speed. Without a terminal: a few plain lines."""

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from abreast.rollouts.drivers.policies.base import Counts, Played
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
        self._episodes, self._before, self._counts, self._is_silent = episodes, len(before), counts, is_silent
        self._turns = self._done = self._lines = 0
        self._successes = sum(result.tally.success for result in before)
        self._reward = float(sum(result.tally.reward for result in before))
        self._score = float(sum(result.score for result in before))
        self._elapsed_s = 0.0
        self._console = Console(file=sys.stderr)
        is_live = self._console.is_terminal and not is_silent
        self._live = Live(console=self._console, refresh_per_second=8, get_renderable=self._table) if is_live else None

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

    @property
    def _label(self) -> str:
        return SESSION if self._before else ""

    def turn(self) -> None:
        """Count a turn."""
        self._turns += 1
        self._elapsed_s = time.perf_counter() - self._started

    def ended(self, played: Played) -> None:
        """Count an episode that is over."""
        self._elapsed_s = time.perf_counter() - self._started
        self._done += 1
        self._successes += played.tally.success
        self._reward += played.tally.reward
        self._score += played.tally.reward + played.cache["penalty"]
        over = self._before + self._done
        if self._live is None and not self._is_silent and over * PLAIN_LINES // self._episodes > self._lines:
            self._lines = over * PLAIN_LINES // self._episodes
            line = f"episodes {over:,}/{self._episodes:,}  {'  '.join([*self._results(), *self._speed()])}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _table(self) -> RenderableType:
        table = Table.grid(padding=(0, 2))
        over = self._before + self._done
        bar = ProgressBar(self._episodes, over, width=20, finished_style="bar.complete")
        table.add_row("episodes", f"{over:,} of {self._episodes:,}", bar, *self._speed())
        if over:
            table.add_row("so far", *self._results())
        if self._counts is not None:
            used = self._counts
            tokens = f"{used.tokens.prompt:,} in, {used.tokens.completion:,} out"
            table.add_row(
                f"server{self._label}", f"{used.requests:,} requests, {used.retries:,} again", f"tokens: {tokens}"
            )
        return table

    def _results(self) -> list[str]:
        over = self._before + self._done
        means = [f"reward {self._reward / over:.2f}", f"score {self._score / over:.2f}"]
        return [f"success {self._successes / over:.0%}", *means]

    def _speed(self) -> list[str]:
        speed = [f"{self.turns_per_s:,.0f} turns/s{self._label}"]
        if self._done:
            left = self._episodes - self._before - self._done
            speed.append(f"{timedelta(seconds=round(self._elapsed_s / self._done * left))} left")
        return speed
