"""Environments written for the public framework sorrel, unmodified: with its own models, in a sequential run; or with ours.

    abreast train sorrel:my_package.env:MyEnv experiment.epochs=100
    abreast train sorrel:my_package.env:MyEnv model.algorithm=dqn --parallel

    from abreast.integrations.sorrel import SorrelExperiment
    SorrelExperiment(env).run_experiment(output_dir="runs/first")

Nothing here imports sorrel: what an environment, an agent and a model have to offer is known by their methods.

    source       what the command line finds, its settings, and how it is built
    experiment   what is run: with models of sorrel's, or with ours
                 the agent's own model as the loop calls it, and what an agent finds where one of ours plays
    game         lanes, each an environment with generators of its own; what checkpoints hold of them
"""

from abreast.integrations.sorrel.experiment import SorrelExperiment
from abreast.integrations.sorrel.game import Generators
from abreast.integrations.sorrel.source import find

__all__ = ["Generators", "SorrelExperiment", "find"]
