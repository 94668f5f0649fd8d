"""Environments written for the public framework sorrel, unmodified, with its own models.

    abreast train sorrel:my_package.env:MyEnv experiment.epochs=100

    from abreast.integrations.sorrel import SorrelExperiment
    SorrelExperiment(env).run_experiment(output_dir="runs/first")

Nothing here imports sorrel: what an environment, an agent and a model have to offer is known by their methods.

    source       what the command line finds                        building     from `module:Class` to a built environment
    experiment   what is run, with which settings                   fingerprint  digests that two processes can compare
    game         an epoch: reset, take_turn after take_turn         model        the agent's own model plays, a copy learns
    events       what playing does to a model, as rows              carried      a whole model as facts and arrays
    generators   the generators that a process shares, one place in them for each part of a run
    check        what `abreast check` looks at
"""

from abreast.integrations.sorrel.experiment import SorrelExperiment, experiment_of, streams_apart
from abreast.integrations.sorrel.source import find

__all__ = ["SorrelExperiment", "experiment_of", "find", "streams_apart"]
