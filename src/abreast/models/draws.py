"""The random numbers of gradient steps, each model's from its own generator.

On a CPU every step draws its own. On a GPU a call takes as long for the numbers of one step as for those of several, and
there are two calls an agent: so the numbers of a few steps, a block, are drawn at once. A block follows from the seed of the
model and the number of the block: a model draws the same alone as in a stack, and after it was restored in the middle of a
block.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

STEPS_AT_ONCE = {"cpu": 1, "cuda": 8}
"""Gradient steps of a block, by the type of device."""
BETWEEN_BLOCKS = 0x9E3779B97F4A7C15
"""From the seed of a block to that of the next."""


class Draw(NamedTuple):
    """Random numbers of one gradient step."""

    shape: tuple[int, ...]
    is_normal: bool
    """Standard normal; else uniform, from 0 to 1."""

    def fill(self, into: Tensor, generator: torch.Generator) -> None:
        """Draw them; into a larger tensor, those of several steps."""
        if self.is_normal:
            into.normal_(generator=generator)
        else:
            into.uniform_(generator=generator)


class Drawing(Protocol):
    """A model that draws."""

    learning_generator: torch.Generator
    steps_drawn: int
    """Gradient steps whose numbers it has drawn."""


class Draws:
    """What the gradient steps of so many models draw."""

    def __init__(self, draws: Mapping[str, Draw], models: int, device: str) -> None:
        self.draws = draws
        self._steps = STEPS_AT_ONCE[torch.device(device).type]
        self._blocks = blocks = {
            name: torch.empty(models, self._steps, *draw.shape, device=device) for name, draw in draws.items()
        }
        self._parts = [[(draw, blocks[name][row]) for name, draw in draws.items()] for row in range(models)]
        """The draws of each model, with where they go: made once, because that takes as long as to draw."""
        self._held: list[tuple[int, int] | None] = [None] * models
        """Whose block is there, by its seed, and which."""
        self._scratch = torch.Generator(device)
        self.drawn = {
            name: block[:, 0] if self._steps == 1 else torch.empty_like(block[:, 0]) for name, block in blocks.items()
        }
        """Those of this step, by name: of each model, in memory that stays the same."""

    def take(self, models: Sequence[Drawing]) -> dict[str, Tensor]:
        """`drawn`, for the next gradient step of each model."""
        if not self.draws:
            return self.drawn
        if self._steps == 1:
            for row, model in enumerate(models):
                self._fill(row, model.learning_generator)
        else:
            for row, model in enumerate(models):
                self._hold(row, model.learning_generator.initial_seed(), model.steps_drawn // self._steps)
            self._pick([model.steps_drawn % self._steps for model in models])
        for model in models:
            model.steps_drawn += 1
        return self.drawn

    def _hold(self, row: int, seed: int, block: int) -> None:
        if self._held[row] != (seed, block):
            self._held[row] = seed, block
            self._fill(row, self._scratch.manual_seed((seed + block * BETWEEN_BLOCKS) % 2**64))

    def _pick(self, places: Sequence[int]) -> None:
        """Those at this place of each model's block."""
        for name, block in self._blocks.items():
            if len(set(places)) == 1:
                self.drawn[name].copy_(block[:, places[0]])
            else:
                torch.stack([block[row, place] for row, place in enumerate(places)], out=self.drawn[name])

    def _fill(self, row: int, generator: torch.Generator) -> None:
        for draw, into in self._parts[row]:
            draw.fill(into, generator)
