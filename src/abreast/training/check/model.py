"""The checks of a model: each verifies one part of the contract of `BaseModel`, and says how to repair what is wrong.

    for verdict in check_model(MyModel):
        print(*verdict)

The model plays a made-up game: random observations of 5x5x3 bytes, four actions (for models that choose only continuous
ones, vectors of two floats), two lanes.
"""

import math
import operator
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from abreast.checking import (
    SEED,
    Check,
    Fault,
    Verdict,
    compare_states,
    judge,
    new_global_states,
)
from abreast.errors import AttributeStateError, ConfigError, short
from abreast.models import ActionBox, BaseModel, ModelConfig, name_of
from abreast.models.figures import numbers_of
from abreast.models.model_state import check_constructor
from abreast.models.observation import PlainObservation
from abreast.streams import changed_streams, shared_streams
from abreast.training.check.made_up import TURNS, MadeUpGame, made_up_state
from abreast.training.check.telling import attributes, describe_error, differing, learned, quiet, trains_alike
from abreast.training.collect import collect_pass
from abreast.training.devices import compute_threads
from abreast.training.experiment import Experiment
from abreast.training.learners.base import own_stream, train_round
from abreast.training.learners.hosted import check_lanes, check_memory

LANES, ACTIONS = 2, 4
BOX = ActionBox((-1.0, 0.0), (1.0, 5.0))
"""For models that choose continuous actions only."""
ROUNDS = 4
"""Epochs in each lane, with an update after each."""
SMALL = {"hidden_size": 16, "batch_size": 8, "buffer_capacity": 256, "n_frames": 2, "gradient_steps": 2}
COUNTED = {f"learning.{name}" for name in ("updates", "sampling", "rows_learned_from", "gradient_steps", "steps_drawn")}
"""Parts of a state that change with every update, whether or not anything is learned."""


def check_model(kind: type[BaseModel]) -> Iterator[Verdict]:
    """Check a model's class."""
    with compute_threads(1):  # as in a run
        yield from judge(CHECKS, ModelTrial(kind), describe_error)


# ---- playing


def live(model: BaseModel) -> Iterator[tuple[int, Any]]:
    """Let a model choose and remember, in both lanes in turn: after each step its lane and action."""
    rng = np.random.default_rng(SEED)
    model.start_epoch_action(epoch=0)
    for number in range(2 * TURNS):
        lane, state = number % LANES, made_up_state(rng, model.observation)
        (action,) = model.take_actions([state], [lane])
        model.remember(state, action, 1.0, False, *([lane] if lane else []))
        yield lane, action
    model.end_epoch_action(epoch=0)


@dataclass
class ModelTrial:
    """A model's class, as its checks build and train it."""

    kind: type[BaseModel]

    def config(self) -> ModelConfig:
        """Its settings, with small layers."""
        named = {"algorithm": name_of(self.kind)}
        try:
            return self.kind.Config.parse({**named, **SMALL})
        except ConfigError:  # its settings may not allow such sizes; its own then have to do
            return self.kind.Config.parse(named)

    def make(self, seed: int = SEED) -> BaseModel:
        """A new model."""
        observation, seeds = PlainObservation((5, 5, 3), np.uint8, 1.0), np.random.SeedSequence(seed)
        actions = ACTIONS if "discrete" in self.kind.ACTIONS else BOX
        return self.kind(observation, actions, self.config(), seeds, LANES, "cpu")

    def train(self, model: BaseModel) -> None:
        """Play and learn for some rounds, as a run does."""
        game = MadeUpGame(model)
        for number in range(ROUNDS):
            collect_pass(game, number * LANES, LANES, SEED)
            train_round({0: model}, 1, SEED)

    def make_trained(self, seed: int) -> BaseModel:
        """A model that has learned something: a new one may choose the same action everywhere."""
        model = self.make(seed)
        self.train(model)
        return model

    def experiment(self) -> Experiment:
        """The same as a whole run."""
        parallel = {
            "num_envs": LANES,
            "schedule": "lockstep",
            "max_restarts": 0,
            "workers": "processes",
            "device": "cpu",
        }
        settings = {"epochs": ROUNDS * LANES, "max_turns": TURNS, "num_agents": 1, "seed": SEED}
        return Experiment(MadeUpGame(self.make()), {"experiment": settings, "multiprocessing": parallel})

    def close(self) -> None:
        """There is nothing to close."""


