"""Which device an agent's learner computes on, and with how many threads."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from abreast.errors import ConfigError
from abreast.training.config import MPConfig


def device_for(agent: int, config: MPConfig) -> str:
    """The device of agent number `agent`: a name torch knows, of a device that is there."""
    gpus = torch.cuda.device_count()
    name = config.device
    if name == "auto":
        name = "cuda" if gpus else "cpu"
    if name == "cpu":
        return "cpu"
    match = re.fullmatch(r"cuda(?::(\d+))?", name)
    if match is None:
        raise ConfigError(f"multiprocessing.device is {name!r}: expected auto, cpu, cuda or cuda:<number>.")
    if match[1] is not None and config.device_per_agent:
        raise ConfigError(
            f"multiprocessing.device is {name!r}, one GPU, but device_per_agent deals agents out to all of them:"
            " say cuda, or leave device_per_agent out."
        )
    number = agent % max(gpus, 1) if config.device_per_agent else int(match[1] or 0)
    if number >= gpus:
        there = "there is none" if not gpus else f"there {'is' if gpus == 1 else 'are'} {gpus} (the first is cuda:0)"
        raise ConfigError(
            f"multiprocessing.device is {name!r}, but of GPUs that torch can use {there}: set it to cpu or auto."
        )
    return f"cuda:{number}"


@contextmanager
def compute_threads(count: int) -> Iterator[None]:
    """Do arithmetic on `count` threads inside, and on as many as before afterwards.

    More than one is a choice, never a default: it changes rounding, and small products are slower for it.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
