"""`abreast play`: watch agents in the terminal. Also where agents of runs, and random ones, come from."""

import os
import time
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

from abreast.cli.app import TRAINING, Greedy, app, load_training, look_here, out
from abreast.cli.games import Overrides, find
from abreast.errors import ConfigError, RunFolderError
from abreast.plugins import is_target
from abreast.settings import read_yaml

if TYPE_CHECKING:
    from abreast.games import AnyGame
    from abreast.training import Config, Experiment


@app.command(rich_help_panel=TRAINING)
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
    episodes: Annotated[int, typer.Option("--episodes", "--epochs", min=1, help="Episodes to watch.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Random seed (experiment.seed).")] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            metavar="2=RUN:4", help="Let agent 4 of RUN play as agent 2; without :4, agent 2. May be repeated."
        ),
    ] = None,
    greedy: Greedy = None,
    turns_per_second: Annotated[float, typer.Option(min=0.1, help="Speed.")] = 6.0,
) -> None:
    """Watch trained agents (of a run folder) or random ones in the terminal."""
    load_training()
    from abreast.cli.agents import parse_agents
    from abreast.games.view import view_of
    from abreast.training.collect import collect_pass

    chosen, run = _what_to_play(game, run_folder)
    changes = [*(overrides or []), *([] if seed is None else [f"experiment.seed={seed}"])]
    env = with_players(chosen, run, changes, parse_agents(agent or [], "--agent"), greedy)
    view = view_of(env, out.color_system is not None)
    names = env.game.agent_names or [f"agent {number}" for number in range(len(env.game.players))]
    with Live(console=out, auto_refresh=False) if out.is_terminal else nullcontext() as live:

        def show() -> None:
            if live is not None:
                live.update(view.draw(), refresh=True)
                time.sleep(1 / turns_per_second)

        for episode in range(episodes):
            (played,) = collect_pass(env.game, episode, on_turn=show)
            each = "  ".join(f"{name} {score:g}" for name, score in zip(names, played.reward_per_agent, strict=True))
            out.print(f"episode {episode + 1}: {sum(played.reward_per_agent):g} in {played.turns} turns  ({each})")
    if live is None:
        out.print(view.draw())


def with_players(
    game: "AnyGame", run: Path | None, overrides: list[str], others: Mapping[int, str], greedy: bool | None = None
) -> "Experiment":
    """An experiment with the agents of a run, or random ones, some replaced by others of runs.

    Those of runs act as in an evaluation (`greedy` is that of `evaluate`).
    """
    from abreast.cli.agents import with_agents
    from abreast.training.checkpoints.folder import newest_agents
    from abreast.training.evaluate import modes_of
    from abreast.training.moved import load_agent

    given = {} if run is None else read_yaml(run / "config.yaml")
    config = game.configure(with_agents(given, others), overrides)
    env = at_random(game, config, but=others) if run is None else game.build(_in_objects(config))
    config.check_agents(len(env.game.players))
    checkpoint = None if run is None else newest_agents(run)
    for number, agent in enumerate(env.game.players):
        if number in others:
            load_agent(agent.model, number, others[number])
        elif checkpoint is not None:
            name = f"agent_{number}"
            agent.model.take_file_state(checkpoint.part(name), checkpoint.path / f"{name}.safetensors")
        else:
            continue
        agent.model.is_greedy = modes_of([type(agent.model)], greedy) == ["greedy"]
        if agent.model.is_greedy or number in others:  # the epsilon of another run does not move with an agent
            agent.model.epsilon = 0.0
    return env


def at_random(game: "AnyGame", config: "Config[Any, Any]", but: Collection[int] = ()) -> "Experiment":
    """The same experiment in one lane, with agents that act at random, whatever they were.

    `but`: agents that stay what they are.
    """
    from abreast.training import parse_config

    values = config.model_dump()
    values["experiment"].update(load_agents={}, freeze=[], opponents={})
    if "num_agents" not in config.experiment.model_fields_set:  # the game makes as many as it likes
        del values["experiment"]["num_agents"]
    values["multiprocessing"].update(num_envs=1, num_actors=1, device="cpu", priority={})
    env = game.build(_in_objects(parse_config(values, type(config.world))))
    env.act_at_random(but)
    return env


# ---- inside


def _in_objects(config: "Config[Any, Any]") -> "Config[Any, Any]":
    """The same in the object world, whose rules are those of the batched one: it is faster in one lane, and can be shown."""
    if not getattr(config.world, "batched", False):
        return config
    return config.with_derived(world=config.world.with_derived(batched=False))


def _what_to_play(text: str, run: Path | None) -> "tuple[AnyGame, Path | None]":
    """A game, and the run its agents were trained in; a name that a game and a folder share is that of the game."""
    from abreast.games import find_game_of_run, list_games

    is_game = is_target(text) or text in list_games()
    if run is not None and not is_game and is_run(Path(text)):
        raise ConfigError(f"{text} and --run {run} are both run folders: give one of them, or a game and --run.")
    if run is None and not is_game and (is_run(Path(text)) or len(Path(text).parts) > 1):
        run = Path(text)
    if run is None:
        return find(text), None
    if not is_run(run):
        raise RunFolderError(
            f"{run} is not a run folder: it has no config.yaml. `abreast train` prints where it writes."
        )
    look_here()
    return find_game_of_run(run, given=None if Path(text) == run else text), run


def is_run(folder: Path) -> bool:
    return os.path.isfile(folder / "config.yaml")  # noqa: PTH113 (Path.is_file raises for a name that no file can have)