# ---- the checks


def _can_be_built(trial: ModelTrial) -> None:
    kind = trial.kind
    if not (isinstance(kind.Config, type) and issubclass(kind.Config, ModelConfig)):
        raise Fault(f"its Config is {short(kind.Config)}: make it a subclass of abreast.models.ModelConfig.")
    check_constructor(kind, "cuda")  # which is given, where "cpu" is left out
    model = trial.make()
    model.check_whole()
    check_memory(model)
    if names := differing(attributes(trial.make()), attributes(trial.make())):
        raise Fault(
            f"two models with the same seed differ in {', '.join(names)}: seed generators from what `setup` is given"
            " (`learning`, or more.spawn(1)), and depend on nothing else, such as the time."
        )


def _chooses_actions(trial: ModelTrial) -> None:
    model = trial.make()
    check_lanes(model)
    for _, action in live(model):
        if model.action_box is None and not 0 <= operator.index(action) < ACTIONS:
            raise Fault(f"it chose {short(action)}: choose a whole number from 0 to n_actions - 1, here {ACTIONS - 1}.")


def _keeps_lanes_apart(trial: ModelTrial) -> str | None:
    seen = set[Any]()
    for seed in (SEED, SEED + 1):
        together = _choices(trial.make_trained(seed), range(LANES))
        if together != {lane: _choices(trial.make_trained(seed), [lane])[lane] for lane in range(LANES)}:
            raise Fault(
                "what it chooses in a lane depends on what happens in another: keep what belongs to an episode (frames,"
                " hidden states) by lane, in a list or array with an entry for each of self.memory.lanes."
            )
        seen.update(*together.values())
    if len(seen) == 1:
        return "it always chose the same action, so an influence between lanes could not be seen"
    return None


def _choices(model: BaseModel, lanes: Sequence[int]) -> dict[int, list[Any]]:
    """What it chooses in each lane, without exploring, if these lanes are played. Random numbers depend on lane and step."""
    streams = {lane: np.random.default_rng([SEED, lane]) for lane in lanes}
    chosen: dict[int, list[Any]] = {lane: [] for lane in lanes}
    model.start_epoch_action(epoch=0)
    model.epsilon = 0.0
    for step in range(TURNS):
        for lane in lanes:
            model.choose_from(np.random.SeedSequence([lane, step]))
            state = made_up_state(streams[lane], model.observation)
            with own_stream(model, lane, step):
                (action,) = model.take_actions([state], [lane])
            chosen[lane].append(action if model.action_box is None else tuple(action.tolist()))
            model.remember(state, action, 0.0, False, *([lane] if lane else []))
    return chosen


def _remembers(trial: ModelTrial) -> None:
    model, steps = trial.make(), [0] * LANES
    for lane, _ in live(model):
        written, steps[lane] = model.memory.written.tolist(), steps[lane] + 1
        if written != steps:
            raise Fault(
                f"after {steps} steps in lanes 0 and 1, `remember` has written {written} rows to its memory: call"
                " super().remember with the lane, once for each step."
            )


def _learns(trial: ModelTrial) -> str | None:
    model, figures, changed = trial.make(), [], set[str]()
    game = MadeUpGame(model)
    for number in range(ROUNDS):
        collect_pass(game, number * LANES, LANES, SEED)
        before, updates = learned(model), model.updates
        with own_stream(model, SEED, 0):
            reported = model.train_step()
        if reported is None:
            continue
        figures.append(numbers_of(reported, type(model)))
        if not all(map(math.isfinite, figures[-1].values())):
            raise Fault(
                f"train_step returned {short(reported)}: return finite numbers, or None if nothing was learned."
            )
        if model.updates not in (updates, updates + 1):
            raise Fault(
                f"train_step has raised `updates` by {model.updates - updates}: add 1 for each call that learned, or leave"
                " it to the run."
            )
        changed |= set(differing(before, learned(model))) - COUNTED
    if not figures:
        return (
            f"train_step returned None, with {ROUNDS * LANES * TURNS} rows in memory: right only for a model that does not"
            " learn"
        )
    if not changed:
        raise Fault(
            f"train_step reported {short(figures)}, but nothing of the model has changed: is the gradient computed"
            " (loss.backward()) and followed (optimiser.step())? What is learned has to be in attributes of self."
        )
    return None


