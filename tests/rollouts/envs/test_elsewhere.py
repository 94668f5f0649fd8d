"""The same seeds give the same episodes in another process, with other hashes of strings: one process for all types."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from abreast.rollouts import find_kind

CONFIGS = [
    ("bandit", {}),
    ("bandit", {"split": "train"}),
    ("countdown", {}),
    ("frozen_lake", {"size": 6}),
    ("metamathqa", {}),
    ("sokoban", {"num_boxes": 1}),
    ("sokoban", {"dim_room": (8, 7), "num_boxes": 2}),
    ("sokoban", {"num_boxes": 1, "room_search": "moves"}),
    ("webshop", {"num_products": 200}),
]
TEXTS = ["1 + 2", "42", "no", "search[black shoes]", "click[nothing]"]


def play(env, seed, steps=12):
    """An episode of random actions, some of them not valid: everything that came back."""
    dice = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    info = seen[0][1]
    for _ in range(steps):
        choices = info.get("available_actions") or ([*range(5)] if env.config.action_lookup else TEXTS)
        action = choices[int(dice.integers(len(choices)))]
        seen.append(
            env.step(action.replace("<words>", info.get("instruction", "")) if isinstance(action, str) else action)
        )
        info = seen[-1][4]
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


def digests(cache):
    """One for each configuration."""
    told = []
    for name, config in CONFIGS:
        env = find_kind(name).env({"cache_dir": cache, **config} if name == "webshop" else config)
        told.append(hashlib.sha256(repr([play(env, seed) for seed in range(12)]).encode()).hexdigest())
    return told


def test_another_process_plays_the_same_episodes(tmp_path):
    """The other one builds a catalogue of its own, too."""
    code = (
        f"import json, sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_elsewhere as t; "
        f"print(json.dumps(t.digests({str(tmp_path / 'there')!r})))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4321"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = digests(tmp_path / "here")
    assert json.loads(done.stdout) == here and len(set(here)) == len(CONFIGS)
