"""The games half of the command line: `abreast train`, `abreast play`, `abreast games`, `abreast settings`.

Whatever needs torch is imported by the command that uses it: the other half, and `--help`, need not wait for it.
"""

import json
import shlex
import time
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from abreast.cli.app import ConfigFile, Output, app, complain, look_here, out, settings_table
from abreast.errors import ConfigError, GameError, RunFolderError
from abreast.plugins import is_target
from abreast.processes.cores import has_free_core
from abreast.processes.process import ProcessBackend
from abreast.settings import apply_overrides, explain, merge, read_yaml

if TYPE_CHECKING:
    from abreast.games import AnyGame
    from abreast.training import Config, Experiment

GameName = Annotated[
    str,
    typer.Argument(
        metavar="GAME",
        help="A game's name (`abreast games` lists them), FILE.py, FILE.py:NAME, MODULE:NAME,"
        " pettingzoo:MODULE, gymnasium:NAME or sorrel:MODULE:CLASS.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, e.g. experiment.epochs=500 model.algorithm=ppo."),
]

NONE: Mapping[int, str] = MappingProxyType({})
PER_AGENT = "model.per_agent."
PIPED_WIDTH = 300
"""Characters of a line where the output is no terminal: a setting stays on one."""
BASELINE_EPOCHS = 40
"""Epochs that random agents play for comparison, after a training run."""


@app.command()
def train(
    game: Annotated[
        str | None,
        typer.Argument(
            metavar="GAME",
            help="A game's name (`abreast games` lists them), FILE.py, FILE.py:NAME, MODULE:NAME,"
            " pettingzoo:MODULE, gymnasium:NAME or sorrel:MODULE:CLASS.",
        ),
    ] = None,
    overrides: Overrides = None,
    agents: Annotated[int | None, typer.Option(help="How many agents (experiment.num_agents).")] = None,
    epochs: Annotated[int | None, typer.Option(help="How many episodes (experiment.epochs).")] = None,
    seed: Annotated[int | None, typer.Option(help="Where all randomness comes from (experiment.seed).")] = None,
    config: ConfigFile = None,
    output: Output = None,
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Learn in workers, as planned (multiprocessing.enabled).")
    ] = False,
    batched: Annotated[
        bool, typer.Option("--batched", help="Play all lanes at once on the learners' device (world.batched).")
    ] = False,
    animate: Annotated[bool, typer.Option(help="Record animations every experiment.record_period epochs.")] = True,
    load_agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="2=RUN:4",
            help="Let agent 2 begin as agent 4 of RUN, with its algorithm and settings; without :4, as agent 2 of RUN."
            " May be repeated (experiment.load_agents).",
        ),
    ] = None,
    freeze: Annotated[
        str | None, typer.Option(metavar="0,3", help="Agents that choose and do not learn (experiment.freeze).")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Go on with a run that was stopped; its game and settings come from its folder."
        ),
    ] = None,
) -> None:
    """Train agents in a game, with a live display, and keep everything in a run folder."""
    settings = config if resume is None else resume / "config.yaml"
    if has_free_core() and _needs_processes(parallel, overrides or [], settings):
        ProcessBackend(preload=["abreast.training"]).warm_up()  # it imports torch while this process does
    from abreast.cli.agents import check_algorithms, parse_agents, parse_numbers, with_agents
    from abreast.games import check_batched

    changes = overrides or []
    if resume is not None:
        if game is not None and "=" in game:  # a setting: the game is that of the run
            changes, game = [game, *changes], None
        fixed = {"--config": config, "--output": output, "--load-agent": load_agent, "--freeze": freeze}
        refused = [key for key, value in fixed.items() if value]
        if refused:
            raise ConfigError(f"--resume goes on with what the run was begun with: leave out {', '.join(refused)}.")
        chosen, config = _game_of(resume, game)
    elif game is None:
        raise ConfigError("Missing argument 'GAME': name a game (`abreast games` lists them), or give --resume RUN.")
    else:
        chosen = _find(game)
    if batched:
        check_batched(chosen)
    loaded = parse_agents(load_agent or [], "--load-agent")
    options = {"experiment.num_agents": agents, "experiment.epochs": epochs, "experiment.seed": seed}
    shorthands = [f"{key}={value}" for key, value in options.items() if value is not None]
    shorthands += ["multiprocessing.enabled=true"] if parallel else []
    shorthands += ["world.batched=true"] if batched else []
    shorthands += [f"experiment.load_agents.{agent}={json.dumps(text)}" for agent, text in loaded.items()]
    shorthands += [f"experiment.freeze={parse_numbers(freeze, '--freeze')}"] if freeze is not None else []
    given = merge(with_agents({}, loaded), read_yaml(config) if config else {})
    check_algorithms(apply_overrides(given, [text for text in changes if text.startswith(PER_AGENT)]), loaded)
    experiment = chosen.configure(given, [*changes, *shorthands])
    if resume is not None and _is_finished(resume, experiment.experiment.epochs):
        out.print(f"Nothing is missing: all {experiment.experiment.epochs:,} epochs are there. --epochs N adds more.")
        return
    env = chosen.build(experiment)
    _warn_of_unused_algorithm(env, changes)
    run = env.run_experiment_mp if experiment.multiprocessing.enabled else env.run_experiment
    try:
        result = run(animate=animate, output_dir=output, resume=resume)
    except (KeyboardInterrupt, SystemExit) as stop:  # Ctrl-C, SIGTERM
        out.print(*getattr(stop, "__notes__", ["Stopped."]))
        raise typer.Exit(130 if isinstance(stop, KeyboardInterrupt) else int(stop.code or 0)) from None
    out.print(f"The run folder is {result.folder}")
    out.print(f"Watch the agents:  abreast play {shlex.quote(str(result.folder))}")
    recent = [record["reward"] for record in result.epochs[-max(1, len(result.epochs) // 10) :]]
    random = _random_reward(chosen, env.config) if env.has_random_agents else None
    out.print(_compared(fmean(recent), random, len(recent)))
    for agent, why in sorted(result.given_up.items()):
        complain(f"agent {agent} was given up, the others finished ({result.folder}/log.txt has the stack): {why}")
    if result.given_up:
        raise typer.Exit(1)


@app.command()
def play(
    game: Annotated[
        str,
        typer.Argument(
            metavar="RUN|GAME", help="A run folder; or a game (as for `abreast train`), for agents that act at random."
        ),
    ],
    overrides: Overrides = None,
    run_folder: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="A run folder, where the game is given too.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Episodes to watch.")] = 1,
    turns_per_second: Annotated[float, typer.Option(min=0.1, help="Speed.")] = 6.0,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="2=RUN:4", help="Let agent 4 of RUN play as agent 2; without :4, agent 2. May be repeated."
        ),
    ] = None,
) -> None:
    """Watch trained agents (of a run folder) or random ones in the terminal."""
    from abreast.cli.agents import parse_agents
    from abreast.games.view import view_of
    from abreast.training.collect import collect_pass

    chosen, run, changes = *_what_to_play(game, run_folder), overrides or []
    loaded = parse_agents(agent or [], "--agent")
    env = _trained(chosen, run, changes, loaded) if run else _some_trained(chosen, changes, loaded)
    view = view_of(env)
    names = env.game.agent_names or [f"agent {number}" for number in range(len(env.game.players))]
    with Live(console=out, auto_refresh=False) if out.is_terminal else nullcontext() as live:

        def show() -> None:
            if live is not None:
                live.update(view.draw(), refresh=True)
                time.sleep(1 / turns_per_second)

        for epoch in range(epochs):
            (played,) = collect_pass(env.game, epoch, on_turn=show)
            each = "  ".join(f"{name} {score:g}" for name, score in zip(names, played.reward_per_agent, strict=True))
            out.print(f"episode {epoch + 1}: {sum(played.reward_per_agent):g} in {played.turns} turns  ({each})")
    if live is None:
        out.print(view.draw())


