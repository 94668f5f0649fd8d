"""`abreast check` for environments written for sorrel: can their runs be repeated and resumed, and equal sorrel's own loop?"""

import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from abreast.checking import Check, Fault, Verdict, judge
from abreast.codec import digest
from abreast.integrations.sorrel.building import own_settings
from abreast.integrations.sorrel.experiment import SorrelExperiment, check_environment, section_of
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.kept import shared_places
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

Turn = dict[str, Any]
"""What there is to see before a turn, by name."""


def check_sorrel(source: "SorrelSource") -> Iterator[Verdict]:
    """Check an environment."""
    with compute_threads(1), contextlib.redirect_stdout(io.StringIO()):  # as in a run; environments print
        verdicts = list(judge(CHECKS, SorrelTrial(source), told))
    yield from verdicts


class SorrelTrial:
    """An environment, as its checks build and play it."""

    def __init__(self, source: "SorrelSource") -> None:
        self.source = source

    def configure(self) -> Config[Any, Any]:
        """Its own settings, for epochs that take little time."""
        own = own_settings(self.source.module)
        turns = section_of(own, "experiment").get("max_turns")
        usual = [f"experiment.max_turns={min(TURNS, turns) if isinstance(turns, int) else TURNS}"]
        usual += [f"experiment.epochs={EPOCHS - 1}", f"experiment.seed={SEED}"]
        usual += ["model.save_weights=false"] if "save_weights" in section_of(own, "model") else []
        return self.source.configure(None, usual)

    def make(self) -> Any:
        return self.source.make_environment(self.configure())

    def build(self) -> SorrelExperiment:
        return SorrelExperiment(self.make(), self.configure())

    def close(self) -> None:
        """There is nothing to close."""


def _play(experiment: SorrelExperiment, epoch: int) -> list[Turn]:
    """An epoch, and what its end looks like."""
    env, turns = experiment.env, list[Turn]()

    def look() -> None:
        seen = {"their worlds": _kinds(env), "world.total_reward": float(env.world.total_reward)}
        turns.append(seen | {f"the memory of agent {number}": _remembered(env, number) for number in range(len(env.agents))})

    collect_pass(experiment.game, epoch, seed=SEED, on_turn=look)
    return turns


def _remembered(env: Any, agent: int) -> bytes | None:
    """(Its methods may be ours while an epoch is played.)"""
    memory = vars(env.agents[agent].model.memory)
    return _digest({name: value for name, value in memory.items() if not callable(value)}, env)


def _kinds(env: Any) -> list[str]:
    """What is where in its world, if it has a map."""
    cells = getattr(env.world, "map", None)
    return [type(each).__name__ for each in cells.flat] if isinstance(cells, np.ndarray) else []


def _difference(one: Sequence[Turn], two: Sequence[Turn]) -> str | None:
    """Where two epochs differ first, in words."""
    for number, (mine, theirs) in enumerate(zip(one, two, strict=False)):
        for name in mine:
            if mine[name] != theirs[name]:
                return f"in {name}, {f'after {number} turns' if number else 'after reset'}"
    return None if len(one) == len(two) else f"in their length ({len(one) - 1} and {len(two) - 1} turns)"


def _refuse_difference(one: Any, two: Any, when: str, remedy: str) -> None:
    """Refuse models of two environments that are not the same."""
    for agent, (mine, theirs) in enumerate(zip(one.agents, two.agents, strict=True)):
        if names := differing(_parts(mine.model, one), _parts(theirs.model, two)):
            raise Fault(f"{when}, {', '.join(names[:3])} of the model of agent {agent} is another: {remedy}.")


def _parts(model: Any, env: Any) -> dict[str, bytes]:
    """Digests of all that a model is made of and that can be compared, by name."""
    inside = ("_modules", "_parameters", "_buffers")
    found = {name: value for name, value in vars(model).items() if name not in inside}
    for name in inside:
        found |= vars(model).get(name, {})
    values = {name: each.state_dict() if isinstance(each, torch.optim.Optimizer) else each for name, each in found.items()}
    digests = {name: _digest(each, env) for name, each in values.items()}
    return {name: each for name, each in digests.items() if each is not None}


