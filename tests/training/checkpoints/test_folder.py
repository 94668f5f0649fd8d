"""Checkpoints are there as a whole or not at all, and nothing that is found in their place does harm."""

import hashlib
import json
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from abreast import __version__
from abreast.errors import CheckpointError
from abreast.state import State
from abreast.training.checkpoints.folder import (
    Checkpoint,
    list_checkpoints,
    newest_agents,
    open_checkpoint,
    remove_old,
    write_checkpoint,
)
from abreast.training.checkpoints.manifest import Facts, seal
from fakes import checkpoint_facts
from promises.cover import IS_FULL
from training.checkpoints.writers import kill_writers, write_much, write_too_much


def a_state(number=0):
    return State({"number": number}, {"rows": np.arange(30) + number, "when": np.array([7], np.int64)})


def write(run, epochs, kind="run", name=None, number=None, **more):
    folder = run / "checkpoints" / (name or f"epoch_{epochs:06d}")
    state = a_state(epochs if number is None else number)
    write_checkpoint(folder, kind, checkpoint_facts(epochs, **more), {"agent_0": state, "agent_1": state, "run": state})
    return folder


def numbers(run):
    """What is in the whole checkpoints of a run; a damaged one fails the test."""
    found = list_checkpoints(run)
    for each in found:
        assert isinstance(each, Checkpoint), each
        each.check()
    return [each.part("run").facts["number"] for each in found]


def change(folder, **changes):
    """Change a manifest, with the right checksum."""
    content = json.loads((folder / "manifest.json").read_bytes())
    del content["checksum"]
    (folder / "manifest.json").write_bytes(seal(content | changes))


def listing(run):
    return sorted(str(path.relative_to(run)) for path in run.rglob("*"))


def test_what_is_written_is_read(tmp_path):
    folder = tmp_path / "checkpoints" / "epoch_000003"
    size = write_checkpoint(folder, "run", checkpoint_facts(3, reward=1.5), {"agent_0": a_state(), "run": State()})
    assert size == sum(path.stat().st_size for path in folder.iterdir())
    found = open_checkpoint(folder)
    assert (found.path, found.kind, found.epochs, found.parts) == (folder, "run", 3, ("agent_0", "run"))
    assert found.facts == Facts(**checkpoint_facts(3, reward=1.5)) and found.version == __version__
    assert found.part("agent_0").facts == {"number": 0} and found.part("run") == State()
    assert np.array_equal(found.part("agent_0").arrays["rows"], np.arange(30))
    with pytest.raises(CheckpointError, match="has no part agent_7: it has agent_0, run"):
        found.part("agent_7")
    assert listing(tmp_path / "checkpoints") == [
        "epoch_000003", "epoch_000003/agent_0.safetensors", "epoch_000003/manifest.json",
        "epoch_000003/run.safetensors",
    ]  # fmt: skip


def test_they_are_listed_by_epochs_and_final_after_its_equal(tmp_path):
    assert list_checkpoints(tmp_path) == []
    for epochs in (10, 9, 100):
        write(tmp_path, epochs)
    write(tmp_path, 100, "agents", "final")
    (tmp_path / "checkpoints" / "notes.txt").touch()
    (tmp_path / "checkpoints" / "epoch_000050").mkdir()
    names = [found.path.name if isinstance(found, Checkpoint) else "error" for found in list_checkpoints(tmp_path)]
    assert names == ["epoch_000009", "epoch_000010", "error", "epoch_000100", "final"]


def test_listing_reads_no_arrays(tmp_path):
    folder = write(tmp_path, 1)
    path = folder / "run.safetensors"
    path.write_bytes(bytes(path.stat().st_size))
    assert [found.path for found in list_checkpoints(tmp_path)] == [folder]
    with pytest.raises(CheckpointError, match=r"run\.safetensors cannot be used"):
        open_checkpoint(folder).check()


def test_old_ones_are_removed_and_others_stay(tmp_path):
    for epochs in range(1, 7):
        write(tmp_path, epochs, reward={1: 0.5, 2: 2.5, 4: 2.0}.get(epochs))
    write(tmp_path, 1, "agents", "final", reward=9.0)
    damaged = tmp_path / "checkpoints" / "epoch_000003" / "manifest.json"
    damaged.write_text("{")
    remove_old(tmp_path, 2)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "epoch_000002", "epoch_000003", "epoch_000005", "epoch_000006", "final",
    ]  # fmt: skip


