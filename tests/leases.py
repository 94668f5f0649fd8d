"""A stand-in for `EnvStateManager.episode`, until the manager has it: one manager of one environment per episode."""

import asyncio

from abreast.errors import RolloutError
from abreast.rollouts import Context, EnvStateManager


class StandIn:
    def __init__(self, manager, tag, seed, group_id):
        self._manager, self._name, self.seed, self._group = manager, tag, seed, group_id

    async def __aenter__(self):
        manager, m = self._manager, self._manager.config.es_manager
        free = manager.__dict__.setdefault("_free", list(range(len(manager))))
        self.env_id = free.pop(0)
        one = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": [self._name], "n_groups": [1]}}
        em = m.model_copy(update={"use_multiprocessing": False, "train": type(m.train).parse(one)})
        self._child = EnvStateManager(manager.config.model_copy(update={"es_manager": em}))
        try:
            self._child.reset(self.seed)
        except RolloutError:
            free.append(self.env_id)
            raise
        self._slot = manager.envs[self.env_id] = self._child.envs[0]
        self._slot.cache["group_id"] = self._group
        self.tag = self._slot.tag
        return self

    async def __aexit__(self, *_):
        self._manager._free.append(self.env_id)
        self._child.close()

    cache = property(lambda self: self._slot.cache)
    done = property(lambda self: self._slot.terminated)
    truncated = property(lambda self: self._slot.truncated)
    messages = property(lambda self: Context(self.tag).messages(self.cache))

    @property
    def error(self):
        told = (entry.get("info", {}) for entry in self.cache["history"][-2:])
        return next((info["error"] for info in told if "error" in info), None)

    async def step(self, answer):
        given = {"env_id": 0, "actions": answer} if isinstance(answer, list) else Context(self.tag).input(0, answer)
        await asyncio.sleep(0)
        self._child.step([given])


if not hasattr(EnvStateManager, "episode"):
    EnvStateManager.episode = lambda self, tag=None, seed=None, group_id=None: StandIn(self, tag, seed, group_id)
