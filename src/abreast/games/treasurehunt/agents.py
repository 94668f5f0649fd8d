"""Who hunts."""

from abreast.agents import MovingAgent
from abreast.games.art import figures
from abreast.models import BaseModel
from abreast.worlds import ActionSpec, ObservationSpec


class TreasurehuntAgent(MovingAgent):
    """Walks up, down, left and right, and takes what it walks onto."""

    symbol = "@"

    def __init__(self, observation: ObservationSpec, actions: ActionSpec, model: BaseModel, number: int) -> None:
        super().__init__(observation, actions, model)
        self.direction_sprites = figures(number)
        self.face("down")
