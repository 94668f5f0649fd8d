"""`abreast check`: what is it, and does it keep its contract?

Whatever needs torch is imported only if what is checked has imported it already, or is no environment of rollouts.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.table import Table

from abreast.checking import each_warning_once
from abreast.cli.app import BOTH, app, look_here, out, waiting
from abreast.cli.games import Overrides, find
from abreast.errors import ConfigError, RolloutError, nearest
from abreast.integrations import SOURCES
from abreast.plugins import import_target, is_target
from abreast.rollouts.check import check_environment
from abreast.rollouts.config import shipped_tags
from abreast.rollouts.registry import list_kinds, takes_address

STYLES = {"ok": "green", "note": "yellow", "wrong": "bold red", "skipped": "dim"}


@app.command(rich_help_panel=BOTH)
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Of your own, as MODULE:NAME or FILE.py:NAME: a game (a subclass of Environment; FILE.py will do), a model"
            " (a subclass of BaseModel), or an environment of rollouts (a class, a factory called with a configuration or"
            " nothing, or an EnvKind). Or the name of one that ships, or an environment of another library, as in"
            " pettingzoo:MODULE, gymnasium:NAME or sorrel:MODULE:CLASS, or an OpenEnv server, as in openenv:http://HOST:PORT.",
        ),
    ],
    overrides: Overrides = None,
) -> None:
    """Check whether a game, a model or an environment of rollouts keeps its contract; say how to repair what is wrong.

    A game is checked with its own settings and those given.
    """
    look_here()
    wrong, settings = 0, overrides or []
    with waiting(f"Checking {target}"), each_warning_once():
        found = _of_target(target) if is_target(target) else _of_name(target)
        if settings and isinstance(found, Iterator):
            raise ConfigError(f"{target} is no game, so it is not checked with settings: leave out {settings[0]}.")
        for verdict in found if isinstance(found, Iterator) else found.check(settings):
            wrong += verdict.outcome == "wrong"
            line = Table.grid(padding=(0, 2))
            line.add_column(width=7, style=STYLES[verdict.outcome])
            line.add_row(verdict.outcome, f"{verdict.check}: {verdict.remark}")
            out.print(line)
    if wrong:
        raise typer.Exit(2)


# ---- inside


def _of_target(target: str) -> Any:
    """What a target names: a game, or the verdicts on another thing; of a file alone, its game, or its only model or
    environment.
    """
    if target.partition(":")[0] in SOURCES:
        return find(target)
    if takes_address(target):
        return check_environment(target)
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
        return find(target)  # which says so, if there are several
    if len(models) == 1:
        return check_model(next(iter(models.values())))
    if not is_file:
        return check_environment(target)
    played = [] if models else [part for part in classes if hasattr(part, "reset") and hasattr(part, "step")]
    if len(played) == 1:
        if any(each.__module__.startswith("pettingzoo.") for each in played[0].__mro__):
            return find(f"pettingzoo:{target}:{played[0].__name__}")
        return check_environment(f"{target}:{played[0].__name__}")
    names = [*models, *(part.__name__ for part in played)]
    what = f"several models or environments ({', '.join(names)})" if names else "no game, model or environment"
    raise ConfigError(
        f"{target} has {what}: say which part of it to check, as in {target}:{next(iter(names), 'NAME')}."
    )


def _of_name(name: str) -> Any:
    """The same of a name. What ships is looked for first where torch is not needed."""
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
        return find(name)
    others = {*games, *ALGORITHMS}
    hint = nearest(name, {*environments, *others})
    if any(repr(other) in hint for other in others):
        raise ConfigError(f"there is no environment, game or model {name!r}: {hint}")
    return check_environment(name)
