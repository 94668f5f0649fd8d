"""`abreast tournament`: the agents of several runs, or of several checkpoints, play each other and are rated.

Whatever needs torch is imported by the command: `--help` need not wait for it.
"""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from abreast import __version__
from abreast.cli.app import TRAINING, Greedy, Quiet, Verbose, app, choose_volume, complain, load_training, out, show
from abreast.cli.evaluate import check_writable, game_of_run
from abreast.display import Counting
from abreast.files import locked, write_whole

if TYPE_CHECKING:
    from abreast.training.tournament import Standings


@app.command(rich_help_panel=TRAINING)
def tournament(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…", help="Run folders, or checkpoints in them; RUN:0 lets agent 0 play on every seat."
        ),
    ],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each match.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the episodes.")] = 0,
    checkpoints: Annotated[
        str,
        typer.Option(
            metavar="last|all|every:K",
            help="Which checkpoints of each run take part; its pool's members are among them.",
        ),
    ] = "last",
    greedy: Greedy = None,
    game: Annotated[
        str | None, typer.Option(metavar="GAME", help="The game, if it is not where it was when the runs were made.")
    ] = None,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder for results; matches that it has are not played again.")
    ] = Path("tournament"),
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Let runs play each other, all against all: payoffs with intervals, Elo, and α-rank."""
    choose_volume(quiet, verbose)
    load_training()
    from abreast.training.moved import AgentOf
    from abreast.training.tournament import FILE, Tournament, common_settings, find_entrants

    settings = common_settings(runs)
    source = game_of_run(AgentOf.parse(runs[0], 0).config_file().parent, game, "tournament")
    entrants = [entrant for run in runs for entrant in find_entrants(run, checkpoints)]
    matches = Tournament(
        entrants, settings, lambda values: source.build(source.configure(values)), episodes, seed, greedy
    )
    check_writable(output, FILE)
    output.mkdir(parents=True, exist_ok=True)
    with locked(output):
        try:
            with Counting("matches", len(matches.matches)) as display:
                for match in matches.play(output):
                    display.one_ended(" against ".join(matches.names[number] for number in dict.fromkeys(match)))
        except KeyboardInterrupt:
            done = f"{len(matches.results)} of {len(matches.matches)} matches"
            complain(f"stopped after {done}, which are in {output}: the same command goes on from there.")
            raise
        standings = matches.standings()
        about = {"abreast": __version__, "game": settings.get("game"), "episodes": episodes, "seed": seed}
        _write(output, about | {"modes": matches.modes}, standings)
    show(_ratings(standings, matches.modes))
    show(_payoffs(standings))
    if matches.is_without_chance and any("greedy" in mode for mode in matches.modes.values()):
        complain(
            f"the {episodes} episodes of every match brought the same rewards, so that intervals say nothing: in a game"
            " without chance, greedy agents play alike again and again. Give --explore to let them explore as in training."
        )
    out.print(f"Tables, picture and every episode are in {output}")


# ---- inside


def _ratings(standings: "Standings", modes: dict[str, str]) -> Table:
    titles = ("Elo", "±", "α-rank", "won", "mean reward")
    table = Table("entrant", "mode", *(Column(title, justify="right") for title in titles), box=None)
    for row in standings.ratings:
        table.add_row(
            row["entrant"],
            modes[row["entrant"]],
            f"{row['elo']:.0f}",
            f"{row['elo_95']:.0f}",
            f"{row['alpha_rank']:.3f}",
            f"{row['win_rate']:.0%}",
            f"{row['mean_reward']:.2f}",
        )
    return table


def _payoffs(standings: "Standings") -> Table:
    """What the entrant of a row gets against that of a column; the best is first."""
    columns = [Column(str(number + 1), justify="right") for number in range(len(standings.names))]
    table = Table("reward against", *columns, box=None)
    for place, one in enumerate(standings.order):
        cells = []
        for two in standings.order:
            interval = standings.intervals.get((one, two))
            told = "" if interval is None else " ({:.2f} to {:.2f})".format(*interval)
            cells.append("-" if one == two else f"{standings.payoffs[one, two]:.2f}{told}")
        table.add_row(f"{place + 1} {standings.names[one]}", *cells)
    return table


def _write(folder: Path, about: dict[str, Any], standings: "Standings") -> None:
    """tournament.json, ratings.csv, payoffs.csv, and tournament.png if matplotlib is there."""
    from abreast.comparison.outputs import as_csv

    tables = {"ratings": standings.ratings, "payoffs": standings.meetings()}
    write_whole(folder / "tournament.json", f"{json.dumps(about | tables, allow_nan=False, indent=1)}\n".encode())
    for name, rows in tables.items():
        write_whole(folder / f"{name}.csv", as_csv(rows).encode())
    try:
        from matplotlib.figure import Figure
    except ImportError:
        complain('tournament.png is left out: it needs the package matplotlib (pip install "abreast[plot]").')
        return
    picture = io.BytesIO()
    _draw(Figure(figsize=(11, 2 + 0.4 * len(standings.names)), dpi=100, layout="constrained"), standings).savefig(
        picture
    )
    write_whole(folder / "tournament.png", picture.getvalue())


def _draw(figure: Any, standings: "Standings") -> Any:
    """The payoff matrix, and the ratings beside it, in the same order: the best on top."""
    order = standings.order
    names = [standings.names[number].replace("$", r"\$") for number in order]
    payoffs = standings.payoffs[order][:, order]
    for number in range(len(order)):
        payoffs[number, number] = float("nan")
    matrix, ratings = figure.subplots(1, 2)
    figure.colorbar(matrix.imshow(payoffs, cmap="cividis", aspect="auto"), ax=matrix, label="mean reward in a seat")
    matrix.set_xticks(range(len(names)), [str(number + 1) for number in range(len(names))])
    matrix.set_yticks(range(len(names)), [f"{number + 1} {name}" for number, name in enumerate(names)])
    matrix.set_xlabel("against")
    points, widths = ([row[key] for row in standings.ratings] for key in ("elo", "elo_95"))
    ratings.errorbar(points, range(len(names)), xerr=widths, fmt="o", capsize=3, color="#2e6f95")
    for number, row in enumerate(standings.ratings):
        ratings.annotate(
            f"α {row['alpha_rank']:.2f}", (row["elo"], number), (0, 6), textcoords="offset points", ha="center"
        )
    ratings.set_yticks(range(len(names)), [str(number + 1) for number in range(len(names))])
    ratings.set_ylim(len(names) - 0.5, -0.5)
    ratings.set_xlabel("Elo, with 95 % intervals")
    ratings.grid(alpha=0.3)
    return figure
