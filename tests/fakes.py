"""Small stand-ins shared by the tests."""

from collections.abc import Callable
from typing import Any

import numpy as np

from abreast.games import find_game
from abreast.models import ActionBox, BaseModel, algorithm
from abreast.models.own import CHOSEN, LEARNED
from abreast.state import join
from abreast.training import Environment, Experiment, RunResult


class TinyObservation:
    """An observation of a few bytes, for models tested without a world."""

    dtype = np.uint8
    scale = 1.0

    def __init__(self, *shape: int) -> None:
        self.input_size = shape


def make_model(
    name: str, shape: tuple[int, ...] = (4,), n_actions: int = 3, seed: int = 0, **settings: Any
) -> BaseModel:
    """A model with small layers."""
    small = {"algorithm": name, "hidden_size": 16, "batch_size": 8, "buffer_capacity": 64, "n_frames": 2, **settings}
    kind = algorithm(name)
    box = ActionBox((-1.0,) * n_actions, (1.0,) * n_actions)
    actions = n_actions if "discrete" in kind.ACTIONS else box
    return kind(TinyObservation(*shape), actions, kind.Config.parse(small), np.random.SeedSequence(seed))


def live(model: BaseModel, epochs: int = 1, turns: int = 20, seed: int = 0) -> list[int]:
    """Let a model act in a world of random states and rewards; returns its actions."""
    rng = np.random.default_rng(seed)
    actions = []
    for epoch in range(epochs):
        model.start_epoch_action(epoch=epoch)
        for _ in range(turns):
            state = rng.integers(0, 2, size=model.observation.input_size).astype(np.uint8)
            action = model.take_action(state)
            actions.append(action if model.action_box is None else action.tolist())
            model.remember(state, action, float(rng.normal()), False)
        model.end_epoch_action(epoch=epoch)
    return actions


def small_game(*overrides: str, game: str = "treasurehunt") -> Environment:
    """A game with settings for a run of a second or less. Learners live in processes, which a plan would not use for it."""
    small = ["experiment.epochs=3", "experiment.max_turns=10", "experiment.num_agents=2", "model.hidden_size=16"]
    small += ["model.batch_size=16", "model.n_frames=2", "model.gradient_steps=2", "multiprocessing.workers=processes"]
    found = find_game(game)
    return found.build(found.configure(None, [*small, *overrides]))


def timeless(records: Any) -> list[dict[str, Any]]:
    """Epoch records without what depends on the clock."""
    return [{key: value for key, value in record.items() if key != "time"} for record in records]


def outcome(env: Experiment, run: Callable[..., RunResult]) -> Any:
    """Everything that has to be identical: metrics, weights, target, moments, counters, random streams, replay."""
    epochs = timeless(run(animate=False, logging=False).epochs)
    return epochs, learned(env)


def learned(env: Experiment) -> Any:
    """All of that but the metrics."""
    found = []
    for agent in env.game.players:
        facts, arrays = join(learning=agent.model.learning_state(), acting=agent.model.acting_state())
        arrays = {
            name: array for name, array in arrays.items() if not name.endswith((LEARNED, CHOSEN))
        }  # see own_values
        rows = agent.model.memory.trajectory(0, max(0, int(agent.model.memory.written[0]) - 20))
        found.append((facts, {name: array.tobytes() for name, array in arrays.items()}, rows.states.tobytes()))
    return found


def checkpoint_facts(epochs, **more):
    """What the manifest of a checkpoint says, made up."""
    made_up = {"experiment": "TreasurehuntEnv", "schedule": "lockstep", "config": "", "devices": ["cpu"]}
    counts = {"agent_steps": 12 * epochs, "updates_before": 0, "seconds": 0.5, "elapsed_s": 1.0}
    return {**made_up, **counts, "epochs": epochs, "first_epoch": 0, "recorded": epochs, **more}
