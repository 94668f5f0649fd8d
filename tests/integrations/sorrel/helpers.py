"""Building stand-ins, and comparing what became of them."""

import random

import numpy as np
import torch

import sorrel_standin
from abreast.codec import digest
from abreast.integrations.sorrel import SorrelExperiment, find
from abreast.integrations.sorrel.source import build

SETTINGS = {
    "experiment": {"epochs": 5, "max_turns": 12, "record_period": 4, "output_dir": "data"},
    "model": {"epsilon_decay": 0.05, "num_agents": 2},
    "world": {"height": 5, "width": 5, "berry_rate": 0.1},
}
KINDS = {
    "values": sorrel_standin.ForageEnv,
    "policy": sorrel_standin.PolicyEnv,
    "table": sorrel_standin.TableEnv,
    "tag": sorrel_standin.tag,
}


def make(kind="values", model=None, **experiment):
    """A built environment: the same each time, weights too."""
    settings = {**SETTINGS, "experiment": {**SETTINGS["experiment"], **experiment}}
    env = build(KINDS.get(kind, kind), settings, seed=3)
    for number, agent in enumerate(env.agents if model is not None else ()):
        agent.model = model(11, 4, 70 + number)
    return env


def seed_everything(seed=0):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (the framework draws from there)
    torch.manual_seed(seed)


def comparable(value):
    found = digest(value, {}, is_copied=True)
    assert found is not None
    return found.hex()


def outcome(env):
    """All that its agents have learned and remember."""
    found = []
    for agent in env.agents:
        model = agent.model
        weights = model.state_dict() if hasattr(model, "state_dict") else model.table
        moments = model.optimizer.state_dict()["state"] if hasattr(model, "optimizer") else None
        rows = {name: value for name, value in vars(model.memory).items() if "lock" not in type(value).__name__.lower()}
        found.append(comparable([dict(weights) if moments else weights, moments, rows, model.epsilon]))
    return found


def told(result):
    """What a run has recorded of its epochs, as the stand-in's own loop tells it."""
    return [(each["metrics"]["total_reward"], each["loss_per_agent"]) for each in result.epochs]


__all__ = ["SETTINGS", "SorrelExperiment", "comparable", "find", "make", "outcome", "seed_everything", "told"]
