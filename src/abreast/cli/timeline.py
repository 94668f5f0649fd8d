"""`abreast timeline RUN`: what each process of a run did, in the terminal."""

from bisect import bisect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from abreast.cli.app import BOTH, app, out, show
from abreast.report.shares import Process, advice, read_timeline, who_waits

CELLS = 50
"""Of a bar."""
WORKS, WAITS, RESTARTS, NOTHING = "█", "·", "R", " "
"""What a process does in the middle of a cell's time."""
SHOWN = 0.005
"""Shares that are listed."""


@app.command(rich_help_panel=BOTH)
def timeline(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or its timeline.json.")],
) -> None:
    """Show what each process of a run did when, who waited for whom, and what to change.

    https://ui.perfetto.dev opens the timeline.json of the run folder, with every span.
    """
    found = read_timeline(run)
    processes = (found.main, *found.workers)
    first = max(each.known_from for each in processes)
    out.print(
        f"The last {found.seconds - first:.1f} of {found.seconds:.1f} s:"
        f"  {WORKS} works  {WAITS} waits  {RESTARTS} is restarted"
    )
    columns = ("", Column("", no_wrap=True), Column("works", justify="right"), Column("waits", justify="right"))
    bars = Table(*columns, box=None)
    moments = [first + (cell + 0.5) / CELLS * (found.seconds - first) for cell in range(CELLS)]
    for process in processes:
        bars.add_row(process.name, bar(process, moments), f"{1 - process.waiting:.0%}", f"{process.waiting:.0%}")
    show(bars)
    for process in processes:
        shares = sorted(process.shares.items(), key=lambda each: -each[1])
        out.print(f"{process.name}: {', '.join(f'{name} {share:.0%}' for name, share in shares if share >= SHOWN)}")
    for sentence in who_waits(found):
        out.print(f"{sentence}.")
    out.print(f"Advice: {advice(found)}")


def bar(process: Process, moments: Sequence[float]) -> str:
    """What a process does at these seconds of the run, a character each."""
    cells = [WORKS if process.started <= moment <= process.ended else NOTHING for moment in moments]
    for name, begin, end in process.waits:
        for cell in range(bisect(moments, begin), bisect(moments, end)):
            cells[cell] = RESTARTS if name == "restart" else WAITS
    return "".join(cells)
