"""The command line, in two halves: games that are trained, and rollouts of environments."""

import abreast.cli.games
import abreast.cli.rollouts  # noqa: F401 (what the two halves define are the commands)
from abreast.cli.app import main, run

__all__ = ["main", "run"]
