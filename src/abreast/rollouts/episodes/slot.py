"""A slot: one environment of the manager, and everything that is known of its episode in the main process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from abreast.rollouts.episodes.episode import Digest, State, TurnResult
from abreast.rollouts.episodes.metrics import metrics_of
from abreast.rollouts.episodes.summary import Tally
from abreast.rollouts.registry import Tag

Cache = dict[str, Any]
"""What users see of an episode: env_id, group_id, tag, penalty, the info of its first state, its history (one entry per
turn), and at its end its metrics."""
HERE = -1
"""Stands for the main process where the number of a worker is expected."""


@dataclass
class Slot:
    """What is needed to rebuild an environment, to continue its episode, and to report on it."""

    env_id: int
    group_id: int
    tag: Tag

    serial: int = 0
    """Number of its episode."""
    seed: int = 0
    executed: list[Sequence[Any]] = field(default_factory=list)
    """The actions of each turn."""
    digest: Digest | None = None
    """The newest one that is known."""

    worker: int = HERE
    """Number of the worker it lives in."""
    built_in: int = 0
    """The incarnation of that worker in which it was made."""
    started: int = 0
    """The serial of the episode that its environment is in, at its newest state. 0: the environment's state is unknown."""

    cache: Cache = field(default_factory=dict)
    actions_left: int = 0
    tally: Tally = field(default_factory=Tally)
    start_s: float = 0.0
    """What it took to start its episode."""
    terminated: bool = False
    truncated: bool = False
    lease: int = 0
    """Number of the lease (leases.py) that its episode belongs to. 0: none, it is in a batch, or free."""

    def __post_init__(self) -> None:
        self.actions_left = self.tag.budget

    @property
    def num_actions(self) -> int:
        """How much of the budget is used."""
        return self.tag.budget - self.actions_left

    @property
    def history(self) -> list[dict[str, Any]]:
        """The entries of its episode; empty if none was started."""
        return self.cache.get("history", [])  # type: ignore[no-any-return]

    @property
    def is_live(self) -> bool:
        """Whether it is in the middle of an episode."""
        return bool(self.history) and not self.terminated

    def begin(self, seed: int, group_id: int | None = None) -> None:
        """Forget the last episode; the next one has no state yet."""
        self.serial += 1
        self.seed, self.executed, self.digest = seed, [], None
        self.tally, self.terminated, self.truncated = Tally(), False, False
        self.actions_left = self.tag.budget
        self.cache = {
            "env_id": self.env_id,
            "group_id": self.group_id if group_id is None else group_id,
            "tag": self.tag.name,
            "penalty": 0,
            "info": {},
            "history": [],
        }

    def move(self, worker: int) -> None:
        """Live in another process; the environment is rebuilt there with its next turn."""
        self.worker, self.built_in, self.started = worker, 0, 0

    def write(self, result: TurnResult, inputs: Mapping[str, Any] | None, penalty: float) -> None:
        """Write the result of a turn, or of a start (without inputs): history, budget, penalty, end of the episode."""
        if inputs is None:
            self._write_start(result)
        else:
            self._write_turn(result, inputs, penalty)
        if self.terminated:
            self.cache["metrics"] = metrics_of(self.tag, self.history, self.tally.success)

    def _write_turn(self, result: TurnResult, inputs: Mapping[str, Any], penalty: float) -> None:
        state, reward, info, names, executed, dropped, refused, done, failure, seconds, *_ = result
        history, given, used = self.cache["history"], len(inputs["actions"]), len(executed)
        self.tally.count(reward, given, dropped + refused, seconds)
        self.executed.append(executed)
        # A turn without a valid action costs, too; where it does not, the tag has max_turns: every episode ends.
        self.actions_left -= used or self.tag.invalid_turn_cost
        is_cut_off = not self.actions_left or len(self.executed) == self.tag.max_turns
        if failure is not None:
            info = {"success": False, "error": failure}
            self.terminated = self.truncated = True
        elif dropped or not used or not inputs.get("format_is_valid", True):
            self.cache["penalty"] -= penalty
            history[-1]["penalty"] = -penalty
        if (done or is_cut_off) and not self.terminated:
            self.terminated = True
            self.truncated = not (done and info.get("success", False))
            self.tally.success = not self.truncated
        entry = history[-1]
        entry["actions"] = list(names)
        entry["reward"] = reward
        entry["info"] = info
        entry["llm_response"] = inputs.get("llm_response", "")
        entry["llm_raw_response"] = inputs.get("llm_raw_response", "")
        if failure is None:
            self._show(state)
        else:  # what was shown last
            shown = {key: entry[key] for key in ("state", "images") if key in entry}
            history.append({**shown, "actions_left": self.actions_left})

    def _write_start(self, result: TurnResult) -> None:
        self.start_s, self.cache["info"] = result.seconds, result.info
        self._show(result.state)
        if result.failure is not None:
            self.terminated = self.truncated = True
            self.history[-1]["actions_left"] = 0
            self.history[-1]["info"] = {"success": False, "error": result.failure}

    def _show(self, state: State) -> None:
        """Add what the environment shows now to the history."""
        if isinstance(state, str):
            self.cache["history"].append({"state": state, "actions_left": self.actions_left})
        else:
            text, images = "\n".join(["<images>"] * len(state)), [Image.fromarray(picture) for picture in state]
            self.cache["history"].append({"state": text, "images": images, "actions_left": self.actions_left})
