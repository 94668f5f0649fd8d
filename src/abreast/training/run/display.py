"""The live display of a run: epoch, reward per agent, speed, time left; one plain line now and then without a terminal."""

import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

if TYPE_CHECKING:
    from abreast.training.run.record import EpochRecord

SMOOTHED = 20
"""Epochs over which rewards are averaged for the display."""
PLAIN_LINES = 10
"""Lines printed over a whole run where the output is not a terminal."""


class ProgressDisplay:
    """Shows each epoch as it ends."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._done = 0
        self._recent: deque[Sequence[float]] = deque(maxlen=SMOOTHED)
        self._console = Console(file=sys.stderr)
        self._live = Live(console=self._console, refresh_per_second=8) if self._console.is_terminal else None

    def start(self) -> None:
        if self._live is not None:
            self._live.start()

    def show(self, record: "EpochRecord") -> None:
        """Take in an epoch; the terminal is redrawn eight times a second, whatever the speed of the run."""
        self._done += 1
        self._recent.append(record["reward_per_agent"])
        if self._live is not None:
            self._live.update(self._table(record))
        elif self._done % max(1, self._epochs // PLAIN_LINES) == 0 or self._done == self._epochs:
            self._console.print(self._line(record), highlight=False, soft_wrap=True)

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()

    def _rewards(self) -> list[float]:
        return [sum(column) / len(self._recent) for column in zip(*self._recent, strict=True)]

    def _line(self, record: "EpochRecord") -> str:
        rewards = self._rewards()
        return (
            f"epoch {self._done:,}/{self._epochs:,}  reward {sum(rewards):.1f}"
            f" ({' '.join(f'{reward:.1f}' for reward in rewards)})  epsilon {record['epsilon']:.3f}"
            f"  {record['time']['agent_steps_per_s']:,.0f} agent-steps/s  {self._time_left(record)} left"
        )

    def _time_left(self, record: "EpochRecord") -> str:
        seconds = round(record["time"]["elapsed_s"] / self._done * (self._epochs - self._done))
        hours, rest = divmod(seconds, 3600)
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"

    def _table(self, record: "EpochRecord") -> Table:
        rewards = self._rewards()
        highest = max(*rewards, 1.0) if len(rewards) > 1 else max(rewards[0], 1.0)
        loss = "" if record["loss"] is None else f"loss {record['loss']:.3f}"
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(self._epochs, self._done, width=30, finished_style="bar.complete")
        speed = f"{record['time']['agent_steps_per_s']:,.0f} agent-steps/s"
        table.add_row("epoch", f"{self._done:,} of {self._epochs:,}", bar, speed, f"{self._time_left(record)} left")
        for agent, reward in enumerate(rewards):
            bar = ProgressBar(highest, max(reward, 0.0), width=30, complete_style="green", finished_style="green")
            table.add_row(f"agent {agent}", f"{reward:.1f}", bar)
        table.add_row("all", f"[bold]{sum(rewards):.1f}", f"mean reward of {len(self._recent)} epochs", loss,
                      f"epsilon {record['epsilon']:.3f}")  # fmt: skip
        if "restarts" in record["time"]:
            health = record["time"]
            lags = " ".join(str(lag) for lag in health["lag_per_agent"])
            restarts = health["restarts"] + health.get("actor_restarts", 0)
            ratio = f"{record['updates_per_agent_step']:.3f} updates a step"
            waits = f"waits: actor {health['train_s']:.2f} s"
            if "learner_idle_s" in health:
                waits += f", learners {max(health['learner_idle_s']):.2f} s"
            table.add_row("learners", f"{restarts} restarts", f"versions behind: {lags}", ratio, waits)
        return table
