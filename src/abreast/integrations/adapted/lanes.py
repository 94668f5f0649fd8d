"""Copies of an environment of another library, in lanes, as a game that can be trained on (`worlds/playable.py`).

An epoch follows from the seed that its lane is reset with, and that from the experiment's seed, the lane and how many
epochs were begun there: so these counters are all that outlives an epoch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from abreast.errors import AbreastError, StateError, log, short
from abreast.integrations.adapted.base import Adapted
from abreast.models import BaseModel
from abreast.state import State, join, part_of
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

if TYPE_CHECKING:
    from abreast.integrations.adapted.experiment import AdaptedExperiment


WORLD = 0
"""The part of a seed's spawn key that stands for the world, as in environments of our own."""
LARGEST_PICTURE = 480
"""Pixels a side."""
MOST_GROUPINGS = 64
"""Sets of agents that act, in all lanes, whose decisions are kept."""
EMPTY: NDArray[Any] = np.empty(0)


@dataclass
class AdaptedPlayer:
    """An agent of the environment and the model that chooses for it."""

    name: str
    model: BaseModel


@dataclass
class _Lane:
    number: int
    copy: Adapted
    scores: list[float]
    turns: int = 0
    steps: int = 0
    have_acted: set[int] = field(default_factory=set)


class _Grouping(NamedTuple):
    """Decisions and outcomes that are filled again and again: to make new ones takes as long as an agent's choice."""

    decisions: list[Decision]
    outcomes: list[Outcome]
    seeing: list[list[Adapted]]
    """Per decision, the copies that its lanes are played in."""
    places: list[list[tuple[int, int]]]
    """Per lane and agent that acts: which decision that is, and which place in it."""


def _grouped(lanes: Sequence[_Lane], acting: Sequence[Sequence[int]]) -> _Grouping:
    found = _Grouping([], [], [], [[] for _ in lanes])
    for agent in sorted({agent for agents in acting for agent in agents}):
        numbers = [number for number, agents in enumerate(acting) if agent in agents]
        count, copies = len(numbers), [lanes[number].copy for number in numbers]
        masks: list[Any] | None = [EMPTY] * count if copies[0].agents[agent].is_masked else None
        for place, number in enumerate(numbers):
            found.places[number].append((len(found.decisions), place))
        found.decisions.append(Decision(agent, [lanes[number].number for number in numbers], [EMPTY] * count, masks))
        found.outcomes.append(Outcome([0.0] * count, [False] * count))
        found.seeing.append(copies)
    return found


class NumberedLanes(Playable):
    """Lanes that do not depend on each other, by their numbers among those of all actors."""

    plays_by_lane = True
    lanes: int
    """Of all actors."""
    first_lane = 0
    """Of this one."""

    def become_actor(self, first_lane: int) -> None:
        self.first_lane = first_lane

    def state(self) -> State:
        return join(**{f"lane{lane}": state for lane, state in self.lane_states(range(self.lanes)).items()})

    def set_state(self, state: State) -> None:
        self.set_lane_states({lane: part_of(state, f"lane{lane}") for lane in range(self.lanes)})


