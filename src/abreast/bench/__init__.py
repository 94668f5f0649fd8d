"""`abreast bench`: what this machine can do, and how much of it a run reaches.

    abreast bench (cli/bench.py)
      for each subject (subjects.py)    a module with SMALL, FULL and measure(size), which yields rows
        row (rows.py)                   figures of all repeats, a ratio, the limit beside it, the bar it aims for
      report.py                         bench.json, after each subject; the table
      picture.py                        bench.png

Machines differ and are noisy: a ratio is taken between figures of one run, whose variants take turns (turns.py), and is the
median over the repeats. Nothing here is asserted in a test.
"""
