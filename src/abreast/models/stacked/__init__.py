"""Several agents' networks as one with a leading dimension: N independent results from one product instead of N."""

from collections.abc import Sequence

from abreast.models.network_model import NetworkModel
from abreast.models.stacked.choice import StackedChoice, can_be_stacked
from abreast.models.stacked.learning import LearnerStack, stacks_of
from abreast.models.stacked.recorded import Recorded

__all__ = ["LearnerStack", "Recorded", "StackedChoice", "can_be_stacked", "make_stack", "stacks_of"]


def make_stack(models: Sequence[NetworkModel]) -> LearnerStack:
    """The stack of models that have the same `learning_key`."""
    assert models[0].STACK is not None
    return models[0].STACK(models)
