"""Did a change of the code change a result, or make anything slower? Two worktrees, compared on this machine, in one run.

    python benchmarks/compare.py OLD NEW [--quick] [--only hashes|training|rollouts] [--repeats N]

OLD and NEW are folders with `src/abreast`. Each side works in processes of its own, which import its tree; this process
imports neither. Only public names are used, so the internals may differ.

hashes      Small training runs, some with workers that are killed, or stopped and resumed from a checkpoint, and whole
            episodes of text environments. What must be identical (metrics, weights, replay; histories) is hashed on both
            sides. Every difference and every error is printed, and the exit code is then 1.
            The bits depend on the processor, so nothing is stored.
training    Agent-steps per second of a run, without its start and its end (as in `abreast bench`).
rollouts    Turns per second of 16 environments. Those of 0, 100 and 1000 µs hash for so long.

How to read a speed: `ratio` is the rate of NEW divided by the rate of OLD, so 1.00 is equal and less is slower. It is the
median over the repeats; their quartiles are in brackets. A ratio below 0.97 is a `MISS`, or a `miss?` if the upper quartile
reaches 1 or there are fewer than 4 repeats: then more are needed (`--only training --repeats 20`). A miss does not change
the exit code. Of 29 figures one or two miss by chance, more on a busy machine: measure again before you believe one. With
`--quick` (two repeats) only large differences mean anything.

A process is fast or slow for as long as it lives (the same loop takes 0.81 ms in one and 1.15 ms in the next), so every
repeat starts a fresh pair of processes. The machine is fast or slow for a second, so within a repeat the sides take turns
(old new new old …) of 0.05 s, or of one training run, never both at once. The ratio of a repeat is the median over its
pairs of turns. The figures come in another order every time.
"""

import argparse
import contextlib
import gc
import hashlib
import itertools
import json
import math
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import timeit
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np

MISS, SURE = 0.97, 4
"""Ratio below which NEW is slower, and the repeats it takes to be sure of it."""
ANSWER_S = 300.0
"""A side that has not answered after so many seconds hangs."""
WARM_UP_S, SLICE_S = 0.3, 0.05
"""Seconds of rollouts before the first measurement (workers start, `auto` decides), and of one measurement."""
TAGS = ["SimpleSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"]
CAPACITY, FRAMES = 90, 2
SMALL = f"""
    experiment.epochs=13 experiment.max_turns=10 experiment.num_agents=3
    model.hidden_size=16 model.batch_size=8 model.gradient_steps=2 model.buffer_capacity={CAPACITY} model.n_frames={FRAMES}
    multiprocessing.num_workers=2 multiprocessing.device=cpu
""".split()
"""A training run that is hashed. With 1 to 6 lanes every replay goes round; the last pass has one epoch only."""
REFERENCE = [
    "experiment.num_agents=2",
    "model.hidden_size=250",
    "model.n_frames=5",
    "model.gradient_steps=1",
    "model.buffer_capacity=1024",
    "multiprocessing.device=cpu",
]
"""A training run that is timed: the reference configuration with two agents."""

METRICS = frozenset(
    {"epoch", "reward", "reward_per_agent", "loss", "loss_per_agent", "epsilon", "agent_steps", "updates", "metrics"}
)
"""What is compared of an epoch's record."""

Job = list[Any]
"""The name of one of `TASKS`, and its arguments."""
Pairs = list[tuple[float, float]]
"""Rates of OLD and NEW, measured one after the other."""
Policy = Callable[[dict[str, Any]], list[str]]


# ---- what the process of a side does


class Busy(gymnasium.Env[Any, Any]):
    """Hashes for a while, then shows how often it has. (A loop in Python would depend on the luck of its process.)"""

    render_mode = "text"

    def __init__(self, config: Any) -> None:
        self.rounds, self.steps = config.rounds, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.rounds:
            hashlib.pbkdf2_hmac("sha256", b"abreast", b"", self.rounds)
        self.steps += 1
        return 0, 0.0, False, False, {}

    def render(self) -> Any:
        return str(self.steps)


def build(game: str, run: str, overrides: list[str]) -> Any:
    """A fresh environment of a game."""
    from abreast.games import find_game
    from abreast.training import MPConfig

    found, schedule = find_game(game), [] if run == "sequential" else [f"multiprocessing.schedule={run}"]
    given = dict(each.split("=", 1) for each in overrides)
    actors = int(given.get("multiprocessing.num_actors", 1))
    if actors > 1 and not hasattr(MPConfig, "lanes_per_actor"):  # an older tree, where num_envs are those of each actor
        schedule.append(f"multiprocessing.num_envs={int(given['multiprocessing.num_envs']) // actors}")
    return found.build(found.configure(None, [*overrides, *schedule]))


