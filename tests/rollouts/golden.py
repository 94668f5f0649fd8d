"""Episodes that were played once and for all: batches, single episodes, both side by side, and workers that are killed.

    python tests/rollouts/golden.py        writes golden.json beside it, from the tree that is imported

What is hashed is what an episode is: its history, its penalty, its seed and how it ended. Figures that sum it up are not.
"""

import asyncio
import hashlib
import json
import random
import sys
import threading
from pathlib import Path

import numpy as np
from PIL import Image

FILE = Path(__file__).with_name("golden.json")
if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

import villain_envs  # noqa: E402, F401 (registers its environments)
from abreast.rollouts import EnvStateManager  # noqa: E402
from rollout_helpers import SHIPPED, kill, settings  # noqa: E402

STRANGERS = {
    "Free": {"env_type": "frozen_lake", "max_actions_per_traj": 4, "preset": "ragen"},
    "Walk": {"env_type": "stranger_envs:Walk", "max_actions_per_traj": 9},
    "NamedWalk": {"env_type": "stranger_envs:NamedWalk", "max_actions_per_traj": 9},
    "Lock": {"env_type": "stranger_envs:Lock", "max_actions_per_traj": 9},
    "Counting": {"env_type": "Counting", "max_actions_per_traj": 12},
    "Raises": {"env_type": "RaisesInStep", "max_actions_per_traj": 12, "env_config": {"harm_seed": 41}},
    "Cannot": {"env_type": "RaisesInReset", "max_actions_per_traj": 12, "env_config": {"harm_seed": 41}},
    "Pictures": {"env_type": "ShowsPictures", "max_actions_per_traj": 12, "env_config": {"harm_seed": 41}},
    "Shares": {"env_type": "SharesItsInfo", "max_actions_per_traj": 5},
    "Much": {"env_type": "TellsMuch", "max_actions_per_traj": 5},
}
TAGS = {**SHIPPED, **STRANGERS}
JUNK = ["", "  ", "jump", "UP ", "click[nothing]", "search[]", "1+1", "\x00", "9" * 300]
SEED, TURNS = 40, 4


