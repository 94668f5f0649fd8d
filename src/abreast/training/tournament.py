"""A tournament: entrants, each an agent or the agents of a run, play each other on all seats of their game.

RUN, RUN:0, RUN@500 … ──▶ Entrant ──▶ seatings: A on one seat, B on all others ──▶ play_episodes ──▶ matches.jsonl
                                                                                                        │ Standings
                                                                       payoffs, Elo, α-rank (ratings.py) ◀┘

A match is known by what plays in it and how, not by its number: what was played before is not played again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abreast.errors import CheckpointError, ConfigError, ModelFileError, short
from abreast.settings import dotted, read_yaml
from abreast.state import State
from abreast.state_file import dumps
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.folder import newest_agents
from abreast.training.evaluate import mode_text, modes_of, play_episodes
from abreast.training.experiment import Experiment
from abreast.training.moved import AgentOf, agents_in, kept_agents
from abreast.training.ratings import Floats, alpha_rank, elo
from abreast.training.statistics import bootstrap_interval

FILE = "matches.jsonl"
ALL_AGENTS = -1
"""Stands for the agents of a run, where none is named."""
Rewards = list[list[float]]
"""Per episode, of each seat."""


class Seat(NamedTuple):
    """An agent of an entrant, as it plays on one of the seats."""

    settings: dict[str, Any]
    """Of its model."""
    state: State
    path: Path
    sha256: str


class Entrant(NamedTuple):
    """What takes part."""

    name: str
    seats: list[Seat]


# ---- who takes part


def find_entrants(text: str, which: str) -> list[Entrant]:
    """The entrants that RUN or RUN:4 names: at its newest checkpoint (last), at all of them, or at every:K epochs.

    A seat is played by the agent that was trained on it, or, where that one did not learn, by the first that did; with :4,
    every seat by agent 4.
    """
    of, step = AgentOf.parse(text, ALL_AGENTS), step_of(which)
    experiment = AgentOf(of.folder, max(of.agent, 0)).config().experiment
    if step is None:
        newest = newest_agents(of.folder)
        found = {newest.epochs: agents_in(newest)}
    else:
        kept = kept_agents(of.folder)
        found = {epochs: kept[epochs] for epochs in kept if epochs % step == 0 or epochs == max(kept)}
    entrants = []
    for epochs, agents in found.items():
        learning = [agent for agent in agents if agent not in experiment.freeze] or list(agents)
        seats = []
        for seat in range(experiment.num_agents):
            agent = of.agent if of.agent != ALL_AGENTS else seat if seat in learning else learning[0]
            if agent not in agents:
                raise CheckpointError(f"{of.folder} has no agent {agent} after {epochs} epochs.")
            state, path = agents[agent]
            digest = hashlib.sha256(dumps(state)).hexdigest()
            seats.append(Seat(AgentOf(of.folder, agent).settings(), state, path, digest))
        name = text.rstrip("/") if step is None else f"{text.rstrip('/')}@{epochs}"
        entrants.append(Entrant(name, seats))
    return entrants


def step_of(which: str) -> int | None:
    """Epochs between two checkpoints that take part; None: only the last does."""
    word, _, number = which.partition(":")
    if which in ("last", "all"):
        return None if which == "last" else 1
    if word != "every" or not number.isdecimal() or not 0 < int(number) < 10**9:
        raise ConfigError(f"--checkpoints is {which!r}: expected last, all, or every:K with a number of epochs.")
    return int(number)


def common_settings(runs: Sequence[str]) -> dict[str, Any]:
    """The settings that the games are played with, those of the first run; a run of another game is refused."""
    first, *others = (read_yaml(AgentOf.parse(run, 0).config_file()) for run in runs)
    here = _of_game(first)
    for run, values in zip(runs[1:], others, strict=True):
        there = _of_game(values)
        for key in sorted(here.keys() | there.keys()):
            if here.get(key) != there.get(key):
                raise ConfigError(
                    f"{run} has {key} {short(there.get(key))}, but {runs[0]} has {short(here.get(key))}: entrants have to be"
                    " of the same game, in the same world."
                )
    sections = {name: dict(first.get(name) or {}) for name in ("experiment", "world", "multiprocessing")}
    frozen = list(range(AgentOf.parse(runs[0], 0).config().experiment.num_agents))
    sections["experiment"] |= {"load_agents": {}, "opponents": {}, "freeze": frozen}
    sections["world"] |= {"batched": False} if sections["world"].get("batched") else {}
    sections["multiprocessing"] |= {"num_actors": 1, "device": "cpu", "priority": {}}
    return {**first, **sections}


def _of_game(values: Mapping[str, Any]) -> dict[str, Any]:
    """What runs of the same game have in common, by dotted keys."""
    agents = (values.get("experiment") or {}).get("num_agents")
    told = {"game": values.get("game"), "experiment": {"num_agents": agents}, "world": values.get("world") or {}}
    return {key: value for key, value in dotted(told) if key != "world.batched"}


# ---- what is played


def seatings(entrants: int, seats: int) -> list[tuple[int, ...]]:
    """Who sits where in each match: of every two entrants, one on each seat in turn and the other on all others."""
    pairs = permutations(range(entrants), 2)
    return list(
        dict.fromkeys(
            tuple(one if seat == own else two for seat in range(seats)) for one, two in pairs for own in range(seats)
        )
    )


class Tournament:
    """All matches of some entrants. `build` makes the game from settings."""

    def __init__(
        self,
        entrants: Sequence[Entrant],
        settings: Mapping[str, Any],
        build: Callable[[Mapping[str, Any]], Experiment],
        episodes: int = 32,
        seed: int = 0,
        greedy: bool | None = None,
    ) -> None:
        names = [each.name for each in entrants]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"{name} is given twice: an entrant does not play itself.")
        if len(names) < 2:
            raise ConfigError(f"a tournament needs two entrants or more, and {', '.join(names) or 'none'} takes part.")
        seats = len(entrants[0].seats)
        if seats < 2:
            raise ConfigError("the game has one agent: in a tournament agents play each other.")
        self._entrants, self._settings, self._build = entrants, settings, build
        self._how: dict[str, Any] = {"episodes": episodes, "seed": seed, "greedy": greedy}
        self.names, self.matches = names, seatings(len(names), seats)
        self.results: dict[tuple[int, ...], Rewards] = {}
        """What was played, by who sits where."""
        self.modes: dict[str, str] = {}
        """How the agents of each entrant act, by its name."""
        for each in entrants:
            env = self._seated(each.seats)  # one that does not fit is refused before anything is played
            self.modes[each.name] = mode_text(modes_of(map(type, models_of(env.game)), greedy))

    def _seated(self, seats: Sequence[Seat]) -> Experiment:
        """The game, with these agents."""
        model = {**self._settings.get("model", {}), "per_agent": {at: each.settings for at, each in enumerate(seats)}}
        env = self._build({**self._settings, "model": model})
        for at, (own, seat) in enumerate(zip(models_of(env.game), seats, strict=True)):
            try:
                own.take_file_state(seat.state, seat.path)
            except ModelFileError as error:
                raise ModelFileError(f"{seat.path} cannot play as agent {at}: {error}") from error
        return env

    def _key(self, match: Sequence[int]) -> str:
        """What tells a match from all others: who plays, and how."""
        seats = [(seat.sha256, seat.settings) for seat in self._seats(match)]
        modes = (self.modes[self.names[number]] for number in match)
        told = json.dumps([self._settings, self._how, seats, *modes], sort_keys=True, default=str)
        return hashlib.sha256(told.encode()).hexdigest()

    def _seats(self, match: Sequence[int]) -> list[Seat]:
        return [self._entrants[number].seats[at] for at, number in enumerate(match)]

    def play(self, folder: Path) -> Iterator[tuple[int, ...]]:
        """Play what was not played before, as a file in the folder says; tells each match when it has its result."""
        known = _known(folder / FILE)
        with (folder / FILE).open("ab") as file:
            for match in self.matches:
                if (key := self._key(match)) not in known:  # two entrants with the same agents have the same key
                    played = play_episodes(self._seated(self._seats(match)), **self._how)
                    names = [self.names[number] for number in match]
                    line = json.dumps({"key": key, "seats": names, "rewards": played.rewards}, allow_nan=False)
                    file.write(f"\n{line}\n".encode())  # on a line of its own, also after one that was cut off
                    file.flush()
                    known[key] = played.rewards
                self.results[match] = known[key]
                yield match

    @property
    def is_without_chance(self) -> bool:
        """Whether the episodes of every match were all the same."""
        return self._how["episodes"] > 1 and all(each[1:] == each[:-1] for each in self.results.values())

    def standings(self) -> "Standings":
        """What came of all matches."""
        pairs = {pair: list(self._meetings(*pair)) for pair in combinations(range(len(self.names)), 2)}
        return Standings(self.names, pairs)

    def _meetings(self, one: int, two: int) -> Iterator[tuple[float, float]]:
        """What each of two entrants got in a seat, on average, in each episode in which they met."""
        for match in (match for match in self.matches if {*match} == {one, two}):
            for rewards in self.results[match]:
                own = np.array(match) == one
                yield float(np.mean(np.array(rewards)[own])), float(np.mean(np.array(rewards)[~own]))


def _known(path: Path) -> dict[str, Rewards]:
    """Results of matches that were played before, by key; a line that was cut off is none."""
    found: dict[str, Rewards] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            match = json.loads(line)
            found[match["key"]] = match["rewards"]
        except (ValueError, KeyError, TypeError):
            continue
    return found


# ---- what came of it


@dataclass(frozen=True)
class Standings:
    """Payoffs and ratings of all entrants."""

    names: list[str]
    pairs: Mapping[tuple[int, int], Sequence[tuple[float, float]]]
    """What the first and the second of two entrants got in each episode."""

    def _matrix(self, figure: Callable[[Iterable[tuple[float, float]]], float]) -> Floats:
        """A figure of each entrant (row) against each other (column)."""
        matrix = np.zeros((len(self.names), len(self.names)))
        for (one, two), met in self.pairs.items():
            matrix[one, two], matrix[two, one] = figure(met), figure([each[::-1] for each in met])
        return matrix

    @cached_property
    def payoffs(self) -> Floats:
        """The mean reward in a seat."""
        return self._matrix(lambda met: float(np.mean([own for own, _ in met])))

    @cached_property
    def intervals(self) -> dict[tuple[int, int], tuple[float, float] | None]:
        """The 95 % interval of each payoff."""
        own = {pair: bootstrap_interval([each for each, _ in met]) for pair, met in self.pairs.items()}
        return own | {pair[::-1]: bootstrap_interval([each for _, each in met]) for pair, met in self.pairs.items()}

    @cached_property
    def won(self) -> Floats:
        """Episodes in which the row got more; one in which both got the same is half."""
        return self._matrix(lambda met: sum((own > other) + (own == other) / 2 for own, other in met))

    @cached_property
    def games(self) -> Floats:
        """Episodes that two have played."""
        return self._matrix(lambda met: float(len(list(met))))

    @cached_property
    def ratings(self) -> list[dict[str, Any]]:
        """Of each entrant, the best first."""
        points, widths = elo(self.won, self.games)
        shares, means = alpha_rank(self.payoffs), self.payoffs.sum(axis=1) / (len(self.names) - 1)
        won = self.won.sum(axis=1) / self.games.sum(axis=1)
        columns = zip(self.names, points, widths, shares, won, means, strict=True)
        named = ("entrant", "elo", "elo_95", "alpha_rank", "win_rate", "mean_reward")
        rows = [dict(zip(named, (name, *map(float, row)), strict=True)) for name, *row in columns]
        return sorted(rows, key=lambda row: -row["elo"])

    @property
    def order(self) -> list[int]:
        """The numbers of the entrants, the best first."""
        return [self.names.index(row["entrant"]) for row in self.ratings]

    def meetings(self) -> list[dict[str, Any]]:
        """Each entrant against each other."""
        rows = []
        for (one, two), interval in sorted(self.intervals.items()):
            low, high = interval or (None, None)
            rows.append(
                {
                    "entrant": self.names[one],
                    "opponent": self.names[two],
                    "reward": float(self.payoffs[one, two]),
                    "low": low,
                    "high": high,
                    "won": float(self.won[one, two]),
                    "games": int(self.games[one, two]),
                }
            )
        return rows
