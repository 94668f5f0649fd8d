"""What a checkpoint says of itself: its manifest, and the facts of its part `run`, as a resume needs them.

{"format": 2, "version": "0.1.0", "kind": "run", "facts": {"epochs": 500, …},
 "files": {"agent_0.safetensors": {"bytes": 1234, "sha256": "…"}, …}, "checksum": "…"}

The last is the checksum of all that comes before it, without which a flipped bit in the facts would go unnoticed. A checksum
says that a file is as it was written, not by whom: facts of another type, or counts that contradict each other, would end in
a stack, or in a loop that waits for a round nobody has ordered.
"""

import hashlib
from typing import Annotated, Any, Literal, TypeVar

import pydantic
from pydantic import Field

from abreast import __version__
from abreast.errors import CheckpointError, short
from abreast.state import State, part_of
from abreast.state_file import json_of, parse_json
from abreast.training.config import ScheduleName

FORMAT = 2
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
    rounds: Count = 0
    """Rounds of training that were finished."""
    resumable: bool = False
    reason: str | None = None
    """Why the run cannot be resumed."""
    reward: float | None = None
    """Mean over the newest epochs."""
    is_complete: bool = False
    """Whether the run had come to its end."""


class FileFacts(_Checked):
    """What a manifest says of a file."""

    bytes: Annotated[int, Field(ge=0, lt=2**63)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(_Checked):
    """What a manifest says."""

    format: Literal[2]
    version: Annotated[str, Field(pattern="^[0-9A-Za-z.+!_-]{1,64}$")]
    """The version of abreast that wrote it."""
    kind: Kind
    facts: Facts
    files: Annotated[dict[FileName, FileFacts], Field(min_length=1)]
    checksum: str


class RecordFacts(_Checked):
    """What the record of a run has counted: `RunRecord.state`."""

    count: Count
    first_epoch: Count
    agent_steps: Count
    updates_before: Count
    seconds: Seconds
    elapsed_s: Seconds


class PassFacts(_Checked):
    """A pass that was played and whose round is not finished: `training.loop.Pass`."""

    number: Count
    epoch: Count
    played: list[Annotated[tuple[Count, list[float], dict[str, float | None], Count | None], Field(strict=False)]]
    epsilons: list[float]
    updates: Count
    written: list[list[Count]]
    collect_s: Seconds


class LoopFacts(_Checked):
    """Where the loop is: `Loop.state`."""

    epochs_played: Count
    passes: Count
    unfinished: list[PassFacts]


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


def check_run(run: State, facts: Facts, agents: int, interval: int) -> None:
    """Refuse a part `run` whose facts are none, or contradict each other or those of the manifest.

    interval: epochs from one update to the next.
    """
    record = checked(RecordFacts, part_of(run, "record").facts)
    loop = checked(LoopFacts, part_of(run, "loop").facts)
    same: list[tuple[str, Any, Any]] = [
        ("count of lines", record.count, facts.recorded),
        ("first epoch", record.first_epoch, facts.first_epoch),
        ("number of epochs", loop.epochs_played, facts.epochs),
        ("number of passes", loop.passes, facts.rounds + len(loop.unfinished)),
    ]
    epoch = facts.first_epoch + facts.recorded
    for number, each in enumerate(loop.unfinished, facts.rounds):
        end = epoch + len(each.played)
        due = end // interval - epoch // interval
        told = [each.number, each.epoch, each.updates, len(each.epsilons), len(each.written)]
        same.append((f"unfinished pass {number}", told, [number, epoch, due, len(each.played), agents]))
        same += [(f"reward of pass {number}", len(rewards), agents) for _, rewards, _, _ in each.played]
        epoch = end
    same.append(("number of epochs recorded and under way", epoch, facts.epochs))
    for what, found, expected in same:
        if found != expected:
            raise CheckpointError(f"it contradicts itself: its {what} is {found}, expected {expected}")
