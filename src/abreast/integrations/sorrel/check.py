"""`abreast check` for environments written for sorrel: can their runs be repeated, resumed, and learn in other processes?"""

import contextlib
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from abreast.checking import Check, Fault, Verdict, judge
from abreast.errors import StateError
from abreast.integrations.sorrel.building import own_settings
from abreast.integrations.sorrel.experiment import SorrelExperiment, check_environment, section_of, streams_apart
from abreast.integrations.sorrel.fingerprint import fingerprint
from abreast.training.check.telling import SEED, differing, quiet, told
from abreast.training.collect import collect_pass
from abreast.training.config import Config
from abreast.training.devices import compute_threads

if TYPE_CHECKING:
    from abreast.integrations.sorrel.source import SorrelSource

TURNS = 30
"""Turns of an epoch that is played for a check, at most."""
EPOCHS = 5
SEEDED = (
    "draw from random, numpy.random or torch, which are seeded, not from the clock or from a generator that is made without"
    " a seed"
)
NOT_RESUMED = "(It can be trained, but a run that was stopped cannot go on.)"


def check_sorrel(source: "SorrelSource") -> Iterator[Verdict]:
    """Check an environment."""
    with compute_threads(1):  # as in a run
        yield from judge(CHECKS, SorrelTrial(source), told)


class SorrelTrial:
    """An environment, as its checks build and play it."""

    def __init__(self, source: "SorrelSource") -> None:
        self.source, self.name = source, str(source.make.__name__)

    def configure(self) -> Config[Any, Any]:
        """Its own settings, for epochs that take little time."""
        own = own_settings(self.source.module)
        turns = section_of(own, "experiment").get("max_turns")
        usual = [f"experiment.max_turns={min(TURNS, turns) if isinstance(turns, int) else TURNS}"]
        usual += [f"experiment.epochs={EPOCHS - 1}", f"experiment.seed={SEED}"]
        usual += ["model.save_weights=false"] if "save_weights" in section_of(own, "model") else []
        usual += ["multiprocessing.schedule=lockstep", "multiprocessing.workers=processes"]
        return self.source.configure(None, [*usual, "multiprocessing.max_restarts=0"])

    def make(self) -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return self.source.make_environment(self.configure())

    def build(self) -> SorrelExperiment:
        return SorrelExperiment(self.make(), self.configure())

    def close(self) -> None:
        """There is nothing to close."""


class Turn(NamedTuple):
    """What there is to see before a turn."""

    reward: float
    world: list[str]
    memories: list[bytes]


def _play(experiment: SorrelExperiment, epoch: int) -> list[Turn]:
    """An epoch, and what its end looks like."""
    env, turns = experiment.env, list[Turn]()

    def look() -> None:
        memories = [_remembered(agent.model.memory) for agent in env.agents]
        turns.append(Turn(float(env.world.total_reward), _kinds(env), memories))

    with contextlib.redirect_stdout(io.StringIO()):
        collect_pass(experiment.game, epoch, seed=SEED, on_turn=look)
    return turns


def _remembered(memory: Any) -> bytes:
    """Of its attributes; its methods are ours while an epoch is played."""
    return fingerprint({name: value for name, value in vars(memory).items() if not callable(value)})


def _kinds(env: Any) -> list[str]:
    """What is where in its world, if it has a map."""
    cells = getattr(env.world, "map", None)
    return [type(each).__name__ for each in cells.flat] if isinstance(cells, np.ndarray) else []


def _difference(one: Sequence[Turn], two: Sequence[Turn]) -> str | None:
    """Where two epochs differ first, in words."""
    for number, (mine, theirs) in enumerate(zip(one, two, strict=False)):
        place = f"after {number} turns" if number else "after reset"
        if mine.world != theirs.world:
            return f"in their worlds, {place}"
        agents = [
            agent for agent, pair in enumerate(zip(mine.memories, theirs.memories, strict=True)) if len({*pair}) > 1
        ]
        if agents:
            return f"in the memory of agent {agents[0]}, {place}"
        if mine.reward != theirs.reward:
            return f"in world.total_reward, {place}"
    return None if len(one) == len(two) else f"in their length ({len(one) - 1} and {len(two) - 1} turns)"


def _parts(model: Any) -> dict[str, bytes]:
    """All that a model is made of, by name."""
    found: dict[str, bytes] = {}
    for name, value in vars(model).items():
        inside = value if name in ("_modules", "_parameters", "_buffers") else {name: value}
        for part, each in inside.items():
            found[part] = fingerprint(each.state_dict() if isinstance(each, torch.optim.Optimizer) else each)
    return found


# ---- the checks


