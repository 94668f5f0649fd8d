"""The command `abreast`: what all commands share.

Mistakes in what was typed end with one sentence and exit code 2; Ctrl-C keeps what is there and exits with 130.
"""

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Column, Table

from abreast.errors import AbreastError

app = typer.Typer(
    help="Independent agents, learning side by side.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Console(highlight=False, soft_wrap=True, markup=False)

ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A YAML file of settings.")]
Output = Annotated[Path | None, typer.Option(metavar="DIR", help="The run folder; default: a new one in runs/.")]


@contextmanager
def held_back(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait until this is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settings_table(settings: Iterable[tuple[str, Any, str]]) -> Table:
    """Key, value and meaning of settings. Keys are there to be typed: they are never cut."""
    table = Table(Column("setting", overflow="fold"), Column("value", overflow="fold"), "meaning", box=None)
    for key, value, meaning in settings:
        table.add_row(key, yaml.safe_dump(value, default_flow_style=True, width=1000).splitlines()[0], meaning)
    return table


def main() -> None:
    """Entry point of the command `abreast`."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command; returns its exit code."""
    try:
        code = app(arguments, standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except typer.Abort:  # Ctrl-C in a command that has nothing to keep
        return 130
    except AbreastError as error:
        return _complain(str(error))
    except OSError as error:  # a full disk, a folder that may not be written to
        where = f" ({error.filename})" if error.filename else ""
        _close_if_full()
        return _complain(f"{error.strerror or error}{where}: what was written until now is kept.")
    except Exception as error:
        if hasattr(error, "format_message"):  # a mistake in the command line itself, in the parser's words
            return _complain(f"{error.format_message()} `abreast --help` shows what there is.")
        raise


def _close_if_full() -> None:
    """If nothing more can be printed, do not let Python try again at its end, and complain of it in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(text: str) -> int:
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(f"abreast: {' '.join(text.split())}")
    return 2


def _terminated(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # unwinds the run, which keeps what it has on the way out
