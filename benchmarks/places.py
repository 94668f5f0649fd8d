"""What a single episode costs beside its environment, and whether `auto` finds the best place for environments.

    python benchmarks/rollouts.py --only episodes waiting places [--workers 16]

Called by rollouts.py; the environments that compute are those of `abreast bench`. "ideal": what the environments themselves
take if all wait at once. Ratios are taken within one run; each variant has managers of its own, which take turns.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium

from abreast.rollouts import EnvConfig, EnvStateManager, register
from rollout_helpers import plain, settings

EPISODE_TURNS = 10
WAIT_TURNS = 8
EPOCHS = 8
"""Epochs before `auto` is measured, so that it has decided."""


class WaitingConfig(EnvConfig):
    """Settings of an environment that waits."""

    seconds: float = 0.2
    """For how long a step waits."""


class Waiting(gymnasium.Env[str, Any]):
    """Waits for something outside, as a live page or a simulated user does; its reset does not."""

    render_mode = "text"

    def __init__(self, config: WaitingConfig) -> None:
        self.config, self.steps = config, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.render(), {}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        time.sleep(self.config.seconds)
        self.steps += 1
        return self.render(), 0.0, False, False, {}

    def render(self) -> str:
        return str(self.steps)


register("waiting", config=WaitingConfig)(Waiting)

BUSY = "abreast.bench.busy:KIND"


def tag(kind: str, turns: int, **config: Any) -> dict[str, Any]:
    return {"Env": {"env_type": kind, "max_actions_per_traj": turns, "env_config": config}}


def seconds_of(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


# ---- a single episode


def episodes(arguments: argparse.Namespace, rounds_for: Callable[[float], int]) -> None:
    """One episode after the other: what a turn takes beyond the same turn in a bare loop."""
    print(f"single episodes of {EPISODE_TURNS} turns, one after the other, beside a bare loop:")
    for microseconds, count in ((0, 200), (1000, 20), (100_000, 1)):
        custom = tag(BUSY, EPISODE_TURNS, rounds=rounds_for(microseconds) if microseconds else 0)
        config = settings(["Env"], [2], 1, custom)
        loop = plain(settings(["Env"], [1], 1, custom))

        def bare(loop: Any = loop, count: int = count) -> None:
            for seed in range(count):
                loop.reset(seed)
                for _ in range(EPISODE_TURNS):
                    loop.step([{"env_id": 0, "actions": ["go"]}])

        with EnvStateManager(config) as manager:
            calls = {"bare": bare, "with": lambda: _sync(manager, count), "async with": lambda: _async(manager, count)}  # noqa: B023
            taken: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(5 if microseconds > 10_000 else arguments.repeats):
                for name in random.sample(list(calls), len(calls)):
                    taken[name].append(seconds_of(calls[name]))
        turns = count * EPISODE_TURNS
        told = [
            f"{name} +{median(a - b for a, b in zip(taken[name], taken['bare'], strict=True)) / turns * 1e6:.1f} µs a turn"
            f" ({median(a / b for a, b in zip(taken[name], taken['bare'], strict=True)):.2f} times)"
            for name in ("with", "async with")
        ]
        print(f"  {microseconds:>7,} µs a step: {', '.join(told)}")


def _sync(manager: EnvStateManager, count: int) -> None:
    for seed in range(count):
        with manager.episode(seed=seed) as episode:
            while not episode.done:
                episode.step(["go"])


def _async(manager: EnvStateManager, count: int) -> None:
    async def play() -> None:
        for seed in range(count):
            async with manager.episode(seed=seed) as episode:
                while not episode.done:
                    await episode.step(["go"])

    asyncio.run(play())


# ---- environments that wait


def waiting(arguments: argparse.Namespace) -> None:
    """32 environments that wait, in a manager that has measured nothing yet."""
    seconds, envs = 0.2, 32
    ideal = seconds * WAIT_TURNS
    config = settings(["Env"], [envs], 1, tag("waiting", WAIT_TURNS, seconds=seconds))
    ways = {"step": _batches, "step_async": _awaited, "episode": _episodes}
    print(
        f"{envs} environments that wait {1000 * seconds:g} ms a step, {WAIT_TURNS} turns, a new manager (auto) each time:"
    )
    for name, play in ways.items():
        ratios, longest = [], []
        for _ in range(3):
            with EnvStateManager(config) as manager:
                taken = seconds_of(lambda: longest.append(play(manager)))  # noqa: B023
            ratios.append(taken / ideal)
        value = median(ratios)
        bar = f"{'reached' if value <= 1.3 else 'MISSED'}, bar 1.3"
        held = "" if name == "step" else f"; event loop held for {1000 * median(longest):.0f} ms at most"
        print(f"  {name:11} {value:.2f} of the ideal time ({bar}){held}")


def _batches(manager: EnvStateManager) -> float:
    outputs = manager.reset(seed=0)
    while outputs:
        outputs = manager.step([{"env_id": cache["env_id"], "actions": ["go"]} for cache in outputs])
    return 0.0


def _awaited(manager: EnvStateManager) -> float:
    async def one(env_id: int) -> None:
        while await manager.step_async([{"env_id": env_id, "actions": ["go"]}]):
            pass

    manager.reset(seed=0)
    return asyncio.run(_watched(*(one(env_id) for env_id in range(len(manager)))))


def _episodes(manager: EnvStateManager) -> float:
    async def one(seed: int) -> None:
        async with manager.episode(seed=seed) as episode:
            while not episode.done:
                await episode.step(["go"])

    return asyncio.run(_watched(*(one(seed) for seed in range(len(manager)))))


async def _watched(*tasks: Any) -> float:
    """Run tasks; the longest time for which nothing else could run in the event loop."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0)
            longest = max(longest, time.perf_counter() - started)
            await asyncio.sleep(0.005)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*tasks)
    watcher.cancel()
    return longest


