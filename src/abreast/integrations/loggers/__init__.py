"""Loggers of ours, one in each module: the file of the program it writes for. Each imports its package, and is imported when
a run asks for it by name (`abreast.training.run.loggers`)."""
