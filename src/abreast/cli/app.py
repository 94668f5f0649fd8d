"""The command `abreast`: what all commands share.

Mistakes in what was typed end with one sentence (a line for each, if a configuration has several) and exit code 2, workers
and episodes that failed, and losses that are not finite, with exit code 1; Ctrl-C keeps what is there and exits with 130.
"""

import faulthandler
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
import yaml
from rich.table import Column, Table
from typer.core import TyperGroup

from abreast import __version__
from abreast.display import NORMAL, QUIET, VERBOSE, Terminal, set_volume, volume
from abreast.errors import (
    AbreastError,
    ConfigError,
    FailedEpisodesError,
    WorkerError,
    WorkerInputError,
    printable,
    sentence,
    users_part,
)

TRAINING, ROLLOUTS, BOTH = "Train agents in games", "Play text environments", "For both"
"""What the commands are for."""
WHERE = "Where it is kept"
"""What some of their options are for."""
COMMANDS = (
    *("games", "train", "play", "eval", "sweep", "compare", "tournament", "schelling", "export"),
    *("envs", "rollout", "trajectories", "serve"),
    *("timeline", "watch", "report", "settings", "check", "bench", "doctor"),
)
"""In the order in which a user meets them."""
SILENT_S = 2.0
"""After so many seconds it is said that torch is being imported."""
UNBROKEN = 100_000
"""Characters of a line where the output is no terminal."""


