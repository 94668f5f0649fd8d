"""Mutated inputs of everything training reads: no traceback, no hang, no write outside the run folder."""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from abreast.cli import run
from chaos import damage
from chaos.hostile_runs import commands, damage_run
from chaos.leftovers import listing

LIMIT_S = 20
"""Seconds that one input may take; most take a hundredth."""
CAPS = [
    "experiment.epochs=1", "experiment.max_turns=2", "experiment.num_agents=2", "model.hidden_size=8", "model.batch_size=4",
    "model.buffer_capacity=64", "model.n_frames=1", "model.agent_vision_radius=1", "model.gradient_steps=1",
    "world.height=8", "world.width=8", "multiprocessing.enabled=false", "multiprocessing.num_envs=1",
    "multiprocessing.num_actors=1", "experiment.compute_threads=1", "multiprocessing.device=cpu",
    "multiprocessing.batch_size=null", "multiprocessing.buffer_capacity=null", "model.per_agent=null", "parallel=null",
]  # fmt: skip
"""What keeps a run of mutated settings short."""
KEPT = ["experiment.epochs=2", "experiment.checkpoint_interval=1", "experiment.record_period=1"]
RUNS = {
    "run": [],
    "pipelined": [
        "multiprocessing.enabled=true",
        "multiprocessing.schedule=pipelined",
        "multiprocessing.workers=inline",
    ],
}
"""Runs that the folders to be damaged are copies of. The second has a round under way in each checkpoint."""
GAMES = ["treasurehunt", "cleanup", "tag", "staghunt"]
TESTS = Path(__file__).parent.parent


class TookTooLong(BaseException):
    """An input was not answered in time."""


class Broken(AssertionError):
    """An input found a fault."""


class Fuzzer:
    """Makes inputs in a folder and gives them to the command line, in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)
        self.outside = folder / "outside"
        self.outside.mkdir(exist_ok=True)
        with _inside(folder):
            for name, more in RUNS.items():
                settings = [*CAPS[1:-2], *KEPT, *more]
                code, said = _call(["train", "treasurehunt", *settings, "--output", name, "--no-animate"])
                assert code == 0, said
        self.run = folder / "run"
        self.config = (self.run / "config.yaml").read_text()
        self.count = 0

    # ---- kinds of input: each makes one and returns the command

    def config_file(self, chance: random.Random) -> list[str]:
        """A configuration file with other bytes, values or lines."""
        how = chance.randrange(4)
        if how == 0:
            data = damage.damaged_bytes(self.config.encode(), chance)
        elif how == 1:
            data = damage.damaged_setting(self.config, chance).encode("utf-8", "surrogatepass")
        elif how == 2:
            data = damage.dump_yaml(damage.damaged_value(yaml.safe_load(self.config), chance), chance)
        else:
            section = chance.choice(["experiment", "model", "world", "multiprocessing", "game", "parallel", "x"])
            inside = chance.choice([damage.BOMB, damage.MAP_BOMB]).replace("\n", "\n  ")
            data = f"{section}:\n  {inside}\n{chance.choice(['', 'experiment: *a11', 'x: *a11'])}".encode()
        (self.work / "config.yaml").write_bytes(data)
        return self._command(chance, ["--config", "config.yaml"])

    def overrides(self, chance: random.Random) -> list[str]:
        """Settings on the command line."""
        tree = yaml.safe_load(self.config)
        keys = [f"{section}.{key}" for section, inside in tree.items() if isinstance(inside, dict) for key in inside]
        keys += [
            "model.per_agent.0.algorithm",
            "model.per_agent.1.gamma",
            "model.per_agent.1",
            "parallel.use_threads",
            "x.y",
            ".",
            "a..b",
        ]
        given = []
        for _ in range(chance.choice([1, 1, 2, 4])):
            text = f"{chance.choice(keys)}={chance.choice(damage.SCALARS)}".replace("\x00", "\\0")
            if chance.random() < 0.2:
                text = (
                    damage.damaged_bytes(text.encode("utf-8", "surrogatepass"), chance)
                    .decode("utf-8", "surrogateescape")
                    .replace("\x00", "")
                )
            given.append(text)
        return self._command(chance, ["--", *given])

    def _command(self, chance: random.Random, arguments: list[str]) -> list[str]:
        game = "treasurehunt" if chance.random() < 0.7 else chance.choice([*GAMES, "own_game:Garden"])
        if chance.random() < 0.95:
            return ["settings", game, *arguments]
        options = [] if "--" in arguments else ["--"]
        return ["train", game, "--no-animate", "--output", "new", *arguments, *options, *CAPS]

    def run_folder(self, chance: random.Random) -> list[str]:
        """A run with a damaged file, to be played."""
        damaged = self.work / "damaged"
        shutil.copytree(self.run, damaged, symlinks=True)
        files = sorted(path for path in damaged.rglob("*") if path.is_file())
        path = chance.choice(files)
        how = chance.randrange(5)
        if how == 0:
            path.unlink()
            with contextlib.suppress(OSError):
                links = (
                    [lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero")] if path.suffix == ".yaml" else []
                )
                chance.choice([path.mkdir, lambda: path.symlink_to(path), *links])()
        elif how == 1 and path.name == "config.yaml":
            path.write_bytes(damage.dump_yaml(damage.damaged_value(yaml.safe_load(self.config), chance), chance))
        elif how == 2 and path.suffix == ".safetensors":
            path.write_bytes(_with_header(path.read_bytes(), chance))
        else:
            path.write_bytes(damage.damaged_bytes(path.read_bytes(), chance))
        caps = ["--", "experiment.max_turns=2", *([] if chance.random() < 0.5 else CAPS[2:9])]
        return (
            ["play", "damaged", *caps] if chance.random() < 0.7 else ["play", "treasurehunt", "--run", "damaged", *caps]
        )

    def hostile_run(self, chance: random.Random) -> list[str]:
        """A run whose checksums are right, and what is inside is not; or with something else in a file's place."""
        name = chance.choice([*RUNS, "run"])
        shutil.copytree(self.folder / name, self.work / "hostile", symlinks=True)
        damage_run(self.work / "hostile", chance, self.outside)
        return commands("hostile", chance, CAPS)

    def game_file(self, chance: random.Random) -> list[str]:
        """A game of a user, with faults in its source."""
        name = f"fuzzed_game_{os.getpid()}_{self.count}.py"
        (self.work / name).write_bytes(damage.damaged_bytes((TESTS / "own_game.py").read_bytes(), chance))
        suffix = chance.choice(["", ":Garden", ":Garden", ":Bush", ":", ":Gardn"])
        return ["settings", f"{name}{suffix}"]

    def arguments(self, chance: random.Random) -> list[str]:
        """A command line that is none."""
        words = [
            "train", "play", "games", "settings", "treasurehunt", "--run", "--config", "--agents", "-1", "3", "--epochs",
            "run",
            "--output", "../outside/precious", "--seed", "x" * 400, "", "\x00", "\ud800", "--", "-", "--help", "/dev/null",
            ".",
            ":", ".py", "own_game:Garden", "..:x", "experiment.epochs=1", "é.py", "a\nb.py:C", "os:path", "json:",
        ]  # fmt: skip
        picked = [chance.choice(words) for _ in range(chance.randrange(1, 6))]
        return [*picked, "--no-animate", "--output", "new", "--", *CAPS] if picked[:1] == ["train"] else picked

    # ---- one input

    KINDS: tuple[tuple[int, str], ...] = (
        (8, "config_file"),
        (6, "overrides"),
        (4, "run_folder"),
        (8, "hostile_run"),
        (3, "game_file"),
        (2, "arguments"),
    )

    def case(self, seed: str) -> str:
        """One input from its seed; returns what kind it was and how the program ended. A fault raises `Broken`."""
        chance = random.Random(seed)
        self.count += 1
        shutil.rmtree(self.work)
        self.work.mkdir()
        shutil.rmtree(self.outside)
        self.outside.mkdir()
        (self.outside / "precious").write_text("as it was")
        kind = chance.choices([name for _, name in self.KINDS], [weight for weight, _ in self.KINDS])[0]
        command = getattr(self, kind)(chance)
        before = listing(self.outside, *(self.folder / name for name in RUNS))
        (self.folder / "last.json").write_text(json.dumps({"seed": seed, "command": command}))  # if it hangs in C
        with _inside(self.work):
            code, said = _call(command)
        what = f"{kind} {seed}: abreast {' '.join(map(ascii, command))[:600]}"
        if isinstance(code, BaseException):
            stack = "".join(traceback.format_exception(code)[-6:])
            raise Broken(f"{what}\n{stack[-2500:]}")
        if code not in (0, 1, 2):
            raise Broken(f"{what}\nexit code {code}: {said[-500:]}")
        if "Traceback" in said:
            raise Broken(f"{what}\n{said[-2000:]}")
        if code and not said.strip():
            raise Broken(f"{what}\nexit code {code} without a word")
        if changed := _changed(before, listing(self.outside, *(self.folder / name for name in RUNS))):
            raise Broken(f"{what}\nwrote outside its folder: {changed[:3]}")
        return f"{kind} {code}"


