"""Learning: a round of updates. The sequential and the parallel run both call this."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from abreast.models import BaseModel


def train_round(models: Sequence[BaseModel]) -> list[float | None]:
    """One update of each model from its own memory; the losses, None for those with too little to learn from."""
    return [model.train_step() for model in models]


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
