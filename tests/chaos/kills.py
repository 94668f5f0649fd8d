"""Runs of the command line, whose whole tree of processes is killed at random moments and resumed until they finish."""

import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

ABREAST = [sys.executable, "-c", "from abreast.cli import main; main()"]
EPOCHS = 24
START_S = 60.0
"""Seconds after which a run that has shown nothing is taken for hung."""
CLOCK = {"seconds", "elapsed_s"}
SMALL = [
    f"experiment.epochs={EPOCHS}", "experiment.max_turns=6", "experiment.num_agents=2", "model.hidden_size=16",
    "model.batch_size=8", "model.buffer_capacity=128", "model.n_frames=2", "model.gradient_steps=1",
    "experiment.checkpoint_interval=3", "experiment.keep_checkpoints=2", "experiment.record_period=8",
]  # fmt: skip


class Combination(NamedTuple):
    """How a run is arranged."""

    schedule: str
    """lockstep, pipelined, or sequential: without workers."""
    algorithm: str
    actors: int

    @property
    def settings(self) -> list[str]:
        more = [f"model.algorithm={self.algorithm}", f"multiprocessing.num_envs={self.actors}"]
        more.append(f"multiprocessing.num_actors={self.actors}")
        if self.schedule == "sequential":
            return [*SMALL, *more]
        parallel = ["enabled=true", f"schedule={self.schedule}", "num_workers=2", "workers=processes"]
        return [*SMALL, *more, *(f"multiprocessing.{each}" for each in parallel)]

    def __str__(self) -> str:
        return f"{self.schedule}, {self.algorithm}, {self.actors} actor{'s' if self.actors > 1 else ''}"


GO_ON = "to go on from there: "
COMBINATIONS = [Combination(*each) for each in product(["lockstep", "pipelined"], ["iqn", "dqn", "ppo"], [1, 2])]
COMBINATIONS.append(Combination("sequential", "iqn", 1))


def kill_and_resume_training(
    folder: Path,
    seed: int,
    kills: int,
    combination: Combination,
    corrupt: Callable[[Path, random.Random], None] | None = None,
) -> str:
    """Kill runs so many times, resume each until it finishes, and compare it with one that was not disturbed.

    `corrupt` may do something to a run folder between a kill and the resume.
    """
    chance = random.Random(f"{seed} {combination}")
    settings = [*combination.settings, f"experiment.seed={seed % 1000}"]
    calm = folder / "calm"
    shared = set(os.listdir("/dev/shm"))  # noqa: PTH208
    assert _Life(["train", "treasurehunt", *settings, "--output", str(calm)]).end() == 0
    done, finished, anew = 0, 0, 0
    moments = list(MOMENTS)
    while done < kills:
        run = folder / f"run_{finished}"
        newest, resumed = -1, run
        while True:
            command = (
                ["train", "--resume", str(resumed)]
                if run.exists()
                else ["train", "treasurehunt", *settings, "--output", str(run)]
            )
            life = _Life(command)
            moment = chance.choice(moments) if done < kills else "none"
            killed = MOMENTS[moment](life, run, chance) if moment != "none" else False
            if not killed:
                code = life.end()
                if code == 2 and newest < 0 and run.exists() and not _whole(run):  # killed before its first checkpoint
                    assert "Traceback" not in life.said, life.said
                    shutil.rmtree(run)
                    anew += 1
                    continue
                if code == 2 and corrupt is not None and resumed == run and GO_ON in life.said:
                    resumed = Path(shlex.split(life.said.rpartition(GO_ON)[2])[-1])  # as it was told
                    continue
                assert code == 0, f"{moment}: exit code {code}: {life.said[-2000:]}"
                break
            life.kill()
            done, resumed = done + 1, run
            whole = _whole(run)
            assert newest < 0 or whole, (
                f"killed at {moment}: no whole checkpoint is left, though there was one of epoch {newest}"
            )
            assert not whole or whole[-1] >= newest, (
                f"killed at {moment}: the newest is {whole[-1]}, but there was {newest}"
            )
            newest = max([newest, *whole])
            if corrupt is not None and chance.random() < 0.5:
                corrupt(run, chance)
                newest = max([-1, *_whole(run)])
        compare(calm, run)
        finished += 1
        shutil.rmtree(run)
    assert set(os.listdir("/dev/shm")) <= shared, "shared memory is left"  # noqa: PTH208
    return f"{combination}: {done} kills, {finished} runs finished, {anew} begun anew, identical"


def compare(calm: Path, run: Path) -> None:
    """Fail unless two run folders hold the same, the clock aside."""
    assert _metrics(run) == _metrics(calm), "the metrics differ"
    names = [sorted(_files(each)) for each in (calm, run)]
    assert names[0] == names[1], f"files differ: {set(names[0]) ^ set(names[1])}"
    for name in names[0]:
        if name.endswith("manifest.json"):
            assert timeless_facts(calm / name) == timeless_facts(run / name), f"{name} differs"
        elif name.endswith((".safetensors", ".gif", "config.yaml")):
            assert (calm / name).read_bytes() == (run / name).read_bytes(), f"{name} differs"


