"""The games half of the command line: `abreast train`, `abreast play`, `abreast games`, `abreast settings`.

Whatever needs torch is imported by the command that uses it: the other half, and `--help`, need not wait for it.
"""

import shlex
import time
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live
from rich.table import Table

from abreast.cli.app import ConfigFile, Output, app, out, settings_table
from abreast.errors import GameError, RunFolderError, WorkerError
from abreast.settings import explain

if TYPE_CHECKING:
    from abreast.games import Game
    from abreast.training import Config, Environment

GameName = Annotated[str, typer.Argument(metavar="GAME", help="A game's name; `abreast games` lists them.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SECTION.KEY=VALUE]...", help="Settings, e.g. experiment.epochs=500 model.algorithm=ppo."),
]

BASELINE_EPOCHS = 40
"""Epochs that random agents play for comparison, after a training run."""


@app.command()
def train(
    game: GameName,
    overrides: Overrides = None,
    agents: Annotated[int | None, typer.Option(help="How many agents (experiment.num_agents).")] = None,
    config: ConfigFile = None,
    output: Output = None,
    parallel: Annotated[
        bool, typer.Option("--parallel", help="Learn in worker processes (multiprocessing.enabled).")
    ] = False,
    animate: Annotated[bool, typer.Option(help="Record animations every experiment.record_period epochs.")] = True,
) -> None:
    """Train agents in a game, with a live display, and keep everything in a run folder."""
    from abreast.games import find_game

    chosen = find_game(game)
    shorthands = [] if agents is None else [f"experiment.num_agents={agents}"]
    shorthands += ["multiprocessing.enabled=true"] if parallel else []
    experiment = chosen.configure(config, [*(overrides or []), *shorthands])
    env = chosen.build(experiment)
    run = env.run_experiment_mp if experiment.multiprocessing.enabled else env.run_experiment
    try:
        result = run(animate=animate, output_dir=output)
    except KeyboardInterrupt:
        out.print(f"Stopped after {env.epochs_played} epochs; what was learned until then is kept.")
        raise typer.Exit(130) from None
    out.print(f"The run folder is {result.folder}")
    out.print(f"Watch the agents:  abreast play {game} --run {shlex.quote(str(result.folder))}")
    recent = [record["reward"] for record in result.epochs[-max(1, len(result.epochs) // 10) :]]
    out.print(_compared(fmean(recent), _random_reward(chosen, experiment), len(recent)))
    if result.given_up:
        raise WorkerError(
            f"the learners of agents {sorted(result.given_up)} were given up; the others finished."
            f" {result.folder}/log.txt says why."
        )


@app.command()
def play(
    game: GameName,
    overrides: Overrides = None,
    run_folder: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="A run folder; without one, agents act at random.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Episodes to watch.")] = 1,
    turns_per_second: Annotated[float, typer.Option(min=0.1, help="Speed.")] = 6.0,
) -> None:
    """Watch trained agents (of a run folder) or random ones in the terminal."""
    from abreast.games import find_game
    from abreast.games.view import terminal_view
    from abreast.training.collect import collect_pass

    chosen, changes = find_game(game), overrides or []
    env = _trained(chosen, run_folder, changes) if run_folder else _at_random(chosen, chosen.configure(None, changes))
    with Live(console=out, auto_refresh=False, transient=False) as live:

        def show() -> None:
            caption = f"turn {env.turn}   " + "   ".join(f"agent {i}: {a.score:g}" for i, a in enumerate(env.agents))
            live.update(terminal_view(env.world, caption), refresh=out.is_terminal)
            if out.is_terminal:
                time.sleep(1 / turns_per_second)

        for epoch in range(epochs):
            collect_pass(env.game, epoch, on_turn=show)


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
    from abreast.games import find_game

    out.print(settings_table(explain(find_game(game).configure(config, overrides or []))))


def _at_random(game: "Game", config: "Config[Any, Any]", **experiment: Any) -> "Environment":
    """The same experiment, some of its settings aside, with agents that act at random."""
    from abreast.models import ModelConfig
    from abreast.training import parse_config

    values = config.model_dump()
    values["experiment"].update(experiment)
    common = {key: value for key, value in values["model"].items() if key in ModelConfig.model_fields}
    values["model"] = {**common, "algorithm": "random"}
    return game.build(parse_config(values, game.environment.world_section))


def _trained(game: "Game", run: Path, overrides: list[str]) -> "Environment":
    try:
        is_run = (run / "config.yaml").is_file()
    except OSError:  # a name no file can have
        is_run = False
    if not is_run:
        raise RunFolderError(
            f"{run} is not a run folder: it has no config.yaml. `abreast train` prints where it writes."
        )
    settings = game.configure(run / "config.yaml", overrides)
    env = game.build(settings)
    for index, agent in enumerate(env.agents):
        agent.model.load(run / "checkpoints" / f"agent_{index}.safetensors")
        agent.model.epsilon = 0.0
    return env


def _random_reward(game: "Game", config: "Config[Any, Any]") -> float:
    """What random agents get in the same world, in the mean of a few epochs."""
    env = _at_random(game, config, epochs=BASELINE_EPOCHS)
    return fmean(record["reward"] for record in env.run_experiment(animate=False, logging=False).epochs)


def _compared(reward: float, random: float, epochs: int) -> str:
    text = f"Mean reward of the last {epochs} epoch(s): {reward:.1f}; random agents get {random:.1f}"
    if random > 0 and reward > 0:
        return f"{text}: the agents became {reward / random:.1f} times as good as random."
    return f"{text}: {abs(reward - random):.1f} {'more' if reward > random else 'less'} than random."
