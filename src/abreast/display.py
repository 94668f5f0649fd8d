"""What a command shows while it runs: in a terminal a few lines that are redrawn, elsewhere a plain line now and then.

    epoch 19 of 400  ━━━━━━────────────  0:01:09 left  2,038 agent-steps/s  0.41 GB
    agent 0   6.9  ━━━━━━━━━━  loss 0.611   mean_value -0.0503
    agent 1  12.8  ━━━━━━━━━━  loss 0.5     mean_value -0.157          and so on, as many as there is room for
    all  19.7  mean reward of 19 epochs  epsilon 0.415
    epoch 19 is being played, at work: actor 1 (12 s)                  if nothing has ended for some seconds

What the figures are is said by a subclass; when and how they are drawn, here. Nothing that fails here ends a run.
"""

import faulthandler
import logging
import os
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from textwrap import shorten
from typing import NamedTuple, Protocol, Self

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from abreast.errors import log, printable
from abreast.files import LogLine
from abreast.processes.team import Team

QUIET, NORMAL, VERBOSE = logging.ERROR, logging.WARNING, logging.INFO
"""How much is shown, named by the lowest level of log lines that are."""
PLAIN_LINES, PLAIN_ROWS = 10, 8
"""Lines printed over a whole run where the output is not a terminal; agents named in each."""
SILENT_S = 5.0
"""After so many seconds in which nothing has ended it is said what is under way; without a terminal, then after twice as
long, and so on."""
LOOK_S = 0.5
"""How often is looked whether it is time for that, and how much memory is in use."""
LONGEST_WARNING = 300
"""Characters of a warning that are printed."""
BAR = 20
"""Width."""

_shown = [NORMAL]


def set_volume(level: int) -> None:
    """Let this program show QUIET, NORMAL or VERBOSE displays from now on."""
    _shown[:] = [level]
    log.setLevel(level)  # log.txt has more


def volume() -> int:
    """What was set last."""
    return _shown[0]


class HasTeam(Protocol):
    """What may have workers."""

    @property
    def team(self) -> Team | None:
        """Its workers, if there are any."""


class Row(NamedTuple):
    """What is known of an agent."""

    name: str
    value: float
    figures: Sequence[str] = ()


class Shown(NamedTuple):
    """The figures of a run, as they are now."""

    unit: str
    """What is counted."""
    done: int
    total: int
    left_s: float | None
    """Seconds that the rest will take."""
    facts: Sequence[str] = ()
    """Of the whole run, the most important first."""
    rows: Sequence[Row] = ()
    below: Sequence[str] = ()
    """Lines below the rows, the most important first."""

    @property
    def time_left(self) -> list[str]:
        """How long the rest will take, if that is known."""
        return [] if self.left_s is None else [f"{timedelta(seconds=round(self.left_s))} left"]


