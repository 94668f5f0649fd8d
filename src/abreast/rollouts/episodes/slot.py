"""An environment and its episode, as the manager knows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from abreast.processes.supervisor import Death
from abreast.rollouts.episodes.summary import Tally
from abreast.rollouts.registry import Tag
from abreast.rollouts.workers.messages import Digest, State, Turn

Cache = dict[str, Any]
"""What users see of an episode: env_id, group_id, tag, penalty, and its history, an entry a turn."""
MAIN = -1
"""Stands for the main process where a worker's number is expected."""


@dataclass
class EnvState:
    """Everything needed to rebuild the environment, to go on with it, and to tell what its episode came to."""

    env_id: int
    group_id: int
    tag: Tag

    serial: int = 0
    """Number of its episode."""
    seed: int = 0
    executed: list[Sequence[Any]] = field(default_factory=list)
    """The actions of each turn."""
    digest: Digest | None = None
    """Of the newest state of which one is known."""

    home: int = MAIN
    """The worker it lives in."""
    is_built: bool = False
    """Whether it is there at all."""
    is_there: bool = False
    """Whether it is there in the state it should be in."""
    asked: Mapping[str, Any] | None = None
    """The input of the turn under way."""
    is_waiting: bool = False
    """Whether it can be asked for a turn: its episode has begun, is not over, and what came of its last turn was told."""
    blamed: list[Death] = field(default_factory=list)
    """Deaths of workers over that turn."""
    doom: str | None = None
    """Why its next turn will be its last."""

    cache: Cache = field(default_factory=dict)
    actions_left: int = 0
    tally: Tally = field(default_factory=Tally)
    terminated: bool = False
    truncated: bool = False

    def __post_init__(self) -> None:
        self.actions_left = self.tag.budget

    @property
    def num_actions(self) -> int:
        """How much of the budget is used."""
        return self.tag.budget - self.actions_left

    @property
    def history(self) -> list[dict[str, Any]]:
        """The entries of its episode; none while it has not begun."""
        return self.cache.get("history", [])  # type: ignore[no-any-return]

    def begin(self, seed: int) -> None:
        """A new episode; nothing is known of it yet."""
        self.serial += 1
        self.seed, self.executed, self.digest = seed, [], None
        self.is_there, self.is_waiting, self.asked, self.blamed, self.doom = False, False, None, [], None
        self.tally, self.terminated, self.truncated = Tally(), False, False
        self.actions_left = self.tag.budget
        self.cache = {
            "env_id": self.env_id,
            "group_id": self.group_id,
            "tag": self.tag.name,
            "penalty": 0,
            "history": [],
        }

    def started(self, turn: Turn) -> None:
        """Take in the first state, or that there is none."""
        self._show(turn.state)
        if turn.failure is not None:
            self.terminated = self.truncated = True
            self.history[-1]["actions_left"] = 0
            self.history[-1]["info"] = {"success": False, "error": turn.failure}

    def stepped(self, turn: Turn, penalty: float) -> None:
        """Take in the turn it was asked for: budget, penalty, end of the episode, history."""
        state, reward, info, names, executed, dropped, refused, done, failure, seconds = turn
        asked, self.asked = self.asked, None
        assert asked is not None, "a turn was asked for"
        history, given, used = self.cache["history"], len(asked["actions"]), len(executed)
        self.tally.count(reward, given, dropped + refused, seconds)
        self.executed.append(executed)
        self.actions_left -= used or 1  # a turn without a valid action costs too, or an episode might never end
        if failure is not None:
            info = {"success": False, "error": failure}
            self.terminated = self.truncated = True
        elif dropped or not used:
            self.cache["penalty"] -= penalty
        if (done or not self.actions_left) and not self.terminated:
            self.terminated = True
            self.truncated = not (done and info.get("success", False))
            self.tally.success = not self.truncated
        entry = history[-1]
        entry["actions"] = list(names)
        entry["reward"] = reward
        entry["info"] = info
        entry["llm_response"] = asked.get("llm_response", "")
        entry["llm_raw_response"] = asked.get("llm_raw_response", "")
        if failure is None:
            self._show(state)
        else:  # what was seen last
            seen = {key: entry[key] for key in ("state", "images") if key in entry}
            history.append({**seen, "actions_left": self.actions_left})

    def _show(self, state: State) -> None:
        """Add what is seen now to the history."""
        if isinstance(state, str):
            self.cache["history"].append({"state": state, "actions_left": self.actions_left})
        else:
            text, images = "\n".join(["<images>"] * len(state)), [Image.fromarray(picture) for picture in state]
            self.cache["history"].append({"state": text, "images": images, "actions_left": self.actions_left})
