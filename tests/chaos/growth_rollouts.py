"""Whether rollouts grow: memory, descriptors, processes and Python objects over many turns of one manager.

    grow("batch", turns=100_000)     in a process of its own; raises if something has grown

Kinds: `main` (batches in the main process), `batch` (batches in two workers), `single` (single episodes in two workers),
`single_main`, and `killed` (batches, with a worker killed now and then).
"""

import gc
import json
import os
import random
import signal
import statistics
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent.parent
KINDS = ("main", "single_main", "batch", "single", "killed")
TAGS = ["FrozenLake", "SimpleSokoban", "Bandit", "Countdown"]
MOST_GROWTH = 1.02
MOST_BLOCKS = 0.1
"""Blocks of Python's allocator that may be added per turn: an object that is kept in each turn is at least one."""
NOISE_BLOCKS = 1_100
"""What comes and goes with the lengths of episodes, and windows of figures that are not yet full (256 numbers a tag and
kind); seen: 740. In a short run, two blocks that are kept in each turn are found; in a long one, a tenth of a block."""
KILL_EVERY = 2_000


def grow(kind: str, turns: int, leak: bool = False) -> dict[str, list[float]]:
    """Take so many turns, and raise AssertionError if something has grown; returns the samples.

    With `leak`, something is kept on purpose in each turn: it has to be found.
    """
    more = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    child = subprocess.run(
        [sys.executable, "-m", "chaos.growth_rollouts", kind, str(turns), str(int(leak))],
        capture_output=True, text=True, cwd=TESTS, timeout=120 + turns / 100, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(more)},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    samples = json.loads(child.stdout)
    _check(samples, kind)
    return samples


def _check(samples: dict[str, list[float]], kind: str) -> None:
    """Compare the last fifth of the run with the fifth after the warm-up, which is two fifths."""
    taken = samples["turns"]
    first, last = [], []
    for number, done in enumerate(taken):
        (first if 0.4 <= done / taken[-1] < 0.6 else last if done / taken[-1] >= 0.8 else []).append(number)
    for name, values in samples.items():
        before, after = ([values[number] for number in some] for some in (first, last))
        if name.endswith("rss") and not (name == "workers_rss" and kind == "killed"):  # a new worker begins small
            low, high = statistics.median(before), statistics.median(after)
            assert high <= low * MOST_GROWTH, f"{kind}: {name} grew from {low:,.0f} to {high:,.0f} kB: {values}"
        elif name == "blocks":
            added, between = min(after) - min(before), taken[last[0]] - taken[first[0]]
            allowed = NOISE_BLOCKS + MOST_BLOCKS * between
            assert added < allowed, f"{kind}: {added / between:.2f} blocks a turn are kept: {values}"
        elif name in ("fds", "workers_fds", "processes", "threads"):
            assert max(after) <= max(before), f"{kind}: {name} grew: {values}"


# ---- in the child


def _status(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    raise KeyError(key)


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found + [each for child in found for each in _children(child)]


def _sample(manager: object, turns: int, samples: dict[str, list[float]]) -> None:
    gc.collect()
    workers = sorted(manager.worker_pids)
    now = {
        "turns": turns,
        "rss": _status(os.getpid(), "VmRSS"),
        "fds": _descriptors(os.getpid()),
        "threads": _status(os.getpid(), "Threads"),
        "blocks": sys.getallocatedblocks(),
        "processes": len(_children(os.getpid())),
        "workers_rss": max((_status(pid, "VmRSS") for pid in workers), default=0),
        "workers_fds": max((_descriptors(pid) for pid in workers), default=0),
    }
    for key, value in now.items():
        samples.setdefault(key, []).append(value)


def _answers(rng: random.Random, tag: object) -> list[str]:
    names = tag.config.action_lookup
    if names is None:
        return [f"{rng.randint(1, 99)} + {rng.randint(1, 99)}"]
    return [rng.choice(list(names.values())) for _ in range(rng.randint(1, 3))]


def _batches(manager: object, turns: int, kill_every: int, samples: dict[str, list[float]], kept: list | None) -> None:
    rng, done, sampled, killed = random.Random(0), 0, 0, 0
    while done < turns:
        outputs = manager.reset()
        while outputs:
            inputs = [
                {"env_id": cache["env_id"], "actions": _answers(rng, manager.tag_of(cache["env_id"]))}
                for cache in outputs
            ]
            done += len(inputs)
            if kill_every and done - killed >= kill_every and manager.worker_pids:
                killed = done
                os.kill(rng.choice(manager.worker_pids), signal.SIGKILL)
            outputs = manager.step(inputs)
            if kept is not None:
                kept.extend({"turn": [done]} for _ in inputs)
        manager.get_rollout_states()
        if done - sampled >= turns / 50:
            sampled = done
            _sample(manager, done, samples)


def _singles(manager: object, turns: int, samples: dict[str, list[float]], kept: list | None) -> None:
    from abreast.rollouts.drivers.play import Order, play_episodes
    from abreast.rollouts.drivers.policies.local import RandomPolicy

    policy, done, number = RandomPolicy(0), 0, 0

    def turn() -> None:
        nonlocal done
        done += 1
        if kept is not None:
            kept.append({"turn": [done]})

    while done < turns:
        orders = [Order(number + each, TAGS[each % len(TAGS)], number + each, each) for each in range(40)]
        number += len(orders)
        before = done
        play_episodes(manager, policy, lambda played: None, orders, on_turn=turn)
        if before // (turns / 50) < done // (turns / 50):
            _sample(manager, done, samples)


def main(kind: str, turns: int, leak: bool) -> None:
    """What the child does."""
    from abreast.rollouts import EnvStateManager

    groups = {"env_groups": 16, "group_size": 2, "env_configs": {"tags": TAGS, "n_groups": [4] * 4}}
    use = kind not in ("main", "single_main")
    config = {"es_manager": {"train": groups, "use_multiprocessing": use, "max_workers": 2}}
    samples: dict[str, list[float]] = {}
    kept: list | None = [] if leak else None
    with EnvStateManager(config) as manager:
        if kind.startswith("single"):
            _singles(manager, turns, samples, kept)
        else:
            _batches(manager, turns, KILL_EVERY if kind == "killed" else 0, samples, kept)
    print(json.dumps(samples))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")