# ---- the best place


def places(arguments: argparse.Namespace, rounds_for: Callable[[float], int]) -> None:
    """`auto` against the main process, threads, and every power of two of workers; what is far slower is measured once."""
    counts = [1 << power for power in range(arguments.workers.bit_length()) if 1 << power <= arguments.workers]
    print(f"{arguments.envs} environments, epochs of 20 turns: auto against the best of all places")
    kinds = [("busy", us, tag(BUSY, 20, rounds=rounds_for(us) if us else 0)) for us in (0, 30, 100, 1000)]
    kinds += [("waiting", us, tag("waiting", 20, seconds=us * 1e-6)) for us in (2000, 20_000)]
    for kind, microseconds, custom in kinds:
        uses: dict[str, tuple[Any, int]] = {"main": (False, 1), "threads": ("threads", arguments.envs)}
        uses |= {f"{count} workers": (True, count) for count in counts}
        uses["auto"] = ("auto", arguments.workers)
        managers = {
            name: EnvStateManager(
                settings(["Env"], [arguments.envs], 1, custom, use_multiprocessing=use, max_workers=most)
            )
            for name, (use, most) in uses.items()
        }
        try:
            for _ in range(EPOCHS):
                _batches(managers["auto"])
            first = {name: seconds_of(lambda: _batches(managers[name])) for name in managers}  # noqa: B023
            near = [name for name in managers if first[name] < 4 * min(first.values()) or name == "auto"]
            taken: dict[str, list[float]] = {name: [first[name]] * (name not in near) for name in managers}
            for _ in range(arguments.repeats):
                for name in random.sample(near, len(near)):
                    taken[name].append(seconds_of(lambda: _batches(managers[name])))  # noqa: B023
        finally:
            lives_in = sorted({env.worker for env in managers["auto"].envs})
            for manager in managers.values():
                manager.close()
        times = {name: median(values) for name, values in taken.items()}
        best = min((name for name in times if name != "auto"), key=times.__getitem__)
        value = times[best] / times["auto"]
        told = "  ".join(f"{name} {1000 * each:.1f}" for name, each in times.items())
        print(f"  {kind} {microseconds:>6,} µs: auto {value:.2f} of the best ({best}), "
              f"{'reached' if value >= 0.95 else 'MISSED'}, bar 0.95; in {lives_in[:4]}; ms an epoch: {told}")  # fmt: skip
