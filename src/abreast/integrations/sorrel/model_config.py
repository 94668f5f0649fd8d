"""Settings of models of sorrel's, as training sees them."""

from collections.abc import Sequence
from typing import Any

import pydantic
from pydantic import Field

from abreast.models import ModelConfig

ADDS_PER_TURN = 4
"""Rows that an agent may put into its memory in one turn."""
USUAL_BATCH = 256
"""Rows that an update of a model may need that does not say how many it learns from (`batch_size`): with fewer, it may not
learn at all, and would be measured too cheap."""
PASSES_KEPT = 4
"""Passes whose rows are kept: a learner is at most two behind, and one is being played."""


class SorrelModelConfig(ModelConfig):
    """What is known of a model of sorrel's; its own settings are those of its environment (`world.sorrel`)."""

    algorithm: str = "abreast.integrations.sorrel.model:SorrelModel"
    """Models of sorrel's: the environment makes them."""
    n_frames: int = Field(1, ge=1, le=1)
    """Its memory stacks frames itself."""
    batch_size: int = Field(1, ge=1)
    """Its own, where it has one."""

    @pydantic.model_serializer(mode="wrap")
    def _dump(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Settings of ours that mean nothing here are not told."""
        return {name: value for name, value in dump(self).items() if name in ("algorithm", "buffer_capacity")}


def model_config(max_rows: int, models: Sequence[Any]) -> SorrelModelConfig:
    """The settings of models with so many rows an epoch."""
    batches = [size for model in models if isinstance(size := getattr(model, "batch_size", USUAL_BATCH), int)]
    rows, batch = PASSES_KEPT * max_rows, max([1, *batches])
    return SorrelModelConfig(buffer_capacity=max(rows, batch), batch_size=batch, epsilon_decay=0.0)