def _files(run: Path) -> list[str]:
    """All files of a run, but those of checkpoints that were damaged, which are kept aside."""
    found = (path.relative_to(run) for path in run.rglob("*") if path.is_file())
    return [str(path) for path in found if not any(".damaged" in part for part in path.parts)]


def timeless_facts(path: Path) -> dict[str, object]:
    """What a checkpoint says of its run, the clock aside."""
    from abreast.training.checkpoints.folder import open_checkpoint

    facts = open_checkpoint(path.parent).facts.model_dump(exclude=CLOCK)
    for each in facts["unfinished"]:
        del each["collect_s"]
    return facts


def _metrics(run: Path) -> list[dict[str, object]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "time"} for record in records]


def _whole(run: Path) -> list[int]:
    """Epochs of the checkpoints that are whole, oldest first; those from which a run can go on."""
    from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints

    epochs = []
    for each in list_checkpoints(run) if (run / "checkpoints").is_dir() else []:
        if isinstance(each, Checkpoint) and each.kind == "run":
            each.check()
            epochs.append(each.epochs)
    return epochs


class _Life:
    """One process of a run, from its start to its end."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [*ABREAST, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.said = ""

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, happened: Callable[[], bool], limit_s: float = START_S) -> bool:
        """Wait for something, or the end; returns whether it happened."""
        deadline = time.monotonic() + limit_s
        while self.runs:
            if happened():
                return True
            assert time.monotonic() < deadline, "the run hangs"
            time.sleep(0.001)
        return False

    def end(self) -> int:
        """Wait for its end; returns the exit code."""
        self.said += self._process.communicate(timeout=2 * START_S)[0]
        self._all_gone()
        return self._process.returncode

    def kill(self) -> None:
        """Kill all its processes at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        self._all_gone()

    def _all_gone(self) -> None:
        deadline = time.monotonic() + 10
        while left := _of_session(self._process.pid):
            assert time.monotonic() < deadline, f"processes are left: {left}"
            time.sleep(0.01)


def _of_session(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(stat.parent.name))
    return found


# ---- moments: each waits for one, and returns whether it came before the end of the run


def _at_any_time(life: _Life, run: Path, chance: random.Random) -> bool:
    end = time.monotonic() + chance.uniform(0, 6)
    return life.wait_until(lambda: time.monotonic() >= end)


def _in_a_pass(life: _Life, run: Path, chance: random.Random) -> bool:
    lines = _lines(run) + chance.randrange(1, 6)
    return life.wait_until(lambda: _lines(run) >= lines) and _a_moment(life, chance, 0.05)


def _in_a_checkpoint(life: _Life, run: Path, chance: random.Random) -> bool:
    def written() -> bool:
        return any(run.glob("checkpoints/.*"))

    return life.wait_until(written) and _a_moment(life, chance, chance.choice([0.0, 0.003, 0.02]))


def _after_a_checkpoint(life: _Life, run: Path, chance: random.Random) -> bool:
    before = {path.name for path in run.glob("checkpoints/*")}
    return life.wait_until(lambda: any(path.name not in before for path in run.glob("checkpoints/*"))) and _a_moment(
        life, chance, 0.01
    )


def _at_the_end(life: _Life, run: Path, chance: random.Random) -> bool:
    return life.wait_until(lambda: _lines(run) >= EPOCHS) and _a_moment(life, chance, 0.2)


def _a_moment(life: _Life, chance: random.Random, longest_s: float) -> bool:
    end = time.monotonic() + chance.uniform(0, longest_s)
    return life.wait_until(lambda: time.monotonic() >= end)


def _lines(run: Path) -> int:
    try:
        return (run / "metrics.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


MOMENTS: dict[str, Callable[[_Life, Path, random.Random], bool]] = {
    "any time": _at_any_time,
    "a pass": _in_a_pass,
    "a checkpoint": _in_a_checkpoint,
    "after a checkpoint": _after_a_checkpoint,
    "the end": _at_the_end,
}


def corrupt_newest(run: Path, chance: random.Random) -> None:
    """Damage a file of the newest checkpoint, if another whole one is there to go on from."""
    from chaos.damage import damaged_bytes

    if len(_whole(run)) < 2 or (run / "checkpoints" / "final").exists():  # which is newer, and all that counts then
        return
    newest = max(path for path in run.glob("checkpoints/epoch_*") if ".damaged" not in path.name)
    path = chance.choice(sorted(newest.iterdir()))
    how = chance.randrange(4)
    if how == 0:
        path.unlink()
    elif how == 1:
        path.write_bytes(b"")
    elif how == 2:
        path.rename(path.with_name("other.safetensors"))
    else:
        path.write_bytes(damaged_bytes(path.read_bytes(), chance))
