"""The command line: games that are trained, rollouts of environments, checks of both, and benchmarks."""

# ruff: noqa: E402
from abreast.plugins import end_if_too_old

end_if_too_old()  # before the imports that an old package would end

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
