"""Experiments with the agents of a run, to be evaluated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abreast.errors import CheckpointError
from abreast.games.registry import AnyGame
from abreast.state import State
from abreast.training import Config, Experiment
from abreast.training.checkpoints.folder import Checkpoint


def evaluated_config(game: AnyGame, file: Path, device: str | None) -> Config[Any, Any]:
    """The settings of a run, but that lanes of one actor are enough, and that choosing is done on the CPU."""
    one = "multiprocessing.num_actors=1"
    config = game.configure(file, [one, f"multiprocessing.device={device or 'cpu'}"])
    if device is None and getattr(config.world, "batched", False):  # played on a GPU, if there is one
        return game.configure(file, [one, "multiprocessing.device=auto"])
    return config


def trained_experiment(
    game: AnyGame, config: Config[Any, Any], checkpoint: Checkpoint, agents: Mapping[str, State]
) -> Experiment:
    """The environment, with agents that are as they were at a checkpoint."""
    env = game.build(config)
    env.make_lanes()
    players = env.game.players
    if len(checkpoint.agents) != len(players):
        there = f"{len(checkpoint.agents)} agent{'' if len(checkpoint.agents) == 1 else 's'}"
        raise CheckpointError(
            f"{checkpoint.path} has {there}, but {env.name} made {len(players)} from"
            " the run's config.yaml: one of the two was changed."
        )
    for number, agent in enumerate(players):
        name = f"agent_{number}"
        if name not in agents:
            raise CheckpointError(f"{checkpoint.path} has no {name}.")
        agent.model.take_file_state(agents[name], checkpoint.path / f"{name}.safetensors")
    env.epochs_played = checkpoint.epochs
    return env