class InOrder(TyperGroup):
    """Lists the commands in their order."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)


app = typer.Typer(
    cls=InOrder,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out = Terminal(highlight=False, soft_wrap=True, markup=False)

ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="A YAML file of settings.")]
Output = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The run folder; default: a new one in runs/.", rich_help_panel=WHERE),
]

SHOWS = "What is shown"
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress: only errors, and what came of it.", rich_help_panel=SHOWS),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print all that log.txt has, too, as it happens.", rich_help_panel=SHOWS),
]
Greedy = Annotated[
    bool | None,
    typer.Option(
        "--greedy/--explore",
        help="Let all agents do what seems best to them, or all explore as in training; default: each agent as its algorithm"
        " declares (DQN and IQN greedy, PPO and SAC explore).",
        show_default=False,
    ),
]


@contextmanager
def held_back(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait until this is done.

    (To block them in this thread is not enough: another thread then takes them, and Python still runs the handler here.)
    """
    if threading.current_thread() is not threading.main_thread():  # handlers never run in this one
        yield
        return
    waiting: list[int] = []
    before = {number: signal.signal(number, lambda taken, frame: waiting.append(taken)) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for taken in waiting:
            signal.raise_signal(taken)


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"abreast {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Independent agents, learning side by side."""


def counted(number: int, noun: str) -> str:
    """A number and its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def look_here() -> None:
    """Let modules be imported from the current folder: a user's game or environment is often a file there."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def choose_volume(quiet: bool, verbose: bool) -> None:
    """How much this command shows, as `-q` and `-v` say."""
    if quiet and verbose:
        raise ConfigError("--quiet and --verbose exclude each other: give one of them.")
    set_volume(QUIET if quiet else VERBOSE if verbose else NORMAL)


def waiting(text: str) -> AbstractContextManager[object]:
    """Say meanwhile what is waited for, in a terminal."""
    return out.status(text) if out.is_terminal and volume() != QUIET else nullcontext()


def load_training() -> None:
    """Import what needs torch, which takes seconds; without a terminal, too, that is said if it takes long."""
    late = threading.Timer(SILENT_S, sys.stderr.write, ["Loading torch …\n"])
    late.daemon = True
    if volume() != QUIET and not out.is_terminal:
        late.start()
    with waiting("Loading torch"):
        import_module("abreast.games")
    late.cancel()


def as_typed(text: str) -> str:
    """A text whose commands can be typed as they are printed: with `abreast` as it was called, if it is not on the path."""
    called, found = Path(sys.argv[0]), shutil.which("abreast")
    is_found = found is not None and Path(found).resolve() == called.resolve()
    if called.parts[-2:] == ("abreast", "__main__.py"):  # python -m abreast
        program = shlex.join([sys.executable, "-m", "abreast"])
    else:
        program = "abreast" if is_found or called.name != "abreast" else shlex.quote(str(called))
    return re.sub(rf"\babreast (?=({'|'.join(COMMANDS)})\b)", lambda _: f"{program} ", text)


def complain(text: str, *more: str) -> None:
    """Print a sentence to stderr, on one line, and more lines below it."""
    console = Terminal(stderr=True, highlight=False, soft_wrap=True, markup=False)
    for line in (f"abreast: {' '.join(text.split())}", *(f"  {' '.join(each.split())}" for each in more)):
        console.print(as_typed(line))


def show(table: Table) -> None:
    """Print a table. Where the output is no terminal, say a pipe or a file, no line is broken."""
    console = out if out.is_terminal else Terminal(highlight=False, soft_wrap=True, markup=False, width=UNBROKEN)
    console.print(table)


def show_settings(settings: Iterable[tuple[str, Any, str]]) -> None:
    """Print key, value and meaning of settings. Keys are there to be typed: they are never broken."""
    table = Table(Column("setting", no_wrap=True), Column("value", overflow="fold"), "meaning", box=None)
    for key, value, meaning in settings:
        plain = value if isinstance(value, bool | int | float | str | list | dict | None) else str(value)
        quotes = '"' if isinstance(plain, str) and "\n" in plain else None  # which keep a text on one line
        text = yaml.safe_dump(plain, default_flow_style=True, default_style=quotes, width=UNBROKEN)
        table.add_row(key, text.splitlines()[0], meaning)
    show(table)


def main() -> None:
    """Entry point of the command `abreast`."""
    signal.signal(signal.SIGTERM, _terminated)
    faulthandler.enable()  # native code of an environment, or of a library, may crash without a word
    if hasattr(signal, "SIGUSR1"):
        faulthandler.register(signal.SIGUSR1)  # while nothing else handles it, stacks are printed
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command; returns its exit code."""
    try:
        code = app(arguments, prog_name="abreast", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except typer.Abort:  # Ctrl-C in a command that has nothing to keep
        return 130
    except AbreastError as error:
        return _complain_of(error)
    except MemoryError as error:  # there is memory for a sentence when the stack, and what it held, is gone
        notes = getattr(error, "__notes__", ())
    except Exception as error:
        if isinstance(error, OSError) and users_part(error) is None:  # a full disk, a folder that may not be written to
            where = f" ({error.filename})" if error.filename else ""
            _close_if_full()
            told = f"{error.strerror or error}{where}: what was written until now is kept."
            complain(" ".join([told, *getattr(error, "__notes__", ())]))
            return 2
        if hasattr(error, "format_message"):  # a mistake in the command line itself, in the parser's words
            if not error.format_message():  # nothing was typed: the help is shown already
                return 2
            context = getattr(error, "ctx", None)
            command = "abreast" if context is None else context.command_path
            complain(f"{sentence(error.format_message())} `{command} --help` shows what there is.")
            return 2
        for note in getattr(error, "__notes__", ()):  # the error is one of the user's own code: its stack follows
            complain(note)
        raise
    told = "the memory is used up: what was written until now is kept. Raise its limit, or run less at a time."
    complain(" ".join([told, *notes]))
    return 2


def _complain_of(error: AbreastError) -> int:
    """Print what is wrong, and return the exit code: 1 where what was typed is right, and what ran is at fault."""
    is_of_work = isinstance(error, WorkerError) and not isinstance(error, WorkerInputError)
    if is_of_work:
        sys.stderr.write(printable(_stack_in_worker(error)))
    notes = getattr(error, "__notes__", ())
    if isinstance(error, ConfigError) and len(error.faults) > 1:
        complain(*str(error).splitlines(), *notes)
    else:
        complain(" ".join([str(error), *notes]))
    return 1 if is_of_work or isinstance(error, FailedEpisodesError) else 2


def _stack_in_worker(error: BaseException) -> str:
    """The stack of the worker that an error of ours comes from, if it had one."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return "" if cause is error else f"{str(cause).strip()}\n"


def _close_if_full() -> None:
    """If nothing more can be printed, do not let Python try again at its end, and complain of it in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminated(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)  # unwinds the run, which keeps what it has on the way out
