"""What the tests of adapted environments share."""

from abreast.games import find_game

SMALL = ["model.hidden_size=16", "model.batch_size=8", "model.learning_rate=0.01", "multiprocessing.workers=processes"]


def build(target, *overrides):
    """An experiment with an environment of another library, with small models."""
    game = find_game(target)
    return game.build(game.configure(None, ["experiment.epochs=6", *SMALL, *overrides]))


def rows(experiment, agent, lane=0):
    """All that an agent remembers of a lane."""
    return experiment.game.players[agent].model.memory.trajectory(lane, 0)
