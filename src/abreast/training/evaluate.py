"""Evaluation: what trained agents get in episodes that nobody learns from.

a twin of the experiment                    nothing of the experiment itself is touched (Experiment.twin)
for each pass over the lanes
  everything as it was before the first
  worlds and choices from new streams       a function of the evaluation's seed and the episode's number
  play                                      (collect.py)
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from abreast.errors import ConfigError
from abreast.models import BaseModel, Mode, algorithm
from abreast.state import copied
from abreast.streams import seeded_globals
from abreast.training.actors.base import actor_state, models_of, set_actor_state
from abreast.training.collect import play_lanes
from abreast.training.config import Config
from abreast.training.devices import compute_threads
from abreast.training.experiment import Experiment
from abreast.training.run.metrics import figures_of
from abreast.training.statistics import Summary, summarise

EVALUATING = 5
"""The part of a seed's spawn key that stands for evaluation: no stream is one of training's, even if the seeds are equal."""
WORLD, CHOICES = 0, 1
"""Whose stream it is."""


@dataclass(frozen=True)
class Evaluation:
    """What was played, episode by episode."""

    rewards: list[list[float]]
    """Per episode, of each agent."""
    turns: list[int]
    figures: list[dict[str, float | None]]
    """Per episode, the game's own (`Environment.metrics`); None where one is not finite."""

    @property
    def agents(self) -> list[Summary]:
        """The rewards of each agent."""
        return [summarise(rewards) for rewards in zip(*self.rewards, strict=True)]

    @property
    def sum(self) -> Summary:
        """The rewards of all agents together."""
        return summarise([sum(rewards) for rewards in self.rewards])

    @property
    def metrics(self) -> dict[str, Summary]:
        """Each of the game's figures, over the episodes in which it was a finite number; if in none, it is left out."""
        names = dict.fromkeys(name for figures in self.figures for name in figures)
        found = {name: [figures.get(name) for figures in self.figures] for name in names}
        finite = {name: [value for value in values if value is not None] for name, values in found.items()}
        return {name: summarise(values) for name, values in finite.items() if values}

    def as_json(self) -> dict[str, Any]:
        """All of it, as evaluation.json has it."""
        return {
            "agents": [_as_json(each, "rewards") for each in self.agents],
            "sum": _as_json(self.sum, "rewards"),
            "turns": self.turns,
            "metrics": {name: _as_json(each, "values") for name, each in self.metrics.items()},
        }


def modes_of(kinds: Iterable[type[BaseModel]], greedy: bool | None = None) -> list[Mode]:
    """Return the mode in which a model of each class is evaluated: the one that the class declares (`BaseModel.EVALUATION`),
    or the same for all if `greedy` is True or False.
    """
    return [kind.EVALUATION if greedy is None else "greedy" if greedy else "explore" for kind in kinds]


def mode_text(modes: Sequence[Mode]) -> str:
    """Return the modes of all agents as one text: "explore", or "greedy (agents 0, 2), explore (agent 1)"."""
    agents = {mode: [str(agent) for agent, each in enumerate(modes) if each == mode] for mode in dict.fromkeys(modes)}
    told = [f"{mode} (agent{'s' * (len(own) > 1)} {', '.join(own)})" for mode, own in agents.items()]
    return ", ".join(told) if len(told) > 1 else modes[0]


def mode_of_run(config: Config[Any, Any], agents: int, greedy: bool | None = None) -> str:
    """Return the modes in which so many agents of a run are evaluated, as `mode_text`; `config`: the run's."""
    return mode_text(modes_of((algorithm(config.model_of(agent).algorithm) for agent in range(agents)), greedy))


def evaluate(env: Experiment, episodes: int, seed: int = 0, greedy: bool | None = None) -> Evaluation:
    """Let the agents of an environment play, and see what they get.

    seed: of the evaluation, apart from the experiment's. Episode i is a function of what the agents have learned, of this
        seed, of i and of the number of lanes: neither of episodes before it nor of how many are asked for.
    greedy: True: all agents do what seems best to them (`BaseModel.act_greedily`); False: all explore as in training; None:
        each agent acts as its model declares (`BaseModel.EVALUATION`).

    Nothing is learned, and the environment stays as it is: a twin of it plays.
    """
    return play_episodes(env.twin(), episodes, seed, greedy)


def play_episodes(
    env: Experiment,
    episodes: int,
    seed: int = 0,
    greedy: bool | None = None,
    on_pass: Callable[[list[list[float]]], None] = lambda rewards: None,
) -> Evaluation:
    """As `evaluate`, on the environment itself, which is then somewhere in the middle. `on_pass` is told the rewards of each
    episode of a pass.
    """
    if episodes < 1:
        raise ConfigError(f"the number of episodes is {episodes}: expected at least 1.")
    if seed < 0:
        raise ConfigError(f"the seed of the evaluation is {seed}: expected 0 or more.")
    env.make_lanes()
    parallel, models = env.config.multiprocessing, models_of(env.game)
    lanes = parallel.num_envs
    modes, played = modes_of(map(type, models), greedy), []
    here, learned = copied(actor_state(env.game)), [copied(model.learning_state()) for model in models]
    with compute_threads(env.config.experiment.compute_threads):
        for first in range(0, episodes, lanes):  # every lane in every pass: what is chosen in one depends on the others
            set_actor_state(env.game, here)
            env.game.draw_from([_seed(seed, first + number, WORLD) for number in range(parallel.lanes)])
            for agent, model in enumerate(models):
                if not model.is_ours:  # ours learn nothing by playing
                    model.set_learning_state(learned[agent])
                model.choose_from(_seed(seed, first, CHOICES, agent))
                model.streams.is_of_one_pass = True
            with ExitStack() as stack, seeded_globals(np.random.SeedSequence(seed), EVALUATING, first):
                for model in (model for model, mode in zip(models, modes, strict=True) if mode == "greedy"):
                    stack.enter_context(model.act_greedily())
                newest = play_lanes(env.game, env.epochs_played, lanes)[: episodes - first]
                played += newest
                on_pass([[float(reward) for reward in each.reward_per_agent] for each in newest])
    return Evaluation(
        [[float(reward) for reward in each.reward_per_agent] for each in played],
        [each.turns for each in played],
        [figures_of(each.metrics, env.name) for each in played],
    )


def _seed(seed: int, *path: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(EVALUATING, *path))


def _as_json(summary: Summary, values: str) -> dict[str, Any]:
    return {
        "mean": summary.mean,
        "interquartile_mean": summary.interquartile_mean,
        "interval": None if summary.interval is None else list(summary.interval),
        values: summary.values,
    }
