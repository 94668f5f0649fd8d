"""Run folders that somebody made to do harm: every checksum is right, and what is inside is not.

Each function damages a run folder in one way; `damage_run` chooses. `commands` reads such a folder in every way there is.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from abreast.errors import AbreastError
from abreast.state import State
from abreast.state_file import dumps, loads
from abreast.training.checkpoints.manifest import seal
from chaos import damage

OWN_FILES = (
    "config.yaml", "metrics.jsonl", "log.txt", ".lock", "evaluation.json", "rollout.yaml", ".evaluation.json.probe",
)  # fmt: skip
OWN_FOLDERS = ("checkpoints", "replays", "checkpoints/final", "checkpoints/epoch_000001")
SPLIT = 6
"""One in so many mutations of a fact takes a number of the same kind: what has the right type may still be impossible."""


def damage_run(run: Path, chance: random.Random, outside: Path) -> None:
    """Do one thing to a run folder; `outside` is a folder that links may lead to."""
    ways: list[tuple[int, Callable[[], None]]] = [
        (4, lambda: damaged_manifest(run, chance)),
        (8, lambda: damaged_part(run, chance)),
        (2, lambda: damaged_settings(run, chance)),
        (2, lambda: damaged_metrics(run, chance)),
        (3, lambda: something_else(run, chance, outside)),
    ]
    chance.choices([way for _, way in ways], [weight for weight, _ in ways])[0]()


def commands(run: str, chance: random.Random, caps: list[str]) -> list[str]:
    """A command that reads a run folder."""
    resume = ["train", "--resume", run, "--epochs", "3", chance.choice(["--animate", "--no-animate"])]
    one = chance.choice(["epoch_000001", "epoch_000002", "final"])
    which = chance.choice([[], ["--checkpoints", "all"], ["--checkpoints", "best"], ["--checkpoints", "1,2"]])
    new = ["--no-animate", "--output", "new"]
    return chance.choice(
        [
            resume,
            resume,
            [*resume, "--", *caps],
            ["train", "--resume", f"{run}/checkpoints/{one}", "--epochs", "3", "--no-animate"],
            ["play", run, "--", "experiment.max_turns=2"],
            ["play", "treasurehunt", "--agent", f"1={run}", "--", *caps],
            ["eval", run, "--episodes", "1", *which],
            ["eval", f"{run}/checkpoints/{one}", "--episodes", "1"],
            ["train", "treasurehunt", "--load-agent", f"1={run}:0", *new, "--", *caps],
        ]
    )


# ---- what is done


def damaged_manifest(run: Path, chance: random.Random) -> None:
    """Facts of other types and values under a checksum that is right."""
    path = _some_checkpoint(run, chance) / "manifest.json"
    content = json.loads(path.read_text())
    del content["checksum"]
    name = chance.choice(sorted(content["facts"]))
    if chance.random() < 0.1:
        sealed = seal(
            content | {chance.choice(["version", "kind", "format", "files"]): chance.choice([0, "x", [], {}])}
        )
        path.write_bytes(sealed)
        return
    for _ in range(20):  # until it is one that JSON has
        facts = dict(content["facts"])
        if chance.random() < 0.1:
            del facts[name]
        else:
            facts[name] = _other_fact(facts[name], chance)
        with contextlib.suppress(AbreastError, TypeError, ValueError, RecursionError):
            path.write_bytes(seal({**content, "facts": facts}))
            return


def damaged_part(run: Path, chance: random.Random) -> None:
    """A part with other facts or arrays, and a manifest that agrees with it."""
    folder = _some_checkpoint(run, chance)
    path = chance.choice(sorted(folder.glob("*.safetensors")))
    state = loads(path.read_bytes())
    for _ in range(20):
        facts, arrays = dict(state.facts), dict(state.arrays)
        if arrays and (not facts or chance.random() < 0.4):
            _damage_arrays(arrays, chance)
        elif facts:
            name = chance.choice(sorted(facts))
            if chance.random() < 0.1:
                del facts[name]
            else:
                facts[name] = _other_fact(facts[name], chance)
        with contextlib.suppress(AbreastError, TypeError, ValueError, RecursionError):
            replace_part(path, State(facts, arrays))
            return


def replace_part(path: Path, state: State) -> None:
    """Write another state to a file of a checkpoint, and have the manifest say so."""
    data = dumps(state)
    path.write_bytes(data)
    manifest = path.with_name("manifest.json")
    content = json.loads(manifest.read_text())
    del content["checksum"]
    content["files"][path.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest.write_bytes(seal(content))


def replace_facts(folder: Path, **facts: Any) -> None:
    """Have the manifest of a checkpoint say something else."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    del content["checksum"]
    path.write_bytes(seal({**content, "facts": {**content["facts"], **facts}}))


