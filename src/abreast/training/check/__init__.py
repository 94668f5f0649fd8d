"""`abreast check` for users' own games and models: do they keep the contract of training, in every kind of run?"""

from abreast.training.check.game import check_game
from abreast.training.check.model import check_model

__all__ = ["check_game", "check_model"]
