"""The live display of a run: epoch, reward per agent, speed, time left; one plain line now and then without a terminal."""

import logging
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from textwrap import shorten

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from abreast.training.run.metrics import EpochRecord

SMOOTHED = 20
"""Epochs over which rewards are averaged for the display."""
BESIDE_FIGURES, WIDTH_OF_FIGURE = 60, 22
"""Columns of the terminal; as many figures of each agent's learning are shown as there is room for, at least two."""
PLAIN_LINES = 10
"""Lines printed over a whole run where the output is not a terminal."""
LONGEST_WARNING = 300
"""Characters of a warning that are printed."""


class ProgressDisplay:
    """Shows each epoch as it ends."""

    def __init__(self, epochs: int, done: int = 0) -> None:
        """`done`: epochs that a run that goes on has behind it."""
        self._epochs = epochs
        self._done = done
        self._recent: deque[Sequence[float]] = deque(maxlen=SMOOTHED)
        self._figures: deque[Mapping[str, float | None]] = deque(maxlen=SMOOTHED)
        self.console = Console(file=sys.stderr)
        self._shown: Table | Text = Text("")
        self._note: Text | None = None
        self.is_live = self.console.is_terminal
        live = Live(console=self.console, refresh_per_second=8, get_renderable=self._all) if self.is_live else None
        self.screen: AbstractContextManager[object] = live or nullcontext()
        """Inside, the display is redrawn."""

    def show(self, record: EpochRecord) -> None:
        """Take in an epoch; the terminal is redrawn eight times a second, whatever the speed of the run."""
        self._done += 1
        self._recent.append(record["reward_per_agent"])
        self._figures.append(record.get("metrics", {}))
        if self.is_live:
            self._shown = self._table(record)
        elif self._done % max(1, self._epochs // PLAIN_LINES) == 0 or self._done == self._epochs:
            self.console.print(self._line(record), highlight=False, markup=False, soft_wrap=True)

    def print(self, line: str) -> None:
        """Print a line, above the figures."""
        self.console.print(Text(line), soft_wrap=True)

    def show_note(self, text: str) -> bool:
        """Show a sentence below the figures, from now on, if they are live (printed past them, it would be overwritten)."""
        self._note = Text(text)
        return self.is_live

    def _all(self) -> Table | Text | Group:
        return self._shown if self._note is None else Group(self._shown, self._note)

    def _rewards(self) -> list[float]:
        return [sum(column) / len(self._recent) for column in zip(*self._recent, strict=True)]

    def _metrics(self) -> dict[str, float]:
        """The game's own figures, in the mean of those recent epochs that have them."""
        names = dict.fromkeys(name for figures in self._figures for name in figures)
        known = {name: [value for each in self._figures if (value := each.get(name)) is not None] for name in names}
        return {name: sum(values) / len(values) for name, values in known.items() if values}

    def _line(self, record: EpochRecord) -> str:
        rewards = self._rewards()
        figures = {**self._epsilon(record), **self._metrics()}
        return (
            f"epoch {self._done:,}/{self._epochs:,}  {self._what_is_shown} {sum(rewards):.1f}"
            f" ({' '.join(f'{reward:.1f}' for reward in rewards)}){_losses(record)}"
            f"{''.join(f'  {name} {value:.3g}' for name, value in figures.items())}"
            f"  {record['time']['agent_steps_per_s']:,.0f} agent-steps/s  {self._time_left(record)} left"
        )

    @property
    def _what_is_shown(self) -> str:
        return "reward of the epoch" if len(self._recent) == 1 else f"mean reward of {len(self._recent)} epochs"

    def _epsilon(self, record: EpochRecord) -> dict[str, float]:
        """None where no agent explores by it, as PPO."""
        return {"epsilon": record["epsilon"]} if record["epsilon"] else {}

    def _time_left(self, record: EpochRecord) -> str:
        seconds = round(record["time"]["elapsed_s"] / self._done * (self._epochs - self._done))
        hours, rest = divmod(seconds, 3600)
        return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"

    def _table(self, record: EpochRecord) -> Table:
        rewards = self._rewards()
        shown = max(2, (self.console.width - BESIDE_FIGURES) // WIDTH_OF_FIGURE)
        highest = max(*rewards, 1.0) if len(rewards) > 1 else max(rewards[0], 1.0)
        table = Table.grid(padding=(0, 2))
        bar = ProgressBar(self._epochs, self._done, width=30, finished_style="bar.complete")
        speed = f"{record['time']['agent_steps_per_s']:,.0f} agent-steps/s"
        table.add_row("epoch", f"{self._done:,} of {self._epochs:,}", bar, speed, f"{self._time_left(record)} left")
        for agent, reward in enumerate(rewards):
            bar = ProgressBar(highest, max(reward, 0.0), width=30, complete_style="green", finished_style="green")
            who = record["agents"][agent] if "agents" in record else f"agent {agent}"
            figures = list(record["learning"][agent].items())[:shown]
            learned = [Text(f"{name} {'not finite' if value is None else f'{value:.3g}'}") for name, value in figures]
            table.add_row(Text(who), f"{reward:.1f}", bar, *learned)
        explored = (f"epsilon {epsilon:.3f}" for epsilon in self._epsilon(record).values())
        table.add_row("all", f"[bold]{sum(rewards):.1f}", self._what_is_shown, *explored)
        for name, value in self._metrics().items():
            table.add_row(Text(name), f"{value:.3g}", "mean")
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


def _losses(record: EpochRecord) -> str:
    """Of each agent, as they are of different sizes where algorithms differ; nothing before the first update."""
    losses = ["-" if loss is None else f"{loss:.3g}" for loss in record["loss_per_agent"]]
    return f"  loss ({' '.join(losses)})" if any(loss != "-" for loss in losses) else ""


class _OneLine(logging.Handler):
    """Prints what is logged on one line, cut where it is long; all of it, and stacks, are in log.txt."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        text = shorten(f"{record.levelname.lower()}: {record.getMessage()}", LONGEST_WARNING, placeholder=" …")
        self._console.print(Text(text), soft_wrap=True)  # above the display, if this console has one


@contextmanager
def warnings_on(console: Console) -> Iterator[None]:
    """Print warnings and errors of abreast meanwhile, one line each."""
    log, handler = logging.getLogger("abreast"), _OneLine(console)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
