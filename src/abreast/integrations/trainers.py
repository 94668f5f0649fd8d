"""What the trainers of language models have in common here: versions, one manager a process, seeds of groups."""

import asyncio
import atexit
import hashlib
import json
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, TypeVar

from abreast.errors import RolloutError, log
from abreast.rollouts.context.context import Context
from abreast.rollouts.loading import load_config
from abreast.rollouts.manager import EnvStateManager
from abreast.settings import merge

T = TypeVar("T")

TRIED: Mapping[str, str] = MappingProxyType({"trl": "1.16", "verl": "0.9", "verifiers": "0.4"})
"""The versions that the tests and examples were run with."""
CONCURRENCY = 4096
"""Episodes at the same time: a trainer holds those of a whole batch, and must never wait for itself."""


def require(package: str) -> None:
    """Refuse a package that is missing or older than what was tried; warn of a newer one."""
    tried = TRIED[package]
    try:
        found = version(package)
    except PackageNotFoundError:
        raise RolloutError(f'the package {package} is not installed: pip install "abreast[{package}]".') from None
    numbers, wanted = (tuple(int(part) for part in each.split(".")[:2] if part.isdigit()) for each in (found, tried))
    if numbers < wanted:
        raise RolloutError(f"{package} {found} is installed, but {package} {tried} was tried: upgrade it.")
    if numbers > wanted:
        log.warning("%s %s is installed, which was not tried: %s %s was.", package, found, package, tried)


class Episodes:
    """A manager for single episodes of a tag, and one thread in which all of them are stepped at the same time.

    Environments that run in the main process keep to that thread; a notebook's own event loop is left alone.
    """

    def __init__(self, tag: str, config: object = None, tools: bool | None = None, **es_manager: Any) -> None:
        given = load_config(config, "train", [tag])[0].model_dump(exclude_unset=True)
        given = given if tools is None else merge(given, {"context": {"tools": tools}})
        self.manager = EnvStateManager.for_tag(tag, CONCURRENCY, given, **es_manager)
        self.context = Context(self.manager.tags[tag])
        if tools and self.context.tools is None:
            raise RolloutError(
                f"the tag {tag} has tools: false in its own context: take that out, to play it with tools."
            )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="episodes")
        atexit.register(self.close)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of some work with episodes."""
        return self._thread.submit(asyncio.run, work).result()

    def close(self) -> None:
        """End the workers; done when the program ends, too."""
        atexit.unregister(self.close)
        self.manager.close()
        self._thread.shutdown()


_shared: dict[str, Episodes] = {}
_lock = threading.Lock()


def shared_episodes(tag: str, config: Any = None) -> Episodes:
    """The same for the same arguments: trainers make an object for each episode, and environments are kept."""
    key = json.dumps([tag, config], sort_keys=True, default=str)
    with _lock:
        if key not in _shared:
            _shared[key] = Episodes(tag, config)
        return _shared[key]


def group_seed(*what: Any) -> int:
    """A seed that is the same for the same values, in every process: those that only a group shares are given."""
    told = json.dumps(what, sort_keys=True, default=str)
    return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=4).digest()) >> 1