@app.command()
def games() -> None:
    """List the games."""
    from abreast.games import find_game, list_games

    table = Table("game", "what it is", box=None)
    for name in list_games():
        try:
            table.add_row(name, find_game(name).summary)
        except GameError as error:
            table.add_row(name, str(error), style="red")
    out.print(table)


@app.command()
def settings(game: GameName, overrides: Overrides = None, config: ConfigFile = None) -> None:
    """List every setting of a game: its key, its value, what it means."""
    table = settings_table(explain(_find(game).configure(config, overrides or [])))
    out.print(table, width=None if out.is_terminal else PIPED_WIDTH)


# ---- inside


def _find(game: str) -> "AnyGame":
    from abreast.games import find_game

    if is_target(game):
        look_here()
    return find_game(game)


def _needs_processes(parallel: bool, overrides: list[str], config: Path | None) -> bool:
    """Whether the run will start processes, as far as can be told before the game is known."""
    try:
        values = apply_overrides(read_yaml(config) if config else {}, overrides)
    except ConfigError:  # which is told when its turn comes
        return False
    given = values.get("multiprocessing")
    settings = given if isinstance(given, Mapping) else {}
    return (parallel or settings.get("enabled") is True) and settings.get("workers") not in ("threads", "inline")


def _game_of(given: Path, game: str | None) -> "tuple[AnyGame, Path]":
    """The game of a run that goes on, unless it is given too, and the file with the settings of the run."""
    from abreast.files import open_run_folder
    from abreast.games import find_game_of_run
    from abreast.training.checkpoints.resume import split_run

    run = split_run(given)[0]
    open_run_folder(run)
    look_here()
    return (find_game_of_run(run) if game is None else _find(game)), run / "config.yaml"


def _is_finished(given: Path, epochs: int) -> bool:
    """Whether a run has ended, with so many epochs."""
    from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints
    from abreast.training.checkpoints.resume import split_run

    run, chosen = split_run(given)
    newest = list_checkpoints(run)[-1:]
    return chosen is None and any(
        isinstance(each, Checkpoint) and each.facts.is_complete and each.facts.recorded == epochs for each in newest
    )


