"""The command line: games that are trained, rollouts of environments, checks of both, and benchmarks."""

from abreast.cli import (  # noqa: F401 (what they define are the commands)
    bench,
    check,
    compare,
    doctor,
    evaluate,
    export,
    games,
    play,
    report,
    rollouts,
    schelling,
    serve,
    settings,
    sweep,
    timeline,
    tournament,
    train,
    trajectories,
    watch,
)
from abreast.cli.app import main, run

__all__ = ["main", "run"]
