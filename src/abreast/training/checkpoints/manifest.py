"""What a checkpoint says of itself: its manifest.

{"format": 3, "version": "0.1.0", "kind": "run", "facts": {"epochs": 500, …},
 "files": {"agent_0.safetensors": {"bytes": 1234, "sha256": "…"}, …}, "checksum": "…"}

The last is the checksum of all that comes before it, without which a flipped bit in the facts would go unnoticed. Nothing is
said twice, so that facts cannot contradict each other.
"""

import hashlib
from typing import Annotated, Any, Literal, TypeVar

import pydantic
from pydantic import Field

from abreast import __version__
from abreast.errors import CheckpointError, short
from abreast.state_file import json_of, parse_json
from abreast.training.config import ScheduleName

FORMAT = 3
LARGEST = 64_000_000
"""Bytes of a manifest."""
SUFFIX = ".safetensors"
PART = "[a-z0-9_]{1,100}"
"""Names of checkpoints and of their parts."""

Kind = Literal["run", "agents"]
Count = Annotated[int, Field(ge=0, lt=2**62)]
"""It still fits into an array when some are added to it."""
Seconds = Annotated[float, Field(ge=0, lt=2**62)]
FileName = Annotated[str, Field(pattern=rf"^{PART}\{SUFFIX}$")]


class _Checked(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


AnyChecked = TypeVar("AnyChecked", bound=_Checked)


class PassFacts(_Checked):
    """A pass that was played and whose round is not finished: of a `training.loop.Pass`, what does not follow."""

    played: list[Annotated[tuple[Count, list[float], dict[str, float | None], Count | None], Field(strict=False)]]
    epsilons: list[float]
    written: list[list[Count]]
    collect_s: Seconds
    opponents: list[Annotated[tuple[Count, str], Field(strict=False)]]


class Facts(_Checked):
    """What a checkpoint says of its run."""

    experiment: str
    schedule: ScheduleName
    config: str
    """The configuration of the run, as YAML."""
    devices: list[str]
    """Where the model of each agent learns."""
    epochs: Count
    """Epochs played, those of earlier runs of the environment too."""
    first_epoch: Count
    """Epochs that had been played when the run began."""
    recorded: Count
    """Lines in metrics.jsonl."""
    steps: Count = 0
    """Steps of the environment that were recorded."""
    agent_steps: Count
    updates_before: Count
    """Updates of all agents before the run."""
    seconds: Seconds
    """Spent on playing and waiting for learners."""
    elapsed_s: Seconds
    rounds: Count = 0
    """Rounds of training that were finished."""
    unfinished: list[PassFacts] = []
    """Passes whose rounds were under way."""
    resumable: bool = False
    reason: str | None = None
    """Why the run cannot be resumed."""
    reward: float | None = None
    """Mean over the newest epochs of all agents' reward; None where agents have sides."""
    has_sides: bool = False
    """True if the result is reported by side (`headline.groups_of`), so that no checkpoint is the best."""
    is_complete: bool = False
    """Whether the run had come to its end."""


class FileFacts(_Checked):
    """What a manifest says of a file."""

    bytes: Annotated[int, Field(ge=0, lt=2**63)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(_Checked):
    """What a manifest says."""

    format: Literal[3]
    version: Annotated[str, Field(pattern="^[0-9A-Za-z.+!_-]{1,64}$")]
    """The version of abreast that wrote it."""
    kind: Kind
    facts: Facts
    files: Annotated[dict[FileName, FileFacts], Field(min_length=1)]
    checksum: str


def compose(kind: Kind, facts: dict[str, Any], files: dict[str, Any]) -> bytes:
    """The bytes of a manifest; what could not be read again is refused."""
    data = seal({"format": FORMAT, "version": __version__, "kind": kind, "facts": facts, "files": files})
    parse(data)
    return data


def seal(content: dict[str, Any]) -> bytes:
    """The content of a manifest with its checksum."""
    return json_of({**content, "checksum": _checksum(content)}).encode()


def parse(data: bytes) -> Manifest:
    """What a manifest says, if it is one."""
    if len(data) > LARGEST:
        raise CheckpointError(f"it has more than {LARGEST:,} bytes")
    given = parse_json(data, "it")
    if not isinstance(given, dict) or "format" not in given:
        raise CheckpointError("it is not a manifest of abreast")
    if type(given["format"]) is not int or given["format"] != FORMAT:
        raise CheckpointError(f"it is of format {short(given['format'])}; this version of abreast reads {FORMAT}")
    if given.get("checksum") != _checksum({key: value for key, value in given.items() if key != "checksum"}):
        raise CheckpointError("it does not match its own checksum: it was damaged or changed")
    return checked(Manifest, given)


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json_of(dict(sorted(content.items()))).encode()).hexdigest()


def checked(kind: type[AnyChecked], values: Any) -> AnyChecked:
    """Facts that were read from a file, if they are of this kind."""
    try:
        return kind.model_validate(values)
    except pydantic.ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = short(".".join(map(str, fault["loc"]))).strip("'")
        if fault["type"] == "missing":
            raise CheckpointError(f"its {name} is missing") from None
        expected = fault["msg"].partition(" should ")[2] or "not be there"
        raise CheckpointError(f"its {name} is {short(fault['input'])}, but should {expected}") from None
