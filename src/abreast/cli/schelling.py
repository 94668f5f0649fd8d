"""`abreast schelling`: the diagram that shows whether a game is a social dilemma."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from abreast.cli.app import TRAINING, WHERE, app, load_training, out, show, waiting
from abreast.cli.evaluate import check_writable
from abreast.cli.games import Overrides, find


@app.command(rich_help_panel=TRAINING)
def schelling(
    game: Annotated[str, typer.Argument(metavar="GAME", help="A game, as for `abreast train`.")],
    overrides: Overrides = None,
    episodes: Annotated[int, typer.Option(min=1, help="Epochs played with each number of cooperators.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of all epochs.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder; default: runs/schelling-GAME.", rich_help_panel=WHERE),
    ] = None,
) -> None:
    """Draw what cooperators and defectors get, against how many others cooperate."""
    load_training()
    from abreast.training.schelling import ROLES, check_scripts, schelling_diagram

    found = find(game)
    env = found.build(found.configure(None, [*(overrides or []), "model.algorithm=random"]))
    folder = output or Path("runs") / f"schelling-{found.name}"
    check_scripts(env, found.name)
    check_writable(folder, "schelling.csv")
    with waiting("Playing"):
        diagram = schelling_diagram(env, found.name, episodes, seed)
    table = Table("others that cooperate", *(f"{role}: reward [95 %]" for role in ROLES), box=None)
    for pair in zip(*(diagram.of(role) for role in ROLES), strict=True):
        ends = ("" if each.interval is None else " [{:.2f}, {:.2f}]".format(*each.interval) for each in pair)
        table.add_row(str(pair[0].others), *(f"{each.mean:.2f}{told}" for each, told in zip(pair, ends, strict=True)))
    show(table)
    out.print(f"{found.name}: {diagram.verdict}")
    for path in diagram.write(folder):
        out.print(path)
