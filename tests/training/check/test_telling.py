"""What all checks of training share."""

from itertools import chain, repeat

import pytest

from abreast.checking import Fault
from abreast.games import find_game
from abreast.training import Experiment
from abreast.training.check.telling import SMALL, trains_alike


def test_the_most_telling_difference_is_named_first(monkeypatch):
    monkeypatch.setattr(Experiment, "run_experiment_mp", Experiment.run_experiment)
    game, seeds = find_game("own_game:Garden"), chain((1, 2), repeat(3))

    def build():
        return game.build(game.configure(None, [*SMALL, f"experiment.seed={next(seeds)}"]))

    with pytest.raises(Fault, match="with learners in processes, the course of rewards and losses, "):
        trains_alike(build, "repair it.")