def fuzz_training(
    folder: Path, seed: int, count: int, first: int = 0, on_fault: Callable[[str], None] | None = None
) -> Counter[str]:
    """So many inputs; returns how many ended how. The first fault raises `Broken`, unless `on_fault` takes it."""
    fuzzer, ends = Fuzzer(folder), Counter()
    for number in range(first, first + count):
        try:
            ends[fuzzer.case(f"{seed}:{number}")] += 1
        except Broken as broken:
            if on_fault is None:
                raise
            ends["broken"] += 1
            on_fault(str(broken))
    return ends


def _changed(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> list[str]:
    return [path for path in {**before, **after} if "__pycache__" not in path and before.get(path) != after.get(path)]


def _with_header(data: bytes, chance: random.Random) -> bytes:
    """A safetensors file with another header: sizes that lie, metadata that is none, deep or huge JSON."""
    size = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + size]
    how = chance.randrange(4)
    if how == 0:
        return chance.choice([0, 1, size - 1, 2**40, 2**63, 2**64 - 1]).to_bytes(8, "little") + data[8:]
    if how == 1:
        new = damage.dump_json(damage.damaged_value(json.loads(header), chance), chance)
    elif how == 2:
        new = b"[" * 100_000
    else:
        new = damage.damaged_bytes(header, chance)
    return len(new).to_bytes(8, "little") + new + data[8 + size :]


def _call(command: list[str]) -> tuple[int | BaseException, str]:
    """Run a command here; returns its exit code, or what it raised, and what it printed."""
    said = io.StringIO()
    path, modules = list(sys.path), set(sys.modules)

    def ring(number: int, frame: object) -> None:
        raise TookTooLong(f"after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(LIMIT_S)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return run(command), said.getvalue()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return error, said.getvalue()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        sys.path[:] = path
        for name in [name for name in sys.modules.keys() - modules if name.startswith("fuzzed_game")]:
            del sys.modules[name]


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    here = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)