def train(env: Any, run: str, **options: Any) -> Any:
    """Run the experiment; returns the records of its epochs."""
    method = env.run_experiment if run == "sequential" else env.run_experiment_mp
    return method(animate=False, **(options or {"logging": False})).epochs


class Quiet:
    """A logger, so that nothing is displayed."""

    def record_epoch(self, *_: object, **__: object) -> None:
        pass


def resumed(game: str, run: str, overrides: list[str]) -> tuple[Any, Any]:
    """A run that ends after six epochs, and goes on from its checkpoint in a fresh environment; with its records."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "run"
        train(build(game, run, [*overrides, "experiment.epochs=6"]), run, logger=Quiet(), output_dir=where)
        env = build(game, run, overrides)
        return env, train(env, run, logger=Quiet(), resume=where)


@contextlib.contextmanager
def killing(times: int) -> Iterator[None]:
    """Inside, workers of this process are killed so many times, each a moment after it has started."""
    over, killed = threading.Event(), set[int]()

    def strike() -> None:
        while len(killed) < times and not over.wait(0.15):
            workers = [pid for child in children(os.getpid()) for pid in children(child)]
            for pid in [pid for pid in workers if pid not in killed][:1]:
                killed.add(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if not killed:
        raise MeasurementError("no worker was there to be killed")


def children(parent: int) -> list[int]:
    """Processes that a process has started; those of its fork server are its workers."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return found


def training_hashes(game: str, run: str, overrides: list[str], harm: str = "") -> Iterator[dict[str, str]]:
    """Hashes of everything that must be identical after a run, by name; `harm`: killed, resumed, or nothing.

    The metrics of a second, sequential run depend on what has no public name: Adam's moments and the random streams.
    """
    if harm == "resumed":
        env, records = resumed(game, run, overrides)
    else:
        env = build(game, run, overrides)
        with killing(2) if harm else contextlib.nullcontext():
            records = train(env, run)
    hashes = {"metrics": metrics_hash(records)}
    for index, agent in enumerate(env.agents):
        model = agent.model
        networks = [getattr(model, name) for name in ("online", "target") if hasattr(model, name)]
        weights = [values.detach().numpy().tobytes() for network in networks for values in network.parameters()]
        hashes[f"weights of agent {index}"] = hash_of(weights)
        hashes[f"epsilon and updates of agent {index}"] = hash_of([encode([model.epsilon, model.updates])])
        hashes[f"replay of agent {index}"] = hash_of(rows_of(model.memory))
    yield {**hashes, "metrics of a second run": metrics_hash(train(env, "sequential"))}


def metrics_hash(epochs: Any) -> str:
    """The hash of metrics, without what depends on the clock, and what only one of the trees reports."""
    return hash_of(encode({key: value for key, value in epoch.items() if key in METRICS}) for epoch in epochs)


def rows_of(memory: Any) -> Iterator[bytes]:
    """The newest rows of a replay, lane by lane."""
    yield memory.written.tobytes()
    kept = CAPACITY // len(memory.written) - FRAMES + 1
    for lane, end in enumerate(memory.written.tolist()):
        rows = memory.trajectory(lane, max(0, end - kept))
        for array in (rows.states, rows.actions, rows.rewards, rows.dones, rows.valid):
            yield array.tobytes()
        yield encode(rows.extras)


def training_rates(run: str, overrides: list[str]) -> Iterator[float]:
    """Agent-steps per second of one run after the other, from the first recorded pass to the last but one."""
    while True:
        env = build("treasurehunt", run, overrides)
        lanes, epochs = env.config.multiprocessing.num_envs, train(env, run)
        first, last = epochs[lanes - 1], epochs[-1 - lanes]
        seconds = last["time"]["elapsed_s"] - first["time"]["elapsed_s"]
        yield (last["agent_steps"] - first["agent_steps"]) / seconds


def make_manager(tag: str, groups: int, size: int, use: bool | str, rounds: int = 0) -> Any:
    """A manager of so many groups of environments."""
    from abreast.rollouts import EnvStateManager

    train = {"env_groups": groups, "group_size": size, "env_configs": {"tags": [tag], "n_groups": [groups]}}
    busy = {"env_type": "compare:Busy", "max_actions_per_traj": 10, "env_config": {"rounds": rounds}}
    settings = {"use_multiprocessing": use, "max_workers": 2, "train": train}
    return EnvStateManager({"es_manager": settings, "custom_envs": {"Busy": busy}})