# What is found in place of a checkpoint


def grow(path):
    with path.open("r+b") as file:
        file.truncate(10 * 1000**3)


def grown(folder):
    """10 GB, mostly hole, of which the manifest says that they belong there."""
    grow(folder / "run.safetensors")
    change(folder, files={"run.safetensors": {"bytes": 10 * 1000**3, "sha256": "0" * 64}})


def all_hole(folder):
    (folder / "run.safetensors").write_bytes(b"")
    grown(folder)


def relisted(folder, data):
    """Any bytes as the part `run`, with the right size and checksum."""
    (folder / "run.safetensors").write_bytes(data)
    about = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change(folder, files={"run.safetensors": about})


def swapped(folder):
    one, two, spare = folder / "agent_0.safetensors", folder / "run.safetensors", folder / "spare"
    two.write_bytes(one.read_bytes()[:-1] + b"x")
    for old, new in ((one, spare), (two, one), (spare, two)):
        old.rename(new)


def linked(path):
    real = path.with_name("real")
    path.rename(real)
    path.symlink_to(real)


def replaced(path, make):
    path.unlink()
    make(path)


def flipped(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


MANIFEST, RUN = "manifest.json", "run.safetensors"
HOSTILE = {
    "no folder": (shutil.rmtree, "No such file"),
    "a link to a folder": (linked, "it is a link or not a folder"),
    "a file": (lambda folder: (shutil.rmtree(folder), folder.touch()), "it is a link or not a folder"),
    "an empty folder": (lambda folder: (shutil.rmtree(folder), folder.mkdir()), "No such file"),
    "no manifest": (lambda folder: (folder / MANIFEST).unlink(), "manifest.json cannot be used: No such file"),
    "an empty manifest": (lambda folder: (folder / MANIFEST).write_bytes(b""), "is not valid JSON"),
    "a manifest cut": (lambda folder: os.truncate(folder / MANIFEST, 100), "is not valid JSON"),
    "a manifest flipped": (lambda folder: flipped(folder / MANIFEST), "manifest.json cannot be used"),
    "a manifest that is a folder": (lambda folder: replaced(folder / MANIFEST, Path.mkdir), "it is not a plain file"),
    "a manifest that is a link": (lambda folder: linked(folder / MANIFEST), "it is a link"),
    "a manifest that is a pipe": (lambda folder: replaced(folder / MANIFEST, os.mkfifo), "it is not a plain file"),
    "a manifest of 10 GB": (lambda folder: grow(folder / MANIFEST), "it has more than 64,000,000 bytes"),
    "a manifest of another format": (lambda folder: change(folder, format=1), "of format 1"),
    "names above": (lambda folder: change(folder, files={"../x.safetensors": {"bytes": 1, "sha256": "0" * 64}}), "x"),
    "a part gone": (lambda folder: (folder / RUN).unlink(), r"run\.safetensors cannot be used: No such file"),
    "a part renamed": (lambda folder: (folder / RUN).rename(folder / "ran.safetensors"), "No such file"),
    "a part emptied": (lambda folder: (folder / RUN).write_bytes(b""), "it has 0 bytes instead of"),
    "a part cut": (lambda folder: os.truncate(folder / RUN, 99), "it has 99 bytes instead of"),
    "a part flipped": (lambda folder: flipped(folder / RUN), "does not match its checksum"),
    "a part grown": (lambda folder: grow(folder / RUN), "10,000,000,000 bytes instead of"),
    "a part grown as listed": (grown, "it was cut or added to"),
    "a part that is a hole": (all_hole, "cannot be used"),
    "parts swapped": (swapped, "does not match its checksum"),
    "a part that is a link": (lambda folder: linked(folder / RUN), "it is a link"),
    "a part that is a pipe": (lambda folder: replaced(folder / RUN, os.mkfifo), "it is not a plain file"),
    "a part that is a folder": (lambda folder: replaced(folder / RUN, Path.mkdir), "it is not a plain file"),
    "a part that is a device": (
        lambda folder: replaced(folder / RUN, lambda path: path.symlink_to("/dev/zero")),
        "it is a link",
    ),
    "a pickle": (lambda folder: relisted(folder, pickle.dumps({"a": 1})), "not a safetensors file"),
    "a header of 10 GB": (
        lambda folder: relisted(folder, (10 * 1000**3).to_bytes(8, "little") + b"{}"),
        "not a safetensors file",
    ),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("harm", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_checkpoint_that_was_tampered_with_is_refused_and_the_one_before_is_used(tmp_path, harm, reason):
    write(tmp_path, 4)
    folder = write(tmp_path, 5)
    harm(folder)
    with pytest.raises(CheckpointError, match=reason) as found:
        open_checkpoint(folder).check()
    text = str(found.value)
    assert str(folder) in text and text.endswith(".") and "\n" not in text
    assert any(isinstance(each, Checkpoint) and each.epochs == 4 for each in list_checkpoints(tmp_path))
    assert newest_agents(tmp_path).part("agent_0").facts["number"] in (4, 5)  # only `run` may be damaged


@pytest.mark.parametrize("name", ["nul\0", "x" * 300, "a/" * 3000])
def test_a_name_that_no_folder_can_have_is_refused(tmp_path, name):
    for look in (open_checkpoint, newest_agents):
        with pytest.raises(CheckpointError):
            look(tmp_path / name)


def test_a_device_is_never_opened(tmp_path):
    folder = write(tmp_path, 1)
    (folder / RUN).unlink()
    try:
        os.mknod(folder / RUN, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("making a device needs rights")
    with pytest.raises(CheckpointError, match="it is not a plain file"):
        open_checkpoint(folder)


def test_a_file_that_changes_after_it_was_looked_at_is_refused(tmp_path):
    folder = write(tmp_path, 1)
    found = open_checkpoint(folder)
    data = (folder / RUN).read_bytes()
    for changed in (data[:-1], data + b"x", data[:-1] + b"x"):
        (folder / RUN).write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"run\.safetensors cannot be used"):
            found.part("run")
    write(tmp_path, 1, number=7)
    with pytest.raises(CheckpointError, match="damaged or changed"):
        found.part("run")


def test_a_disk_that_cannot_be_read_is_a_checkpoint_error(tmp_path, monkeypatch):
    folder = write(tmp_path, 1)

    def fail(path, *rest):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(CheckpointError, match=r"manifest\.json cannot be used: Input/output error"):
        open_checkpoint(folder)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="looks into /proc")
def test_what_does_not_fit_into_memory_is_a_checkpoint_error(tmp_path):
    folder = tmp_path / "checkpoints" / "epoch_000001"
    write_checkpoint(folder, "run", checkpoint_facts(1), {"run": State({}, {"a": np.ones(10**8, np.uint8)})})
    call = f"from training.checkpoints import writers; writers.read_too_much(writers.Path({str(tmp_path)!r}))"
    paths = {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = subprocess.run([sys.executable, "-c", call], check=True, stdout=-1, text=True, env=os.environ | paths)
    its_arrays, the_file = done.stdout.splitlines()
    assert "run.safetensors cannot be used: its 100,000," in its_arrays and "do not fit into memory" in its_arrays
    assert the_file.endswith("run.safetensors cannot be used: it does not fit into memory.")


def test_no_change_of_a_byte_goes_unnoticed(tmp_path):
    folder = write(tmp_path, 5, config="game: tag", reward=3.5)
    before = open_checkpoint(folder)
    chance = random.Random(5)
    refused = 0
    for name in (MANIFEST, RUN, "agent_0.safetensors"):
        path = folder / name
        whole = path.read_bytes()
        for _ in range(150):
            data = bytearray(whole)
            if chance.random() < 0.2:
                del data[chance.randrange(len(data)) :]
            else:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data)
            try:
                found = open_checkpoint(folder)
                found.check()
                assert found == before
            except CheckpointError:
                refused += 1
        path.write_bytes(whole)
    assert refused > 440


# Agents


def test_the_newest_agents_are_found_from_run_folder_and_checkpoint(tmp_path):
    folder = write(tmp_path, 5)
    for path in (tmp_path, folder):
        assert newest_agents(path).path == folder
    final = write(tmp_path, 5, "agents", "final")
    assert newest_agents(tmp_path).path == final and newest_agents(folder).path == folder
    assert newest_agents(tmp_path).agents == ("agent_0", "agent_1")
    linked_run = tmp_path / "linked"
    linked_run.symlink_to(tmp_path)
    assert newest_agents(linked_run).path.name == "final"


def test_agents_that_are_damaged_are_passed_over_with_a_warning(tmp_path, caplog):
    write(tmp_path, 4)
    folder = write(tmp_path, 5)
    flipped(folder / RUN)
    assert newest_agents(tmp_path).epochs == 5 and not caplog.text  # its agents are whole
    flipped(folder / "agent_1.safetensors")
    assert newest_agents(tmp_path).epochs == 4
    assert "does not match its checksum" in caplog.text and "epoch_000004" in caplog.text
    with pytest.raises(CheckpointError, match="does not match its checksum"):
        newest_agents(folder)
    shutil.rmtree(tmp_path / "checkpoints" / "epoch_000004")
    with pytest.raises(CheckpointError, match=r"has no checkpoint that can be used: .*does not match its checksum"):
        newest_agents(tmp_path)


def test_a_folder_without_agents_is_told(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(CheckpointError, match="has no checkpoint yet, or is no run folder"):
            newest_agents(path)
    folder = tmp_path / "checkpoints" / "epoch_000001"
    write_checkpoint(folder, "run", checkpoint_facts(1), {"run": State()})
    with pytest.raises(CheckpointError, match="holds no agents: it has run"):
        newest_agents(folder)
    shutil.rmtree(tmp_path / "checkpoints")
    (tmp_path / "checkpoints").touch()
    for look in (newest_agents, list_checkpoints):
        with pytest.raises(CheckpointError, match="cannot read the checkpoints in"):
            look(tmp_path)


# Writing that fails


@pytest.mark.parametrize("call", range(6))
def test_a_disk_that_fails_at_any_flush_leaves_all_as_it_was(tmp_path, monkeypatch, call):
    write(tmp_path, 1)
    write(tmp_path, 2)
    before, sync, calls = listing(tmp_path), os.fsync, []

    def fail(descriptor):
        calls.append(descriptor)
        if len(calls) > call:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    for epochs in (2, 3):  # one that is there, and a new one
        calls.clear()
        with pytest.raises(
            CheckpointError, match=r"cannot write the checkpoint .*: No space left on device\."
        ) as found:
            write(tmp_path, epochs, number=99)
        assert isinstance(found.value.__cause__, OSError) and len(calls) == call + 1
        assert listing(tmp_path) == before and numbers(tmp_path) == [1, 2]


def test_an_interrupt_leaves_all_as_it_was(tmp_path, monkeypatch):
    write(tmp_path, 1)
    before = listing(tmp_path)

    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, 1, number=99)
    assert listing(tmp_path) == before and numbers(tmp_path) == [1]


def test_a_file_too_large_leaves_all_as_it_was(tmp_path):
    write(tmp_path, 1)
    before = listing(tmp_path)
    (told,), code = told_by(write_too_much, tmp_path)
    assert code == 0 and told.endswith("epoch_000002: File too large.")
    assert listing(tmp_path) == before and numbers(tmp_path) == [1]


def test_what_cannot_be_written_is_named(tmp_path):
    folder = tmp_path / "checkpoints" / "epoch_000001"
    right = checkpoint_facts(1)
    for facts, parts, reason in (
        (right, {"run": State({"a": {1}})}, r"run: the fact 'a' is \{1\}"),
        (right, {"Run": State()}, "is 'Run.safetensors', but should match"),
        (right, {}, r"its files is \{\}"),
        ({}, {"run": State()}, "its facts.experiment is missing"),
        (right | {"reward": float("nan")}, {"run": State()}, "the fact 'facts' is"),
    ):
        with pytest.raises(CheckpointError, match=f"cannot write the checkpoint .*{reason}"):
            write_checkpoint(folder, "run", facts, parts)
        assert listing(tmp_path) == ["checkpoints"]


def test_nothing_is_written_or_removed_through_a_link(tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    for epochs in (1, 2):
        write(elsewhere, epochs)
    (elsewhere / "checkpoints" / ".epoch_000007.part").mkdir()
    before = listing(elsewhere)
    run.mkdir()
    (run / "checkpoints").symlink_to(elsewhere / "checkpoints")
    for attempt in (lambda: write(run, 3), lambda: remove_old(run, 1)):
        with pytest.raises(CheckpointError, match="is a link to a folder elsewhere"):
            attempt()
    (run / "checkpoints").unlink()
    (run / "checkpoints").mkdir()
    for name in ("epoch_000001", ".epoch_000001.part", ".epoch_000003.old", ".epoch_000001.old"):
        (run / "checkpoints" / name).symlink_to(elsewhere)
    write(run, 1)
    assert listing(elsewhere) == before and not (run / "checkpoints" / "epoch_000001").is_symlink()


# Crashes


class Crash(BaseException):
    pass


def crashes(monkeypatch, moment, work):
    """Whether the process is gone at this moment: before a call that changes the disk, and for all that come after."""
    done = []

    def counted(call, *args, **kwargs):
        done.append(call)
        if len(done) > moment:
            raise Crash
        return call(*args, **kwargs)

    for name in ("rename", "mkdir", "rmdir", "unlink", "fsync"):
        monkeypatch.setattr(os, name, partial(counted, getattr(os, name)))
    try:
        work()
    except Crash:
        return True
    finally:
        monkeypatch.undo()
    return False


def test_every_moment_of_replacing_one_leaves_a_whole_one(tmp_path, monkeypatch):
    for moment in range(100):
        run = tmp_path / str(moment)
        write(run, 1)
        is_over = not crashes(monkeypatch, moment, lambda run=run: write(run, 1, number=2))
        seen = numbers(run)[-1]  # the old one may still be there, before it
        assert newest_agents(run).part("agent_0").facts["number"] == seen
        write(run, 3)
        assert numbers(run) == [seen, 3]
        assert sorted(path.name for path in (run / "checkpoints").iterdir()) == ["epoch_000001", "epoch_000003"]
        if is_over:
            break
    assert 10 <= moment < 99


def test_every_moment_of_removing_one_leaves_it_whole_or_not_there(tmp_path, monkeypatch):
    for moment in range(100):
        run = tmp_path / str(moment)
        for epochs in (1, 2):
            write(run, epochs)
        is_over = not crashes(monkeypatch, moment, lambda run=run: remove_old(run, 1))
        assert numbers(run) in ([1, 2], [2])
        remove_old(run, 1)
        assert [path.name for path in (run / "checkpoints").iterdir()] == ["epoch_000002"]
        if is_over:
            break
    assert 5 <= moment < 99


def told_by(work, *args):
    """What a process that does this work sends, and its exit code."""
    context = multiprocessing.get_context("fork")  # it has nothing to import
    mine, its = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(args[0], its, *args[1:]))
    process.start()
    its.close()
    told = []
    with suppress(EOFError):
        while True:
            told.append(mine.recv())
    process.join()
    return told, process.exitcode


KILLS = int(os.environ.get("ABREAST_KILLS", "30" if IS_FULL else "12"))


@pytest.mark.timeout(60 + KILLS)
def test_a_process_killed_at_any_moment_leaves_whole_checkpoints(tmp_path):
    epochs, code = told_by(kill_writers, tmp_path, KILLS)
    assert code == 0 and len(epochs) == KILLS
    assert epochs == sorted(epochs) and epochs[-1] >= KILLS  # nothing was lost, and something was written
    assert newest_agents(tmp_path).epochs == epochs[-1]


def test_arrays_that_change_while_they_are_written_make_no_damaged_checkpoint(tmp_path):
    """Their values are then of no one moment, but checksum and file are of the same."""
    shared, is_over = np.zeros(10**6), threading.Event()

    def change_all_the_time():
        while not is_over.is_set():
            shared[:] += 1

    thread = threading.Thread(target=change_all_the_time)
    thread.start()
    try:
        for epochs in range(3):
            folder = tmp_path / "checkpoints" / f"epoch_{epochs}"
            write_checkpoint(folder, "run", checkpoint_facts(epochs), {"run": State({}, {"shared": shared})})
            open_checkpoint(folder).check()
    finally:
        is_over.set()
        thread.join()


def test_writing_needs_no_memory_for_a_copy(tmp_path):
    (kilobytes,), code = told_by(write_much, tmp_path)
    assert code == 0 and kilobytes < 30_000
