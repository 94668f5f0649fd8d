"""Opponents from a pool: agents that do not learn, with other weights in every pass.

experiment.opponents:  {seats: [1], pool: runs/x, sample: uniform}

runs/x      every checkpoint of that run, as this one begins   ──▶  RUN/pool/run0_epoch_000500/agent_1.safetensors
self        the agents that learn here, every so many epochs   ──▶  RUN/pool/epoch_000050/agent_0.safetensors

Which member a pass meets follows from the seed, the number of its first epoch and what is in the pool then, never from where
anything is computed. What is counted is part of every checkpoint, and files of the pool are never removed.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abreast.errors import CheckpointError, ConfigError, ModelFileError, StateFileError
from abreast.files import write_whole
from abreast.state import State, copied
from abreast.state_file import dumps, loads
from abreast.training.actors.base import models_of
from abreast.training.checkpoints.folder import newest_agents
from abreast.training.config import Sampling
from abreast.training.learners.base import Learners
from abreast.training.moved import POOL, AgentOf, kept_agents
from abreast.training.runnable import Runnable
from abreast.worlds.playable import Played

SELF = "self"
"""The source of a pool that is the run itself; `self:0` names one of its agents."""
DRAWING = 6
"""The part of a seed's spawn key that stands for drawing opponents."""
MOST_READ = 8
"""Members whose weights are kept in memory, of those that are files."""


@dataclass
class Member:
    """An agent of the pool, and what came of meeting it."""

    name: str
    """Its folder in the pool."""
    agent: int
    """Which of the agents there it is."""
    sha256: str = ""
    """Of its file, if there is one."""
    games: int = 0
    won: float = 0.0
    """Of these games, those that the agents that learn have won; a draw is half of one."""

    def __str__(self) -> str:
        return f"{self.name}:{self.agent}"


def chances(members: Sequence[Member], sample: Sampling) -> NDArray[np.float64]:
    """How likely each member is to be drawn."""
    if sample == "latest":
        weights = [float(each.name == members[-1].name) for each in members]
    elif sample == "prioritised":
        weights = [(1 - (each.won + 1) / (each.games + 2)) ** 2 for each in members]
    else:
        weights = [1.0] * len(members)
    return np.array(weights) / sum(weights)


def draw(members: Sequence[Member], sample: Sampling, seed: np.random.SeedSequence) -> Member:
    """One of them."""
    return members[int(np.random.default_rng(seed).choice(len(members), p=chances(members, sample)))]


def result_against(played: Played, agent: int, frozen: Sequence[int]) -> tuple[float, float]:
    """The mean reward of those that learn, in an episode, and whether it is more than an opponent's: 1, 0.5 or 0."""
    ours = [float(reward) for number, reward in enumerate(played.reward_per_agent) if number not in frozen]
    reward, theirs = sum(ours) / len(ours), float(played.reward_per_agent[agent])
    return reward, (1.0 if reward > theirs else 0.0) if reward != theirs else 0.5


