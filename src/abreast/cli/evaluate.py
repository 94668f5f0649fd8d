"""`abreast eval`: what the agents of a run get in episodes of their own, which nobody learns from.

Whatever needs torch is imported by the command: `--help` need not wait for it.
"""

import json
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from abreast import __version__
from abreast.cli.app import app, complain, counted, look_here, out
from abreast.errors import CheckpointError, ConfigError, RunFolderError
from abreast.files import write_whole
from abreast.plugins import is_target

if TYPE_CHECKING:
    from abreast.games import AnyGame
    from abreast.state import State
    from abreast.training import Config, Experiment
    from abreast.training.checkpoints.folder import Checkpoint
    from abreast.training.evaluate import Evaluation
    from abreast.training.statistics import Summary

FILE = "evaluation.json"
ONE_ACTOR = ["multiprocessing.num_actors=1", "multiprocessing.device=cpu"]
"""Settings that may differ from the run's: choosing is done on the CPU, and lanes of one actor are enough."""


@app.command("eval")
def evaluate_run(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or one of the checkpoints in it.", show_default=False)
    ],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play, for each checkpoint.")] = 32,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="all|best|last|500,1000",
            help="Which checkpoints of the run: all; the one with the highest reward in training; the newest; or those"
            " after so many epochs.  \\[default: last]",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Explore as in training, instead of always doing what seems best.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Where the episodes come from; never those of training.")] = 0,
    game: Annotated[
        str | None, typer.Option(metavar="GAME", help="The game, if it is not where it was when the run was made.")
    ] = None,
) -> None:
    """Evaluate the agents of a run: mean, interquartile mean and 95 % interval of each, and of all together."""
    from abreast.training.evaluate import play_episodes

    folder, checkpoint = _located(run)
    chosen = _chosen(folder, checkpoint, checkpoints)
    source = _game_of(folder, game)
    config = source.configure(folder / "config.yaml", ONE_ACTOR)
    if getattr(config.world, "batched", False):  # which is played on a GPU, if there is one and it was
        config = source.configure(folder / "config.yaml", [*ONE_ACTOR, "multiprocessing.device=auto"])
    _check_writable(folder)
    found: list[tuple[Checkpoint, Evaluation]] = []
    for number, (each, agents) in enumerate(chosen):
        env = _trained(source, config, each, agents)
        told = f"{each.path.name} ({number + 1} of {len(chosen)}): {counted(episodes, 'episode')}"
        names = list(env.game.agent_names or map(str, range(len(env.game.players))))
        with out.status(told) if out.is_terminal else nullcontext():
            found.append((each, play_episodes(env, episodes, seed, greedy=not sample)))
    how = "exploring as in training" if sample else "greedy"
    out.print(f"{folder}: {counted(episodes, 'episode')}, {how}, seed {seed}")
    out.print(_table(found, names))
    about = {
        "abreast": __version__,
        "run": folder.resolve().name,
        "game": config.game,
        "seed": seed,
        "episodes": episodes,
        "greedy": not sample,
        "lanes": config.multiprocessing.num_envs,
    }
    played = [{"checkpoint": each.path.name, "epochs": each.epochs, **result.as_json()} for each, result in found]
    text = json.dumps({**about, "checkpoints": played}, allow_nan=False, indent=1)
    write_whole(folder / FILE, f"{text}\n".encode())
    out.print(f"Every episode is in {folder / FILE}")


# ---- inside


def _located(path: Path) -> tuple[Path, Path | None]:
    """The run folder, and the checkpoint in it, if that was given."""
    above = path.absolute().parent
    try:
        if (path / "config.yaml").is_file():
            return path, None
        if path.is_dir() and above.name == "checkpoints" and (above.parent / "config.yaml").is_file():
            run = path.parent.parent if len(path.parts) > 2 else above.parent
            return run, path if path.name else path.absolute()  # ".": the folder one is in
        reason = "it has no config.yaml" if path.is_dir() else "there is no such folder"
    except (OSError, ValueError):  # a name no file can have
        reason = "there is no such folder"
    raise RunFolderError(f"{path} is not a run folder: {reason}. `abreast train` prints where it writes.")


