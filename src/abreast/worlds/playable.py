"""What training needs of a game, whatever it is made of.

    game.reset(lanes)
    while (decisions := game.decisions()) is not None:           who acts now, and what each sees
        outcomes, late = game.step(choose(decisions))
    played, late = game.finish()

A game holds its lanes (copies played side by side), so that agents can choose for all of them at once. Agents that act in
turn are decisions of one agent each; agents that act at once are several decisions in one list; an agent that is dead, or
not there yet, does not appear. `training/lanes.py` is the implementation for gridworlds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from abreast.errors import RewardError, WorldError, short
from abreast.state import State

LARGEST_REWARD = float(np.finfo(np.float32).max)
"""Rewards are kept as numbers of 32 bits."""


def as_reward(value: object) -> float:
    """A reward as a number; what is none, or not a finite one, is refused."""
    number = value if type(value) is float else _as_number(value)
    if not -LARGEST_REWARD <= number <= LARGEST_REWARD:  # also false for NaN
        raise RewardError(f"the reward is {short(value)}, expected a finite number")
    return number


def _as_number(value: Any) -> float:
    if isinstance(value, Real):
        return float(value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # an array or tensor of one number
        return as_reward(value.item())
    raise RewardError(f"the reward is {short(value)}, expected a number")


class Player(Protocol):
    """Who decides."""

    @property
    def model(self) -> Any:
        """A `BaseModel` of its own."""


class Decision(NamedTuple):
    """A player is to choose, in some lanes."""

    agent: int
    """Its position among `players`."""
    lanes: Sequence[int]
    states: Sequence[NDArray[Any]]
    """What it sees, per lane."""
    masks: Sequence[NDArray[np.bool_]] | None = None
    """Which actions are legal, per lane, where the player's observation `is_masked`."""


class Outcome(NamedTuple):
    """What came of a decision, per lane."""

    rewards: Sequence[float]
    terminated: Sequence[bool]
    """Whether the episode has ended for good for this player (not merely been cut)."""


class Late(NamedTuple):
    """What a player learns of a lane after its last step there: a reward, or that the episode has ended, for good
    (`terminated`) or cut (`truncated`): if the player acts there again, that is another episode.
    """

    agent: int
    lane: int
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class Played(NamedTuple):
    """The result of an epoch in one lane."""

    turns: int
    reward_per_agent: list[float]
    metrics: Mapping[str, float | None] = {}
    """Figures of the game's own, by name."""
    steps: int | None = None
    """Steps of all players together; None: each took one in every turn."""


class Playable(ABC):
    """A game in several lanes: derive yours from this class. All that training may ask of it is here, with defaults."""

    players: Sequence[Player]
    turns: int = 0
    """Turns completed in the first lane since `reset`."""
    agent_names: Sequence[str] = ()
    """What the game calls its agents, if it has names for them."""
    agent_colours: Sequence[str | None] = ()
    """Colours of their own that agents have in films, as `#rrggbb`; none at all, or None for one that has none."""
    plays_by_lane: bool = False
    """Whether lanes are independent of each other, so that several actors may share them. A game that says so has
    `become_actor`, `lane_states` and `set_lane_states`, too.
    """

    @abstractmethod
    def reset(self, lanes: int) -> None:
        """Begin an epoch in this many lanes."""

    @abstractmethod
    def decisions(self) -> Sequence[Decision] | None:
        """Who has to choose now: perhaps no player, where all of them act by themselves. None: all lanes are over."""

    @abstractmethod
    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        """Carry out the actions chosen for the last `decisions`, per decision and lane."""

    @abstractmethod
    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        """The epoch is over: its result in each lane, and what players do not know yet."""

    why_not_resumable: str | None = None
    """Why a run of it cannot be resumed, if that is known."""

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Let the next epoch follow from these seeds, one for each lane, and no others: for evaluation."""
        raise WorldError(f"{type(self).__name__} cannot be evaluated: it has no `draw_from`.")

    @abstractmethod
    def state(self) -> State:
        """What outlives `reset`, between two epochs: random streams, mostly."""

    @abstractmethod
    def set_state(self, state: State) -> None:
        """Play on from where `state` was."""

    def picture(self) -> Image.Image | None:
        """The first lane as it looks now, if it looks like anything."""
        return None

    has_cheap_snapshots: bool = False
    """Whether a snapshot takes so little time (a few µs) that every pass can be filmed."""

    def snapshot(self) -> Any:
        """What `paint` needs to draw the first lane as it is now, if it looks like anything."""
        return self.picture()

    def paint(self, snapshots: Sequence[Any]) -> tuple[Iterable[Image.Image], Sequence[tuple[Image.Image, str]]]:
        """Pictures of snapshots, all of one size; and what is seen in them beside agents, if it is known: icons (RGBA) with
        names.
        """
        return snapshots, ()

    def rewards_so_far(self) -> Iterable[Any]:
        """What each player has got so far in the first lane, if that is known before the end."""
        return ()

    def play_pass(
        self, epoch: int, lanes: int, beat: Callable[[], None] | None, on_turn: Callable[[], None] | None
    ) -> list[Played] | None:
        """Play a pass as a whole, on a device, and remember it; None: it is played decision by decision."""
        return None

    def become_actor(self, first_lane: int) -> None:
        """Play other lanes, from this one on: `reset(2)` then begins lanes `first_lane` and `first_lane + 1`."""
        raise NotImplementedError(f"{type(self).__name__}.become_actor lets it play other lanes than the first.")

    def lane_states(self, lanes: Iterable[int]) -> dict[int, State]:
        """What outlives `reset`, of each of these lanes."""
        raise NotImplementedError(f"{type(self).__name__}.lane_states says what outlives `reset` in a lane.")

    def set_lane_states(self, states: Mapping[int, State]) -> None:
        """Play on, in these lanes, from where another actor was."""
        raise NotImplementedError(f"{type(self).__name__}.set_lane_states takes over what `lane_states` said.")
