"""`abreast compare`. Whatever needs torch is imported by the command."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from abreast.cli.app import (
    TRAINING,
    WHERE,
    Greedy,
    Quiet,
    Verbose,
    app,
    choose_volume,
    complain,
    counted,
    load_training,
    look_here,
    out,
    show,
)
from abreast.cli.evaluate import check_writable
from abreast.cli.play import at_random
from abreast.display import Counting
from abreast.errors import ConfigError, RunFolderError
from abreast.files import write_whole
from abreast.report import make_page, read_comparison

if TYPE_CHECKING:
    from abreast.comparison import Compared, Comparison


@app.command(rich_help_panel=TRAINING)
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Sweep folders, run folders.")],
    episodes: Annotated[
        int, typer.Option(min=1, help="Episodes at each checkpoint; the best one plays ten times as many again.")
    ] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the episodes.")] = 0,
    greedy: Greedy = None,
    normalise: Annotated[
        str | None,
        typer.Option(
            metavar="none|range|random",
            help="What 0 and 1 are in each game: range: the worst and the best run; random: what random agents get, and the"
            " best run.  \\[default: none; with several games range]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where files are written; default: comparison/ in the first folder.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare runs by evaluations apart from training: interquartile means with intervals, curves, profiles."""
    choose_volume(quiet, verbose)
    load_training()
    look_here()
    from abreast.comparison import compare as compare_runs
    from abreast.comparison import find_runs, write_outputs
    from abreast.comparison.compare import RANDOM, check_normalise, evaluate_all
    from abreast.evaluations import FILE, TIMES, evaluated_checkpoints

    runs, notes = find_runs(folders)
    how = check_normalise(normalise, {run.task for run in runs})
    curves = sum(len(evaluated_checkpoints(run.folder)) for run in runs)
    target = output or folders[0] / "comparison"
    check_writable(target, "comparison.json")
    if not quiet:
        quicker = " (--episodes 8 is quicker)" if episodes > 8 else ""
        out.print(
            f"{counted(curves, 'checkpoint')} x {counted(episodes, 'episode')}, then the best of each run x"
            f" {episodes * TIMES:,}{quicker}; what {FILE} has is not played again."
        )
    with Counting("checkpoints", curves + len(runs)) as display:

        def evaluated(run: str) -> None:
            display.now(f"{run} is being evaluated")
            display.one_ended()

        found = evaluate_all(runs, episodes, seed, evaluated, greedy)
        display.now("random agents are being evaluated")
        is_there = RANDOM in {run.algorithm for run in runs}
        random = {} if is_there and how != "random" else _random_rewards(runs, episodes, seed, notes)
    if how == "random" and not random:
        raise ConfigError(f"--normalise is random, but {notes[-1]} Use none (one game) or range.")
    comparison = compare_runs(found, how, random, notes)
    try:
        names = write_outputs(target, comparison, found)
        write_whole(target / "report.html", make_page(read_comparison(target)).encode())
    except OSError as error:
        raise RunFolderError(f"cannot write the comparison to {target}: {error.strerror or error}.") from None
    show(_table(comparison))
    for note in comparison.notes:
        complain(note)
    out.print(f"{counted(len(runs), 'run')} compared: {target} has {', '.join([*names, 'report.html'])}")


def _random_rewards(runs: "list[Compared]", episodes: int, seed: int, notes: list[str]) -> dict[str, list[list[float]]]:
    """Return what random agents get in each task, in the game of its first run. If they cannot play in some task, a sentence
    is added to `notes`, and nothing is returned.
    """
    from abreast.evaluations import RunEvaluations
    from abreast.games import find_game_of_run

    found = dict[str, list[list[float]]]()
    for task, run in {run.task: run.folder for run in reversed(runs)}.items():
        try:
            found[task] = RunEvaluations(run, partial(find_game_of_run, run), episodes, seed).random(at_random)
        except Exception as error:  # whatever a game does with agents it was not made for
            notes.append(
                f"random agents are left out, because they cannot play {task} ({type(error).__name__}: {error})."
            )
            return {}
    return found


def _table(comparison: "Comparison") -> Table:
    """The interquartile means, in sum and of each agent."""
    right = [Column(title, justify="right") for title in ("runs", "mean", "interquartile mean", "95 % interval")]
    table = Table("agent", "algorithm", "mode", *right, box=None)
    last: Any = None
    rows = [*comparison.summary, *comparison.other_modes]
    for row in sorted(rows, key=lambda row: comparison.about["who"].index(row["who"])):
        interval = "-" if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        figures = str(row["runs"]), f"{row['mean']:.2f}", f"{row['interquartile_mean']:.2f}", interval
        table.add_row("" if row["who"] == last else row["who"], row["algorithm"], row["mode"] or "-", *figures)
        last = row["who"]
    return table
