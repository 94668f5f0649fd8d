"""What the layers of an algorithm ask of a torso."""

import torch

from abreast.models.layers import Layer


class Torso(Layer):
    """Turns rows of numbers, the stacked frames, into rows of `features`."""

    features: int
    """Numbers in a row that comes out."""

    def initialise(self, generator: torch.Generator) -> None:
        """Give it its first weights, unless they are there already."""
