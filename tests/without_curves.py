"""Runs of a process that imports this draw no curves: half a second for the first. training/run/test_curves.py draws."""

from abreast.training.run import record

record.draw_curves = lambda *given: None
