"""`abreast eval`: what the agents of a run get in episodes of their own, which nobody learns from.

Whatever needs torch is imported by the command: `--help` need not wait for it.
"""

import json
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table

from abreast import __version__
from abreast.cli.app import (
    TRAINING,
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
from abreast.cli.play import is_run
from abreast.display import Counting, Row, Shown
from abreast.errors import CheckpointError, ConfigError, RunFolderError
from abreast.files import write_whole
from abreast.headline import SUM, as_text, groups_of, results_of, sums_of

if TYPE_CHECKING:
    from abreast.games import AnyGame
    from abreast.state import State
    from abreast.training.checkpoints.folder import Checkpoint
    from abreast.training.evaluate import Evaluation

FILE = "evaluation.json"
FINAL = "final"
"""The checkpoint that a run ends with."""


@app.command("eval", rich_help_panel=TRAINING)
def evaluate_run(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder, or one of the checkpoints in it.", show_default=False)
    ],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes to play, for each checkpoint.")] = 32,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="all|best|last|500,1000",
            help="Which checkpoints of the run: all; of all the one that gets most here; the newest; or those after so many"
            " epochs.  \\[default: last]",
            show_default=False,
        ),
    ] = None,
    greedy: Greedy = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the episodes; they are never those of training.")
    ] = 0,
    device: Annotated[
        str | None,
        typer.Option(
            help="Where agents choose; default: cpu, and auto for worlds that are batched.", show_default=False
        ),
    ] = None,
    game: Annotated[
        str | None, typer.Option(metavar="GAME", help="The game, if it is not where it was when the run was made.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"The folder for {FILE}; default: that of the run.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Evaluate the agents of a run: mean, interquartile mean and 95 % interval of each, and of all together."""
    choose_volume(quiet, verbose)
    folder, checkpoint = _located(run)
    load_training()
    from abreast.games.trained import evaluated_config, trained_experiment
    from abreast.training.evaluate import mode_of_run, play_episodes
    from abreast.training.social import OUTCOMES

    chosen = _chosen(folder, checkpoint, checkpoints)
    source = game_of_run(folder, game)
    config = evaluated_config(source, folder / "config.yaml", device)
    target = output or folder
    check_writable(target)
    mode = mode_of_run(config, len(chosen[0][1]), greedy)
    out.print(f"{folder}: {counted(episodes, 'episode')}, {mode}, seed {seed}")
    found: list[tuple[Checkpoint, Evaluation]] = []
    with EvaluationDisplay(episodes * len(chosen)) as display:
        for each, agents in chosen:
            env = trained_experiment(source, config, each, agents)
            names = list(env.game.agent_names or map(str, range(len(env.game.players))))
            display.begin(each.path.name, names)
            found.append((each, play_episodes(env, episodes, seed, greedy, display.played)))
    if checkpoints == "best":
        groups = groups_of([rewards for _, result in found for rewards in result.rewards], names)
        found = [max(found, key=lambda each: results_of(each[1].rewards, groups).get(SUM, each[0].epochs))]
    show(_table(found, names))
    if social := [name for name in OUTCOMES if any(name in result.metrics for _, result in found)]:
        out.print(f"What {', '.join(social)} mean: docs/reference/social-outcomes.md")
    told = {
        "abreast": __version__,
        "run": folder.resolve().name,
        "game": config.game,
        "seed": seed,
        "episodes": episodes,
        "mode": mode,
        "lanes": config.multiprocessing.num_envs,
        "checkpoints": [
            {"checkpoint": each.path.name, "epochs": each.epochs, **result.as_json()} for each, result in found
        ],
    }
    target.mkdir(parents=True, exist_ok=True)
    write_whole(target / FILE, f"{json.dumps(told, allow_nan=False, indent=1)}\n".encode())
    out.print(f"Every episode is in {target / FILE}")


class EvaluationDisplay(Counting):
    """Shows what agents have got so far at the checkpoint they are at."""

    def __init__(self, episodes: int) -> None:
        super().__init__("episodes", episodes)
        self._name, self._names, self._rewards = "", list[str](), list[list[float]]()

    def begin(self, checkpoint: str, names: list[str]) -> None:
        """A checkpoint is evaluated, of these agents."""
        named = [f"agent {name}" if name.isdigit() else name for name in names]
        self._name, self._names, self._rewards = checkpoint, named, []
        self.now(f"{checkpoint} is being evaluated")

    def played(self, rewards: list[list[float]]) -> None:
        """Some more episodes were played, with these rewards of each agent."""
        self._rewards += rewards
        for _ in rewards:
            self.one_ended()

    def figures(self) -> Shown:
        if not self._done:
            return super().figures()
        means = [sum(each) / len(each) for each in zip(*self._rewards, strict=True)]
        rows = [Row(*each) for each in zip(self._names, means, strict=False)]
        told = as_text(results_of([means], groups_of(self._rewards, self._names)))
        speed = f"{self._done / (time.perf_counter() - self._started):,.1f} episodes/s"
        return super().figures()._replace(facts=[speed], rows=rows, below=[f"mean reward {told} of {self._name}"])


# ---- inside


def _located(path: Path) -> tuple[Path, Path | None]:
    """The run folder, and the checkpoint in it, if that was given."""
    above = path.absolute().parent
    if is_run(path):
        return path, None
    is_folder = os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises for a name that no file can have)
    if is_folder and above.name == "checkpoints" and is_run(above.parent):
        run = path.parent.parent if len(path.parts) > 2 else above.parent
        return run, path if path.name else path.absolute()  # ".": the folder one is in
    reason = "it has no config.yaml" if is_folder else "there is no such folder"
    raise RunFolderError(f"{path} is not a run folder: {reason}. `abreast train` prints where it writes.")


def _chosen(run: Path, checkpoint: Path | None, which: str | None) -> "list[tuple[Checkpoint, dict[str, State]]]":
    """The checkpoints to evaluate, and their agents: a run that is still training may remove some meanwhile."""
    from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints, newest_agents

    if checkpoint is not None and which is not None:
        raise ConfigError(
            f"{checkpoint} is one checkpoint, and --checkpoints {which} chooses among those of a run: give one of the two."
        )
    if checkpoint is not None or which in (None, "last"):
        return [_with_agents(newest_agents(checkpoint or run))]
    listed = list_checkpoints(run)
    faults = [each for each in listed if isinstance(each, CheckpointError)]
    usable = [each for each in listed if isinstance(each, Checkpoint) and each.agents] or [newest_agents(run)]
    if which not in ("all", "best"):
        named = {each.path: each for each in _among(run, str(which), usable, faults)}
        return [_with_agents(each) for each in named.values()]
    chosen = {}
    for each in usable:
        try:
            chosen[each.path.name] = _with_agents(each)
        except CheckpointError as error:
            faults.append(error)
    if not chosen:
        raise faults[-1]
    for fault in faults:
        complain(f"left out: {fault}")
    last = chosen[FINAL][0].epochs if FINAL in chosen else None  # the last of the others may have the same agents
    return [pair for name, pair in chosen.items() if name == FINAL or pair[0].epochs != last]


def _with_agents(checkpoint: "Checkpoint") -> "tuple[Checkpoint, dict[str, State]]":
    """A checkpoint whose agents are read now, before anything is played, which takes time."""
    return checkpoint, {agent: checkpoint.part(agent) for agent in checkpoint.agents}


def _among(run: Path, which: str, usable: "list[Checkpoint]", faults: list[CheckpointError]) -> "Iterator[Checkpoint]":
    """Those that `--checkpoints` names."""
    for text in map(str.strip, which.split(",")):
        named = [each for each in usable if text in (each.path.name, str(each.epochs))]
        if not named:
            there = ", ".join(each.path.name for each in usable)
            more = f" {faults[0]}" if faults else ""
            raise CheckpointError(
                f"{run} has no checkpoint {text!r}: expected all, best, last, or some of {there}, by name or epochs.{more}"
            )
        yield named[0]


def game_of_run(run: Path, game: str | None, command: str = "eval") -> "AnyGame":
    """The game given, or the one that a run folder is of."""
    from abreast.games import find_game_of_run

    look_here()
    return find_game_of_run(run, f"give it, as in `abreast {command} {shlex.quote(str(run))} --game GAME`.", game)


def check_writable(folder: Path, file: str = FILE) -> None:
    """Refuse now what could not be written after all the playing; leave no folder, in case that fails."""
    made = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "Permission denied"
    except OSError as error:
        reason = error.strerror or str(error)
    for path in filter(os.path.lexists, made):
        path.rmdir()
    if reason or (folder / file).is_dir():
        raise RunFolderError(f"cannot write {folder / file}: {reason or 'a folder is in its place'}.")


def _table(found: "list[tuple[Checkpoint, Evaluation]]", names: list[str]) -> Table:
    """Return a block for each checkpoint: the reward of each agent, their sum or that of each side, the game's metrics."""
    from abreast.training.statistics import summarise

    right = [Column(title, justify="right") for title in ("mean", "interquartile mean", "95 % interval")]
    table = Table("checkpoint", "agent or metric", *right, box=None)
    groups = groups_of([rewards for _, result in found for rewards in result.rewards], names)
    groups = {name: group for name, group in groups.items() if name == SUM or len(group) > 1}
    for checkpoint, result in found:
        sums = {name: summarise(rewards) for name, rewards in sums_of(result.rewards, groups).items()}
        named = [*zip(names, result.agents, strict=True), *sums.items(), *result.metrics.items()]
        for line, (name, summary) in enumerate(named):
            interval = "-" if summary.interval is None else "{:.2f} to {:.2f}".format(*summary.interval)
            figures = f"{summary.mean:.2f}", f"{summary.interquartile_mean:.2f}", interval
            table.add_row("" if line else checkpoint.path.name, name, *figures)
    return table