class Terminal(Console):
    """Shows texts without what a terminal would take for an order: an environment of others may print anything."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=printable(part.text))


class _Stderr(Terminal):
    """A terminal, a file or a pipe. That nobody reads it any more is no reason to end a run, as rich would."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Display(ABC):
    """Used as a context: inside, it is drawn, and prints what is logged. SIGUSR1 then has the stacks of this process
    written to the log, and at the next look those of its workers too.
    """

    def __init__(self, is_silent: bool = False) -> None:
        self.console = _Stderr(file=sys.stderr)
        self._is_silent = is_silent or volume() == QUIET
        self.is_live = self.console.is_terminal and not self._is_silent
        self._note, self._memory, self._is_broken = "", memory_in_use(), False
        self._text, self._parts = "the run begins", tuple[HasTeam, ...]()
        self._stop, self._asked, self._until = threading.Event(), threading.Event(), ExitStack()
        self.progressed()

    @abstractmethod
    def figures(self) -> Shown:
        """What is shown. Called by another thread, at any time."""

    # ---- what a run tells

    def ended(self, done: int, total: int, newest: int = 1) -> None:
        """Something that is counted has ended: so many of all, the `newest` of them now."""
        self.progressed()
        is_due = done * PLAIN_LINES // total > (done - newest) * PLAIN_LINES // total
        if is_due and not self.is_live and not self._is_silent:
            shown = self.figures()
            rows = [" ".join([row.name, f"{row.value:.1f}", *row.figures[:1]]) for row in shown.rows[:PLAIN_ROWS]]
            words = "  ".join([*shown.below[:1], *rows, *shown.facts, *shown.time_left])
            self.print(f"{shown.unit} {shown.done:,}/{shown.total:,}  {words}")

    def progressed(self) -> None:
        """Something has happened: what is under way now begins now."""
        self._ended = self._begun = time.monotonic()
        self._silent_s = SILENT_S

    def now(self, text: str, *parts: HasTeam) -> None:
        """From now on this is under way, and these are at work; said if it takes long."""
        self._text, self._parts, self._begun = text, parts, time.monotonic()

    def print(self, line: str) -> None:
        """Print a line, above the figures."""
        with suppress(OSError, ValueError):  # nobody reads it any more
            self.console.print(Text(line), soft_wrap=True)

    def tell(self, line: str) -> None:
        """Keep a line in the log, and print it."""
        log.info("%s", line)
        if not self._is_silent and volume() != VERBOSE:  # which prints what is logged
            self.print(line)

    def show_note(self, text: str) -> bool:
        """Show a sentence below the figures, from now on, if they are live (printed past them, it would be overwritten)."""
        self._note = text
        return self.is_live

    # ---- drawing

    def draw(self) -> RenderableType:
        """All of it, no higher than the terminal."""
        try:
            return self._drawn(self.figures())
        except Exception:
            if not self._is_broken:
                self._is_broken = True
                log.info("the display cannot be drawn; the run goes on", exc_info=True)
            return Text(self._note)

    def _drawn(self, shown: Shown) -> RenderableType:
        below = [Text(line) for line in (*shown.below, self.under_way(), self._note) if line]
        room = max(1, self.console.height - 3 - sum(1 + line.cell_len // self.console.width for line in below))
        rows = shown.rows[:room]
        if len(shown.rows) > room:
            below.insert(0, Text(f"{len(shown.rows) - room} more"))
        facts = "  ".join([*shown.time_left, *shown.facts, *self._health()])
        bar = _bar(shown.done / max(shown.total, 1))
        lines: list[str | tuple[str, str]] = [f"{shown.unit} {shown.done:,} of {shown.total:,}  ", *bar, f"  {facts}\n"]
        name, most = max((len(row.name) for row in rows), default=0), max((1.0, *(row.value for row in rows)))
        wide = [max(map(len, column)) for column in zip_longest(*(row.figures for row in rows), fillvalue="")]
        for row in rows:
            figures = "  ".join(f"{each:{width}}" for each, width in zip(row.figures, wide, strict=False))
            lines += [f"{row.name:{name}}  {row.value:8.1f}  ", *_bar(row.value / most, "green", " "), f"  {figures}\n"]
        # Text, not a table, which takes ten times as long.
        return Group(Text.assemble(*lines, no_wrap=True, overflow="ellipsis", end=""), *below)

    def _health(self) -> list[str]:
        restarts = sum(team.restarts for team in self._teams)
        memory = [f"{self._memory / 1e9:.2f} GB"] if self._memory else []
        return [*memory, *([f"{restarts} restart{'' if restarts == 1 else 's'}"] if restarts else [])]

    @property
    def _teams(self) -> list[Team]:
        """Those at work."""
        return [part.team for part in self._parts if part.team is not None]

    def under_way(self) -> str:
        """What is under way, for how long, and who is at work; nothing if something has just ended."""
        now = time.monotonic()
        if now - self._ended < SILENT_S:
            return ""
        names = ", ".join(name for team in self._teams for name in team.at_work)
        workers = f", at work: {shorten(names, LONGEST_WARNING // 2, placeholder=' …')}" if names else ""
        return f"{self._text}{workers} ({now - self._begun:.0f} s)"

    # ---- beside the run

    def __enter__(self) -> Self:
        self.progressed()
        if self.is_live:
            self._until.enter_context(Live(console=self.console, refresh_per_second=8, get_renderable=self.draw))
        handler = logging.StreamHandler()  # stderr; where the display is live, above it
        handler.setLevel(volume())
        handler.setFormatter(LogLine() if volume() == VERBOSE else _OneLine())
        log.addHandler(handler)
        self._until.callback(log.removeHandler, handler)
        self._listen()
        thread = threading.Thread(target=self._watch, name="display", daemon=True)
        thread.start()
        self._until.callback(thread.join)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._note = ""
        self.progressed()
        with suppress(OSError):  # the terminal is gone
            self._until.close()

    def _listen(self) -> None:
        """Have SIGUSR1 write the stacks to the log file, unless the program has a handler of its own for it."""
        files = [each.stream.fileno() for each in log.handlers if isinstance(each, logging.FileHandler) and each.stream]
        can_ask = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGUSR1")
        if files and can_ask and signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL:
            faulthandler.unregister(signal.SIGUSR1)
            self._until.callback(signal.signal, signal.SIGUSR1, signal.SIG_DFL)
            signal.signal(signal.SIGUSR1, lambda number, frame: self._asked.set())
            # First, and in C, so that a thread that hangs there shows where; then the handler above.
            faulthandler.register(signal.SIGUSR1, files[0], chain=True)
            self._until.callback(faulthandler.unregister, signal.SIGUSR1)

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                if self._asked.is_set():
                    self._asked.clear()
                    self._tell_stacks()
                if self.is_live:
                    self._memory = memory_in_use()
                elif time.monotonic() - self._ended >= self._silent_s and not self._is_silent:
                    self._silent_s *= 2
                    self.print(self.under_way())
            except Exception:
                log.info("the display has failed; the run goes on", exc_info=True)

    def _tell_stacks(self) -> None:
        """The log has where every thread is; add where every worker is."""
        for name, stack in (each for team in self._teams for each in team.stacks().items()):
            log.info("SIGUSR1: %s is at:\n%s", name, stack.rstrip())
        self.tell("SIGUSR1: log.txt has the stacks of all threads and workers.")


class Counting(Display):
    """Shows how many parts of equal length have ended, and a line about the last one."""

    def __init__(self, unit: str, total: int) -> None:
        super().__init__()
        self._unit, self._total = unit, total
        self._done, self._last, self._started = 0, "", time.perf_counter()

    def one_ended(self, last: str = "") -> None:
        """Count one more, and show this line from now on."""
        self._done, self._last = self._done + 1, last
        self.ended(self._done, self._total)

    def figures(self) -> Shown:
        each_s = (time.perf_counter() - self._started) / max(self._done, 1)
        left_s = each_s * (self._total - self._done) if self._done else None
        return Shown(self._unit, self._done, self._total, left_s, below=[self._last] if self._last else [])


class _OneLine(logging.Formatter):
    """A warning on one line, cut where it is long: all of it is in log.txt."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(
            shorten(f"{record.levelname.lower()}: {record.getMessage()}", LONGEST_WARNING, placeholder=" …")
        )


def _bar(part: float, style: str = "bar.complete", rest: str = "─") -> list[tuple[str, str]]:
    done = round(BAR * max(part, 0.0))
    return [("━" * done, style), (rest * (BAR - done), "bar.back")]


def memory_in_use(process: str = "self") -> int:
    """Bytes in memory of this process and of all processes below it, as far as the system tells; 0 if it does not.

    What a child shares (libraries, shared memory) is counted in the first process alone.
    """
    with suppress(OSError, ValueError):  # one may end in this moment
        _, resident, shared, *_ = map(int, Path(f"/proc/{process}/statm").read_text().split())
        lists = [each.read_text().split() for each in Path(f"/proc/{process}/task").glob("*/children")]
        own = (resident - (0 if process == "self" else shared)) * os.sysconf("SC_PAGE_SIZE")
        return own + sum(memory_in_use(child) for children in lists for child in children)
    return 0
