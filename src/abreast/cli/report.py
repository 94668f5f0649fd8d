"""`abreast report RUN…`: run folders as one page."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from abreast.cli.app import BOTH, app, counted, out
from abreast.errors import ConfigError, RunFolderError
from abreast.files import write_whole
from abreast.report import COMPARISON, make_page, read_comparison, read_run


@app.command(rich_help_panel=BOTH)
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, all of `abreast train` or all of `abreast rollout`; or what `abreast compare` wrote.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The page; default: report.html in the run folder, or here with several runs."
        ),
    ] = None,
) -> None:
    """Write one page that shows runs: curves, timeline, plan, faults, settings, films, episodes with all their turns."""
    given = list(dict.fromkeys(folders))
    runs = list[dict[str, Any]]()
    for folder in given:
        runs += read_comparison(folder) if (folder / COMPARISON).is_file() else [read_run(folder)]
    for run in runs:
        if run["kind"] != runs[0]["kind"]:
            raise ConfigError(
                f"{runs[0]['folder']} is a {runs[0]['kind']} run and {run['folder']} a {run['kind']} run, which have no"
                " figure in common: make a report of each kind."
            )
    names = Counter(run["name"] for run in runs)
    runs = [{**run, "name": run["folder"]} if names[run["name"]] > 1 else run for run in runs]
    target = output or (given[0] if len(given) == 1 else Path()) / "report.html"
    page = make_page(runs).encode()
    try:
        write_whole(target, page)
    except OSError as error:
        raise RunFolderError(
            f"cannot write the report to {target}: {error.strerror or error}; --output FILE puts it elsewhere."
        ) from None
    out.print(
        f"The report of {counted(len(runs), 'run')} is {target} ({len(page) / 1e6:.1f} MB): open it in a browser."
    )
