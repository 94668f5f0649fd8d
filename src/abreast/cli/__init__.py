"""The command line: games that are trained, rollouts of environments, checks of both, and benchmarks."""

import abreast.cli.bench
import abreast.cli.check
import abreast.cli.evaluate
import abreast.cli.games
import abreast.cli.play
import abreast.cli.rollouts
import abreast.cli.settings
import abreast.cli.train
import abreast.cli.trajectories  # noqa: F401 (what they define are the commands)
from abreast.cli.app import main, run

__all__ = ["main", "run"]
