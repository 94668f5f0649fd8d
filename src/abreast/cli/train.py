"""`abreast train`. Whatever needs torch is imported by the command."""

import json
import shlex
import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from abreast.cli.app import (
    SHOWS,
    TRAINING,
    WHERE,
    ConfigFile,
    Output,
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
    waiting,
)
from abreast.cli.export import LOGGER_HELP
from abreast.cli.games import GAME_HELP, Overrides, find
from abreast.cli.play import at_random
from abreast.errors import ConfigError, StoppedError, log
from abreast.files import logged_to, open_run_folder, write_whole
from abreast.headline import SUM, as_text, groups_of_run, results_of, results_of_run
from abreast.processes.cores import has_free_core
from abreast.processes.process import ProcessBackend
from abreast.settings import apply_overrides, merge, read_yaml

if TYPE_CHECKING:
    from abreast.games import AnyGame
    from abreast.training import Experiment, RunResult

PER_AGENT = "model.per_agent."
RANDOM_EPOCHS, FEWEST_EPOCHS = 40, 8
"""Epochs that random agents play for comparison; it is left out if they would play fewer than the second in …"""
RANDOM_SHARE = 0.02
"""… this share of the time that the run has taken."""
WHO = "Who learns, and how"


@app.command(rich_help_panel=TRAINING)
def train(
    game: Annotated[str | None, typer.Argument(metavar="GAME", help=GAME_HELP)] = None,
    overrides: Overrides = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", "--epochs", help="Episodes to play (experiment.epochs).")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the environment to play (experiment.max_steps).")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed (experiment.seed).")] = None,
    config: ConfigFile = None,
    agents: Annotated[
        int | None, typer.Option(help="How many agents (experiment.num_agents).", rich_help_panel=WHO)
    ] = None,
    parallel: Annotated[
        bool,
        typer.Option("--parallel", help="Learn in workers, as planned (multiprocessing.enabled).", rich_help_panel=WHO),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(help="Where they learn: auto, cpu, cuda, cuda:1 (multiprocessing.device).", rich_help_panel=WHO),
    ] = None,
    batched: Annotated[
        bool,
        typer.Option(
            "--batched", help="Play all lanes at once on the learners' device (world.batched).", rich_help_panel=WHO
        ),
    ] = False,
    load_agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="2=RUN:4",
            help="Let agent 2 begin as agent 4 of RUN, with its algorithm and settings; without :4, as agent 2 of RUN."
            " May be repeated (experiment.load_agents).",
            rich_help_panel=WHO,
        ),
    ] = None,
    freeze: Annotated[
        str | None,
        typer.Option(
            metavar="0,3", help="Agents that choose and do not learn (experiment.freeze).", rich_help_panel=WHO
        ),
    ] = None,
    output: Output = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Go on with a run that was stopped; its game and settings come from its folder.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    inexact: Annotated[
        bool,
        typer.Option(
            "--inexact",
            help="Resume a run that cannot be resumed exactly, with other results than without the stop.",
            rich_help_panel=WHERE,
        ),
    ] = False,
    animate: Annotated[
        bool,
        typer.Option(help="Film the last epoch, the best, and one of experiment.record_period.", rich_help_panel=WHERE),
    ] = True,
    logger: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help=f"What else is told of every epoch: {LOGGER_HELP} May be repeated.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Everything in one thread, slower, with the same results and every check on.",
            rich_help_panel=SHOWS,
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train agents in a game, with a live display, and keep everything in a run folder."""
    choose_volume(quiet, verbose)
    settings = config if resume is None else resume / "config.yaml"
    if not debug and has_free_core() and _needs_processes(parallel, overrides or [], settings):
        ProcessBackend(preload=["abreast.training"]).warm_up()  # it imports torch while this process does
    load_training()
    from abreast.cli.agents import check_algorithms, parse_agents, parse_numbers, with_agents
    from abreast.games import check_batched, find_game_of_run
    from abreast.runs import is_finished
    from abreast.training.checkpoints.resume import split_run
    from abreast.training.run.health import doubts_of
    from abreast.training.run.metrics import diverged

    changes = overrides or []
    if logger:
        look_here()
    if game is not None and "=" in game and (resume or config):  # a setting: the game is that of the run or the file
        changes, game = [game, *changes], None
    if resume is not None:
        fixed = {"--config": config, "--output": output, "--load-agent": load_agent, "--freeze": freeze}
        refused = [key for key, value in fixed.items() if value]
        if refused:
            raise ConfigError(f"--resume goes on with what the run was begun with: leave out {', '.join(refused)}.")
        folder, checkpoint = split_run(resume)
        open_run_folder(folder)
        look_here()
        chosen, config = find_game_of_run(folder, given=game), folder / "config.yaml"
    elif inexact:
        raise ConfigError("--inexact is given without --resume RUN: remove it, or name the run to resume.")
    else:
        named = read_yaml(config).get("game") if config and game is None else game
        if not isinstance(named, str):
            raise ConfigError(
                "Missing argument 'GAME': name a game (`abreast games` lists them), here or as `game` in the file of"
                " --config, or give --resume RUN."
            )
        chosen = find(named)
    if batched:
        check_batched(chosen)
    loaded = parse_agents(load_agent or [], "--load-agent")
    options = {
        "experiment.num_agents": agents,
        "experiment.epochs": episodes,
        "experiment.max_steps": steps,
        "experiment.seed": seed,
        "experiment.freeze": None if freeze is None else parse_numbers(freeze, "--freeze"),
        "multiprocessing.device": device,
        "multiprocessing.enabled": parallel or None,
        "world.batched": batched or None,
        **{f"experiment.load_agents.{agent}": text for agent, text in loaded.items()},
    }
    shorthands = [f"{key}={json.dumps(value)}" for key, value in options.items() if value is not None]
    given = merge(with_agents({}, loaded), read_yaml(config) if config else {})
    check_algorithms(apply_overrides(given, [text for text in changes if text.startswith(PER_AGENT)]), loaded)
    experiment = chosen.configure(given, [*changes, *shorthands])
    if resume is not None and checkpoint is None and is_finished(folder, experiment.experiment):
        most = experiment.experiment.max_steps
        unit, total = ("epoch", experiment.experiment.epochs) if most is None else ("step", most)
        more = f"To go on, give a larger total, as in --{unit}s {total + max(1, total // 5)}."
        out.print(f"Nothing is missing: all {counted(total, unit)} are there. {more}")
        return
    env = chosen.build(experiment)
    _warn_of_unused_algorithm(env, changes)
    run = env.run_experiment_mp if experiment.multiprocessing.enabled else env.run_experiment
    try:
        result = run(animate=animate, logger=logger, output_dir=output, resume=resume, debug=debug, inexact=inexact)
    except StoppedError as stop:  # `abreast watch`
        out.print(as_typed(" ".join([str(stop), *getattr(stop, "__notes__", ())])))
        return
    except (KeyboardInterrupt, SystemExit) as stop:  # Ctrl-C, SIGTERM
        out.print(as_typed(" ".join(getattr(stop, "__notes__", ["Stopped."]))))
        raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else int(stop.code or 0)) from None
    played = [] if quiet or result.folder is None else _random_rewards(chosen, env, result)
    random = results_of(played, groups_of_run(result.epochs)) if played else None
    out.print(_compared(results_of_run(result.epochs), random, max(1, len(result.epochs) // 10)))
    if doubts := [] if quiet else doubts_of(result.epochs, played):
        doubt = " ".join([*doubts, 'The page "Choose an algorithm" of the documentation says what helps.'])
        out.print(doubt)
        with logged_to(result.folder / "log.txt") if result.folder is not None else nullcontext():
            log.warning(doubt)  # the report shows it, too
    out.print(f"The run folder is {result.folder}")
    if not quiet:
        out.print(as_typed(f"Watch the agents:  abreast play {shlex.quote(str(result.folder))}"))
    for agent, why in sorted(result.given_up.items()):
        complain(f"agent {agent} was given up, the others finished ({result.folder}/log.txt has the stack): {why}")
    if fault := diverged(result.epochs):
        complain(fault)
    if fault or result.given_up:
        raise typer.Exit(1)


# ---- inside


def _needs_processes(parallel: bool, overrides: list[str], config: Path | None) -> bool:
    """Whether the run will start processes, as far as can be told before the game is known."""
    try:
        values = apply_overrides(read_yaml(config) if config else {}, overrides)
    except ConfigError:  # which is told when its turn comes
        return False
    given = values.get("multiprocessing")
    settings = given if isinstance(given, Mapping) else {}
    return (parallel or settings.get("enabled") is True) and settings.get("workers") not in ("threads", "inline")


def _random_rewards(game: "AnyGame", env: "Experiment", result: "RunResult") -> list[list[float]]:
    """Return what random agents get in the same game, by episode and agent, and keep it in the run folder.

    Nothing, if they cannot play, or the run was too short for a comparison.
    """
    from abreast.training.collect import collect_pass

    assert result.folder is not None
    elapsed_s = float(result.epochs[-1]["time"]["elapsed_s"])
    kept, until = result.folder / "random_agents.json", time.monotonic() + elapsed_s * RANDOM_SHARE
    with suppress(OSError, ValueError):  # not there yet, or damaged: they play again
        return json.loads(kept.read_text())  # type: ignore[no-any-return]
    rewards = list[list[float]]()
    try:
        with waiting("Random agents play, for comparison"):
            random = at_random(game, env.config)
            while len(rewards) < RANDOM_EPOCHS and time.monotonic() < until:
                rewards += [each.reward_per_agent for each in collect_pass(random.game, len(rewards))]
    except Exception as error:  # the run is finished and kept, whatever the game does with agents it was not made for
        log.info("there is no comparison, because random agents cannot play this game: %s", error)
    if len(rewards) < FEWEST_EPOCHS:
        return []
    write_whole(kept, json.dumps(rewards).encode())
    return rewards


def _warn_of_unused_algorithm(env: "Experiment", overrides: list[str]) -> None:
    """Say so if the algorithm that was asked for is that of no agent: the game, or model.per_agent, decides for each."""
    from abreast.models import name_of

    asked = [text.partition("=")[2] for text in overrides if text.startswith("model.algorithm=")]
    models = [player.model for player in env.game.players]
    names = {name_of(type(model)) for model in models} | {model.config.algorithm for model in models}
    if asked and asked[-1] not in names:
        complain(f"model.algorithm={asked[-1]} has no effect: the agents of this game are {', '.join(sorted(names))}.")


def _compared(results: Mapping[str, float], random: Mapping[str, float] | None, epochs: int) -> str:
    """Return the last line of a run. `random`: what random agents get; None if they did not play."""
    text = f"Mean reward of the last {counted(epochs, 'epoch')}: {as_text(results)}"
    if random is None:
        return f"{text}."
    text = f"{text}; random agents get {as_text(random)}"
    reward, chance = results.get(SUM, 0.0), random.get(SUM, 0.0)
    return f"{text}, so this is {reward / chance:.1f} times random." if reward > chance > 0 else f"{text}."
