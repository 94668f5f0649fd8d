"""Which device an agent's learner computes on, with how many threads, and whether there is enough memory."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from abreast.errors import ConfigError, ModelError, log
from abreast.models import BaseModel
from abreast.models.stacked.rows import bytes_of
from abreast.training.config import Config, MPConfig

COPIES, ACTIVATIONS, ROW_BYTES = 3, 16, 32
"""Of what a model has learned, with gradients and what is drawn for it; results of its layers that are kept for the backward
pass; bytes of a row of a pass beside its state."""
FILLED = 0.8
"""Of the free memory, what runs that share a device may take together; the rest is for kernels."""
SMALL = 2**30
"""Bytes that other programs may hold without being mentioned: a desktop, a viewer."""

TOO_LARGE = ("memory", "Maximum allowed dimension", "array is too big", "too large to convert")
"""What torch, NumPy and Python say of sizes that no machine has."""


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


def check_device_memory(model: BaseModel, config: Config[Any, Any]) -> None:
    """Refuse a run that does not fit onto the device of a model, of which every agent will have one; say what each needs.

    Counted are the networks with all that learning needs, the rows on the device, and the rows of a pass, as if worlds
    lived there. What kernels need for a moment is not.
    """
    agents, lanes = config.experiment.num_agents, config.multiprocessing.lanes
    each = bytes_on_device(model, lanes * config.experiment.max_turns)
    free, whole = torch.cuda.mem_get_info(model.device)
    taken = whole - free - torch.cuda.memory_reserved(model.device)
    others = f"; other programs hold {format_bytes(taken)}" if taken > SMALL else ""
    if agents * each > free:
        raise ConfigError(
            f"{agents} agents with {lanes} lanes need about {format_bytes(agents * each)} of memory on {model.device},"
            f" {format_bytes(each)} each, but {format_bytes(free)} of its {format_bytes(whole)} are free{others}: lower"
            " experiment.num_agents, multiprocessing.num_envs, model.buffer_capacity or model.hidden_size, or set"
            " multiprocessing.device to cpu."
        )
    if others:
        log.warning(
            "other programs hold %s of %s: they and this run will slow each other down",
            format_bytes(taken),
            model.device,
        )


def how_many_fit(model: BaseModel, config: Config[Any, Any], wanted: int) -> int:
    """How many runs fit onto the device of a model of one of them beside each other: at least that one, at most `wanted`."""
    if model.device == "cpu":
        return wanted
    rows = config.multiprocessing.lanes * config.experiment.max_turns
    free, _ = torch.cuda.mem_get_info(model.device)
    each = config.experiment.num_agents * bytes_on_device(model, rows)
    return max(1, min(wanted, int(FILLED * free / each)))


def bytes_on_device(model: BaseModel, rows_of_pass: int) -> int:
    """What one agent needs there."""
    memory, blocks = model.memory, sum(block.nbytes for block in model.learning_state().arrays.values())
    frame = int(np.prod(memory.obs_shape)) * memory.dtype.itemsize
    batch = model.config.batch_size * getattr(model.config, "n_quantiles", 1) * model.config.hidden_size * 4
    return COPIES * blocks + bytes_of(memory) + rows_of_pass * (frame + ROW_BYTES) + ACTIVATIONS * batch


def format_bytes(size: int) -> str:
    """A size, short."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


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


@contextmanager
def enough_memory(more: str) -> Iterator[None]:
    """Inside, an experiment is built; if it does not fit, that is a `ConfigError` that names what to lower, and `more`."""
    try:
        yield
    except (MemoryError, RuntimeError, ValueError, OverflowError, ModelError) as error:
        cause = error.__cause__ if isinstance(error, ModelError) else error
        if not isinstance(cause, MemoryError) and not any(words in str(cause) for words in TOO_LARGE):
            raise
        raise ConfigError(
            "there is not enough memory for this configuration: lower model.buffer_capacity, model.hidden_size,"
            f" model.n_frames, {more}."
        ) from None
