"""The command line: games that are trained, rollouts of environments, checks of both, and benchmarks."""

# ruff: noqa: E402
from abreast.plugins import end_if_too_old

end_if_too_old()  # before the imports that an old package would end

import abreast.cli.bench
import abreast.cli.check
import abreast.cli.compare
import abreast.cli.doctor
import abreast.cli.evaluate
import abreast.cli.export
import abreast.cli.games
import abreast.cli.play
import abreast.cli.report
import abreast.cli.rollouts
import abreast.cli.schelling
import abreast.cli.serve
import abreast.cli.settings
import abreast.cli.sweep
import abreast.cli.timeline
import abreast.cli.tournament
import abreast.cli.train
import abreast.cli.trajectories
import abreast.cli.watch  # noqa: F401 (what they define are the commands)
from abreast.cli.app import main, run

__all__ = ["main", "run"]
