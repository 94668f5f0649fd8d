"""A slot: one environment of the manager, and everything that is known of its episode in the main process.

A slot of a batch has one episode after the other. A single episode has a slot of its own, which takes over the environment
of an earlier one (`takes_over`); so what is known of an episode stays what it is.

    phase of a turn     event                               next
    OVER or READY       begun                               QUEUED or SENT
    QUEUED              taken in the main process           TAKEN
    QUEUED              interrupted (Ctrl-C, timeout)       QUEUED, to be replayed; after the second timeout TAKEN, failed
    QUEUED              its tag waits (auto)                SENT, to a thread
    SENT                answered                            TAKEN
    SENT                its worker died                     SENT again; TAKEN, failed, after 3 deaths or 2 silences at it
    SENT                its worker is lost                  SENT to another, else QUEUED; TAKEN, failed, if one died at it
    TAKEN               handed out                          READY, or OVER
    any                 reset, closed                       OVER, or READY

Only `Turns` (turns.py) changes a phase.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from PIL import Image

from abreast.errors import short
from abreast.rollouts.context.tools import Call
from abreast.rollouts.episodes.episode import SHOWN_OF_NAME, Digest, Episode, State, TurnResult
from abreast.rollouts.registry import Tag

Cache = dict[str, Any]
"""What users see of an episode: env_id, group_id, tag, penalty, the info of its first state, its history (one entry per
turn), and at its end its metrics."""
Inputs = Mapping[str, Any]
HERE = -1
"""Stands for the main process where the number of a worker is expected."""


class Phase(Enum):
    """Of a turn."""

    OVER = "over"
    """There is no episode, or it has ended."""
    READY = "ready"
    """The environment may be given an input."""
    QUEUED = "queued"
    """To be taken in the main process."""
    SENT = "sent"
    """Ordered from a worker."""
    TAKEN = "taken"
    """Its result is written, and not yet handed out."""


OVER, READY, QUEUED, SENT, TAKEN = Phase  # a look-up of a global takes 13 ns, of a member of an enum 85


@dataclass(slots=True)
class Tally:
    """Counters of an episode, beside its history."""

    reward: float = 0.0
    success: bool = False
    given: int = 0
    """Actions given; a turn without any counts as one."""
    executed: int = 0
    invalid: int = 0
    """Those that were not known, or that the environment called invalid."""
    timeouts: int = 0
    seconds: list[float] = field(default_factory=list)
    """Of each turn."""
    is_silent: bool = False
    """Whether the environment ended it without `info["success"]` in any turn: then its success is not known."""

    def figures(self, penalty: float) -> dict[str, float]:
        """Those that do not depend on `info`."""
        return {
            "success": float(self.success),
            "num_actions": self.executed,
            "reward": self.reward,
            "penalty": penalty,
            "score": self.reward + penalty,
            "invalid_rate": self.invalid / self.given if self.given else 0.0,
        }


@dataclass(slots=True, eq=False)
class Slot:
    """What is needed to rebuild an environment, to continue its episode, and to report on it."""

    env_id: int
    group_id: int | None
    tag: Tag
    is_single: bool = False
    """Whether it belongs to a single episode, not to the batch."""

    # ---- its episode
    serial: int = 0
    """Number of its episode."""
    seed: int = 0
    executed: list[Sequence[Any]] = field(default_factory=list)
    """The actions of each turn."""
    digest: Digest | None = None
    """The newest one that is known."""
    cache: Cache = field(default_factory=dict)
    actions_left: int = 0
    tally: Tally = field(default_factory=Tally)
    terminated: bool = False

    begun_by: int = 0
    """The thread that has begun it, if it is a single episode."""

    # ---- where its environment is
    worker: int = HERE
    """Number of the worker it lives in."""
    built_in: int = 0
    """The incarnation of that worker in which it was made."""
    started: int = 0
    """The serial of the episode that its environment is in, at its newest state. 0: the environment's state is unknown."""
    here: Episode | None = None
    """The environment itself, if it lives in the main process …"""
    made_by: int = 0
    """… and the thread that made it."""

    # ---- its turn
    phase: Phase = OVER
    inputs: Inputs | None = None
    """The input; None: the start of the episode."""
    key: int = 0
    """The key of the order it was sent with, or began with. 0: no turn is wanted any more."""
    deaths: int = 0
    """How often a worker died or fell silent at it, or it took too long in the main process."""
    is_suspect: bool = False
    """Whether its worker has died while it sent answers, this one among them."""
    at_work: int = 0
    """The key of the turn that a thread of the main process is taking. 0: none."""
    job: Any = None
    """The `Job` that waits for it."""

    @property
    def history(self) -> list[dict[str, Any]]:
        """The entries of its episode; empty if none was started."""
        return self.cache.get("history", [])  # type: ignore[no-any-return]

    @property
    def truncated(self) -> bool:
        """Whether its episode is over without success."""
        return self.terminated and not self.tally.success

    @property
    def is_live(self) -> bool:
        """Whether it is in the middle of an episode."""
        return bool(self.history) and not self.terminated

    @property
    def error(self) -> str | None:
        """Why its episode could not go on, or not begin, if so."""
        told = (entry.get("info", {}) for entry in self.history[-2:])
        return next((info["error"] for info in told if "error" in info), None)

    def begin(self, seed: int) -> None:
        """Forget the last episode; the next one has no state yet."""
        self.serial += 1
        self.seed, self.executed, self.digest = seed, [], None
        self.tally, self.terminated = Tally(), False
        self.actions_left = self.tag.budget
        self.cache = {
            "env_id": self.env_id,
            "group_id": self.group_id,
            "tag": self.tag.name,
            "penalty": 0,
            "info": {},
            "history": [],
        }

    def move(self, worker: int) -> None:
        """Live in another process; the environment is rebuilt there with its next turn."""
        self.worker, self.built_in, self.started = worker, 0, 0

    def takes_over(self, old: "Slot") -> None:
        """Have the environment of a slot whose episode is over."""
        self.serial, self.worker, self.built_in = old.serial, old.worker, old.built_in
        self.here, self.made_by, old.here = old.here, old.made_by, None

    def write_turn(self, result: TurnResult, inputs: Inputs, penalty: float) -> None:
        """Write the result of a turn: history, budget, penalty, end of the episode."""
        state, reward, info, names, executed, dropped, refused, done, failure, seconds = result[:10]
        history, given, used, tally = self.cache["history"], len(inputs["actions"]), len(executed), self.tally
        tally.reward += reward
        tally.seconds.append(seconds)
        tally.given += given or 1
        tally.executed += used
        tally.invalid += len(dropped) + len(refused) if given else 1
        self.executed.append(executed)
        # A turn without a valid action costs, too; where it does not, the tag has max_turns: every episode ends.
        self.actions_left -= used or self.tag.invalid_turn_cost
        is_cut_off = not self.actions_left or len(self.executed) == self.tag.max_turns
        entry, has_form = history[-1], inputs.get("format_is_valid", True)
        if failure is not None:
            info = {"success": False, "error": failure}
            self.terminated = True
        elif dropped or not used or not has_form:
            self.cache["penalty"] -= penalty
            entry["penalty"] = -penalty
        if (done or is_cut_off) and not self.terminated:
            self.terminated = True
            tally.success = bool(done and info.get("success", False))
            tally.is_silent = done and "success" not in info and all("success" not in e["info"] for e in history[:-1])
        entry["actions"] = list(names)
        entry["reward"] = reward
        entry["info"] = info
        entry["llm_response"] = inputs.get("llm_response", "")
        entry["llm_raw_response"] = inputs.get("llm_raw_response", "")
        calls = inputs.get("calls") or inputs.get("text_calls", ())
        if calls:  # as `Context.input` gives them
            outcomes = _outcomes(calls, dropped, used, result.steps, failure)
            entry["calls" if inputs.get("calls") else "text_calls"] = outcomes
        if dropped or refused or not given or not has_form:
            entry["invalid"] = _what_was_invalid(dropped, refused, given, has_form, calls)
        if failure is None:
            self._show(state)
        else:  # what was shown last
            shown = {key: entry[key] for key in ("state", "images") if key in entry}
            history.append({**shown, "actions_left": self.actions_left})

    def write_start(self, result: TurnResult) -> None:
        """Write the start of an episode, or why it could not begin."""
        self.cache["info"] = result.info
        self._show(result.state)
        if result.failure is not None:
            self.terminated = True
            self.history[-1]["actions_left"] = 0
            self.history[-1]["info"] = {"success": False, "error": result.failure}

    def _show(self, state: State) -> None:
        """Add what the environment shows now to the history."""
        if isinstance(state, str):
            self.cache["history"].append({"state": state, "actions_left": self.actions_left})
        else:
            text, images = "\n".join(["<images>"] * len(state)), [Image.fromarray(picture) for picture in state]
            self.cache["history"].append({"state": text, "images": images, "actions_left": self.actions_left})