def _can_be_built(trial: SorrelTrial) -> None:
    one, two = trial.make(), trial.make()
    if len(one.agents) != len(two.agents):
        raise Fault(f"it has {len(one.agents)} agents, and {len(two.agents)} when it is built again: {SEEDED}.")
    for agent, (mine, theirs) in enumerate(zip(one.agents, two.agents, strict=True)):
        if names := differing(_parts(mine.model), _parts(theirs.model)):
            raise Fault(
                f"built again under the same seed, {', '.join(names[:3])} of the model of agent {agent} is another:"
                f" {SEEDED}."
            )
    if _kinds(one) != _kinds(two):
        raise Fault(f"built again under the same seed, its world is another: {SEEDED}.")


def _has_models(trial: SorrelTrial) -> None:
    check_environment(trial.make())


def _can_be_played(trial: SorrelTrial) -> str | None:
    experiment = trial.build()
    if len(_play(experiment, 0)) < 2:
        raise Fault("its epochs end before the first turn: give experiment.max_turns.")
    if not any(player.model.adds for player in experiment.agents):
        return "an epoch can be played; but agents put nothing into their memories, so there is nothing to learn from"
    return None


def _repeats_itself(trial: SorrelTrial) -> None:
    one, two = trial.build(), trial.build()
    for epoch in range(2):
        place = _difference(_play(one, epoch), _play(two, epoch))
        if place is not None:
            raise Fault(
                f"epoch {epoch + 1}, played twice from the same state of the generators, differs {place}: {SEEDED}; and keep"
                " what changes in attributes of self, not of a class or a module."
            )


def _outlives_reset(trial: SorrelTrial) -> None:
    stopped, other = trial.build(), trial.build()
    _play(stopped, 0)
    try:
        state = stopped.game.file_state()  # type: ignore[attr-defined]
        models = [player.model.file_state(is_whole=True) for player in stopped.agents]
    except StateError as error:
        raise Fault(f"{error} {NOT_RESUMED}") from error
    other.game.set_state(state)
    for player, model in zip(other.agents, models, strict=True):
        player.model.take_file_state(model, Path("state"), is_whole=True)
    place = _difference(_play(stopped, 1), _play(other, 1))
    if place is not None:
        raise Fault(
            f"an environment that goes on from a checkpoint plays differently {place}: what outlives `reset` has to be an"
            f" attribute of the environment, the world, an agent or a model, or be made anew in `reset`. {NOT_RESUMED}"
        )


def _trains_alike(trial: SorrelTrial) -> str | None:
    sequential, processes, env = trial.build(), trial.build(), trial.make()
    with quiet():
        result = sequential.run_experiment(animate=False, logging=False)
        there = processes.run_experiment_mp(animate=False, logging=False)
    for agent, error in there.given_up.items():
        raise Fault(f"the model of agent {agent} cannot learn in another process: {told(error)}") from error
    learned = [_parts(agent.model) for agent in sequential.env.agents]
    _compare(learned, processes, "with learners in processes", "in the sequential run")
    has_learned = any(record["loss"] for record in result.epochs)
    remark = "" if has_learned else ", but there was too little to learn from"
    if sequential.has_own_loop:
        return f"learners in processes learn what the sequential run does{remark}; its own run_experiment is not used"
    env.config.experiment.epochs = EPOCHS - 1  # a function that builds it may not have asked for ours
    with tempfile.TemporaryDirectory() as folder, streams_apart(env, SEED), contextlib.redirect_stdout(io.StringIO()):
        env.run_experiment(animate=False, logging=False, output_dir=Path(folder))
    _compare(
        learned, SorrelExperiment(env, trial.configure()), "in its own loop (run_experiment)", "in a run of abreast's"
    )
    return f"learners in processes, the sequential run and its own loop learn the same{remark}" if remark else None


def _compare(expected: Sequence[Mapping[str, bytes]], other: SorrelExperiment, where: str, there: str) -> None:
    for number, (mine, agent) in enumerate(zip(expected, other.env.agents, strict=True)):
        if names := differing(mine, _parts(agent.model)):
            raise Fault(
                f"after {EPOCHS} epochs {where}, {', '.join(names[:3])} of the model of agent {number} is not what it is"
                f" {there}: let its learning depend on its memory and on random, numpy.random and torch alone."
            )


BUILD, MODELS, PLAY, REPEAT = "building", "models", "epoch", "seed"
SOUND = (BUILD, MODELS, PLAY, REPEAT)
CHECKS: tuple[Check[SorrelTrial], ...] = (
    Check(BUILD, "can be built, and is the same when it is built again under the same seed", _can_be_built),
    Check(MODELS, "every agent has one of its own, with a memory", _has_models, [BUILD]),
    Check(PLAY, "an epoch can be played, and is remembered", _can_be_played, [BUILD, MODELS]),
    Check(REPEAT, "epochs played twice from the same state are the same", _repeats_itself, [BUILD, MODELS, PLAY]),
    Check("state", "what outlives reset can be kept in a checkpoint", _outlives_reset, SOUND),
    Check(
        "training", "learners in processes, the sequential run and its own loop learn the same", _trains_alike, SOUND
    ),
)
