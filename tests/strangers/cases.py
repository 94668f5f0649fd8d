"""The strangers by name, and runs of them that can be compared."""

import itertools
import json
import random

import numpy as np
import torch

from abreast import EmptyEntity, Gridworld
from fakes import learned, outcome, timeless
from strangers import games, models

SMALL = {
    "hidden_size": 8,
    "batch_size": 8,
    "gradient_steps": 1,
    "n_frames": 2,
    "buffer_capacity": 512,
    "algorithm": "dqn",
}


def config(num_envs=1, num_actors=1, schedule="lockstep", epochs=8, max_turns=12, **parallel):
    return {
        "experiment": {"epochs": epochs, "max_turns": max_turns},
        "model": SMALL,
        "multiprocessing": {
            "workers": "processes",
            "num_envs": num_envs,
            "num_actors": num_actors,
            "schedule": schedule,
            **parallel,
        },
    }


def plain():
    return Gridworld(6, 6, 1, EmptyEntity())


def walkers(kind, world=plain):
    return lambda **more: kind(world(), config(**more))


def with_models(*kinds, game=games.Walkers):
    """A game whose agents have models of these kinds, in turn."""

    class WithModel(game):
        def make_model(self, view, n_actions, agent):
            if self._lends_models is not None:
                return super().make_model(view, n_actions, agent)
            lanes, kind = self.config.multiprocessing.lanes, kinds[agent % len(kinds)]
            return kind(view, n_actions, self.config.model, self.agent_seed(agent), lanes)

    return walkers(WithModel)


with_model = with_models
GAMES = {
    "mutable attributes": walkers(games.Dirty, games.DirtyWorld),
    "shared generators": walkers(games.Dice),
    "own generators": walkers(games.Moody),
    "dataclass entities": walkers(games.Pots, lambda: Gridworld(5, 5, 1, games.Pot())),
    "a Gymnasium environment": walkers(games.Poles, games.Pole),
    "a joint payoff": walkers(games.JointPrisoners),
    "rewards given late": walkers(games.Prisoners),
    "a reset that leaves much": walkers(games.Leaves),
    "slots": walkers(games.Slotted),
}
MODELS = {
    kind.__name__: with_model(kind)
    for kind in (
        models.Bandit, models.Reinforce, models.Convolutional, models.Noisy, models.SharedDice, models.RemembersItself,
        models.SyncsAtEpochs, models.Rhythmic, models.LowersEpsilonByStep, models.SwitchesModes, models.ChangesLate,
        models.Forgets, models.LowersItsLearningRate, models.Heuristic, models.OwnOptimiser, models.OptimisesLate,
    )
}  # fmt: skip
STRANGERS = {**GAMES, **MODELS}
EPOCHS = 12


def own_values(env):
    """What users' classes have added, as far as it can be compared."""
    names = ("dirt", "visits", "log", "days")
    found = [str(vars(env.world).get(name)) for name in names] + [str(vars(env).get("days"))]
    for agent in env.agents:
        model = agent.model
        found += [str(getattr(agent, "mood", None)), str(getattr(model, "losses", None)), model.updates]
        for name in ("values", "weights", "online", "target", "rows", "value", "baseline", "smoothed", "steps", "late"):
            value = vars(model).get(name)
            found.append(str(value) if not isinstance(value, torch.nn.Module) else None)
        for name in ("dice", "noise"):
            generator = vars(model).get(name)
            if isinstance(generator, np.random.Generator):
                found.append(str(generator.bit_generator.state))
            elif generator is not None:
                found.append(generator.get_state().tolist())
        for name in ("network", "net"):
            network = vars(model).get(name)
            found += [] if network is None else [value.tolist() for value in network.state_dict().values()]
    return found


SEEDS = itertools.count()


def disturb_shared_generators():
    """They are as whatever ran before has left them."""
    for seed in (random.seed, np.random.seed, torch.manual_seed):
        seed(next(SEEDS))


def result(make, run, **settings):
    """Everything that a run of a stranger has to have in common with another."""
    disturb_shared_generators()
    env = make(**settings)
    return outcome(env, getattr(env, run)), own_values(env)


class StopsAt:
    """A logger that ends the run when an epoch is recorded."""

    def __init__(self, epoch=None):
        self._epoch = epoch

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        if epoch == self._epoch:
            raise KeyboardInterrupt


def play(make, run, logger=None, stop_at=None, **settings):
    """A run with checkpoints, to its end or to that epoch."""
    where = {key: settings.pop(key) for key in ("output_dir", "resume") if key in settings}
    disturb_shared_generators()
    env = make(epochs=EPOCHS, **settings)
    experiment = env.config.experiment.with_derived(checkpoint_interval=2, keep_checkpoints=2)
    env.config = env.config.with_derived(experiment=experiment)
    getattr(env, run)(animate=False, logger=logger or StopsAt(stop_at), **where)
    return env


def kept(folder, env):
    """What `result` returns, of a run that is kept in this folder."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return (timeless(json.loads(line) for line in lines), learned(env)), own_values(env)