def _outcomes(
    calls: Sequence[Call], dropped: Sequence[str], executed: int, steps: Sequence[str], failure: str | None
) -> list[dict[str, str]]:
    """Return the record of each call of a turn: its name and arguments, and `why` it was not executed or, of each executed
    call but the last, which has led to the next state, the `result`: the text that was shown after it, if it is known.
    """
    unknown, told = list(dropped), list[dict[str, str]]()
    came = [*({"result": text} for text in steps), *({} for _ in range(executed - len(steps)))]
    for call in calls:
        why = call["why"]
        if not why and unknown and call["action"][:SHOWN_OF_NAME] == unknown[0]:
            why = f"{short(unknown.pop(0))} is no action of this environment."
        elif not why and not came:
            why = failure or "the episode had ended before."
        told.append({"name": call["name"], "arguments": call["arguments"], **({"why": why} if why else came.pop(0))})
    return told


def _what_was_invalid(
    dropped: Sequence[str], refused: Sequence[str], given: int, has_form: bool, calls: Sequence[Call]
) -> list[str]:
    """A sentence for each thing that was wrong with a turn."""
    told = [f"{short(action)} was not executed: it is no action of this environment." for action in dropped]
    told += [f"{short(action)} was executed, and the environment calls it invalid." for action in refused]
    wrong = [call for call in calls if call["action"] is None]
    told += [f"the call of {call['name'] or 'a tool'} was not executed: {call['why']}" for call in wrong]
    if not given and not wrong:
        told.append("no action was given.")
    if not has_form and not wrong:
        told.append("the answer does not have the form that is asked for.")
    return told
