"""What the tests of rollouts share."""

import contextlib
import copy
import os
import signal

import villain_envs  # noqa: F401 (registers its environments)
from abreast.rollouts import EnvStateManager, RolloutConfig
from abreast.rollouts.registry import find_tag
from plain_loop import PlainLoop

SHIPPED = {
    "Sokoban": {"env_type": "sokoban", "max_actions_per_traj": 12, "env_config": {"num_boxes": 2}},
    "Picture": {"env_type": "sokoban", "max_actions_per_traj": 5, "env_config": {"render_mode": "rgb_array"}},
    "Lake": {"env_type": "frozen_lake", "max_actions_per_traj": 9},
    "Bandit": {"env_type": "bandit", "max_actions_per_traj": 1},
    "Countdown": {"env_type": "countdown", "max_actions_per_traj": 1},
    "Maths": {"env_type": "metamathqa", "max_actions_per_traj": 4},
    "Shop": {"env_type": "webshop", "max_actions_per_traj": 8},
}  # fmt: skip
"""A tag of each environment of ours."""


def groups(tags, counts, size):
    return {"env_groups": sum(counts), "group_size": size, "env_configs": {"tags": tags, "n_groups": counts}}


def settings(tags, counts=None, size=1, custom=None, **manager):
    """A configuration with the same environments for training and validation."""
    each = groups(tags, counts or [1] * len(tags), size)
    return {"es_manager": {"train": each, "val": each, **manager}, "custom_envs": custom or {}}


def villain(name, budget=20, **config):
    """The settings of a tag for an environment of tests/villain_envs.py."""
    return {name: {"env_type": name, "max_actions_per_traj": budget, "env_config": config}}


WAITS = ("seconds", "compute_seconds", "reset_seconds")
CALM = {"Calm": {"env_type": "Counting", "max_actions_per_traj": 20}}
COUNTING = villain("Counting", budget=4)
LAKE = {"Lake": {"env_type": "frozen_lake", "max_actions_per_traj": 3, "env_config": {"is_slippery": False, "p": 1.0}}}


def plain(config):
    """The plain loop over the environments of a configuration, which do not wait there: that changes no episode."""
    parsed = RolloutConfig.parse(without_waits(config))
    each = parsed.es_manager.train
    tags = [
        tag
        for name, count in zip(each.env_configs.tags, each.env_configs.n_groups, strict=True)
        for tag in [find_tag(name, parsed.custom_envs)] * (count * each.group_size)  # to find one takes 7 ms
    ]
    return PlainLoop(tags, each.group_size, parsed.es_manager.format_penalty)


def without_waits(config):
    config = copy.deepcopy(config)
    for tag in config["custom_envs"].values():
        tag["env_config"] = {key: value for key, value in tag.get("env_config", {}).items() if key not in WAITS}
    return config


def go(env_ids, *actions):
    """Inputs that ask all of these for the same."""
    return [{"env_id": env_id, "actions": list(actions)} for env_id in env_ids]


def kill(*pids):
    """Kill processes. One may be gone already: who is killed while idle is only replaced when that is noticed."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def here(*args, **kwargs):
    """A manager without workers."""
    return EnvStateManager(settings(*args, use_multiprocessing=False, **kwargs))


def workers(tags, counts, custom, **manager):
    return settings(tags, counts, 1, custom, **{"use_multiprocessing": True, "max_workers": 2, **manager})


def among_others(name, use=True, **config):
    """One villain (seed 1, group 1) between seven calm ones, on two workers."""
    custom = {**CALM, **villain(name, harm_seed=1, **config)}
    manager = {"use_multiprocessing": use, "max_workers": 2, "step_timeout": 0.7, "worker_memory_mb": 3000}
    return settings(["Calm", name, "Calm"], [1, 1, 6], 1, custom, **manager)


def calm_caches(turns):
    loop = plain(settings(["Calm"], [8], 1, CALM))
    loop.reset(0)
    for _ in range(turns):
        loop.step(go(range(8), "a"))
    return loop.caches
