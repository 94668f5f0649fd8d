"""`abreast bench`: what this machine can do, and how much of it a run reaches.

Whatever needs torch is imported by the command: `--help` need not wait for it.
"""

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated

import typer

from abreast.bench.subjects import SUBJECTS, chosen, measure
from abreast.cli.app import app, complain, out


@app.command()
def bench(
    more: Annotated[list[str] | None, typer.Argument(metavar="[SUBJECT]", help="More subjects, as for --only.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SUBJECT...", help=f"Measure only these: {', '.join(SUBJECTS)}.", show_default=False),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="More repeats, more agents, longer runs: several minutes instead of about one."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="A new folder for bench.json and bench.png; default: bench-<date> here."),
    ] = None,
) -> None:
    """Measure this machine and abreast on it: ratios with their floors, limits and bars, as a table, JSON and a picture."""
    names = chosen([*(only or []), *(more or [])])
    from abreast.bench.machine import machine_facts, told
    from abreast.bench.picture import FILE, NoMatplotlib, draw
    from abreast.bench.report import Report, make_folder, table

    folder = make_folder(output)
    report = Report(machine_facts(), "full" if full else "small")
    try:
        out.print(told(dict(report.machine)))
        for number, name in enumerate(names):
            status = f"{name} ({number + 1} of {len(names)}): {SUBJECTS[name]}"
            with out.status(status) if out.is_terminal else nullcontext():
                report.add(name, measure(name, full))
            report.write(folder)  # what is measured is kept, whatever becomes of the rest
            out.print()
            out.print(table(name, report.subjects[name], may_fold=out.is_terminal))
        try:
            draw(report, folder / FILE)
        except NoMatplotlib as error:
            complain(str(error))
    finally:
        with suppress(OSError):  # it has something in it
            folder.rmdir()
    out.print(f"\nAll figures are in {folder} ({sum(report.seconds.values()):.0f} s)")
