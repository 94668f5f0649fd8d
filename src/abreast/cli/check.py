"""`abreast check`: what is it, and does it keep its contract?

Whatever needs torch is imported only if what is checked has imported it already, or is no environment of rollouts.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard

import typer
from rich.table import Table

from abreast.checking import Verdict
from abreast.cli.app import app, look_here, out
from abreast.errors import ConfigError, RolloutError, nearest
from abreast.integrations import SOURCES
from abreast.plugins import import_target, is_target
from abreast.rollouts.check import check_environment
from abreast.rollouts.config import shipped_tags
from abreast.rollouts.registry import list_kinds

if TYPE_CHECKING:
    from abreast.models import BaseModel

STYLES = {"ok": "green", "wrong": "bold red", "skipped": "dim"}


@app.command()
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
    for verdict in _verdicts(target):
        wrong += verdict.outcome == "wrong"
        line = Table.grid(padding=(0, 2))
        line.add_column(width=7, style=STYLES[verdict.outcome])
        line.add_row(verdict.outcome, f"{verdict.check}: {verdict.remark}")
        out.print(line)
    if wrong:
        raise typer.Exit(2)


# ---- inside


def _verdicts(target: str) -> Iterator[Verdict]:
    """The verdicts of the checks for what the target is."""
    if target.partition(":")[0] in SOURCES:
        return _of_game(target)
    return _of_target(target) if is_target(target) else _of_name(target)


def _of_target(target: str) -> Iterator[Verdict]:
    found = import_target(target, "environment, game or model", RolloutError)
    if isinstance(found, ModuleType):
        found = _part_of(found, target)
    if _is_model(found):
        from abreast.training.check import check_model

        return check_model(found)
    if _is_game(found):
        return _of_game(target)
    return check_environment(target)


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


def _part_of(module: ModuleType, file: str) -> Any:
    """The game of a file, or its only model."""
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    games = [module.GAME] if hasattr(module, "GAME") else [each for each in own.values() if _is_game(each)]
    models = {name: value for name, value in own.items() if _is_model(value)}
    if games:
        return games[0]  # that there are several, `find_game` says
    if len(models) == 1:
        return next(iter(models.values()))
    what = f"several models ({', '.join(models)}) and no game" if models else "no game and no model"
    raise ConfigError(f"{file} has {what}: say which part of it to check, as in {file}:{next(iter(models), 'NAME')}.")


def _is_game(thing: object) -> bool:
    is_wrapped = type(thing).__module__ == "abreast.games.registry"
    return is_wrapped or _is_subclass(thing, "abreast.training.environment", "Environment")


def _is_model(thing: object) -> TypeGuard["type[BaseModel]"]:
    return _is_subclass(thing, "abreast.models.base", "BaseModel")


def _is_subclass(thing: object, module: str, name: str) -> bool:
    """Whether it is a subclass of one of our classes; if their module was not imported, it is not."""
    return module in sys.modules and isinstance(thing, type) and issubclass(thing, getattr(sys.modules[module], name))
