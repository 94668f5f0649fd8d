"""What is sent and received, in the form of OpenEnv 0.10, and the codes of its refusals."""

import json
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from abreast.rollouts.episodes.single import SingleEpisode, Step

Code = Literal[
    "INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR", "EXECUTION_ERROR", "CAPACITY_REACHED", "SESSION_ERROR"
]
STATUS: dict[str, int] = {"CAPACITY_REACHED": 503, "EXECUTION_ERROR": 500, "SESSION_ERROR": 409}
"""Of a refusal by HTTP; of the others: 422."""


class Refusal(Exception):
    """A request that is not fulfilled: the session goes on, unless it could not begin."""

    def __init__(self, code: Code, message: str, **more: Any) -> None:
        super().__init__(message)
        self.code = code
        self.data = {"message": message, "code": code, **more}


class ResetRequest(BaseModel):
    """How an episode begins. Keys of other environments are left alone, as OpenEnv's own server does."""

    seed: int | None = Field(None, ge=0, lt=2**63, strict=True)
    """The same seed begins the same episode; null: the next that was not used."""
    episode_id: str | None = Field(None, max_length=255)
    """The client's own name for the episode."""
    messages: bool = False
    """Whether observations have the chat messages that ask a language model for the next turn."""


class Action(BaseModel):
    """A turn: one action as a text, or the whole answer of a language model."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: str | None = None
    """One action of the environment, by name, or its free text."""
    message: str | None = None
    """The answer of a language model as it is: its actions are read from it."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """With a `request_id`, an action that is sent again is not executed again."""

    @model_validator(mode="after")
    def _is_one(self) -> "Action":
        if (self.action is None) == (self.message is None):
            raise ValueError("expected either `action` (one action) or `message` (an answer), as a text.")
        return self


class Observation(BaseModel):
    """What an environment shows."""

    text: str
    """The state."""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    """The chat messages that ask for the next turn, if they were asked for at reset."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """session_id, tag, seed, success, truncated, penalty, invalid (what was wrong with the turn) and info."""


class State(BaseModel):
    """What is known of a session."""

    episode_id: str | None = None
    step_count: int = 0
    session_id: str = ""
    tag: str = ""
    seed: int | None = None
    done: bool = False
    score: float = 0.0


SCHEMA = {
    "action": Action.model_json_schema(),
    "observation": Observation.model_json_schema(),
    "state": State.model_json_schema(),
}


def parse(kind: type[BaseModel], data: Any) -> Any:
    """The request in `data`, or a refusal that says what is wrong with it."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        faults = [{"loc": each["loc"], "msg": each["msg"], "type": each["type"]} for each in error.errors()]
        where = ".".join(map(str, faults[0]["loc"])) or kind.__name__
        raise Refusal("VALIDATION_ERROR", f"Invalid message: {where}: {faults[0]['msg']}", errors=faults) from None


def read(text: str) -> dict[str, Any]:
    """The JSON object in a text."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal("INVALID_JSON", f"Invalid JSON: {error}") from None
    if not isinstance(given, dict):
        raise Refusal("INVALID_JSON", "Invalid JSON: expected an object with `type`, and `data` where it is needed.")
    return given


def write(kind: str, data: dict[str, Any]) -> str:
    """A message as a text."""
    return dump({"type": kind, "data": data})


def dump(value: Any) -> str:
    """A value as JSON."""
    return json.dumps(value, default=_plain)


def observed(
    episode: SingleEpisode, step: Step | None, penalty: float, metadata: dict[str, Any], chat: bool
) -> dict[str, Any]:
    """What a reset (without a step) or a turn has shown. A penalty is told beside the reward, not within it."""
    names = (episode.tag.config.action_lookup or {}).values()
    told = {
        **metadata,
        "tag": episode.tag.name,
        "seed": episode.seed,
        "success": None if episode.tally.is_silent else episode.success,
        "truncated": episode.truncated,
        "penalty": penalty,
        "invalid": list(step.invalid) if step else [],
        "info": {**({"available_actions": list(names)} if names else {}), **episode.info},
        **({"error": episode.error} if episode.error else {}),
    }
    shown = {"text": episode.state, "messages": episode.messages if chat else [], "metadata": told}
    return {"observation": shown, "reward": step.reward if step else None, "done": episode.done, "metadata": told}


def _plain(value: Any) -> Any:
    """Values of `info` that JSON has no form for."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return sorted(value, key=str) if isinstance(value, set | frozenset) else str(value)
