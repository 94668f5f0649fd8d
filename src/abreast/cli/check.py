"""`abreast check`: what is it, and does it keep its contract?

Whatever needs torch is imported only if what is checked has imported it already, or is no environment of rollouts.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from abreast.checking import each_warning_once
from abreast.cli.app import BOTH, ConfigFile, app, look_here, out, waiting
from abreast.cli.games import Overrides, find
from abreast.cli.rollout import configure
from abreast.errors import ConfigError, RolloutError, nearest
from abreast.integrations import SOURCES
from abreast.plugins import import_target, is_target
from abreast.rollouts.check import check_environment
from abreast.rollouts.config import shipped_tags
from abreast.rollouts.registry import is_gymnasium_id, list_kinds, takes_address

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
    config: ConfigFile = None,
) -> None:
    """Check whether a game, a model or an environment of rollouts keeps its contract; say how to repair what is wrong.

    A game is checked with its own settings and those given. An environment is named as in `abreast rollout`, and is checked
    with its settings env.KEY=VALUE and with the tags of --config.
    """
    look_here()
    wrong, settings = 0, overrides or []
    of_tags = [each for each in settings if each.startswith(("env.", "custom_envs."))]
    with waiting(f"Checking {target}") as status, each_warning_once():

        def doing(what: str) -> None:
            if isinstance(status, Status):
                status.update(f"Checking {target}, {escape(what)}")

        found = target if config or of_tags else _of_target(target) if is_target(target) else _of_name(target)
        if isinstance(found, str):
            found = check_environment(found, configure([found], config, of_tags).custom_envs, doing)
        if isinstance(found, Iterator) and len(of_tags) < len(settings):
            raise ConfigError(
                f"{next(each for each in settings if each not in of_tags)} has no effect on the check of {target}: remove"
                " it. A game takes its settings, an environment env.KEY=VALUE, a model none."
            )
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
    """Return what a target names: a game, the verdicts on a model, or the target again if it is an environment of rollouts;
    of a file alone, its game, or its only model or environment.
    """
    if target.partition(":")[0] in SOURCES:
        return find(target)
    if takes_address(target) or is_gymnasium_id(target):
        return target
    found = import_target(target, "environment, game or model", RolloutError)
    is_file = isinstance(found, ModuleType)
    if not is_file and "abreast.models" not in sys.modules:  # what is no part of a game need not wait for torch
        return target
    from abreast.games import Game
    from abreast.models import BaseModel
    from abreast.training import Environment
    from abreast.training.check import check_model

    own = (
        (value for value in vars(found).values() if getattr(value, "__module__", "") == found.__name__)
        if is_file
        else ()
    )
    parts = [*own, getattr(found, "GAME", None)] if is_file else [found]
    classes = [part for part in parts if isinstance(part, type)]
    models = {part.__name__: part for part in classes if issubclass(part, BaseModel)}
    if any(isinstance(part, Game) for part in parts) or any(issubclass(part, Environment) for part in classes):
        return find(target)  # which says so, if there are several
    if len(models) == 1:
        return check_model(next(iter(models.values())))
    zoo = [part for part in classes if any(each.__module__.startswith("pettingzoo.") for each in part.__mro__)]
    if len(zoo) == 1 and is_file and not models:
        return find(f"pettingzoo:{target}:{zoo[0].__name__}")
    if not is_file or (classes and not models):
        return target
    raise ConfigError(
        f"{target} has {', '.join(models) or 'no game, model or environment'}: name what to"
        f" check, as in {target}:{next(iter(models), 'NAME')}."
    )


def _of_name(name: str) -> Any:
    """Return what a name without a colon stands for, as `_of_target` does. What needs no torch is looked for first."""
    environments = {*list_kinds(), *shipped_tags()}
    if name in environments:
        return name
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
    if any(repr(other) in hint for other in others) and not is_gymnasium_id(name):
        raise ConfigError(f"there is no environment, game or model {name!r}: {hint}")
    return name
