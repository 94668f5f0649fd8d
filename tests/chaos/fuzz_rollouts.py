"""Damaged and hostile inputs of everything that rollouts read, through the commands, in this process.

    fuzz_rollouts(seed=1, count=10_000)

Input number n of a seed is always the same; a fault is told with both. Each input is a valid one that was changed, in a
folder of its own. An exit code of 0, 1 or 2 is right, and so is an AbreastError of what is called without a command. An
exception, more than `LIMIT_S` seconds, and a write outside the folder are faults.
"""

import contextlib
import functools
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from abreast import plugins
from abreast.cli.app import run
from abreast.errors import AbreastError
from abreast.rollouts import EnvStateManager, find_tag, registry
from abreast.rollouts.context.context import Context
from chaos.damage import damaged_bytes, damaged_text, damaged_value, dump_json, dump_yaml

LIMIT_S = 20
IN_MAIN = "es_manager.use_multiprocessing=false"
FEW = ["--episodes", "4", "--time-limit", "1"]
TAGS = ("FrozenLake", "SimpleSokoban", "Bandit", "Countdown", "MetaMathQA")


class TooSlow(BaseException):
    """An input took longer than it may."""


def fuzz_rollouts(seed: int, count: int) -> None:
    """Try so many inputs; AssertionError with every fault that was found, one for each place in the code."""
    faults: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name, _alone(Path(name)) as writes:
        folder = Path(name)
        samples = _Samples(folder / "samples", random.Random(seed))
        for number in range(count):
            fault = _try(samples, folder / f"{number}", seed, number, writes)
            if fault is not None:
                faults.setdefault(fault[0], f"input {number} of seed {seed}: {fault[1]}")
    assert not faults, f"{len(faults)} kinds of faults\n\n" + "\n\n".join(faults.values())


def _try(samples: "_Samples", place: Path, seed: int, number: int, writes: list[str]) -> tuple[str, str] | None:
    """Try one input; what went wrong, and a key that is the same for equal faults."""
    rng = random.Random(f"{seed} {number}")
    place.mkdir()
    kind = rng.choice(KINDS)
    writes[:] = [str(place)]
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(LIMIT_S)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            kind(samples, place, rng)
    except AbreastError:
        pass
    except (Exception, TooSlow) as error:
        frames = traceback.extract_tb(error.__traceback__)
        inside = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames if "abreast" in frame.filename]
        key = f"{kind.__name__} {type(error).__name__} {inside[-1:] or frames[-1:]}"
        return key, f"{kind.__name__}: {''.join(traceback.format_exception(error))[-3000:]}"
    finally:
        signal.alarm(0)
        outside, writes[:] = writes[1:], []
        os.chdir(place.parent)
        shutil.rmtree(place, ignore_errors=True)
    return (f"{kind.__name__} writes", f"{kind.__name__} wrote to {outside}") if outside else None


