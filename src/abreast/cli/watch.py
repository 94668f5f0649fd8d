"""`abreast watch`: the live view of a run, and what can be asked of it."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from abreast.cli.app import BOTH, app, out
from abreast.control import REQUESTS, ask
from abreast.report.server import LiveView


@app.command(rich_help_panel=BOTH)
def watch(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder; the run may be under way or over.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0: any that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    request: Annotated[
        str | None,
        typer.Option("--ask", metavar="REQUEST", help=f"Ask this of the run, without a page: {', '.join(REQUESTS)}."),
    ] = None,
) -> None:
    """Show a run in the browser while it goes on; pause it, let it go on, have a checkpoint written, stop it."""
    if request is not None:
        ask(run, request)
        out.print(f"{run} was asked ({request}): it does so between two passes, or episodes.")
        return
    with LiveView(run, port) as view:
        out.print(f"Watch {run} here: {view.url}")
        out.print("Ctrl-C ends this view, not the run.")
        if browser and out.is_terminal and _has_display():
            webbrowser.open(view.url)
        view.serve_forever()


def _has_display() -> bool:
    """Whether a browser would have a window: in a terminal alone, it would take the place of what is printed."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