def random_policy(manager: Any) -> Policy:
    """Random actions, most of them known to the environment, which has a random stream of its own."""
    known = list((manager.tag_of(0).config.action_lookup or {}).values())
    streams = [random.Random(env_id) for env_id in range(len(manager))]

    def choose(cache: dict[str, Any]) -> list[str]:
        stream, history = streams[cache["env_id"]], cache["history"]
        told = history[-2]["info"].get("available_actions") if len(history) > 1 else None
        action = stream.choice(known or told or ["search[blue cotton shirt]", "12 + 3"])
        return [action.replace("<words>", "wooden table lamp"), "nonsense"][: 1 + (stream.random() < 0.1)]

    return choose


def play(manager: Any, policy: Policy, seed: int, by_recv: bool) -> Iterator[list[dict[str, Any]]]:
    """Play an episode of every environment; yields the inputs of each batch when it is done."""
    ready = manager.reset(seed)
    while ready or manager.pending:
        inputs = [{"env_id": cache["env_id"], "actions": policy(cache)} for cache in ready]
        if by_recv:
            manager.send(inputs)
            ready = manager.recv(min_ready=len(manager) // 2)
        else:
            ready = manager.step(inputs)
        yield inputs


MEASURED = {"latency_p50_ms", "latency_p95_ms", "timeouts"}
"""Keys of older summaries that depend on the clock."""


def rollout_hashes(tag: str, use: bool | str, by_recv: bool) -> Iterator[dict[str, str]]:
    """Hashes of two episodes of eight environments, by name."""
    seen: dict[str, list[bytes]] = {"inputs": [], "histories": [], "statuses": [], "summary": []}
    with make_manager(tag, 4, 2, use) as manager:
        policy = random_policy(manager)
        for seed in (0, 1000):
            inputs = list(play(manager, policy, seed, by_recv))
            seen["inputs"].append(encode([] if by_recv else inputs))  # there, their order depends on the clock
            seen["histories"].append(encode(manager.caches))
            seen["statuses"].append(encode(manager.statuses()))
            summary = manager.get_rollout_states()["tags"][tag]
            seen["summary"].append(encode({key: value for key, value in summary.items() if key not in MEASURED}))
        yield {name: hash_of(parts) for name, parts in seen.items()}


def rollout_rates(tag: str, use: bool | str, by_recv: bool, rounds: int) -> Iterator[float]:
    """Turns per second of 16 environments, one slice of time after the other; episodes follow each other."""
    with make_manager(tag, 16, 1, use, rounds) as manager:
        policy = random_policy(manager) if tag != "Busy" else lambda cache: ["go"]
        batches = (inputs for seed in itertools.count(0, 1000) for inputs in play(manager, policy, seed, by_recv))
        for seed in range(4):  # `auto` decides at resets
            for _ in play(manager, policy, seed, by_recv):
                pass
        rate_of(batches, WARM_UP_S)
        gc.freeze()  # looking through all that was imported takes 25 ms, in every fifth slice or so
        while True:
            yield rate_of(batches, SLICE_S)


def rate_of(batches: Iterator[list[Any]], seconds: float) -> float:
    """Turns per second, for so many seconds."""
    turns, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        turns += len(next(batches))
    return turns / spent


def encode(value: Any) -> bytes:
    """A value as JSON; arrays and images as their bytes."""
    return json.dumps(value, sort_keys=True, default=lambda other: other.tobytes().hex()).encode()


def hash_of(parts: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


TASKS: dict[str, Callable[..., Any]] = {
    task.__name__: task for task in (training_hashes, training_rates, rollout_hashes, rollout_rates)
}


def serve(tree: Path) -> None:
    """Begin each job that comes by stdin, or go on with it (`null`), and answer with what it yields next."""
    import abreast

    assert Path(abreast.__file__).is_relative_to(tree / "src"), f"{abreast.__file__} is not in {tree}"
    results: Any = (None for _ in ())
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what the library may print is no answer
        for job in map(json.loads, sys.stdin):
            try:
                if job is not None:
                    results.close()
                    results = TASKS[job[0]](*job[1:])
                answer = next(results)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)
    results.close()


# ---- the comparison


class MeasurementError(Exception):
    """A side could not be measured."""


class Side:
    """A process that works with one of the two trees."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        paths = [str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(tree)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._job: Job = []
        self._jobs, self._answers = self._process.stdin, self._process.stdout

    def ask(self, job: Job | None) -> None:
        """Begin a job; None: go on with it."""
        self._job = job or self._job
        self._jobs.write(json.dumps(job).encode() + b"\n")
        self._jobs.flush()

    def answer(self) -> Any:
        """What came of it."""
        is_there = select.select([self._answers], [], [], ANSWER_S)[0]
        line = self._answers.readline() if is_there else b""
        if not line:
            self._process.kill()
            what = "has died" if is_there else f"has not answered for {ANSWER_S:g} s"
            sys.exit(f"the process of {self.tree} {what}; its job: {self._job}")
        return json.loads(line)

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def hash_jobs() -> dict[str, Job]:
    """What is hashed, by name."""
    games, algorithms = ["treasurehunt", "cleanup", "tag", "staghunt"], ["iqn", "dqn", "ppo"]
    runs = ["sequential", "lockstep", "pipelined"]
    several = [(f"multiprocessing.num_envs={n * k}", f"multiprocessing.num_actors={k}") for n in (1, 3) for k in (1, 2)]
    double = ("multiprocessing.mode=double_buffer", "multiprocessing.num_envs=3")
    places = [("multiprocessing.workers=threads",), ("multiprocessing.workers=inline",), double]
    simultaneous = (*several[-1], "experiment.turn_order=simultaneous")
    cases = [
        *itertools.product(games, algorithms, runs, several),
        *itertools.product(games[:1], algorithms, runs[1:], places),
        *itertools.product(games, algorithms[:1], runs, [simultaneous]),
    ]
    jobs: dict[str, Job] = {}
    for game, algorithm, run, settings in cases:
        overrides = [*SMALL, f"model.algorithm={algorithm}", *settings]
        jobs[" ".join([game, algorithm, run, *settings])] = ["training_hashes", game, run, overrides]
    long = ["experiment.epochs=60", "multiprocessing.workers=processes", "multiprocessing.max_restarts=20"]
    for game, algorithm, run, settings in itertools.product(games[:2], algorithms, runs, several[2:]):
        overrides = [*SMALL, f"model.algorithm={algorithm}", "model.epsilon_decay=0.01", *settings]
        name = " ".join([game, algorithm, run, *settings])
        jobs[f"{name}, resumed"] = ["training_hashes", game, run, overrides, "resumed"]
        if run != "sequential":
            jobs[f"{name}, killed"] = ["training_hashes", game, run, [*overrides, *long], "killed"]
    ways = [(False, False), (True, False), ("auto", False), (True, True)]
    for tag, (use, by_recv) in itertools.product([*TAGS, "VisualSokoban"], ways):
        jobs[f"{tag}{', send and recv' if by_recv else ''}, {use}"] = ["rollout_hashes", tag, use, by_recv]
    return jobs


def training_jobs() -> dict[str, Job]:
    """Training that is timed, by name: run, lanes, passes, settings."""
    figures: dict[str, tuple[str, int, int, list[str]]] = {
        "random agents, 1 lane": ("sequential", 1, 120, ["model.algorithm=random"]),
        "sequential, 1 lane": ("sequential", 1, 12, []),
        "sequential, 8 lanes": ("sequential", 8, 3, []),
        "lockstep, 8 lanes": ("lockstep", 8, 4, []),
        "pipelined, 8 lanes": ("pipelined", 8, 5, []),
        "pipelined, 8 lanes, threads": ("pipelined", 8, 5, ["multiprocessing.workers=threads"]),
    }
    jobs: dict[str, Job] = {}
    for name, (run, lanes, passes, settings) in figures.items():
        size = [f"multiprocessing.num_envs={lanes}", f"experiment.epochs={lanes * passes}"]
        jobs[name] = ["training_rates", run, [*REFERENCE, *size, *settings]]
    return jobs


def rollout_jobs() -> dict[str, Job]:
    """Rollouts that are timed, by name."""
    jobs: dict[str, Job] = {}
    per_microsecond = rounds_per_microsecond()
    for microseconds, use in itertools.product((0, 100, 1000), (False, True, "auto")):
        rounds = int(microseconds * per_microsecond)
        jobs[f"{microseconds} µs, {use}"] = ["rollout_rates", "Busy", use, False, rounds]
    for use in (False, True):
        jobs[f"0 µs, send and recv, {use}"] = ["rollout_rates", "Busy", use, True, 0]
    for tag, use in itertools.product(TAGS, (False, "auto")):
        jobs[f"{tag}, {use}"] = ["rollout_rates", tag, use, False, 0]
    return jobs


def rounds_per_microsecond() -> float:
    """Rounds that `Busy` hashes in a microsecond; measured once, so that both sides have the same to do."""
    env = Busy(argparse.Namespace(rounds=1000))
    return 1e-3 / min(timeit.repeat(lambda: env.step(0), number=1, repeat=100))


def compare_hashes(old: Path, new: Path, quick: bool) -> bool:
    """Print every case that differs or fails; returns whether there is none."""
    jobs = dict(list(hash_jobs().items())[:: 7 if quick else 1])  # every seventh: all games, algorithms, runs … occur
    wrong = 0
    with Side(old) as before, Side(new) as after:
        for name, job in jobs.items():
            for side in (before, after):  # at the same time: nothing is timed
                side.ask(job)
            was, now = before.answer(), after.answer()
            problems = [f"{side} {each['error']}" for side, each in (("OLD", was), ("NEW", now)) if "error" in each]
            problems = problems or [part for part in {**was, **now} if was.get(part) != now.get(part)]
            if problems:
                wrong += 1
                print(f"  DIFFERENT {name}: {'; '.join(problems)}", flush=True)
    print(f"hashes: {len(jobs)} cases, {f'{wrong} of them DIFFERENT' if wrong else 'all equal'}", flush=True)
    return not wrong


def compare_speed(old: Path, new: Path, title: str, jobs: dict[str, Job], repeats: int, turns: int) -> bool:
    """Print how fast NEW is against OLD, job by job; returns whether nothing failed."""
    rates: dict[str, list[Pairs]] = {name: [] for name in jobs}
    chance = random.Random(0)
    for _ in range(repeats):
        with Side(old) as before, Side(new) as after:
            for name in chance.sample(list(jobs), len(jobs)):
                try:
                    rates[name].append(measure(before, after, jobs[name], turns, chance.random() < 0.5))
                except MeasurementError as error:
                    print(f"  FAILED {name}: {error}", flush=True)
                    rates[name].append([(math.nan, math.nan)])
    print(f"{title}: rates per second, {repeats} repeats")
    for name, each in rates.items():
        low, ratio, high = np.percentile([median(now / was for was, now in pairs) for pairs in each], [25, 50, 75])
        was, now = np.median([pair for pairs in each for pair in pairs], axis=0)
        verdict = "" if ratio >= MISS or math.isnan(ratio) else "miss?" if high >= 1 or repeats < SURE else "MISS"
        print(f"  {name:28} old {was:9,.0f}  new {now:9,.0f}  ratio {ratio:.2f} [{low:.2f} {high:.2f}] {verdict}")
    sys.stdout.flush()
    return not np.isnan([pair for each in rates.values() for pairs in each for pair in pairs]).any()


def measure(before: Side, after: Side, job: Job, turns: int, new_first: bool) -> Pairs:
    """Rates of both sides, measured in turns: old new, new old, old new …"""
    pairs = []
    for turn in range(turns):
        rates: dict[Side, float] = {}
        for side in (after, before) if new_first == (turn % 2 == 0) else (before, after):
            side.ask(None if turn else job)
            answer = side.answer()
            if isinstance(answer, dict):
                raise MeasurementError(f"{side.tree}: {answer['error']}")
            rates[side] = answer
        pairs.append((rates[before], rates[after]))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--quick", action="store_true", help="fewer cases, shorter measurements: two minutes")
    parser.add_argument("--only", choices=["hashes", "training", "rollouts"])
    parser.add_argument("--repeats", type=int, help="fresh pairs of processes: 5, or 2 with --quick")
    arguments = parser.parse_args()
    old, new, quick, only = arguments.old.resolve(), arguments.new.resolve(), arguments.quick, arguments.only
    for tree in (old, new):
        if not (tree / "src" / "abreast").is_dir():
            parser.error(f"{tree} has no src/abreast: give two worktrees of this project.")
    repeats = arguments.repeats or (2 if quick else 5)
    is_fine = only not in (None, "hashes") or compare_hashes(old, new, quick)
    if only in (None, "training"):
        is_fine &= compare_speed(old, new, "training", training_jobs(), repeats, 2 if quick else 5)
    if only in (None, "rollouts"):
        is_fine &= compare_speed(old, new, "rollouts", rollout_jobs(), repeats, 6 if quick else 16)
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(Path(sys.argv[2]))
    else:
        main()
