"""How fast is the manager? Batches per second of 16 environments, compared with a plain loop and other libraries.

    python benchmarks/rollouts.py [--envs 16] [--workers 2] [--seconds 0.1] [--repeats 30] [--only PART ...]

What `abreast bench rollouts` measures (managers and the limit of bare processes, src/abreast/bench/rollouts.py), and
other libraries. All variants take turns within one process, a fraction of a second each; a ratio is the median over the
repeats. "bare loop" (tests/plain_loop.py): the same rules, budgets, penalties and history, but no input checks, no seeds to
rebuild from, no counters. Gymnasium's and Stable-Baselines3's vector environments and the process pool step the same
environments and keep no history.
"""

import argparse
import os
import pickle
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import places
from abreast.bench.bare import BareProcesses
from abreast.bench.busy import Busy, BusyConfig, rounds_for, stepping
from abreast.bench.rollouts import MANAGERS, TURNS, Endless, shares
from abreast.bench.rollouts import settings as busy_settings
from abreast.bench.turns import in_turns, rate_of
from abreast.rollouts import EnvStateManager
from rollout_helpers import plain, settings

TAGS = ["SimpleSokoban", "FrozenLake", "Bandit", "Countdown", "MetaMathQA", "WebShop"]


class Maker:
    """Makes one, in whichever process."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def __call__(self) -> Busy:
        return Busy(BusyConfig(rounds=self.rounds))


def step_one(data: bytes) -> bytes:
    """The work of a pool: an environment comes, is stepped, and goes back, because the next may go to any process."""
    env = pickle.loads(data)
    env.step(0)
    return pickle.dumps(env)


def compare(batches: dict[str, Callable[[], Any]], seconds: float, repeats: int) -> dict[str, list[float]]:
    """Batches per second of each, in turns."""
    return in_turns({name: partial(rate_of, batch, seconds) for name, batch in batches.items()}, repeats)


def ratio(rates: dict[str, list[float]], name: str, base: str) -> float:
    """How many times as fast."""
    return median(a / b for a, b in zip(rates[name], rates[base], strict=True))


def verdict(name: str, value: float, bar: float) -> None:
    print(f"  bar: {name} at least {bar:g}: {value:.2f}, {'reached' if value >= bar else 'MISSED'}")


def busy(microseconds: float, arguments: argparse.Namespace) -> None:
    """Environments that compute for so long."""
    count, rounds = arguments.envs, rounds_for(microseconds)
    config = busy_settings(rounds, count, arguments.workers)
    made = {f"manager, {name}": EnvStateManager(config) for name in MANAGERS}
    for manager, use in zip(made.values(), MANAGERS.values(), strict=True):
        manager.use_multiprocessing = use  # type: ignore[assignment]
    endless = {name: Endless(stepper, count) for name, stepper in {"bare loop": plain(config), **made}.items()}
    limit = BareProcesses(stepping, shares(rounds, count, arguments.workers))
    gym_envs = gymnasium.vector.AsyncVectorEnv([Maker(rounds)] * count)
    pool = ProcessPoolExecutor(arguments.workers)
    pooled = [pickle.dumps(Maker(rounds)()) for _ in range(count)]
    actions = np.zeros(count, dtype=np.int64)
    batches: dict[str, Callable[[], Any]] = {
        **{name: each.batch for name, each in endless.items()},
        "Gymnasium AsyncVectorEnv": lambda: gym_envs.step(actions),
        "ProcessPoolExecutor": lambda: pooled.__setitem__(slice(None), pool.map(step_one, pooled)),
        "limit": limit.batch,
    }
    try:
        from stable_baselines3.common.vec_env import SubprocVecEnv
    except ImportError:
        print("  (Stable-Baselines3 is not installed: pip install -c constraints.txt -e '.[bench]')")
        subproc = None
    else:
        subproc = SubprocVecEnv([Maker(rounds)] * count)
        subproc.reset()
        batches["Stable-Baselines3 SubprocVecEnv"] = lambda: subproc.step(actions)
    gym_envs.reset(seed=0)
    try:
        for _ in range(2 * TURNS + 1):
            endless["manager, auto"].batch()  # two epochs, so that it has decided
        compare(batches, 0.1, 1)  # workers start
        rates = compare(batches, arguments.seconds, arguments.repeats)
    finally:
        for manager in made.values():
            manager.close()
        gym_envs.close()
        limit.close()
        pool.shutdown()
        if subproc is not None:
            subproc.close()
    print(f"{count} environments of {microseconds:g} µs:")
    for name, values in rates.items():
        steps, times = median(values) * count, ratio(rates, name, "manager, sequential")
        print(f"  {name:32} {steps:10,.0f} steps/s   {times:5.2f} times sequential")
    if microseconds >= 1000:
        verdict("workers against sequential", ratio(rates, "manager, workers", "manager, sequential"), 1.9)
        verdict("auto against sequential", ratio(rates, "manager, auto", "manager, sequential"), 1.9)
        print(f"  workers against the limit: {ratio(rates, 'manager, workers', 'limit'):.2f}")
    else:
        verdict("auto against sequential", ratio(rates, "manager, auto", "manager, sequential"), 0.95)
    if not microseconds:
        verdict("workers against AsyncVectorEnv", ratio(rates, "manager, workers", "Gymnasium AsyncVectorEnv"), 4.0)


class Player:
    """Plays episodes in a manager or a plain loop, a batch at a time, with the same actions in both."""

    def __init__(self, stepper: Any, tag: Any) -> None:
        self.stepper, self.tag = stepper, tag
        self.chance = random.Random(0)
        self.outputs: list[Any] = []
        self.seed = 0

    def batch(self) -> None:
        if not self.outputs:
            self.seed += 1000
            self.outputs = self.stepper.reset(self.seed)
        inputs = [{"env_id": cache["env_id"], "actions": [self.action(cache)]} for cache in self.outputs]
        self.outputs = self.stepper.step(inputs)

    def action(self, cache: dict[str, Any]) -> str:
        """Something the environment knows."""
        told = cache["history"][-2]["info"] if len(cache["history"]) > 1 else {}
        names = list((self.tag.config.action_lookup or {}).values()) or told.get("available_actions")
        action = self.chance.choice(names or ["search[blue cotton shirt]", "12 + 3"])
        return "search[wooden table lamp]" if action == "search[<words>]" else str(action)


def shipped(arguments: argparse.Namespace) -> None:
    """Whole episodes of the environments that ship, resets included."""
    print(f"{arguments.envs} environments that ship, whole episodes:")
    for name in TAGS:
        config = settings([name], [arguments.envs], 1, max_workers=arguments.workers)
        with EnvStateManager(config) as auto, EnvStateManager(config) as forced, EnvStateManager(config) as alone:
            forced.use_multiprocessing, alone.use_multiprocessing = True, False
            steppers = {"bare": plain(config), "sequential": alone, "auto": auto, "workers": forced}
            players = {each: Player(stepper, auto.tag_of(0)) for each, stepper in steppers.items()}
            batches = {each: player.batch for each, player in players.items()}
            while auto.envs[0].serial < 4:
                players["auto"].batch()  # three epochs, so that it has decided
            compare(batches, 0.2, 1)
            rates = compare(batches, arguments.seconds, arguments.repeats)
        value = ratio(rates, "auto", "sequential")
        steps = median(rates["sequential"]) * arguments.envs
        print(
            f"  {name:15} sequential {steps:9,.0f} turns/s   auto {value:5.2f} times"
            f" ({'reached' if value >= 0.95 else 'MISSED'}, bar 0.95)"
            f"   workers {ratio(rates, 'workers', 'sequential'):5.2f}   bare loop {ratio(rates, 'bare', 'sequential'):5.2f}"
        )


def resets(arguments: argparse.Namespace) -> None:
    """What new rooms cost."""
    config = settings(["LargerSokoban"], [128], 1, max_workers=arguments.workers, use_multiprocessing=True)
    loop = plain(config)
    times: dict[str, list[float]] = {"plain": [], "workers": []}
    with EnvStateManager(config) as manager:
        manager.reset(seed=0)
        for repeat in range(arguments.repeats):
            for name, reset in (("plain", loop.reset), ("workers", manager.reset)):
                started = time.perf_counter()
                reset(1000 * repeat)
                times[name].append(time.perf_counter() - started)
    gain = median(a / b for a, b in zip(times["plain"], times["workers"], strict=True))
    print("128 Sokoban rooms of 8x8 with new seeds:")
    alone, together = median(times["plain"]), median(times["workers"])
    print(f"  one after the other {alone:.2f} s, in workers {together:.2f} s: {gain:.2f} times")


def memory(arguments: argparse.Namespace) -> None:
    """What another WebShop worker costs in memory, as the kernel counts it (each shared page shared out)."""
    used = {}
    for workers in (1, 4):
        config = settings(["WebShop"], [32], 1, max_workers=workers, use_multiprocessing=True)
        with EnvStateManager(config) as manager:
            player = Player(manager, manager.tag_of(0))
            for _ in range(40):
                player.batch()
            used[workers] = sum(proportional_mb(pid) for pid in manager.worker_pids)
    extra = (used[4] - used[1]) / 3
    print(f"WebShop, 32 environments: 1 worker {used[1]:.0f} MB, 4 workers {used[4]:.0f} MB")
    print(f"  bar: an extra worker under 80 MB: {extra:.0f} MB, {'reached' if extra < 80 else 'MISSED'}")


def proportional_mb(pid: int) -> float:
    """Proportional set size of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--workers", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--microseconds", type=float, nargs="*", default=[0, 100, 1000])
    parser.add_argument("--only", nargs="*", help="Parts: busy shipped resets memory episodes waiting places.")
    arguments = parser.parse_args()
    print(f"{os.cpu_count()} cores, {arguments.workers} workers")
    parts: dict[str, Callable[[], None]] = {
        "busy": lambda: [busy(microseconds, arguments) for microseconds in arguments.microseconds] and None,
        "shipped": lambda: shipped(arguments),
        "resets": lambda: resets(arguments),
        "memory": lambda: memory(arguments),
        "episodes": lambda: places.episodes(arguments, rounds_for),
        "waiting": lambda: places.waiting(arguments),
        "places": lambda: places.places(arguments, rounds_for),
    }
    for part in arguments.only or parts:
        parts[part]()


if __name__ == "__main__":
    main()