def _what_to_play(text: str, run: Path | None) -> "tuple[AnyGame, Path | None]":
    """A game, and the run its agents were trained in; a name that a game and a folder share is that of the game."""
    from abreast.games import find_game_of_run, list_games

    is_game = is_target(text) or text in list_games()
    if run is not None and not is_game and _is_run(Path(text)):
        raise ConfigError(f"{text} and --run {run} are both run folders: give one of them, or a game and --run.")
    if run is None and not is_game and (_is_run(Path(text)) or len(Path(text).parts) > 1):
        run = Path(text)
    if run is None:
        return _find(text), None
    if not _is_run(run):
        raise RunFolderError(
            f"{run} is not a run folder: it has no config.yaml. `abreast train` prints where it writes."
        )
    if Path(text) != run:
        return _find(text), run
    look_here()
    return find_game_of_run(run), run


def _is_run(folder: Path) -> bool:
    try:
        return (folder / "config.yaml").is_file()
    except OSError:  # a name no file can have
        return False


def _trained(game: "AnyGame", run: Path, overrides: list[str], others: Mapping[int, str] = NONE) -> "Experiment":
    """The environment of a run, with agents that do what they learned and explore no more; some of them of other runs."""
    from abreast.cli.agents import with_agents
    from abreast.training.checkpoints.folder import newest_agents
    from abreast.training.moved import load_agent

    config = game.configure(with_agents(read_yaml(run / "config.yaml"), others), overrides)
    env = game.build(_in_objects(config))
    checkpoint = newest_agents(run)
    for number, agent in enumerate(env.game.players):
        if number in others:
            load_agent(agent.model, number, others[number])
        else:
            name = f"agent_{number}"
            agent.model.take_file_state(checkpoint.part(name), checkpoint.path / f"{name}.safetensors")
        agent.model.epsilon = 0.0
    return env


def _some_trained(game: "AnyGame", overrides: list[str], trained: Mapping[int, str]) -> "Experiment":
    """The environment of a game, with agents that act at random, but for some of runs."""
    from abreast.cli.agents import with_agents
    from abreast.training.moved import load_agent

    config = game.configure(with_agents({}, trained), overrides)
    env = _at_random(game, config, but=trained)
    players = env.game.players
    config.check_agents(len(players))
    for number, source in trained.items():
        load_agent(players[number].model, number, source)
        players[number].model.epsilon = 0.0
    return env


def _in_objects(config: "Config[Any, Any]") -> "Config[Any, Any]":
    """The same in the object world, whose rules are those of the batched one: it is faster in one lane, and can be shown."""
    if not getattr(config.world, "batched", False):
        return config
    return config.with_derived(world=config.world.with_derived(batched=False))


def _at_random(
    game: "AnyGame", config: "Config[Any, Any]", but: Collection[int] = (), **experiment: Any
) -> "Experiment":
    """The same experiment in one lane, some of its settings aside, with agents that act at random, whatever they were.

    `but`: agents that stay what they are.
    """
    from abreast.training import parse_config

    values = config.model_dump()
    values["experiment"].update(experiment, load_agents={}, freeze=[])
    if "num_agents" not in config.experiment.model_fields_set:  # the game makes as many as it likes
        del values["experiment"]["num_agents"]
    values["multiprocessing"].update(num_envs=1, num_actors=1, device="cpu", priority={})
    env = game.build(_in_objects(parse_config(values, type(config.world))))
    env.act_at_random(but)
    return env


def _random_reward(game: "AnyGame", config: "Config[Any, Any]") -> float | str:
    """What random agents get in the same world, in the mean of a few epochs; or why they cannot play."""
    try:
        env = _at_random(game, config, epochs=BASELINE_EPOCHS)
        return fmean(record["reward"] for record in env.run_experiment(animate=False, logging=False).epochs)
    except Exception as error:  # the run is finished and kept, whatever the game does with agents it was not made for
        return f"{type(error).__name__}: {error}".rstrip(".")


def _warn_of_unused_algorithm(env: "Experiment", overrides: list[str]) -> None:
    """Say so if the algorithm that was asked for is that of no agent: the game, or model.per_agent, decides for each."""
    from abreast.models import name_of

    asked = [text.partition("=")[2] for text in overrides if text.startswith("model.algorithm=")]
    models = [player.model for player in env.game.players]
    names = {name_of(type(model)) for model in models} | {model.config.algorithm for model in models}
    if asked and asked[-1] not in names:
        complain(f"model.algorithm={asked[-1]} has no effect: the agents of this game are {', '.join(sorted(names))}.")


def _compared(reward: float, random: float | str | None, epochs: int) -> str:
    """The last line of a run. `random`: what random agents get, or why they cannot play; None: there are none."""
    text = f"Mean reward of the last {epochs} {'epoch' if epochs == 1 else 'epochs'}: {reward:.1f}"
    if random is None:
        return f"{text}."
    if isinstance(random, str):
        return f"{text}; there is no comparison, because random agents cannot play this game: {random}."
    text = f"{text}; random agents get {random:.1f}"
    return f"{text}, so this is {reward / random:.1f} times random." if reward > random > 0 else f"{text}."