class AdaptedLanes(NumberedLanes):
    """An environment and its copies. A turn is one step of the environment."""

    players: Sequence[AdaptedPlayer]

    def __init__(self, experiment: "AdaptedExperiment", players: Sequence[AdaptedPlayer]) -> None:
        self._experiment, self.players, self.lanes = experiment, players, experiment.config.multiprocessing.lanes
        self.turns = 0
        self._epochs: dict[int, int] = {}
        """How many were begun, by lane."""
        self._next_seeds: Sequence[np.random.SeedSequence] | None = None
        self._lanes: list[_Lane] = []
        self._playing: list[_Lane] = []
        self._acting: list[Sequence[int]] = []
        self._now = _Grouping([], [], [], [])
        self._groupings: dict[tuple[Sequence[int], ...], _Grouping] = {}
        """By who acts in each of the lanes that are played."""

    @property
    def why_not_resumable(self) -> str | None:  # type: ignore[override]
        """Why a run cannot be resumed exactly, if so: its epochs do not follow from their seeds."""
        return self._experiment.seeding.fault

    @property
    def agent_names(self) -> Sequence[str]:  # type: ignore[override]
        """What the environment calls its agents."""
        return [player.name for player in self.players]

    def reset(self, lanes: int) -> None:
        self._lanes = [
            _Lane(number, copy, [0.0] * len(self.players))
            for number, copy in enumerate(self._experiment.renewed_copies(lanes), self.first_lane)
        ]
        for index, lane in enumerate(self._lanes):
            lane.copy.reset(self._seed(index, lane.number))
        self._playing, self._acting, self._next_seeds, self.turns = list(self._lanes), [], None, 0
        self._groupings.clear()
        self._limit = self._experiment.config.experiment.max_turns

    def _seed(self, index: int, lane: int) -> int:
        """The seed of the next epoch in a lane. (31 bits: some environments take no more.)"""
        if self._next_seeds is not None:
            return as_seed(self._next_seeds[index])
        epoch = self._epochs[lane] = self._epochs.get(lane, 0) + 1
        return as_seed(self._experiment.seed_of(WORLD, lane, epoch))

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Let the next epoch follow from these seeds, one for each lane, instead of those of training."""
        self._next_seeds = seeds

    def decisions(self) -> Sequence[Decision] | None:
        """Valid, as the outcomes of `step`, until the same agents decide again."""
        if not self._playing:
            return None
        acting = [lane.copy.acting for lane in self._playing]
        if len(acting) != len(self._acting) or not all(map(is_, acting, self._acting)):
            self._now = self._group(acting)
        for (agent, _, states, masks), copies in zip(self._now.decisions, self._now.seeing, strict=True):
            for index, copy in enumerate(copies):
                states[index], mask = copy.see(agent)  # type: ignore[index]
                if masks is not None:
                    masks[index] = mask  # type: ignore[index]
        return self._now.decisions

    def _group(self, acting: list[Sequence[int]]) -> "_Grouping":
        """One decision for each agent that acts in any lane. They are made once, where the same agents act again."""
        self._acting = acting
        key = tuple(acting)
        if key not in self._groupings:
            if len(self._groupings) >= MOST_GROUPINGS:
                self._groupings.clear()
            self._groupings[key] = _grouped(self._playing, acting)
        return self._groupings[key]

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        outcomes, limit, is_any_over = self._now.outcomes, self._limit, False
        late: list[Late] = []
        for lane, acting, places in zip(self._playing, self._acting, self._now.places, strict=True):
            copy, scores, number = lane.copy, lane.scores, lane.number
            try:
                rewards, terminated, news = copy.step([actions[which][place] for which, place in places])
            except AbreastError:
                raise
            except Exception as error:
                error.add_note(f"(abreast: {copy.name}, turn {lane.turns + 1}, lane {number})")
                raise
            for (which, place), agent, reward, ended in zip(places, acting, rewards, terminated, strict=True):
                outcome = outcomes[which]
                outcome.rewards[place], outcome.terminated[place] = reward, ended  # type: ignore[index]
                scores[agent] += reward
            lane.turns += 1
            lane.steps += len(acting)
            lane.have_acted.update(acting)
            if lane.turns >= limit or not copy.acting:
                is_any_over = True
                news = [*news, *copy.leave()] if copy.acting else news
            for agent, reward, ended, cut in news:
                scores[agent] += reward
                if agent in lane.have_acted:  # else there is no action that it could be for
                    late.append(Late(agent, number, reward, ended, cut))
        self.turns = self._lanes[0].turns
        if is_any_over:
            self._playing = [lane for lane in self._playing if lane.copy.acting and lane.turns < limit]
            self._groupings.clear()
        return outcomes, late

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        return [Played(lane.turns, lane.scores, steps=lane.steps) for lane in self._lanes], ()

    # ---- what it looks like, what is kept

    def picture(self) -> Image.Image | None:
        seen = self.look()
        if seen is None or isinstance(seen, str):
            return None
        picture = Image.fromarray(np.ascontiguousarray(seen, dtype=np.uint8))
        picture.thumbnail((LARGEST_PICTURE, LARGEST_PICTURE))
        return picture

    def rewards_so_far(self) -> Sequence[float]:
        return list(self._lanes[0].scores)

    def look(self) -> NDArray[Any] | str | None:
        """The first lane as its environment shows it: pixels, or text. One that cannot is not asked again."""
        if not self._lanes or self._experiment.why_not_seen is not None:
            return None
        try:
            seen = self._lanes[0].copy.render()
            if isinstance(seen, str):
                return seen
            pixels = np.asarray(seen)
            if pixels.ndim == 3 and pixels.shape[2] in (3, 4):
                return pixels[:, :, :3]
            told = f"it returned {short(seen)}, expected pixels (height, width, 3)"
        except Exception as error:
            told = f"{type(error).__name__}: {error}".rstrip(".")
        self._experiment.why_not_seen = f"it cannot be rendered: {told}"
        log.warning("there are no pictures of %s, because it cannot be rendered: %s.", self._lanes[0].copy.name, told)
        return None

    def lane_states(self, lanes: Iterable[int]) -> dict[int, State]:
        names = list(self.agent_names)
        return {lane: State({"epochs": self._epochs.get(lane, 0), "agents": names}) for lane in lanes}

    def set_lane_states(self, states: Mapping[int, State]) -> None:
        for lane, state in states.items():
            epochs, agents = state.facts.get("epochs"), state.facts.get("agents")
            if type(epochs) is not int or epochs < 0:
                raise StateError(f"the number of epochs begun in a lane is {short(epochs)}, expected a whole number.")
            if agents != self.agent_names:
                raise StateError(
                    f"the agents of {self._experiment.name} were {short(agents)}, and now are {short(self.agent_names)}:"
                    " list them in possible_agents in the same order in every process (not in that of a set)."
                )
            self._epochs[lane] = epochs


def as_seed(seed: np.random.SeedSequence) -> int:
    """A seed for `reset`."""
    return int(seed.generate_state(1)[0]) >> 1
