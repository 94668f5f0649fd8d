"""What a benchmark leaves behind: bench.json with every repeat, and the table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from abreast.bench.rows import Row
from abreast.files import write_whole

FORMAT = 2
FILE = "bench.json"


@dataclass
class Report:
    """The rows of all subjects measured so far."""

    machine: Mapping[str, Any]
    size: str
    """small or full."""
    began: str = field(default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds"))
    subjects: dict[str, list[Row]] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write all there is."""
        facts = {
            "format": FORMAT,
            "began": self.began,
            "size": self.size,
            "machine": dict(self.machine),
            "subjects": {name: [row.facts() for row in rows] for name, rows in self.subjects.items()},
        }
        write_whole(folder / FILE, f"{json.dumps(facts, indent=1, ensure_ascii=False)}\n".encode())


def table(name: str, rows: Sequence[Row]) -> Table:
    """The rows of a subject. A limit is what the ratio could be; beside it, how much of that is reached."""
    number = partial(Column, justify="right", no_wrap=True)
    made = Table(name, number("value"), number("ratio"), "of", number("limit"), number("of limit"), box=None)
    for row in rows:
        share = "" if row.share is None else f"{row.share:.0%}"
        made.add_row(row.what, f"{figure(row.value)} {row.unit}", figure(row.ratio), row.of, figure(row.limit), share)
    return made


def figure(value: float | None) -> str:
    """A number with the digits that mean something."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
