"""A game of memory that is no gridworld: a cue is shown in the first turn only, and asked for in the last.

What is seen:  cue 0 │ cue 1 │ asked now        A right answer is worth 1, a wrong one -1, all other actions nothing.
"""

from types import SimpleNamespace

import numpy as np

from abreast.models import algorithm
from abreast.models.observation import PlainObservation
from abreast.state import State
from abreast.training import Experiment, parse_config
from abreast.worlds.playable import Decision, Outcome, Playable, Played


class Recall(Playable):
    def __init__(self, config, delay):
        self.delay, self.seed, self.turns = delay, config.experiment.seed, 0
        kind, lanes = algorithm(config.model.algorithm), config.multiprocessing.lanes
        seed = np.random.SeedSequence(self.seed, spawn_key=(1, 0))
        seen = PlainObservation((3,), np.uint8, 1.0)
        self.players = [SimpleNamespace(model=kind(seen, 2, config.model, seed, lanes))]
        self.rng = np.random.default_rng(self.seed)

    def reset(self, lanes):
        self.lanes, self.turns = list(range(lanes)), 0
        self.cues = self.rng.integers(0, 2, lanes)
        self.scores = np.zeros(lanes)

    def decisions(self):
        if self.turns > self.delay:
            return None
        seen = np.zeros((len(self.lanes), 3), np.uint8)
        if self.turns == 0:
            seen[self.lanes, self.cues] = 1
        seen[:, 2] = self.turns == self.delay
        return [Decision(0, self.lanes, list(seen))]

    def step(self, actions):
        is_over = self.turns == self.delay
        rewards = np.where(np.array(actions[0]) == self.cues, 1.0, -1.0) * is_over
        self.turns, self.scores = self.turns + 1, self.scores + rewards
        return [Outcome(rewards.tolist(), [is_over] * len(self.lanes))], ()

    def finish(self):
        return [Played(self.turns, [score]) for score in self.scores.tolist()], ()

    def state(self):
        return State({"stream": self.rng.bit_generator.state})

    def set_state(self, state):
        self.rng.bit_generator.state = state.facts["stream"]


def rewards_at_the_end(epochs, delay, lanes=8, **model):
    """The mean reward of the last 100 episodes of a run: 0 for guessing, 1 for remembering."""
    config = parse_config(
        {
            "experiment": {"epochs": epochs, "max_turns": delay + 1, "num_agents": 1, "train_interval": lanes},
            "model": {"hidden_size": 32, "learning_rate": 0.003, "gamma": 0.9, "epsilon_min": 0.0, **model},
            "multiprocessing": {"num_envs": lanes, "workers": "inline"},
        }
    )
    records = Experiment(Recall(config, delay), config).run_experiment(animate=False, logging=False).epochs
    return float(np.mean([record["reward"] for record in records[-100:]]))
