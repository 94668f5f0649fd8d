"""Environments written for the public framework sorrel, unmodified, with its own models, in a sequential run.

    abreast train sorrel:my_package.env:MyEnv experiment.epochs=100

    from abreast.integrations.sorrel import SorrelExperiment
    SorrelExperiment(env).run_experiment(output_dir="runs/first")

Nothing here imports sorrel: what an environment, an agent and a model have to offer is known by their methods.

    source       what the command line finds                        building     from `module:Class` to a built environment
    experiment   what is run, with which settings                   game         an epoch: reset, take_turn after take_turn
    model        the agent's own model, as the loop calls it        generators   where a run draws its random numbers from
    kept         what checkpoints hold of an environment            check        what `abreast check` looks at
"""

from abreast.integrations.sorrel.experiment import SorrelExperiment
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.source import find

__all__ = ["Generators", "SorrelExperiment", "find"]
