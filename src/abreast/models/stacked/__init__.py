"""Several agents' networks as one with a leading dimension: N independent results from one product instead of N."""

from abreast.models.stacked.choice import StackedChoice, can_be_stacked
from abreast.models.stacked.recorded import Recorded

__all__ = ["Recorded", "StackedChoice", "can_be_stacked"]