def config_of(tag, use, envs=4):
    return settings([tag], [envs // 2], 2, {tag: TAGS[tag]}, use_multiprocessing=use, max_workers=2, step_timeout=20)


def hashed(value):
    digest = hashlib.blake2b(digest_size=12)
    add(digest, value)
    return digest.hexdigest()


def add(digest, value):
    """A value with its type, at every depth; a set has no order."""
    digest.update(type(value).__name__.encode())
    if isinstance(value, dict):
        for key, each in value.items():
            add(digest, key)
            add(digest, each)
    elif isinstance(value, list | tuple):
        for each in value:
            add(digest, each)
    elif isinstance(value, set):
        add(digest, sorted(value))
    elif isinstance(value, Image.Image | np.ndarray):
        digest.update(np.asarray(value).tobytes())
    else:
        digest.update(repr(value).encode(errors="backslashreplace"))


def what_it_is(cache):
    """Of an episode, what no definition of a figure can change. (What was invalid follows from its actions.)"""
    history = [{key: value for key, value in entry.items() if key != "invalid"} for entry in cache["history"]]
    return {"tag": cache["tag"], "penalty": cache["penalty"], "info": cache["info"], "history": history}


def actions_for(chance, tag, cache):
    history = cache["history"]
    told = history[-2]["info"] if len(history) > 1 else cache["info"]
    known = list((tag.config.action_lookup or {}).values()) or told.get("available_actions")
    pool = [*(known or ["search[red shoes]", "12", "1", "a"])] * 2 + [chance.choice(JUNK)]
    return [str(chance.choice(pool)) for _ in range(chance.choice([0, 1, 1, 2, 3]))]


def some_inputs(chance, manager, outputs):
    return [
        {"env_id": c["env_id"], "actions": actions_for(chance, manager.tag_of(0), c), "llm_response": "so"}
        for c in outputs
    ]


def batch(tag, use, strikes=False, by_recv=False):
    """Two epochs of a batch; workers are killed before every other turn."""
    chance, seen = random.Random(tag), []
    with EnvStateManager(config_of(tag, use)) as manager:
        for epoch in range(1 if tag == "Cannot" else 2):  # what is shown where nothing could begin was left to chance
            outputs = manager.reset(seed=SEED + epoch)
            for turn in range(TURNS):
                if strikes and turn % 2:
                    kill(*manager.worker_pids)
                inputs = some_inputs(chance, manager, outputs)
                if by_recv and inputs:
                    manager.send(inputs)
                    manager.recv(min_ready=len(inputs))
                    over = {s["env_id"] for s in manager.statuses() if s["terminated"]}
                    outputs = [manager.caches[i["env_id"]] for i in inputs if i["env_id"] not in over]
                elif inputs:
                    outputs = manager.step(inputs)
            seen.append([what_it_is(cache) for cache in manager.caches])
            ends = ("env_id", "seed", "reward", "terminated", "truncated")
            seen.append([{key: status[key] for key in ends} for status in manager.statuses()])
    return hashed(seen)


def told_of(episode):
    seen = what_it_is(episode.cache), episode.seed, episode.reward, episode.success, episode.error, episode.state
    return hashed(seen)


def single(manager, tag, seed, strikes=False):
    chance = random.Random(f"{tag} {seed}")
    with manager.episode(tag, seed=seed, group_id=seed) as episode:
        for turn in range(TURNS):
            if strikes and turn % 2:
                kill(*manager.worker_pids)
            if not episode.done:
                episode.step(actions_for(chance, episode.tag, episode.cache))
        return told_of(episode)


async def single_async(manager, tag, seed):
    chance = random.Random(f"{tag} {seed}")
    async with manager.episode(tag, seed=seed, group_id=seed) as episode:
        for _ in range(TURNS):
            if not episode.done:
                await episode.step(actions_for(chance, episode.tag, episode.cache))
        return told_of(episode)


SEEDS = (7, 8, 41, 42)


def trying(play, *arguments, **more):
    try:
        return play(*arguments, **more)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def singles(tag, use, strikes=False):
    with EnvStateManager(config_of(tag, use)) as manager:
        return hashed([trying(single, manager, tag, seed, strikes) for seed in SEEDS])


def singles_of_tasks(tag, use):
    async def all_at_once(manager):
        tasks = (single_async(manager, tag, seed) for seed in SEEDS)
        return await asyncio.gather(*tasks, return_exceptions=True)

    with EnvStateManager(config_of(tag, use)) as manager:
        found = asyncio.run(all_at_once(manager))
    return hashed([each if isinstance(each, str) else f"{type(each).__name__}: {each}" for each in found])


def singles_of_threads(tag, use):
    found = {}
    with EnvStateManager(config_of(tag, use)) as manager:
        threads = [
            threading.Thread(target=lambda seed=seed: found.update({seed: trying(single, manager, tag, seed)}))
            for seed in SEEDS
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return hashed([found[seed] for seed in SEEDS])


def mixed(tag, use, strikes=False):
    """A batch in two environments, and single episodes between its turns."""
    chance, seen = random.Random(tag), []
    with EnvStateManager(config_of(tag, use)) as manager:
        outputs = caches = manager.reset(env_ids=[0, 1], seeds=[SEED, SEED + 2])
        for turn in range(TURNS):
            if strikes and turn % 2:
                kill(*manager.worker_pids)
            seen.append(trying(single, manager, tag, SEEDS[turn % len(SEEDS)]))
            if outputs:
                outputs = manager.step(some_inputs(chance, manager, outputs))
        seen.append([what_it_is(cache) for cache in caches])
    return hashed(seen)


WAYS = {
    "batch here": lambda tag: batch(tag, False),
    "batch in workers": lambda tag: batch(tag, True),
    "batch in threads, by recv": lambda tag: batch(tag, "threads", by_recv=True),
    "batch under auto": lambda tag: batch(tag, "auto"),
    "batch, workers killed": lambda tag: batch(tag, True, strikes=True),
    "singles here": lambda tag: singles(tag, False),
    "singles, workers killed": lambda tag: singles(tag, True, strikes=True),
    "singles of tasks": lambda tag: singles_of_tasks(tag, True),
    "singles of threads": lambda tag: singles_of_threads(tag, "threads"),
    "mixed here": lambda tag: mixed(tag, False),
    "mixed, workers killed": lambda tag: mixed(tag, True, strikes=True),
}


if __name__ == "__main__":
    found = {tag: {way: play(tag) for way, play in WAYS.items()} for tag in TAGS}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