def _too_slow(*_: object) -> None:
    raise TooSlow


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[list[str]]:
    """Have the user's folders inside this one; yields what is written outside of the folder that is its first item."""
    writes: list[str] = []
    saved = {name: os.environ.get(name) for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR")}
    before = Path.cwd(), sys.dont_write_bytecode, list(sys.path), signal.getsignal(signal.SIGALRM)
    os.environ |= dict.fromkeys(saved, str(folder))
    sys.dont_write_bytecode = True
    _watched.append(writes)
    if len(_watched) == 1:
        sys.addaudithook(_watch)  # it cannot be removed
    os.chdir(folder)
    # Both are the same each time, and take half of the time that an input takes.
    points, tags = functools.cache(plugins.entry_points), functools.cache(registry.shipped_tags)
    try:
        with mock.patch.object(plugins, "entry_points", points), mock.patch.object(registry, "shipped_tags", tags):
            yield writes
    finally:
        _watched[-1] = []
        os.chdir(before[0])
        sys.dont_write_bytecode, sys.path[:] = before[1], before[2]
        signal.signal(signal.SIGALRM, before[3])
        for name, value in saved.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


_watched: list[list[str]] = []
_CHANGES = {"os.mkdir": (0,), "os.rename": (0, 1), "os.remove": (0,), "os.rmdir": (0,), "os.truncate": (0,), "os.link": (1,),
            "os.symlink": (1,), "sqlite3.connect": (0,)}  # fmt: skip


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched or not _watched[-1]:
        return
    if event == "open":
        _, mode, flags = arguments
        changes = (
            flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if isinstance(flags, int) else set(mode or "") & set("wax+")
        )
        paths = arguments[:1] if changes else ()
    else:
        paths = tuple(arguments[at] for at in _CHANGES.get(event, ()))
    allowed = _watched[-1][0]
    for path in paths:
        if isinstance(path, str | bytes | os.PathLike):
            whole = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 (no links, no audit events)
            if not whole.startswith((f"{allowed}/", "/dev/", "/proc/self/")) and whole != allowed:
                _watched[-1].append(f"{event} {whole}")


# ---- valid inputs


class _Samples:
    """Valid inputs, made once."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        folder.mkdir()
        self.runs: list[Path] = []
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for tag in ("FrozenLake", "Bandit", "Countdown"):
                self.runs.append(folder / tag)
                assert (
                    run(
                        ["rollout", tag, IN_MAIN, "--episodes", "4", "--group-size", "2", "--output", str(folder / tag)]
                    )
                    == 0
                )
            assert run(["trajectories", str(self.runs[0]), "--export", str(folder / "rows.jsonl")]) == 0
        self.exported = (folder / "rows.jsonl").read_bytes()
        self.questions = [
            {"query": f"What is {n} + 1?", "response": f"Add 1. The answer is: {n + 1}"} for n in range(12)
        ]
        self.tasks = [{"nums": [n, 2, 3], "target": n + 5} for n in range(1, 13)]
        self.products = [_product(n, rng) for n in range(6)]
        self.labels = {
            p["asin"]: {"attributes": ["soft", "red"], "instruction": "find a soft thing"} for p in self.products
        }
        self.wishes = {
            p["asin"]: [{"instruction": "i want a soft red thing", "instruction_attributes": ["soft"], "options": ["red"],
                         "instruction_options": ["red"], "attributes": ["soft"]}]
            for p in self.products
        }  # fmt: skip
        self.config = yaml.safe_load((self.runs[0] / "config.yaml").read_text())


def _product(number: int, rng: random.Random) -> dict[str, Any]:
    return {
        "asin": f"B{number:09d}", "name": f"Soft thing number {number}", "pricing": f"${rng.randint(1, 99)}.50",
        "query": "things", "product_category": "Home › Things", "small_description": ["soft", "made of wool"],
        "full_description": "A thing.", "average_rating": 4.5, "images": ["x.png"],
        "customization_options": {"color": [{"value": "red"}, {"value": "blue"}]},
        "reviews": [{"score": "5", "title": "good", "body": "very"}],
    }  # fmt: skip


# ---- inputs


def _code(*arguments: str) -> None:
    code = run(list(arguments))
    if code not in (0, 1, 2):
        raise RuntimeError(f"exit code {code} of {arguments}")


def _damage_file(
    path: Path, rng: random.Random, load: Callable[[bytes], Any], dump: Callable[[Any, random.Random], bytes]
) -> None:
    """Change the bytes of a file, or the values in it."""
    data = path.read_bytes()
    if rng.random() < 0.4:
        path.write_bytes(damaged_bytes(data, rng))
    else:
        path.write_bytes(dump(damaged_value(load(data), rng), rng))


def _damage_lines(path: Path, rng: random.Random) -> None:
    if rng.random() < 0.3:
        path.write_bytes(damaged_bytes(path.read_bytes(), rng))
        return
    lines = path.read_bytes().splitlines()
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(lines))
        with contextlib.suppress(ValueError):  # it was damaged already
            lines[at] = dump_json(damaged_value(json.loads(lines[at]), rng), rng)
    path.write_bytes(b"\n".join(lines) + b"\n" * rng.randint(0, 2))


def _looked_at(path: str, rng: random.Random) -> None:
    more = rng.choice([
        [], ["--show", "0"], ["--show", "1"], ["--contains", "a"], ["--sort", "-reward"], ["--sort", "turns", "--success"],
        ["--errors"], ["--min-reward", "0"], ["--export", "out.jsonl"], ["--export", "out.jsonl", "--per-turn"],
        ["--export", "out.parquet"],
    ])  # fmt: skip
    _code("trajectories", path, *more)


def trajectories(samples: _Samples, place: Path, rng: random.Random) -> None:
    """`abreast trajectories` of a damaged run."""
    _copied(samples, place, rng)
    _damage_lines(Path("run/trajectories.jsonl"), rng)
    if rng.random() < 0.2:
        _damage_settings(rng)
    _looked_at(rng.choice(["run", "run/trajectories.jsonl"]), rng)


def exported(samples: _Samples, place: Path, rng: random.Random) -> None:
    """`abreast trajectories` of a file that was exported, and damaged."""
    os.chdir(place)
    Path("rows.jsonl").write_bytes(samples.exported)
    _damage_lines(Path("rows.jsonl"), rng)
    _looked_at("rows.jsonl", rng)


def resumed(samples: _Samples, place: Path, rng: random.Random) -> None:
    """`abreast rollout --resume` of a damaged run."""
    _copied(samples, place, rng)
    lines = Path("run/trajectories.jsonl")
    lines.write_bytes(b"".join(lines.read_bytes().splitlines(keepends=True)[: rng.randint(0, 4)]))
    if rng.random() < 0.6 and lines.stat().st_size:
        _damage_lines(lines, rng)
    if rng.random() < 0.6:
        _damage_settings(rng)
    _code("rollout", "--resume", "run", "--time-limit", "1", *rng.choice([[], ["--episodes", "6"], ["--retry-failed"]]))


def replayed(samples: _Samples, place: Path, rng: random.Random) -> None:
    """`abreast rollout --policy replay` of a damaged run."""
    _copied(samples, place, rng)
    _damage_lines(Path("run/trajectories.jsonl"), rng)
    _code("rollout", "run", IN_MAIN, "--policy", "replay", "--time-limit", "1", "--output", "again")


def configured(samples: _Samples, place: Path, rng: random.Random) -> None:
    """`abreast rollout --config` with a damaged file."""
    os.chdir(place)
    Path("config.yaml").write_bytes(dump_yaml(samples.config, random.Random(0)))
    _damage_file(Path("config.yaml"), rng, yaml.safe_load, dump_yaml)
    _code("rollout", "FrozenLake", IN_MAIN, "--config", "config.yaml", *FEW, "--output", "run")


def overridden(samples: _Samples, place: Path, rng: random.Random) -> None:
    """`abreast rollout` with settings that were typed wrongly."""
    os.chdir(place)
    keys = [
        "env.size",
        "env.p",
        "env.is_slippery",
        "seed.train",
        "context.action_sep",
        "es_manager.format_penalty",
        "env",
    ]
    text = f"{rng.choice(keys)}={damaged_text(rng.choice(['1', '[1, 2]', '{a: b}', 'true']), rng)}"
    _code("rollout", "FrozenLake", IN_MAIN, *FEW, "--output", "run", text.replace("\0", "0"))


def questions(samples: _Samples, place: Path, rng: random.Random) -> None:
    """Question files of MetaMathQA, task files of Countdown."""
    os.chdir(place)
    tag, records = rng.choice([("MetaMathQA", samples.questions), ("Countdown", samples.tasks)])
    path = Path("records.jsonl" if rng.random() < 0.6 else "records.json")
    is_list = path.suffix == ".json"
    path.write_bytes(json.dumps(records).encode() if is_list else b"\n".join(json.dumps(r).encode() for r in records))
    if is_list:
        _damage_file(path, rng, json.loads, dump_json)
    else:
        _damage_lines(path, rng)
    _code("rollout", tag, IN_MAIN, f"env.data_path={path}", *FEW, "--output", "run")


def products(samples: _Samples, place: Path, rng: random.Random) -> None:
    """Product files of WebShop."""
    os.chdir(place)
    files = {
        "items_shuffle.json": samples.products,
        "items_ins_v2.json": samples.labels,
        "items_human_ins.json": samples.wishes,
    }
    Path("data").mkdir()
    for name, value in files.items():
        Path("data", name).write_bytes(json.dumps(value).encode())
    for name in rng.sample(sorted(files), rng.randint(1, 2)):
        _damage_file(Path("data", name), rng, json.loads, dump_json)
    policy = rng.choice(["random", "solver"])
    human = f"env.human_goals={rng.choice(['true', 'false'])}"
    mode = f"env.observation_mode={rng.choice(['text', 'text_rich', 'html', 'url'])}"
    _code("rollout", "WebShop", IN_MAIN, "env.data=data", human, mode, "--policy", policy, *FEW, "--output", "run")


def answered(samples: _Samples, place: Path, rng: random.Random) -> None:
    """Answers of a model: parsed, played, and shown again."""
    tag = find_tag(rng.choice(TAGS), {})
    groups = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": [tag.name], "n_groups": [1]}}
    with EnvStateManager({"es_manager": {"train": groups, "use_multiprocessing": False}}) as manager:
        manager.reset(seed=rng.randint(0, 9))
        for _ in range(4):
            text = rng.choice(["<think>so</think><answer>Up || Down</answer>", "<answer>1 + 2</answer>", "<answer>5"])
            outputs = manager.step([manager.context(0).input(0, damaged_text(text, rng))])
            Context(tag).conversation(manager.caches[0], "pil")
            if not outputs:
                break
        manager.get_rollout_states()
        manager.export(place / "out.jsonl", per_turn=rng.random() < 0.5)


KINDS = (trajectories, exported, resumed, resumed, replayed, configured, overridden, questions, products, answered)


def _copied(samples: _Samples, place: Path, rng: random.Random) -> None:
    os.chdir(place)
    shutil.copytree(rng.choice(samples.runs), "run")


def _damage_settings(rng: random.Random) -> None:
    path = Path("run", rng.choice(["config.yaml", "rollout.yaml"]))
    if rng.random() < 0.1:
        path.unlink()
    else:
        _damage_file(path, rng, yaml.safe_load, dump_yaml)
