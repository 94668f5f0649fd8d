"""`abreast games`, and how games are named in all commands.

Whatever needs torch is imported by the command that uses it: rollouts, and `--help`, need not wait for it.
"""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from abreast.cli.app import TRAINING, app, load_training, look_here, show
from abreast.errors import GameError
from abreast.plugins import is_target

if TYPE_CHECKING:
    from abreast.games import AnyGame

GAME_HELP = (
    "A game's name (`abreast games` lists them), FILE.py, FILE.py:NAME, MODULE:NAME,"
    " pettingzoo:MODULE, gymnasium:NAME or sorrel:MODULE:CLASS."
)
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, e.g. experiment.epochs=500 model.algorithm=ppo."),
]


@app.command(rich_help_panel=TRAINING)
def games() -> None:
    """List the games."""
    load_training()
    from abreast.games import find_game, list_games

    table = Table("game", "what it is", box=None)
    for name in list_games():
        try:
            table.add_row(name, find_game(name).summary)
        except GameError as error:
            table.add_row(name, str(error), style="red")
    show(table)


def find(game: str) -> "AnyGame":
    """The game that was typed."""
    from abreast.games import find_game

    if is_target(game):
        look_here()
    return find_game(game)