class Opponents:
    """Gives some agents other weights before every pass, and counts what comes of it."""

    def __init__(self, experiment: Runnable) -> None:
        """Look at all that the pool is to be made of; what does not fit is refused."""
        self._settings, self._seed = experiment.config.experiment.opponents, experiment.config.experiment.seed
        self._frozen, self._name = experiment.config.experiment.freeze, experiment.name
        self._models = models_of(experiment.game)
        experiment.config.check_agents(len(self._models))
        for agent in experiment.config.experiment.load_agents.keys() & set(self._settings.seats):
            raise ConfigError(
                f"agent {agent} is in experiment.load_agents and in experiment.opponents.seats, but its weights come from"
                " the pool: leave one of the two out."
            )
        self._members: dict[int, list[Member]] = {agent: [] for agent in self._settings.seats}
        self._selves: dict[int, list[int]] = {agent: [] for agent in self._settings.seats}
        """The agents here that each of them may be an earlier self of."""
        self._added_at: int | None = None
        """The epoch at which agents of this run were last put into the pool."""
        self._met: dict[int, Member] = {}
        self._states: dict[tuple[str, int], State] = {}
        """By name and agent: all members, or, where they are files, those that were read last."""
        self._folder: Path | None = None

    def gather(self) -> None:
        """Find the members that are there as a run begins. Nothing is written yet."""
        for number, source in enumerate(self._settings.pool):
            for agent in self._settings.seats:
                is_self = source.partition(":")[0] == SELF
                faults = list(self._own_agents(source, agent) if is_self else self._of_run(source, number, agent))
                if not self._members[agent] and not self._selves[agent]:
                    raise ConfigError(
                        f"experiment.opponents.pool {source} has no member that fits agent {agent}: {faults[0]}"
                    )

    def _own_agents(self, source: str, agent: int) -> Iterator[str]:
        """Take down which agents of this run are put into the pool for an opponent; tells what is wrong with others."""
        named = [AgentOf.parse(source, agent).agent] if ":" in source else range(len(self._models))
        for number in named:
            if number >= len(self._models) or number in self._frozen:
                yield f"agent {number} does not learn here."
                continue
            try:
                self._load(agent, self._models[number].file_state(), Path(f"agent {number}"))
                self._selves[agent] = sorted({*self._selves[agent], number})
            except ModelFileError as error:
                yield str(error)

    def _of_run(self, source: str, number: int, agent: int) -> Iterator[str]:
        """Take the members that another run has for an opponent; tells what is wrong with others."""
        of = AgentOf.parse(source, agent)
        of.config()  # says what is wrong with the run, or with the number
        game = newest_agents(of.folder).facts.experiment
        if game != self._name:
            yield f"it is a run of {game}, and this is {self._name}."
            return
        for epochs, agents in kept_agents(of.folder).items():
            if of.agent not in agents:
                yield f"its agent {of.agent} did not learn."
                continue
            try:
                self._load(agent, *agents[of.agent])
            except ModelFileError as error:
                yield str(error)
                continue
            member = Member(f"run{number}_epoch_{epochs:06d}", of.agent)
            self._members[agent].append(member)
            self._states[member.name, member.agent] = agents[of.agent][0]

    def begin(self, folder: Path | None, state: State | None = None) -> None:
        """Keep the members in a run folder, if there is one; or go on from where a checkpoint was."""
        self._folder = None if folder is None else folder / POOL
        if state is not None:
            facts = state.facts
            self._added_at = facts["added_at"]
            self._selves = {int(agent): numbers for agent, numbers in facts["selves"].items()}
            self._members = {
                int(agent): [Member(**each) for each in found] for agent, found in facts["members"].items()
            }
            return
        for member in [member for members in self._members.values() for member in members]:
            self._keep(member, self._states[member.name, member.agent])
        if self._folder is not None:
            self._states.clear()

    def state(self) -> State:
        """What a run that goes on has to know."""
        members = {str(agent): [asdict(each) for each in found] for agent, found in self._members.items()}
        selves = {str(agent): numbers for agent, numbers in self._selves.items()}
        return State({"added_at": self._added_at, "selves": selves, "members": members})

    # ---- a pass

    def begin_pass(self, epoch: int, learners: Learners) -> list[tuple[int, str]]:
        """Give each opponent the weights of a member; returns which. No pass is under way."""
        every = self._settings.every
        if any(self._selves.values()) and (self._added_at is None or epoch // every > self._added_at // every):
            self._add_selves(epoch, learners.learning_states())
        for agent, members in self._members.items():
            seed = np.random.SeedSequence(self._seed, spawn_key=(DRAWING, agent, epoch))
            member = self._met[agent] = draw(members, self._settings.sample, seed)
            self._load(agent, self._read(member), self._path(member))
            learners.renew(agent)
        return [(agent, str(member)) for agent, member in self._met.items()]

    def end_pass(self, played: Sequence[Played]) -> None:
        """Count what came of it."""
        for agent, member in self._met.items():
            member.games += len(played)
            member.won += sum(result_against(each, agent, self._frozen)[1] for each in played)

    def told(self, met: Sequence[tuple[int, str]], played: Played) -> dict[str, Any]:
        """What metrics.jsonl says of an epoch whose pass has met these."""
        told = {}
        for agent, member in met:
            reward, won = result_against(played, agent, self._frozen)
            told[str(agent)] = {"member": member, "reward": reward, "won": won}
        return told

    def _add_selves(self, epoch: int, learned: Sequence[State]) -> None:
        """Put the agents that learn into the pool, as they are."""
        self._added_at = epoch
        for number in sorted({number for numbers in self._selves.values() for number in numbers}):
            first = Member(f"epoch_{epoch:06d}", number)
            self._keep(first, copied(self._models[number].file_state(learned[number])))
            for agent, numbers in self._selves.items():
                if number in numbers:
                    self._members[agent].append(Member(first.name, number, first.sha256))

    def _load(self, agent: int, state: State, path: Path) -> None:
        """Let an opponent be a member, if that fits. Updates of a member are not updates of this run."""
        model = self._models[agent]
        before = model.updates
        model.load_learned(state, path)
        model.updates = before
        model.own_attributes.look()  # a user's generators have begun new streams

    # ---- files

    def _path(self, member: Member) -> Path:
        return (self._folder or Path(POOL)) / member.name / f"agent_{member.agent}.safetensors"

    def _keep(self, member: Member, state: State) -> None:
        """Write a member's file, which replaces one of the same name; without a run folder, it stays in memory."""
        if self._folder is None:
            self._states[member.name, member.agent] = state
            return
        data, path = dumps(state), self._path(member)
        member.sha256 = hashlib.sha256(data).hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)

    def _read(self, member: Member) -> State:
        key = member.name, member.agent
        if key not in self._states:
            if len(self._states) >= MOST_READ:
                del self._states[next(iter(self._states))]
            path = self._path(member)
            try:
                data = path.read_bytes()
                if hashlib.sha256(data).hexdigest() != member.sha256:
                    raise StateFileError("it does not match its checksum: it was damaged or changed")
                self._states[key] = loads(data)
            except (OSError, StateFileError) as error:
                reason = str(getattr(error, "strerror", None) or error).rstrip(".")
                raise CheckpointError(f"{path}, a member of the run's pool, cannot be used: {reason}.") from None
        return self._states[key]


def opponents_of(experiment: Runnable) -> Opponents | None:
    """The opponents that its settings ask for, if they do."""
    return Opponents(experiment) if experiment.config.experiment.opponents.pool else None
