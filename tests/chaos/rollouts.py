"""Rollouts that are killed over and over, and resumed until they are done: nothing may be lost, repeated or damaged.

    kill_and_resume(folder, seed=7, kills=200)

┌───────────────┐ arguments  ┌─────────────┐ fork  ┌────────────────────────────────────┐
│ this process  │───────────▶│ starter     │──────▶│ abreast rollout … (+ its workers)  │◀── SIGKILL, all at once
│ server, kills │◀───────────│ has imported│       │ a session of its own               │
└───────────────┘ pid, code  └─────────────┘       └────────────────────────────────────┘
A kill comes at a random time, when so many more episodes are written, or at a certain point of writing a file (`POINTS`).
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from llm_server import LLMServer, Text
from varied_env import shown

TESTS = Path(__file__).parent.parent
IN_WORKERS = ["es_manager.use_multiprocessing=true", "es_manager.max_workers=2"]
IN_MAIN = ["es_manager.use_multiprocessing=false"]
PICTURES = "env.render_mode=rgb_array"
SCENARIOS = {
    "random, workers, groups of 2": ["FrozenLake", *IN_WORKERS, "--group-size", "2", "--episodes", "240"],
    "random, main, pictures": ["FrozenLake", PICTURES, *IN_MAIN, "--group-size", "4", "--episodes", "48"],
    "solver, main": ["FrozenLake", *IN_MAIN, "--policy", "solver", "--group-size", "5", "--episodes", "300"],
    "solver, workers": ["SimpleSokoban", *IN_WORKERS, "--policy", "solver", "--group-size", "3", "--episodes", "150"],
    "random, workers, pictures": ["SimpleSokoban", PICTURES, *IN_WORKERS, "--group-size", "3", "--episodes", "24"],
    "openai, main": ["varied", *IN_MAIN, "--policy", "openai", "--episodes", "200"],
    "openai, workers": ["varied", *IN_WORKERS, "--policy", "openai", "--group-size", "3", "--episodes", "150"],
}  # fmt: skip
POINTS = [
    ("half", "config.yaml"), ("before", "config.yaml"), ("after", "config.yaml"), ("half", "rollout.yaml"),
    ("before", "rollout.yaml"), ("after", "rollout.yaml"), ("half", "trajectories.jsonl"),
    ("before", "trajectories.jsonl"), ("after", "trajectories.jsonl"), ("half", ".png"), ("before", ".png"),
    ("after", ".png"), ("line", "trajectories.jsonl"),
]  # fmt: skip
"""Where a process kills itself: when half of a file is written, before or after it is renamed, in the middle of a line."""
NOT_BEGUN = "nothing to resume: remove the folder, and start it again"
LONGEST_S = 120.0


class Starter:
    """A process that has imported abreast and forks it: a run then begins at once. One run at a time."""

    def __init__(self):
        more = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.rollouts"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=TESTS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(more), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        self._running = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._running is not None:  # a test has failed: nothing may go on behind it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._running, signal.SIGKILL)
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def start(self, arguments, folder, point=None, times=1, prepare=""):
        """Begin `abreast rollout` in a folder; returns its process id, which is that of its process group, too. `prepare` is
        Python that it executes first."""
        print(json.dumps([arguments, str(folder), point, times, prepare]), file=self._process.stdin, flush=True)
        self._running = int(self._process.stdout.readline())
        return self._running

    def wait(self):
        """The exit code of the run, or minus its signal; and what it printed to both outputs."""
        code, out, err = self.wait_apart()
        return code, out + err

    def wait_apart(self):
        """The same, with what it printed to each output."""
        status, out, err = json.loads(self._process.stdout.readline())
        self._running = None
        return os.waitstatus_to_exitcode(status), out, err


def serve():
    """What the starter does."""
    import abreast.rollouts.workers.worker  # noqa: F401
    import varied_env  # noqa: F401
    from abreast.cli import main

    for request in sys.stdin:
        arguments, folder, point, times, prepare = json.loads(request)
        said = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                os.chdir(folder)
                null = os.open(os.devnull, os.O_RDONLY)
                for at, to in ((null, 0), (said[0].fileno(), 1), (said[1].fileno(), 2)):
                    os.dup2(at, to)
                os.closerange(3, 256)
                exec(prepare, {})
                if point is not None:
                    _strike(*point, times)
                sys.argv = ["abreast", "rollout", *arguments]
                main()
            except SystemExit as end:
                sys.stdout.flush()
                os._exit(end.code or 0)
            finally:
                import traceback

                traceback.print_exc()
                sys.stderr.flush()
                os._exit(99)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(json.dumps([status, *map(_read_all, said)]), flush=True)


def _read_all(file):
    with file:
        file.seek(0)
        return file.read().decode(errors="replace")


def _strike(how, name, times):
    """Have this process kill itself, with its workers, when it is for the n-th time at this point."""
    from abreast.rollouts.drivers import trajectories

    fsync, replace, append, left = os.fsync, Path.replace, trajectories.Trajectories._append, times

    def is_it(path):
        nonlocal left
        hit = str(path).endswith(name)
        left -= hit
        return hit and left == 0

    def die():
        os.killpg(0, signal.SIGKILL)

    def fsync_half(descriptor):
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        if is_it(path.removesuffix(".part").rpartition(".")[0]):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            die()
        fsync(descriptor)

    def die_before(self, target):
        if is_it(target):
            die()
        return replace(self, target)

    def die_after(self, target):
        moved = replace(self, target)
        if is_it(target):
            die()
        return moved

    def append_half(self, line):
        if is_it("trajectories.jsonl"):
            append(self, line[: len(line) // 2])
            die()
        append(self, line)

    if how == "half":
        os.fsync = fsync_half
    elif how == "line":
        trajectories.Trajectories._append = append_half
    else:
        Path.replace = die_before if how == "before" else die_after


# ---- what a run folder holds


def lines_of(run):
    """The episodes of a run, by number."""
    lines = [json.loads(line) for line in (run / "trajectories.jsonl").read_bytes().splitlines()]
    counts = Counter(line["episode"] for line in lines)
    assert all(count == 1 for count in counts.values()), f"played twice: {counts.most_common(3)}"
    return {line["episode"]: line for line in lines}


def pictures_of(run):
    """The pictures of a run, and whatever else is in their folder."""
    return {path.name: path.read_bytes() for path in (run / "images").glob("*")}


def check_equal(run, whole):
    """A run that was killed has the episodes and pictures of one that was not, and nothing else."""
    found, expected = lines_of(run), lines_of(whole)
    assert sorted(found) == sorted(expected), f"missing: {sorted(expected.keys() - found.keys())[:10]}"
    for number, line in expected.items():
        assert found[number] == line, f"episode {number} differs: {found[number]} instead of {line}"
    assert pictures_of(run) == pictures_of(whole), "pictures differ"
    names = {path.name for path in run.iterdir()} - {".lock"}
    assert names == {path.name for path in whole.iterdir()} - {".lock"}, names


def check_while_stopped(run, before):
    """What is there after a kill: all that was there before it, and whole lines but for the last."""
    path = run / "trajectories.jsonl"
    if not path.exists():
        assert not before
        return {}
    found = {}
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            episode = json.loads(line)
            assert found.setdefault(episode["episode"], episode) is episode, "an episode was played twice"
    assert all(found.get(number) == line for number, line in before.items()), "an episode was lost"
    return found


# ---- the driver


def kill_and_resume(folder: Path, seed: int, kills: int) -> None:
    """Kill rollouts so many times, at moments that the seed chooses, and resume each until it is done.

    Every scenario is finished before the next one begins, so there may be some kills more than asked for.
    """
    rng, done, rounds = random.Random(seed), 0, 0
    folder.mkdir(parents=True, exist_ok=True)
    with Starter() as starter, LLMServer(_answer) as server:
        wholes: dict[str, Path] = {}
        while done < kills:
            for name in rng.sample(sorted(SCENARIOS), len(SCENARIOS)):
                if name not in wholes:
                    wholes[name] = folder / f"whole_{len(wholes)}"
                    _finish(starter, _arguments(name, server), wholes[name])
                rounds += 1
                wanted = min(kills - done, rng.randint(1, 12))
                done += _one_run(starter, _arguments(name, server), folder / f"run_{rounds}", wholes[name], rng, wanted)
                if done >= kills:
                    break


def _answer(request):
    """What a language model says: it depends on the question alone."""
    seed, turn, _ = shown(request.prompt)
    return Text(f"<think>{seed}</think><answer>{'Stay' if (seed + turn) % 3 == 0 else 'Go'}</answer>")


def _arguments(name, server):
    return [*SCENARIOS[name], *(["--base-url", server.url] if "openai" in SCENARIOS[name] else [])]


def _finish(starter, arguments, place):
    place.mkdir()
    starter.start([*arguments, "--output", "run"], place)
    code, said = starter.wait()
    assert code == 0 and "Traceback" not in said, said


def _one_run(starter, arguments, place, whole, rng, kills):
    """Begin a run, kill it so many times unless it is done before, and compare it with the whole one; returns the kills."""
    place.mkdir()
    run, done, before = place / "run", 0, {}
    first = [*arguments, "--output", "run"]
    while True:
        is_begun = (run / "rollout.yaml").exists()
        if not is_begun and run.exists():
            _check_refused(starter, run)
        is_last = done >= kills
        point = rng.choice(POINTS) if not is_last and rng.random() < 0.6 else None
        times = rng.randint(1, 40) if point is not None and point[1] in (".png", "trajectories.jsonl") else 1
        if point in (("half", "trajectories.jsonl"), ("before", "trajectories.jsonl"), ("after", "trajectories.jsonl")):
            times = 1
            if is_begun:  # so that there is something to repair
                with (run / "trajectories.jsonl").open("ab") as file:
                    file.write(b'{"episode": 1, "half of a li')
        pid = starter.start(["--resume", "run"] if is_begun else first, place, point, times)
        if point is None and not is_last:
            _kill_at_random(pid, run, len(before), rng)
        code, said = starter.wait()
        assert "Traceback" not in said, said
        if code == 0:
            break
        assert code == -signal.SIGKILL and not is_last, (code, said)
        done += 1
        before = check_while_stopped(run, before)
    check_equal(run, whole / "run")
    return done


def _kill_at_random(pid, run, before, rng):
    """SIGKILL to all processes of a run, after some time, or a little after so many more episodes are written."""
    wanted, end = before + rng.randint(1, 60), time.monotonic() + rng.choice([0.05, 0.3, 1.0, LONGEST_S]) * rng.random()
    path = run / "trajectories.jsonl"
    while time.monotonic() < end and _runs(pid):
        if path.exists() and path.read_bytes().count(b"\n") >= wanted:
            time.sleep(rng.random() * 0.01)
            break
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _check_refused(starter, run):
    """A run that was killed before all of its settings were written is refused; it holds no episode."""
    assert not (run / "trajectories.jsonl").exists()
    starter.start(["--resume", "run"], run.parent)
    code, said = starter.wait()
    assert code == 2 and NOT_BEGUN in said and len(said.splitlines()) == 1, (code, said)
    for path in run.iterdir():
        path.unlink()
    run.rmdir()


if __name__ == "__main__":
    serve()
