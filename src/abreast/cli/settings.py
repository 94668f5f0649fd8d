"""`abreast settings`: every setting of a game, or of rollouts."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from abreast.cli.app import BOTH, ConfigFile, app, load_training, show_settings
from abreast.cli.games import GAME_HELP, find
from abreast.errors import ConfigError
from abreast.rollouts import RolloutConfig
from abreast.rollouts.files import read_config
from abreast.settings import Section, apply_overrides, explain

ARGUMENT = "An argument of what makes the environment, and its default."


@app.command(rich_help_panel=BOTH)
def settings(
    of: Annotated[str, typer.Argument(metavar="GAME|rollout", help=f"rollout, or a game. {GAME_HELP}")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD|SECTION.KEY=VALUE]...",
            help="List only settings with this word in their key or meaning; or settings, to see what follows from them.",
        ),
    ] = None,
    config: ConfigFile = None,
) -> None:
    """List every setting of a game, or of rollouts: its key, its value, what it means.

    Settings of one text environment: `abreast envs TAG_OR_ENV`.
    """
    defaults: Mapping[str, Any] = {}
    overrides, wanted = ([each for each in words or [] if ("=" in each) is is_value] for is_value in (True, False))
    if of == "rollout":
        given = RolloutConfig.parse(read_config(config) if config else {}).model_dump(exclude_unset=True)
        chosen: Section = RolloutConfig.parse(apply_overrides(given, overrides, lambda: RolloutConfig), foreign=False)
    else:
        load_training()
        from abreast.integrations.adapted.experiment import AdaptedGame

        game = find(of)
        chosen = game.configure(config, overrides)
        if isinstance(game, AdaptedGame):
            defaults = game.defaults(chosen)
    listed = [*explain(chosen), *((f"world.{name}", value, ARGUMENT) for name, value in defaults.items())]
    rows = [row for row in listed if all(word.lower() in f"{row[0]} {row[2]}".lower() for word in wanted)]
    if not rows:
        raise ConfigError(f"no setting of {of} has {' and '.join(map(repr, wanted))} in its key or meaning.")
    show_settings(rows)