def _chosen(run: Path, checkpoint: Path | None, which: str | None) -> "list[tuple[Checkpoint, dict[str, State]]]":
    """The checkpoints to evaluate, and their agents: a run that is still training may remove some meanwhile."""
    from abreast.training.checkpoints.folder import newest_agents

    if checkpoint is not None and which is not None:
        raise ConfigError(
            f"{checkpoint} is one checkpoint, and --checkpoints {which} chooses among those of a run: give one of the two."
        )
    if checkpoint is not None or which in (None, "last"):
        newest = newest_agents(run if checkpoint is None else checkpoint)
        return [(newest, {agent: newest.part(agent) for agent in newest.agents})]
    chosen, faults = [], []
    for each in _among(run, str(which)):  # before the first is played, which takes time
        try:
            chosen.append((each, {agent: each.part(agent) for agent in each.agents}))
        except CheckpointError as error:
            faults.append(error)
    if faults and (which != "all" or not chosen):
        raise faults[0]
    for fault in faults:
        complain(f"left out: {fault}")
    return chosen


def _among(run: Path, which: str) -> "list[Checkpoint]":
    from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints, newest_agents

    listed = list_checkpoints(run)
    usable = [each for each in listed if isinstance(each, Checkpoint) and each.agents]
    if not usable:  # says why
        usable = [newest_agents(run)]
    if which == "all":
        for fault in listed:
            if isinstance(fault, CheckpointError):
                complain(f"left out: {fault}")
        return usable
    if which == "best":
        rewards = [each.facts.reward for each in usable]
        known = [reward for reward in rewards if reward is not None]
        if not known:
            raise CheckpointError(
                f"no checkpoint of {run} says what reward it had in training: give --checkpoints all."
            )
        return [each for each, reward in zip(usable, rewards, strict=True) if reward == max(known)][-1:]
    chosen = []
    for text in which.split(","):
        named = [each for each in usable if text.strip() in (each.path.name, str(each.epochs))]
        damaged = [fault for fault in listed if isinstance(fault, CheckpointError)]
        if not named:
            there = ", ".join(each.path.name for each in usable)
            more = f" {damaged[0]}" if damaged else ""
            raise CheckpointError(
                f"{run} has no checkpoint {text.strip()!r}: expected all, best, last, or some of {there}, by name or"
                f" epochs.{more}"
            )
        chosen.append(named[0])
    return list({each.path: each for each in chosen}.values())


def _game_of(run: Path, game: str | None) -> "AnyGame":
    from abreast.games import find_game, find_game_of_run

    if game is None or is_target(game):
        look_here()
    if game is not None:
        return find_game(game)
    return find_game_of_run(run, f"give it, as in `abreast eval {shlex.quote(str(run))} --game GAME`.")


def _check_writable(run: Path) -> None:
    """Refuse now what could not be written after all the playing."""
    probe = run / f".{FILE}.probe"
    try:
        probe.unlink(missing_ok=True)
        probe.touch(exist_ok=False)  # not through a link
        probe.unlink()
    except OSError as error:
        raise RunFolderError(f"cannot write {run / FILE}: {error.strerror or error}.") from None
    if (run / FILE).is_dir():
        raise RunFolderError(f"cannot write {run / FILE}: a folder is in its place.")


def _trained(
    game: "AnyGame", config: "Config[Any, Any]", checkpoint: "Checkpoint", agents: "Mapping[str, State]"
) -> "Experiment":
    """The environment, with agents that are as they were at a checkpoint."""
    env = game.build(config)
    env.make_lanes()
    players = env.game.players
    if len(checkpoint.agents) != len(players):
        raise CheckpointError(
            f"{checkpoint.path} has {counted(len(checkpoint.agents), 'agent')}, but {env.name} made {len(players)} from"
            " the run's config.yaml: one of the two was changed."
        )
    for number, agent in enumerate(players):
        name = f"agent_{number}"
        if name not in agents:
            raise CheckpointError(f"{checkpoint.path} has no {name}.")
        agent.model.take_file_state(agents[name], checkpoint.path / f"{name}.safetensors")
    env.epochs_played = checkpoint.epochs
    return env


def _table(found: "list[tuple[Checkpoint, Evaluation]]", names: list[str]) -> Table:
    """A block for each checkpoint, with a line for each agent and the sum last."""
    right = [Column(title, justify="right") for title in ("mean", "interquartile mean", "95 % interval")]
    table = Table("checkpoint", "agent", *right, box=None)
    for checkpoint, result in found:
        named = [*zip(names, result.agents, strict=True), ("sum", result.sum)]
        for line, (agent, summary) in enumerate(named):
            table.add_row("" if line else checkpoint.path.name, agent, *_cells(summary))
    return table


def _cells(summary: "Summary") -> tuple[str, str, str]:
    low_high = "-" if summary.interval is None else "{:.2f} to {:.2f}".format(*summary.interval)
    return f"{summary.mean:.2f}", f"{summary.interquartile_mean:.2f}", low_high
