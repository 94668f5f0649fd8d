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

from abreast.checking import Verdict
from abreast.cli.app import app, look_here, out
from abreast.errors import ConfigError, RolloutError, nearest
from abreast.plugins import import_target, is_target
from abreast.rollouts.check import check_environment
from abreast.rollouts.config import shipped_tags
from abreast.rollouts.registry import list_kinds

STYLES = {"ok": "green", "wrong": "bold red", "skipped": "dim"}


@app.command()
def check(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Of your own, as MODULE:NAME or FILE.py:NAME: a game (a subclass of Environment; FILE.py will do), a model"
            " (a subclass of BaseModel), or an environment of rollouts (a class, a factory called with a configuration or"
            " nothing, or an EnvKind). Or the name of one that ships.",
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
    return _of_target(target) if is_target(target) else _of_name(target)


def _of_target(target: str) -> Iterator[Verdict]:
    found = import_target(target, "environment, game or model", RolloutError)
    if isinstance(found, ModuleType):
        found = _only_model_in(found) or found
    if _is_subclass(found, "abreast.models.base", "BaseModel"):
        from abreast.training.check import check_model

        return check_model(found)
    is_game = _is_subclass(found, "abreast.training.environment", "Environment")
    if isinstance(found, ModuleType) or is_game or type(found).__module__ == "abreast.games.registry":
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
    from abreast.training.check import check_game

    return check_game(find_game(target))


def _only_model_in(module: ModuleType) -> Any:
    """The model of a file that has one, and no game."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    if hasattr(module, "GAME") or any(
        _is_subclass(each, "abreast.training.environment", "Environment") for each in own
    ):
        return None
    models = [each for each in own if _is_subclass(each, "abreast.models.base", "BaseModel")]
    return models[0] if len(models) == 1 else None


def _is_subclass(thing: object, module: str, name: str) -> bool:
    """Whether it is a subclass of one of our classes; if their module was not imported, it is not."""
    return module in sys.modules and isinstance(thing, type) and issubclass(thing, getattr(sys.modules[module], name))
