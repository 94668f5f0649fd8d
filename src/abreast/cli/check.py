"""`abreast check`: what is it, and does it keep its contract?

Whatever needs torch is imported only if what is checked has imported it already, or is no environment of rollouts.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.table import Table

from abreast.checking import Verdict
from abreast.cli.app import BOTH, app, look_here, out, waiting
from abreast.errors import ConfigError, RolloutError, nearest
from abreast.integrations import SOURCES
from abreast.plugins import import_target, is_target
from abreast.rollouts.check import check_environment
from abreast.rollouts.config import shipped_tags
from abreast.rollouts.registry import list_kinds

STYLES = {"ok": "green", "wrong": "bold red", "skipped": "dim"}


@app.command(rich_help_panel=BOTH)
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Of your own, as MODULE:NAME or FILE.py:NAME: a game (a subclass of Environment; FILE.py will do), a model"
            " (a subclass of BaseModel), or an environment of rollouts (a class, a factory called with a configuration or"
            " nothing, or an EnvKind). Or the name of one that ships, or an environment of another library, as in"
            " pettingzoo:MODULE, gymnasium:NAME or sorrel:MODULE:CLASS.",
        ),
    ],
) -> None:
    """Check whether a game, a model or an environment of rollouts keeps its contract; say how to repair what is wrong."""
    look_here()
    wrong = 0
    with waiting(f"Checking {target}"):
        for verdict in _of_target(target) if is_target(target) else _of_name(target):
            wrong += verdict.outcome == "wrong"
            line = Table.grid(padding=(0, 2))
            line.add_column(width=7, style=STYLES[verdict.outcome])
            line.add_row(verdict.outcome, f"{verdict.check}: {verdict.remark}")
            out.print(line)
    if wrong:
        raise typer.Exit(2)


# ---- inside


def _of_target(target: str) -> Iterator[Verdict]:
    """What a target names; of a file alone, its game or its only model."""
    if target.partition(":")[0] in SOURCES:
        return _of_game(target)
    found = import_target(target, "environment, game or model", RolloutError)
    is_file = isinstance(found, ModuleType)
    if not is_file and "abreast.models" not in sys.modules:  # what is no part of a game need not wait for torch
        return check_environment(target)
    from abreast.games import Game
    from abreast.models import BaseModel
    from abreast.training import Environment
    from abreast.training.check import check_model

    parts = [found]
    if is_file:
        own = (value for value in vars(found).values() if getattr(value, "__module__", "") == found.__name__)
        parts = [*own, getattr(found, "GAME", None)]
    classes = [part for part in parts if isinstance(part, type)]
    models = {part.__name__: part for part in classes if issubclass(part, BaseModel)}
    if any(isinstance(part, Game) for part in parts) or any(issubclass(part, Environment) for part in classes):
        return _of_game(target)  # which says so, if there are several
    if len(models) == 1:
        return check_model(next(iter(models.values())))
    if not is_file:
        return check_environment(target)
    what = f"several models ({', '.join(models)}) and no game" if models else "no game and no model"
    raise ConfigError(
        f"{target} has {what}: say which part of it to check, as in {target}:{next(iter(models), 'NAME')}."
    )


def _of_name(name: str) -> Iterator[Verdict]:
    """What ships is looked for first where torch is not needed."""
    environments = {*list_kinds(), *shipped_tags()}
    if name in environments:
        return check_environment(name)
    from abreast.games import list_games
    from abreast.models import ALGORITHMS

    if name in ALGORITHMS:
        from abreast.training.check import check_model

        return check_model(ALGORITHMS[name])
    games = list_games()
    if name in games or Path(f"{name}.py").is_file():
        return _of_game(name)
    others = {*games, *ALGORITHMS}
    hint = nearest(name, {*environments, *others})
    if any(repr(other) in hint for other in others):
        raise ConfigError(f"there is no environment, game or model {name!r}: {hint}")
    return check_environment(name)


def _of_game(target: str) -> Iterator[Verdict]:
    from abreast.games import find_game

    return find_game(target).check()
