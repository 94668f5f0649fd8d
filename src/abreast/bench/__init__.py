"""`abreast bench`: how fast is this machine, and is a parallel run worth it on it?

    abreast bench (cli/bench.py)
      for each subject (subjects.py)    a module with SMALL, FULL and measure(size), which yields rows
        row (rows.py)                   figures of all repeats, a ratio, the limit beside it
      report.py                         bench.json, after each subject; the table

Machines differ and are noisy: a ratio is taken between figures of one run, whose variants take turns (turns.py), and is the
median over the repeats. Nothing here is asserted in a test. The scripts in benchmarks/ use the same parts.
"""
