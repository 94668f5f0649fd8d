"""Comparisons: runs evaluated apart from training, and what follows from that over runs, tasks and algorithms."""

from abreast.comparison.compare import Comparison, compare
from abreast.comparison.found import Compared, find_runs
from abreast.comparison.outputs import write_outputs

__all__ = ["Compared", "Comparison", "compare", "find_runs", "write_outputs"]
