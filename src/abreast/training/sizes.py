"""Sizes that no machine has, told as a setting to lower."""

from collections.abc import Iterator
from contextlib import contextmanager

from abreast.errors import ConfigError

TOO_LARGE = ("memory", "Maximum allowed dimension", "array is too big", "too large to convert")
"""What torch, NumPy and Python say of sizes that no machine has."""


@contextmanager
def enough_memory(more: str) -> Iterator[None]:
    """Inside, an experiment is built; if it does not fit, that is a `ConfigError` that names what to lower, and `more`."""
    try:
        yield
    except (MemoryError, RuntimeError, ValueError, OverflowError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error) for words in TOO_LARGE):
            raise
        raise ConfigError(
            "there is not enough memory for this configuration: lower model.buffer_capacity, model.hidden_size,"
            f" model.n_frames, {more}."
        ) from None