def _digest(value: object, env: Any) -> bytes | None:
    return digest(value, shared_places(env.config), is_copied=True)


# ---- the checks


def _can_be_built(trial: SorrelTrial) -> None:
    one, two = trial.make(), trial.make()
    when = "built again under the same seed"
    if len(one.agents) != len(two.agents):
        raise Fault(f"it has {len(one.agents)} agents, and {len(two.agents)} when it is {when}: {SEEDED}.")
    _refuse_difference(one, two, when, SEEDED)
    if _kinds(one) != _kinds(two):
        raise Fault(f"{when}, its world is another: {SEEDED}.")


def _has_models(trial: SorrelTrial) -> None:
    check_environment(trial.make())


def _can_be_played(trial: SorrelTrial) -> str | None:
    experiment = trial.build()
    if len(_play(experiment, 0)) < 2:
        raise Fault("its epochs end before the first turn: give experiment.max_turns.")
    if all(player.model.reward is None for player in experiment.game.players):
        return "an epoch can be played; but agents put nothing into their memories, so there is nothing to learn from"
    return None


def _repeats_itself(trial: SorrelTrial) -> None:
    one, two = trial.build(), trial.build()
    for epoch in range(2):
        if (place := _difference(_play(one, epoch), _play(two, epoch))) is not None:
            raise Fault(
                f"epoch {epoch + 1}, played twice from the same state of the generators, differs {place}: {SEEDED}; and keep"
                " what changes in attributes of self, not of a class or a module."
            )


def _outlives_reset(trial: SorrelTrial) -> None:
    stopped, other = trial.build(), trial.build()
    _play(stopped, 0)
    state = stopped.game.state()
    if stopped.game.why_not_resumable is not None:
        raise Fault(f"{stopped.game.why_not_resumable} {NOT_RESUMED}")
    other.game.set_state(state)
    if (place := _difference(_play(stopped, 1), _play(other, 1))) is not None:
        raise Fault(
            f"an environment that goes on from a checkpoint plays differently {place}: what outlives `reset` has to be an"
            f" attribute of the environment, the world, an agent or a model, or be made anew in `reset`. {NOT_RESUMED}"
        )


def _trains_alike(trial: SorrelTrial) -> str | None:
    experiment, env = trial.build(), trial.make()
    with quiet():
        result = experiment.run_experiment(animate=False, logging=False)
    remark = "" if any(record["loss"] for record in result.epochs) else ", but there was too little to learn from"
    if experiment.has_own_loop:
        return f"it can be trained{remark}; its own run_experiment is not used"
    env.config.experiment.epochs = EPOCHS - 1  # a function that builds it may not have asked for ours
    with tempfile.TemporaryDirectory() as folder, Generators(SEED):
        env.run_experiment(animate=False, logging=False, output_dir=Path(folder))
    when = f"after {EPOCHS} epochs in a run of abreast's and in its own loop (run_experiment)"
    _refuse_difference(experiment.env, env, when, "let it depend on its memory and on random, numpy.random and torch alone")
    return f"the run and its own loop learn the same{remark}" if remark else None


BUILD, MODELS, PLAY, REPEAT = "building", "models", "epoch", "seed"
SOUND = (BUILD, MODELS, PLAY, REPEAT)
CHECKS: tuple[Check[SorrelTrial], ...] = (
    Check(BUILD, "can be built, and is the same when it is built again under the same seed", _can_be_built),
    Check(MODELS, "every agent has one of its own, with a memory", _has_models, [BUILD]),
    Check(PLAY, "an epoch can be played, and is remembered", _can_be_played, [BUILD, MODELS]),
    Check(REPEAT, "epochs played twice from the same state are the same", _repeats_itself, [BUILD, MODELS, PLAY]),
    Check("state", "what outlives reset can be kept in a checkpoint", _outlives_reset, SOUND),
    Check("training", "the run and its own loop learn the same", _trains_alike, SOUND),
)
