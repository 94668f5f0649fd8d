"""`abreast sweep`. Whatever needs torch is imported by the command."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abreast.cli.app import (
    TRAINING,
    WHERE,
    Greedy,
    Quiet,
    Verbose,
    app,
    as_typed,
    choose_volume,
    complain,
    counted,
    load_training,
    look_here,
    out,
)
from abreast.cli.games import GAME_HELP
from abreast.errors import ConfigError
from abreast.settings import read_yaml

if TYPE_CHECKING:
    from abreast.sweeps import Sweep

SEARCHED = "Search instead of all combinations"


@app.command(rich_help_panel=TRAINING)
def sweep(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="GAME... [SECTION.KEY=A,B]...",
            help=f"{GAME_HELP} Settings with the values to be tried: a comma within [ ], {{ }} or quotes is part of a value,"
            " as in world.shape=[4,4],[8,8].",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", "--epochs", help="Episodes of each run (experiment.epochs).")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of each run (experiment.max_steps).")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N", help="Runs of each, with seeds 0 to N - 1; or which seeds, as in 3,5.")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A YAML file with games, seeds and settings; what is typed counts more."),
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(help="Checkpoints that are kept of each run, for `abreast compare`; default: 10.")
    ] = None,
    at_once: Annotated[
        int | None, typer.Option(help="Runs at once; default: as many as there are CPUs for.", show_default=False)
    ] = None,
    backend: Annotated[str, typer.Option(help="Where they run: processes (here) or ray (a cluster).")] = "processes",
    apart: Annotated[
        bool,
        typer.Option("--apart", help="On a GPU, train runs that differ in seed or learning rate alone one by one."),
    ] = False,
    search: Annotated[
        str | None,
        typer.Option(metavar="optuna", help="Let trials choose from the ranges in FILE.", rich_help_panel=SEARCHED),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="How many trials; default: 50.", rich_help_panel=SEARCHED, show_default=False)
    ] = None,
    greedy: Greedy = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The sweep folder; default: a new one in runs/.", rich_help_panel=WHERE),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Go on with a sweep that was stopped.", rich_help_panel=WHERE),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train with every combination of seeds, settings and games, as many runs at once as there is room for."""
    choose_volume(quiet, verbose)
    load_training()
    look_here()
    from abreast.sweeps import begin_sweep, open_sweep

    typed: dict[str, Any] = {
        "GAME": words,
        "--epochs": episodes,
        "--steps": steps,
        "--seeds": seeds,
        "--config": config,
        "--evaluations": evaluations,
        "--search": search,
        "--trials": trials,
        "--greedy/--explore": greedy,
        "--output": output,
    }
    if resume is not None:
        if refused := [name for name, value in typed.items() if value is not None]:
            raise ConfigError(f"--resume goes on with what the sweep was begun with: leave out {', '.join(refused)}.")
        found = open_sweep(resume)
    else:
        found = begin_sweep(output, _asked(typed, at_once), backend, at_once)
    _run(found, backend, at_once, apart)


def _asked(typed: dict[str, Any], at_once: int | None) -> Any:
    """What was asked for, in a file and in words."""
    from abreast.processes.cores import cores
    from abreast.sweeps.asked import Asked, parse_seeds, split_words
    from abreast.sweeps.search import optuna_module

    values = read_yaml(typed["--config"]) if typed["--config"] else {}
    games, settings = split_words(typed["GAME"] or ())
    for option, key in {"--epochs": "experiment.epochs", "--steps": "experiment.max_steps"}.items():
        if typed[option] is not None:
            settings[key] = [typed[option]]
    if not games and "games" not in values:
        raise ConfigError(
            "Missing argument 'GAME': name a game (`abreast games` lists them), or give games in --config."
        )
    options = {
        "games": games or None,
        "seeds": None if typed["--seeds"] is None else parse_seeds(typed["--seeds"]),
        "evaluations": typed["--evaluations"],
        "search": typed["--search"],
        "trials": typed["--trials"],
        "greedy": typed["--greedy/--explore"],
    }
    values |= {key: value for key, value in options.items() if value is not None}
    if settings:
        values["settings"] = {**(values.get("settings") or {}), **settings}
    for name in ("--trials", "--greedy/--explore") if values.get("search") is None else ():
        if typed[name] is not None:
            raise ConfigError(f"{name} is {typed[name]}, but nothing is searched: give --search optuna, too.")
    if values.get("search") is not None:
        values.setdefault("trials_at_once", at_once or max(1, int(cores())))
    asked = Asked.read(values)
    if asked.search is not None:
        optuna_module()
    return asked


def _run(sweep: "Sweep", backend: str, at_once: int | None, apart: bool) -> None:
    """Run what is missing, and say what became of it."""
    from abreast.runs import joinable, run_many
    from abreast.sweeps.sweep import FAILED, FINISHED, PRUNED, SweepDisplay

    kind: Literal["processes", "ray"] = backend  # type: ignore[assignment]  # `run_many` refuses others by name
    execute = partial(run_many, backend=kind, at_once=at_once, resume=True, joined=False if apart else None)
    again = as_typed(shlex.join(["abreast", "sweep", "--resume", str(sweep.folder)]))
    asked = sweep.asked
    total = asked.trials * len(asked.seeds) if asked.search else len(sweep.runs)
    display = SweepDisplay(sweep, total)
    out.print(f"The sweep of {counted(total, 'run')} is in {sweep.folder}")
    if not (apart or asked.search or backend != "processes"):
        groups = joinable([run.config(sweep.folder) for run in sweep.runs])
        if together := [len(group) for group in groups if len(group) > 1]:
            out.print(
                f"On the GPU, {counted(sum(together), 'run')} learn in {counted(len(together), 'stacked update')}, where"
                " products may round otherwise than in a run alone (--apart: one by one)."
            )
    try:
        if asked.search:
            from abreast.sweeps.search import run_search

            out.print(run_search(sweep, execute, display))
        else:
            sweep.run(execute, display)
    except (KeyboardInterrupt, SystemExit) as stop:  # Ctrl-C, SIGTERM
        out.print(f"Stopped, with {counted(sweep.count(FINISHED), 'run')} finished. To go on: {again}")
        raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else int(stop.code or 0)) from None
    ended = f", {sweep.count(PRUNED)} pruned" if sweep.count(PRUNED) else ""
    out.print(f"{counted(sweep.count(FINISHED), 'run')} finished{ended}: {sweep.folder / 'index.jsonl'}")
    if failed := [f"{row['run']}: {row['error']}" for row in sweep.index if row["state"] == FAILED]:
        complain(f"{counted(len(failed), 'run')} failed; to try again: {again}", *failed)
        raise typer.Exit(1)
    if sweep.count(FINISHED):
        out.print(as_typed(f"Compare them:  abreast compare {shlex.quote(str(sweep.folder))}"))
