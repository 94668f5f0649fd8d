"""What a benchmark leaves behind: bench.json with every repeat, and the table."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from abreast.bench.rows import Row
from abreast.bench.turns import Clock
from abreast.errors import RunFolderError
from abreast.files import write_whole

FORMAT = 1
FILE = "bench.json"
PADDING = 2
"""Characters between two columns."""


@dataclass
class Report:
    """The rows of all subjects measured so far."""

    machine: Mapping[str, Any]
    size: str
    """small or full."""
    began: str = field(default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds"))
    subjects: dict[str, list[Row]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each subject took."""

    def add(self, name: str, rows: Iterable[Row], clock: Clock = time.perf_counter) -> None:
        """Measure a subject."""
        started = clock()
        self.subjects[name] = list(rows)
        self.seconds[name] = clock() - started

    def write(self, folder: Path) -> None:
        """Write all there is."""
        facts = {
            "format": FORMAT,
            "began": self.began,
            "size": self.size,
            "machine": dict(self.machine),
            "seconds": self.seconds,
            "subjects": {name: [row.facts() for row in rows] for name, rows in self.subjects.items()},
        }
        write_whole(folder / FILE, f"{json.dumps(facts, indent=1, ensure_ascii=False)}\n".encode())


def make_folder(wanted: Path | None) -> Path:
    """A new folder, before anything is measured; without a wish, one in the current folder that bears the date."""
    folder = wanted or Path(f"bench-{datetime.now():%Y%m%d-%H%M%S}")
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise RunFolderError(
            f"{folder} is there already, and nothing is written over: give another folder (--output)."
        ) from None
    except OSError as error:
        raise RunFolderError(f"cannot make the folder {folder}: {error.strerror or error}.") from None
    return folder


def table(name: str, rows: Sequence[Row], may_fold: bool) -> Table:
    """The rows of a subject. A limit is what the ratio could be; beside it, how much of that is reached.

    `may_fold`: long names may take several lines, as in a narrow terminal.
    """
    made = Table(box=None)
    for heading in (name, "value", "ratio", "of", "limit", "of limit", "bar", "verdict"):
        is_text = heading in (name, "of", "verdict")
        made.add_column(heading, justify="left" if is_text else "right", no_wrap=not (may_fold and is_text))
    for row in rows:
        made.add_row(*_cells(row), style="bold red" if row.verdict == "missed" else None)
    if not may_fold:  # a pipe has no width: every column is as wide as it needs to be
        widths = [max(len(str(cell)) for cell in (column.header, *column.cells)) for column in made.columns]
        made.width = sum(widths) + PADDING * len(widths)
    return made


def _cells(row: Row) -> tuple[str, ...]:
    share = "" if row.share is None else f"{row.share:.0%}"
    value = f"{figure(row.value)} {row.unit}"
    return row.what, value, figure(row.ratio), row.of, figure(row.limit), share, told_bar(row), row.verdict or ""


def told_bar(row: Row) -> str:
    """The bar in signs; a percentage is for the share of the limit."""
    if row.bar is None:
        return ""
    if row.bar_of == "share":
        return f"≥ {row.bar:.0%}"
    return f"{'≥' if row.better == 'more' else '≤'} {row.bar:g}"


def figure(value: float | None) -> str:
    """A number with the digits that mean something."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or not value else f"{value:.2g}"
