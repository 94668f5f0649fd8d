"""What the tests of rollouts share."""

import contextlib
import os
import signal

from abreast.rollouts import RolloutConfig
from abreast.rollouts.registry import find_tag
from plain_loop import PlainLoop


def groups(tags, counts, size):
    return {"env_groups": sum(counts), "group_size": size, "env_configs": {"tags": tags, "n_groups": counts}}


def settings(tags, counts=None, size=1, custom=None, **manager):
    """A configuration with the same environments for training and validation."""
    each = groups(tags, counts or [1] * len(tags), size)
    return {"es_manager": {"train": each, "val": each, **manager}, "custom_envs": custom or {}}


def villain(name, budget=20, **config):
    """The settings of a tag for an environment of tests/villain_envs.py."""
    return {name: {"env_type": name, "max_actions_per_traj": budget, "env_config": config}}


def plain(config):
    """The plain loop over the environments of a configuration."""
    parsed = RolloutConfig.parse(config)
    each = parsed.es_manager.train
    tags = [
        find_tag(name, parsed.custom_envs)
        for name, count in zip(each.env_configs.tags, each.env_configs.n_groups, strict=True)
        for _ in range(count * each.group_size)
    ]
    return PlainLoop(tags, each.group_size, parsed.es_manager.format_penalty)


def go(env_ids, *actions):
    """Inputs that ask all of these for the same."""
    return [{"env_id": env_id, "actions": list(actions)} for env_id in env_ids]


def kill(*pids):
    """Kill processes. One may be gone already: who is killed while idle is only replaced when that is noticed."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
