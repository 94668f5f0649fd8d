"""The manifest of a checkpoint: what it is, and size and checksum of each of its files.

{"format": 1, "abreast": "0.1.0", "kind": "run", "facts": {"epochs": 500, …},
 "files": {"agent_0.safetensors": {"bytes": 1234, "sha256": "…"}, …}, "sha256": "…"}

The last is the checksum of all that comes before it, without which a flipped bit in the facts would go unnoticed.
"""

import hashlib
import re
from typing import Any, NamedTuple

from abreast.errors import CheckpointError, StateFileError, short
from abreast.state_file import json_of, parse_json

MANIFEST = "manifest.json"
FORMAT = 1
LARGEST = 64_000_000
"""Bytes of a manifest."""
SUFFIX = ".safetensors"
PART = re.compile(r"[a-z0-9_]{1,100}")
SHA256 = re.compile(r"[0-9a-f]{64}")
VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,64}")
KINDS = ("run", "agents")
KEYS = {"format", "abreast", "kind", "facts", "files", "sha256"}


class Listed(NamedTuple):
    """What a manifest says of a file."""

    size: int
    sha256: str | None
    """None where there is no manifest: a file of a run from before there were checkpoints."""


class Manifest(NamedTuple):
    """What a manifest says."""

    version: str
    kind: str
    facts: dict[str, Any]
    files: dict[str, Listed]
    """By part."""


def compose(manifest: Manifest) -> bytes:
    """The bytes of a manifest; what could not be read again is refused."""
    files = {f"{part}{SUFFIX}": {"bytes": size, "sha256": sha256} for part, (size, sha256) in manifest.files.items()}
    about = {"format": FORMAT, "abreast": manifest.version, "kind": manifest.kind}
    data = seal({**about, "facts": manifest.facts, "files": files})
    parse(data)
    return data


def seal(content: dict[str, Any]) -> bytes:
    """The content of a manifest with its checksum."""
    try:
        return json_of({**content, "sha256": _checksum(content)}).encode()
    except StateFileError as error:
        raise CheckpointError(f"its manifest cannot be written: {error}") from None


def parse(data: bytes) -> Manifest:
    """What a manifest says, if it is one."""
    if len(data) > LARGEST:
        raise CheckpointError(f"it has {len(data):,} bytes, at most {LARGEST:,} are allowed.")
    try:
        given = parse_json(data, "it")
        if not isinstance(given, dict) or "format" not in given:
            raise CheckpointError("it is not a manifest of abreast.")
        if given["format"] != FORMAT or type(given["format"]) is not int:
            raise CheckpointError(f"it is of format {short(given['format'])}; this version of abreast reads {FORMAT}.")
        content = {key: value for key, value in given.items() if key != "sha256"}
        if given.keys() != KEYS or given["sha256"] != _checksum(content):
            raise CheckpointError("it does not match its own checksum: it was damaged or changed.")
    except StateFileError as error:
        raise CheckpointError(str(error)) from None
    except RecursionError:  # of a value to be shown
        raise CheckpointError("it is nested too deeply to be a manifest of abreast.") from None
    return Manifest(_version(given["abreast"]), _kind(given["kind"]), _facts(given["facts"]), _files(given["files"]))


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json_of(dict(sorted(content.items()))).encode()).hexdigest()


def _version(given: Any) -> str:
    if not isinstance(given, str) or not VERSION.fullmatch(given):
        raise CheckpointError(f"its version of abreast is {short(given)}, which cannot be one.")
    return given


def _kind(given: Any) -> str:
    if given not in KINDS:
        raise CheckpointError(f"its kind is {short(given)}, expected {' or '.join(KINDS)}.")
    return str(given)


def _facts(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise CheckpointError(f"its facts are {short(given)}, expected names with values.")
    epochs = given.get("epochs")
    if type(epochs) is not int or not 0 <= epochs < 2**63:
        raise CheckpointError(f"its fact epochs is {short(epochs)}, expected a number of epochs from 0.")
    return given


def _files(given: Any) -> dict[str, Listed]:
    if not isinstance(given, dict) or not given:
        raise CheckpointError(f"its files are {short(given)}, expected at least one name with size and checksum.")
    found = {}
    for name, about in given.items():
        part = name.removesuffix(SUFFIX)
        if part == name or not PART.fullmatch(part):
            raise CheckpointError(
                f"it lists the file {short(name)}: a name is small letters, digits and _ and {SUFFIX}."
            )
        if not isinstance(about, dict) or about.keys() != {"bytes", "sha256"} or not _is_size(about["bytes"]):
            raise CheckpointError(f"it says of {name} {short(about)}, expected its bytes and sha256.")
        if not isinstance(about["sha256"], str) or not SHA256.fullmatch(about["sha256"]):
            raise CheckpointError(f"it says that the sha256 of {name} is {short(about['sha256'])}, which cannot be.")
        found[part] = Listed(about["bytes"], about["sha256"])
    return found


def _is_size(given: Any) -> bool:
    return type(given) is int and 0 <= given < 2**63