def _leaves_global_random_state_alone(trial: ModelTrial) -> str | None:
    draw = "draw choices from self.choosing_rng (a torch.Generator can be seeded from it)."
    model, drawn = trial.make(), list[str]()
    with new_global_states() as before:
        for _ in range(ROUNDS):
            for _ in live(model):
                pass
            compare_states(before, "choosing (take_action, remember, the epoch actions)", draw)
            model.train_step()
            drawn += changed_streams(before)
            before = shared_streams()
    if not drawn:
        return None
    return (
        f"is not changed by choosing. train_step draws from {' and '.join(sorted(set(drawn)))}: a run seeds it, so results"
        " are the same everywhere, but not with multiprocessing.workers: threads"
    )


def _has_one_owner_each(trial: ModelTrial) -> None:
    model = trial.make()
    try:
        model.own_attributes.guard()
    except AttributeStateError as error:
        raise Fault(f"{error}. Make it where it is used, or keep it out of self.") from None
    trial.train(model)
    collect_pass(MadeUpGame(model), 0, LANES, SEED)  # looks once more
    model.own_attributes.refuse_fault({"fault": model.own_attributes.fault})


def _learns_alike_elsewhere(trial: ModelTrial) -> None:
    remedy = (
        "keep all that choosing and learning need in attributes of self (not of a class or a module), and depend on nothing"
        " else, such as the process or the time."
    )
    trains_alike(trial.experiment, remedy)


def _is_kept_in_files(trial: ModelTrial) -> str | None:
    model, other = trial.make_trained(SEED), trial.make(SEED + 1)
    model.learning_state()
    lost = sorted(model.own_attributes.unkept)
    with tempfile.TemporaryDirectory() as folder, quiet():
        path = Path(folder) / "model.safetensors"
        model.save(path)
        other.load(path)
    because = f" ({', '.join(lost)} cannot be kept in a file)" if lost else ""
    names = [name for name in differing(learned(model), learned(other)) if name != "learning.rows_learned_from"]
    if names:
        raise Fault(
            f"a model that was saved and loaded differs in {', '.join(names[:3])}{because}: keep it as numbers, arrays,"
            " tensors, lists or torch modules."
        )
    if _choices(model, range(LANES)) != _choices(other, range(LANES)):
        raise Fault(
            f"a model that was saved and loaded chooses otherwise{because}: keep all that it chooses with in attributes of"
            " self, as numbers, arrays, tensors, lists or torch modules."
        )
    trial.train(other)  # a model that was loaded can learn on
    if lost:
        return f"save and load keep what was learned, but not {', '.join(lost)}, which is as `setup` makes it"
    return None


BUILD, CHOOSE, MEMORY, LEARN, OWNED = "building", "actions", "memory", "learning", "ownership"
SOUND = (BUILD, CHOOSE, MEMORY)
CHECKS: tuple[Check[ModelTrial], ...] = (
    Check(BUILD, "the same seed gives the same model", _can_be_built),
    Check(CHOOSE, "are whole numbers in range (or vectors of floats), in every lane", _chooses_actions, [BUILD]),
    Check(MEMORY, "gets one row for each step", _remembers, [BUILD, CHOOSE]),
    Check(LEARN, "an update returns a finite loss and changes something", _learns, SOUND),
    Check("lanes", "do not influence each other", _keeps_lanes_apart, [*SOUND, LEARN]),
    Check("global random state", "is not changed", _leaves_global_random_state_alone, [*SOUND, LEARN]),
    Check(OWNED, "no attribute is changed both by choosing and by learning", _has_one_owner_each, [*SOUND, LEARN]),
    Check("other processes", "learn the same, bit for bit", _learns_alike_elsewhere, [*SOUND, LEARN, OWNED]),
    Check("files", "save and load keep what was learned", _is_kept_in_files, [*SOUND, LEARN]),
)
