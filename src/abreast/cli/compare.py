"""`abreast compare`. Whatever needs torch is imported by the command."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from abreast.cli.app import (
    TRAINING,
    WHERE,
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
from abreast.cli.evaluate import EvaluationDisplay, check_writable
from abreast.cli.play import at_random
from abreast.display import Shown
from abreast.errors import RunFolderError
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
    from abreast.comparison.compare import check_normalise, evaluate_all
    from abreast.evaluations import FILE, TIMES, evaluated_checkpoints

    runs, notes = find_runs(folders)
    how = check_normalise(normalise, {run.task for run in runs})
    curves = sum(len(evaluated_checkpoints(run.folder)) for run in runs)
    target = output or folders[0] / "comparison"
    check_writable(target, "comparison.json")
    if not quiet:
        out.print(
            f"{counted(curves, 'checkpoint')} x {counted(episodes, 'episode')}, then the best of each run x"
            f" {episodes * TIMES:,} (--episodes 8 is quicker); what {FILE} has is not played again."
        )
    with ComparisonDisplay(curves + len(runs)) as display:
        found = evaluate_all(runs, episodes, seed, display.evaluated)
    random = _random_rewards(runs, episodes, seed) if how == "random" else None
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


class ComparisonDisplay(EvaluationDisplay):
    """Shows how many checkpoints are evaluated."""

    def evaluated(self, run: str) -> None:
        """One more is, of this run."""
        self.now(f"{run} is being evaluated")
        self._done += 1
        self.ended(self._done, self._episodes)

    def figures(self) -> Shown:
        return super().figures()._replace(unit="checkpoints", facts=(), below=())


def _random_rewards(runs: "list[Compared]", episodes: int, seed: int) -> dict[str, list[list[float]]]:
    """What random agents get in each task, on as many episodes as the best checkpoints."""
    from abreast.evaluations import TIMES
    from abreast.games import find_game_of_run
    from abreast.training.evaluate import play_episodes

    found = dict[str, list[list[float]]]()
    for task, run in {run.task: run.folder for run in runs}.items():
        game = find_game_of_run(run)
        env = at_random(game, game.configure(run / "config.yaml"))
        found[task] = play_episodes(env, episodes * TIMES, seed + 1).rewards
    return found


def _table(comparison: "Comparison") -> Table:
    """The interquartile means, in sum and of each agent."""
    right = [Column(title, justify="right") for title in ("runs", "mean", "interquartile mean", "95 % interval")]
    table = Table("agent", "algorithm", *right, box=None)
    last: Any = None
    for row in comparison.summary:
        interval = "-" if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        figures = str(row["runs"]), f"{row['mean']:.2f}", f"{row['interquartile_mean']:.2f}", interval
        table.add_row("" if row["who"] == last else row["who"], row["algorithm"], *figures)
        last = row["who"]
    return table
