"""What is run in the table of promises: games, models and settings that take another way through the code."""

from collections.abc import Callable
from functools import partial
from typing import Any

import yaml

import matrix_game
from fakes import small_game
from integrations.adapted import build

EPOCHS = 10
SMALL = (f"experiment.epochs={EPOCHS}", "experiment.checkpoint_interval=4", "model.hidden_size=8", "model.batch_size=8")
SMALL += (
    "model.gradient_steps=1",
    "model.epsilon=0.3",
    "model.learning_rate=0.1",
)  # so that what is learned is acted upon
GRID = (*SMALL, "experiment.max_turns=5", "model.buffer_capacity=64")
PPO_SECOND = "model.per_agent.1={algorithm: ppo}"
AT_ONCE = "experiment.turn_order=simultaneous"


def grid(*settings: str) -> Callable[..., Any]:
    """A gridworld with two agents."""
    return partial(small_game, *GRID, *settings)


def adapted(target: str, *settings: str) -> Callable[..., Any]:
    """An environment of another library."""
    return partial(build, target, *SMALL, "model.algorithm=dqn", *settings)


def matrix(*overrides: str) -> Any:
    """A game that is no gridworld."""
    settings = [each.split("=", 1) for each in overrides if each.startswith("multiprocessing.")]
    given = {key.partition(".")[2]: yaml.safe_load(value) for key, value in settings}
    learning = {"gradient_steps": 1, "epsilon": 0.3, "learning_rate": 0.1}
    return matrix_game.build(experiment={"epochs": EPOCHS, "checkpoint_interval": 4}, model=learning, **given)


SUBJECTS: dict[str, Callable[..., Any]] = {
    "iqn": grid("model.algorithm=iqn", "experiment.num_agents=3"),
    "ppo": grid("model.algorithm=ppo", "model.buffer_capacity=128"),
    "mixed": grid(
        "experiment.num_agents=3", "model.algorithm=iqn", PPO_SECOND,
        "model.per_agent.2={algorithm: dqn, hidden_size: 16, epsilon: 0.9}",
    ),
    "dqn, backlog": grid(
        "model.algorithm=dqn", "model.epsilon_decay=0.05", "experiment.train_interval=3", "model.adaptive_batch=[8, 64]",
        "multiprocessing.priority={1: 4, 0: 0.5}",
    ),
    "frozen": grid("model.algorithm=dqn", "experiment.num_agents=3", PPO_SECOND, "experiment.freeze=[0]"),
    "own past": grid(
        "model.algorithm=dqn", "experiment.num_agents=3", PPO_SECOND,
        "experiment.opponents={seats: [2], pool: self:0, every: 3, sample: prioritised}",
    ),
    "lstm": grid("model.algorithm=dqn", "model.network=lstm", "model.n_frames=3", PPO_SECOND),
    "cnn": grid("model.algorithm=dqn", "model.network=cnn", PPO_SECOND, AT_ONCE),
    "own network": grid(
        "model.algorithm=iqn", "model.network=own_networks:TwoLayers", "model.per_agent.1={network: cnn}", AT_ONCE
    ),
    "batched world": grid(
        "experiment.num_agents=3", "model.algorithm=iqn", "world.batched=true", "model.buffer_capacity=128", AT_ONCE,
        "model.per_agent={1: {algorithm: ppo}, 2: {algorithm: dqn, n_frames: 3}}",
    ),
    "no gridworld": matrix,
    "zoo, at once": adapted("pettingzoo:mpe2.simple_spread_v3", "world.max_cycles=5"),
    "zoo, in turn": adapted("pettingzoo:pettingzoo.classic.tictactoe_v3"),
    "sac": adapted("pettingzoo:box_envs:Steering", "model.algorithm=sac", "model.alpha=0.01"),
    "ppo, continuous": adapted(
        "pettingzoo:box_envs:Steering", "model.algorithm=ppo", "model.per_agent.1={algorithm: sac, network: lstm}"
    ),
    "zoo, come and go": adapted("pettingzoo:zoo_envs:Meeting"),
}  # fmt: skip