def damaged_settings(run: Path, chance: random.Random) -> None:
    """Other settings, in config.yaml and perhaps in all checkpoints alike."""
    path = run / "config.yaml"
    values = damage.damaged_value(yaml.safe_load(path.read_text()), chance)
    data = damage.dump_yaml(values, chance) if chance.random() < 0.9 else damage.MAP_BOMB.encode()
    path.write_bytes(data)
    if chance.random() < 0.7:
        for folder in (run / "checkpoints").iterdir():
            with contextlib.suppress(AbreastError):
                replace_facts(folder, config=data.decode("utf-8", "replace"))


def damaged_metrics(run: Path, chance: random.Random) -> None:
    """Lines that are cut, doubled, in another order, or of something else."""
    path = run / "metrics.jsonl"
    if chance.random() < 0.3:
        path.write_bytes(damage.damaged_bytes(path.read_bytes(), chance))
        return
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    at = chance.randrange(len(lines))
    lines[at] = damage.damaged_value(lines[at], chance)
    path.write_bytes(b"".join(damage.dump_json(line, chance) + b"\n" for line in lines))


def something_else(run: Path, chance: random.Random, outside: Path) -> None:
    """A link, a pipe, a folder or nothing in the place of a file or folder."""
    path = run / chance.choice([*OWN_FILES, *OWN_FOLDERS])
    if path.is_dir() and not path.is_symlink():
        shutil.move(path, outside / "moved") if chance.random() < 0.5 else shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    target = chance.choice([outside / "precious", outside, outside / "moved", outside / "new", path, Path("/dev/zero")])
    chance.choice(
        [
            lambda: path.symlink_to(target),
            lambda: path.symlink_to(target),
            lambda: os.mkfifo(path),
            path.mkdir,
            path.touch,
            lambda: os.link(outside / "precious", path),
            lambda: None,
        ]
    )()


# ---- inside


def _some_checkpoint(run: Path, chance: random.Random) -> Path:
    """The newest to resume from, mostly."""
    return run / "checkpoints" / chance.choice(["epoch_000002", "epoch_000002", "epoch_000001", "final", "final"])


def _other_fact(fact: Any, chance: random.Random) -> Any:
    if chance.randrange(SPLIT) == 0 and isinstance(fact, int | float):
        return chance.choice([-1, 0, 1, 2, 3, 7, 10**6, 2**31, 2**62, 2**64, -(2**63), 0.5, 1e300])
    return damage.damaged_value(fact, chance)


def _damage_arrays(arrays: dict[str, Any], chance: random.Random) -> None:
    name = chance.choice(sorted(arrays))
    array = arrays.pop(name)
    how = chance.randrange(8)
    if how == 0:
        return
    if how == 1:
        arrays[chance.choice(["x", "", f"{name}x", f"own.{name}", "\u202e"])] = array
    elif how == 2:
        arrays[name] = array.astype(chance.choice([np.float32, np.float64, np.int64, np.uint8, np.bool_, np.int16]))
    elif how == 3:
        shape = chance.choice([(), (0,), (1,), (-1,), (1, -1), (*array.shape, 1)])
        arrays[name] = np.resize(array, [max(side, 0) for side in shape]) if array.size else np.zeros(3)
    elif how == 4:
        arrays[name] = np.array(["a", "b"])
    elif array.size and array.dtype.kind in "iuf":
        changed = array.copy()
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
        values = [limits.max, limits.min, 0, 1, *([np.nan, np.inf, -1] if array.dtype.kind == "f" else [])]
        at = slice(None) if how == 5 else chance.randrange(array.size)
        changed.reshape(-1)[at] = chance.choice(values)
        arrays[name] = changed
    else:
        arrays[name] = array[:0].copy() if array.ndim else array
