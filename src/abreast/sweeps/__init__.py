"""Sweeps: seeds × settings × games as one folder of runs, which can be stopped and go on; and searches by trials."""

from abreast.sweeps.asked import Asked, Range, SweepRun, expand
from abreast.sweeps.sweep import Sweep, begin_sweep, open_sweep, read_index

__all__ = ["Asked", "Range", "Sweep", "SweepRun", "begin_sweep", "expand", "open_sweep", "read_index"]
