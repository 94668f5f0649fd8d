"""A game that is no gridworld: two players choose at once, and a matrix says what each gets. The test of `Playable`."""

from functools import partial
from types import SimpleNamespace

import numpy as np

from abreast.models import algorithm
from abreast.models.observation import PlainObservation
from abreast.state import State, join, part_of
from abreast.training import Experiment, parse_config
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

PAYOFFS = np.array([[(3.0, 3.0), (0.0, 5.0)], [(5.0, 0.0), (1.0, 1.0)]])  # cooperate, defect


class PrisonersDilemma(Playable):
    """Each player sees what both did last. The last turn pays both a bonus, which comes late."""

    plays_by_lane = True

    def __init__(self, config):
        self.turn_limit, self.seed, self.turns = config.experiment.max_turns, config.experiment.seed, 0
        kind, seen = algorithm(config.model.algorithm), PlainObservation((4,), np.uint8, 1.0)
        seeds = [np.random.SeedSequence(self.seed, spawn_key=(1, number)) for number in range(2)]
        lanes = config.multiprocessing.lanes
        self.players = [SimpleNamespace(model=kind(seen, 2, config.model, seed, lanes)) for seed in seeds]
        self.first_lane, self.rngs = 0, [np.random.default_rng([self.seed, lane]) for lane in range(lanes)]

    def become_actor(self, first_lane):
        self.first_lane = first_lane

    def reset(self, lanes):
        self.lanes, self.turns = list(range(self.first_lane, self.first_lane + lanes)), 0
        self.seen = [self.rngs[lane].integers(0, 2, 4).astype(np.uint8) for lane in self.lanes]
        self.scores = np.zeros((lanes, 2))

    def decisions(self):
        return [Decision(agent, self.lanes, self.seen) for agent in range(2)] if self.turns < self.turn_limit else None

    def step(self, actions):
        self.turns += 1
        rewards = np.array([PAYOFFS[one, two] for one, two in zip(*actions, strict=True)])
        self.scores += rewards
        self.seen = [np.array([one, 1 - one, two, 1 - two], np.uint8) for one, two in zip(*actions, strict=True)]
        return [Outcome(rewards[:, agent].tolist(), [False] * len(self.lanes)) for agent in range(2)], ()

    def finish(self):
        self.scores += 0.5
        played = [Played(self.turns, scores.tolist()) for scores in self.scores]
        return played, [Late(agent, lane, 0.5, terminated=True) for agent in range(2) for lane in self.lanes]

    def state(self):
        return join(**{f"lane{lane}": state for lane, state in self.lane_states(range(len(self.rngs))).items()})

    def set_state(self, state):
        self.set_lane_states({lane: part_of(state, f"lane{lane}") for lane in range(len(self.rngs))})

    def lane_states(self, lanes):
        return {lane: State({"stream": self.rngs[lane].bit_generator.state}) for lane in lanes}

    def set_lane_states(self, states):
        for lane, state in states.items():
            self.rngs[lane].bit_generator.state = state.facts["stream"]


def build(experiment=None, model=None, **settings):
    """An experiment with it; `settings` are those of the section multiprocessing."""
    usual = {"algorithm": "dqn", "hidden_size": 16, "batch_size": 8, "n_frames": 1, "gradient_steps": 2}
    usual |= {"learning_rate": 0.01, "gamma": 0.9}
    config = parse_config(
        {
            "experiment": {"epochs": 24, "max_turns": 8, "num_agents": 2, **(experiment or {})},
            "model": {**usual, **(model or {})},
            "multiprocessing": {"workers": "processes", **settings},
        }
    )
    return Experiment(PrisonersDilemma(config), config, partial(build, experiment, model, **settings))
