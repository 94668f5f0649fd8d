"""A manifest is read only if it is exactly what abreast writes."""

import json

import pytest

from abreast.errors import CheckpointError
from abreast.training.checkpoints.manifest import LARGEST, Listed, Manifest, compose, parse, seal

SHA256 = "0" * 64


def content(**changes):
    files = {"run.safetensors": {"bytes": 3, "sha256": SHA256}}
    return {"format": 1, "abreast": "0.1.0", "kind": "run", "facts": {"epochs": 5}, "files": files} | changes


def with_file(name="run.safetensors", size=3, sha256=SHA256):
    return content(files={name: {"bytes": size, "sha256": sha256}})


def test_it_comes_back():
    manifest = Manifest("9.9.dev1+x", "agents", {"epochs": 0, "config": {"a": [1.5, None]}}, {"a_0": Listed(7, SHA256)})
    assert parse(compose(manifest)) == manifest
    assert parse(json.dumps(json.loads(compose(manifest)), indent=2).encode()) == manifest


HOSTILE = {
    "a name above": (with_file("../run.safetensors"), "lists the file '../run.safetensors'"),
    "an absolute name": (with_file("/etc/passwd"), "lists the file '/etc/passwd'"),
    "an absolute name of ours": (with_file("/tmp/run.safetensors"), "lists the file"),
    "a name below": (with_file("a/run.safetensors"), "lists the file"),
    "a name with NUL": (with_file("run\0.safetensors"), "lists the file"),
    "a name with a line": (with_file("run\n.safetensors"), "lists the file"),
    "a very long name": (with_file("a" * 5000 + ".safetensors"), "lists the file"),
    "a name of nothing": (with_file(".safetensors"), "lists the file"),
    "a name of dots": (with_file(".."), "lists the file"),
    "a file of another kind": (with_file("run.pkl"), "lists the file"),
    "a negative size": (with_file(size=-1), "says of run.safetensors"),
    "a size that is a bool": (with_file(size=True), "says of run.safetensors"),
    "a size that is a fraction": (with_file(size=3.0), "says of run.safetensors"),
    "a huge size": (with_file(size=10**30), "says of run.safetensors"),
    "a checksum that is none": (with_file(sha256="0" * 63), "sha256 of run.safetensors"),
    "a checksum in capitals": (with_file(sha256="A" * 64), "sha256 of run.safetensors"),
    "a checksum that is a number": (with_file(sha256=0), "sha256 of run.safetensors"),
    "more about a file": (
        content(files={"run.safetensors": {"bytes": 3, "sha256": SHA256, "url": ""}}),
        "says of run.safetensors",
    ),
    "nothing about a file": (content(files={"run.safetensors": None}), "says of run.safetensors"),
    "no files": (content(files={}), "its files are {}"),
    "files in a list": (content(files=["run.safetensors"]), "its files are"),
    "epochs below 0": (content(facts={"epochs": -1}), "epochs is -1"),
    "epochs that are a bool": (content(facts={"epochs": True}), "epochs is True"),
    "epochs that are a fraction": (content(facts={"epochs": 5.0}), "epochs is 5.0"),
    "epochs that are text": (content(facts={"epochs": "5"}), "epochs is '5'"),
    "no epochs": (content(facts={}), "epochs is None"),
    "huge epochs": (content(facts={"epochs": 10**4000}), "epochs is 1000"),
    "facts in a list": (content(facts=[]), r"facts are \[\]"),
    "another kind": (content(kind="pickle"), "kind is 'pickle'"),
    "a kind that is a list": (content(kind=[]), "kind is"),
    "another format": (content(format=2), "of format 2; this version of abreast reads 1"),
    "a format that is a bool": (content(format=True), "of format True"),
    "a format that is a fraction": (content(format=1.0), "of format 1.0"),
    "a version that is none": (content(abreast="0.1\x1b[31m"), "version of abreast is"),
    "a version that is a number": (content(abreast=1), "version of abreast is 1"),
    "more": (content(more=1), "its own checksum"),
}


@pytest.mark.parametrize(("given", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_manifest_is_refused(given, reason):
    with pytest.raises(CheckpointError, match=reason) as found:
        parse(seal(given))
    assert len(str(found.value)) < 300


RAW = {
    "empty": b"",
    "a pickle": b"\x80\x04.",
    "a list": b"[]",
    "nothing in it": b"{}",
    "not UTF-8": b'{"format": "\xff"}',
    "NaN": b'{"format": NaN}',
    "too deep": b"[" * 100_000,
    "a deep format": b'{"format": ' + b"[" * 950 + b"]" * 950 + b"}",
    "too many digits": b'{"format": ' + b"1" * 5000 + b"}",
    "a key twice": seal(content())[:-1] + b', "kind": "run"}',
    "no checksum": json.dumps(content()).encode(),
    "a changed fact": seal(content()).replace(b'"epochs":5', b'"epochs":6'),
    "too large": b" " * (LARGEST + 1),
}


@pytest.mark.parametrize("data", RAW.values(), ids=RAW.keys())
def test_bytes_that_are_no_manifest_are_refused(data):
    with pytest.raises(CheckpointError) as found:
        parse(data)
    assert len(str(found.value)) < 300


def test_what_could_not_be_read_again_is_not_written():
    listed = {"run": Listed(1, SHA256)}
    for facts in ({}, {"epochs": -1}, {"epochs": 1, "reward": float("nan")}, {"epochs": 1, "a": {1}}):
        with pytest.raises(CheckpointError):
            compose(Manifest("1", "run", facts, listed))
