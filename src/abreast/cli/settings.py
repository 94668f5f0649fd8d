"""`abreast settings`: every setting of a game, or of rollouts."""

from typing import Annotated

import typer

from abreast.cli.app import BOTH, ConfigFile, app, load_training, show_settings
from abreast.cli.games import GAME_HELP, Overrides, find
from abreast.rollouts import RolloutConfig
from abreast.rollouts.files import read_config
from abreast.settings import Section, apply_overrides, explain


@app.command(rich_help_panel=BOTH)
def settings(
    of: Annotated[str, typer.Argument(metavar="GAME|rollout", help=f"rollout, or a game. {GAME_HELP}")],
    overrides: Overrides = None,
    config: ConfigFile = None,
) -> None:
    """List every setting of a game, or of rollouts: its key, its value, what it means.

    Settings of one text environment: `abreast envs TAG_OR_ENV`.
    """
    if of == "rollout":
        given = RolloutConfig.parse(read_config(config) if config else {}).model_dump(exclude_unset=True)
        values = apply_overrides(given, overrides or [], lambda: RolloutConfig)
        chosen: Section = RolloutConfig.parse(values, foreign=False)
    else:
        load_training()
        chosen = find(of).configure(config, overrides or [])
    show_settings(explain(chosen))
