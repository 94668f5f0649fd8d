"""`abreast bench`: how fast this machine is, and whether a parallel run is worth it on it.

Whatever needs torch is imported by the command: `--help` need not wait for it.
"""

from typing import Annotated

import typer

from abreast.bench.subjects import SUBJECTS, chosen, measure
from abreast.cli.app import BOTH, Output, app, load_training, out, show, waiting
from abreast.errors import RunFolderError
from abreast.files import make_run_folder


@app.command(rich_help_panel=BOTH)
def bench(
    subjects: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SUBJECT]...", help=f"Measure only these: {', '.join(SUBJECTS)}.", show_default=False),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(metavar="SUBJECT", help="The same as an option.")] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="More repeats, more agents, longer runs: several minutes instead of about one."),
    ] = False,
    output: Output = None,
) -> None:
    """Measure this machine, and what parallel runs are worth on it: ratios and limits, as a table and as bench.json."""
    names = chosen([*(only or []), *(subjects or [])])
    load_training()
    from abreast.bench.machine import machine_facts, told
    from abreast.bench.report import FILE, Report, table

    folder = make_run_folder("bench", output)
    if (folder.path / FILE).exists():
        raise RunFolderError(
            f"{folder.path / FILE} is there already, and nothing is written over: give another folder."
        )
    report = Report(machine_facts(), "full" if full else "small")
    try:
        out.print(told(dict(report.machine)))
        for number, name in enumerate(names):
            status = f"{name} ({number + 1} of {len(names)}): {SUBJECTS[name]}"
            if not out.is_terminal:
                out.print(f"Measuring {status}")
            with waiting(status):
                report.subjects[name] = list(measure(name, full))
            report.write(folder.path)  # what is measured is kept, whatever becomes of the rest
            show(table(name, report.subjects[name]))
    finally:
        if not report.subjects:
            folder.take_back()
    out.print(f"All figures are in {folder.path / FILE}")
