"""A manifest is read only if it is exactly what abreast writes; and so are the facts that a run goes on from."""

import json

import pytest

from abreast import __version__
from abreast.errors import AbreastError, CheckpointError
from abreast.training.checkpoints.manifest import Facts, FileFacts, PassFacts, checked, compose, parse, seal
from fakes import checkpoint_facts

SHA256 = "0" * 64


def content(**changes):
    files = {"run.safetensors": {"bytes": 3, "sha256": SHA256}}
    facts = checkpoint_facts(5)
    return {"format": 3, "version": "0.1.0", "kind": "run", "facts": facts, "files": files} | changes


def with_file(name="run.safetensors", size=3, sha256=SHA256):
    return content(files={name: {"bytes": size, "sha256": sha256}})


def with_facts(**changes):
    return content(facts=checkpoint_facts(**{"epochs": 5} | changes))


def test_it_comes_back():
    facts = checkpoint_facts(0, reward=1.5, reason="it is so", config="a: [1.5]\n")
    data = compose("agents", facts, {"a_0.safetensors": {"bytes": 7, "sha256": SHA256}})
    found = parse(data)
    assert (found.version, found.kind, found.facts) == (__version__, "agents", Facts(**facts))
    assert found.files == {"a_0.safetensors": FileFacts(bytes=7, sha256=SHA256)}
    assert parse(json.dumps(json.loads(data), indent=2).encode()) == found


HOSTILE = {
    "a name above": (with_file("../run.safetensors"), r"its files.*\[key\] is '../run.safetensors', but should match"),
    "an absolute name": (with_file("/etc/passwd"), "is '/etc/passwd', but should match"),
    "an absolute name of ours": (with_file("/tmp/run.safetensors"), "its files"),
    "a name below": (with_file("a/run.safetensors"), "its files"),
    "a name with NUL": (with_file("run\0.safetensors"), "its files"),
    "a name with a line": (with_file("run.safetensors\n"), "its files"),
    "a name with half a character": (with_file("\ud800.safetensors"), "its files"),
    "a very long name": (with_file("a" * 5000 + ".safetensors"), "its files"),
    "a name of nothing": (with_file(".safetensors"), "its files"),
    "a name of dots": (with_file(".."), "its files"),
    "a file of another kind": (with_file("run.pkl"), "its files"),
    "a negative size": (with_file(size=-1), "its files.run.safetensors.bytes is -1, but should be greater"),
    "a size that is a bool": (with_file(size=True), "bytes is True, but should be a valid integer"),
    "a size that is a fraction": (with_file(size=3.0), "bytes is 3.0"),
    "a huge size": (with_file(size=10**30), "bytes is 1000"),
    "a checksum that is none": (with_file(sha256="0" * 63), "sha256 is '000"),
    "a checksum in capitals": (with_file(sha256="A" * 64), "sha256 is 'AAA"),
    "a checksum that is a number": (with_file(sha256=0), "sha256 is 0"),
    "more about a file": (
        content(files={"run.safetensors": {"bytes": 3, "sha256": SHA256, "url": ""}}),
        "its files.run.safetensors.url is '', but should not be there",
    ),
    "nothing about a file": (content(files={"run.safetensors": None}), "its files.run.safetensors is None"),
    "no files": (content(files={}), r"its files is \{\}, but should have at least 1 item"),
    "files in a list": (content(files=["run.safetensors"]), "its files is"),
    "epochs below 0": (with_facts(epochs=-1), "epochs is -1"),
    "epochs that are a bool": (with_facts(epochs=True), "epochs is True"),
    "epochs that are a fraction": (with_facts(epochs=5.0), "epochs is 5.0"),
    "epochs that are text": (with_facts(epochs="5"), "epochs is '5'"),
    "huge epochs": (with_facts(epochs=10**4000), "epochs is 1000"),
    "a reward that is a text": (with_facts(reward="much"), "its facts.reward is 'much', but should be a valid number"),
    "an unknown fact": (with_facts(more=1), "its facts.more is 1, but should not be there"),
    "no facts": (content(facts={}), "its facts.experiment is missing"),
    "facts in a list": (content(facts=[]), r"facts is \[\]"),
    "another kind": (content(kind="pickle"), "kind is 'pickle', but should be 'run' or 'agents'"),
    "a kind that is a list": (content(kind=[]), "kind is"),
    "an older format": (content(format=1), "of format 1; this version of abreast reads 3"),
    "a format that is a bool": (content(format=True), "of format True"),
    "a format that is a fraction": (content(format=3.0), "of format 3.0"),
    "a version that is none": (content(version="0.1\x1b[31m"), "version is '0.1"),
    "a version that is a number": (content(version=1), "version is 1"),
    "more": (content(more=1), "its more is 1, but should not be there"),
    "a name that is no text": (content(**{"\ud800": 1}), "but should be a valid string"),
}


@pytest.mark.parametrize(("given", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_manifest_is_refused(given, reason):
    with pytest.raises(CheckpointError, match=reason) as found:
        parse(seal(given))
    assert len(str(found.value)) < 300 and str(found.value).isprintable()


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
    "no checksum": json.dumps(content()).encode(),
    "a changed fact": seal(content()).replace(b'"epochs":5', b'"epochs":6'),
}


@pytest.mark.parametrize("data", RAW.values(), ids=RAW.keys())
def test_bytes_that_are_no_manifest_are_refused(data):
    with pytest.raises(AbreastError) as found:
        parse(data)
    assert len(str(found.value)) < 300


def test_what_could_not_be_read_again_is_not_written():
    files = content()["files"]
    for facts in ({}, checkpoint_facts(-1), checkpoint_facts(1, reward=float("nan")), checkpoint_facts(1, a={1})):
        with pytest.raises(AbreastError):
            compose("run", facts, files)


# ---- facts that are none, though every checksum is right

PLAYED = {
    "played": [[6, [1.0, 0.5], {}, None], [6, [0.0, 2], {"gold": None}, 12]], "epsilons": [0.5, 0.4],
    "written": [[12], [12]], "collect_s": 0.1, "opponents": [[1, "epoch_000000:0"]],
}  # fmt: skip


def test_facts_that_are_right_are_taken():
    assert checked(Facts, checkpoint_facts(10, unfinished=[PLAYED])).unfinished[0].written == [[12], [12]]


@pytest.mark.parametrize("name", sorted(PassFacts.model_fields))
def test_a_pass_under_way_that_cannot_be_is_refused(name):
    odd = [None, True, -1, 10**400, "x", {}, [None], [[[[]]]], [1, "a"]]
    for each in odd:
        with pytest.raises(CheckpointError, match=r"^its unfinished"):
            checked(Facts, checkpoint_facts(10, unfinished=[{**PLAYED, name: each}]))
    with pytest.raises(CheckpointError, match="is missing"):
        checked(Facts, checkpoint_facts(10, unfinished=[{key: PLAYED[key] for key in PLAYED.keys() - {name}}]))
