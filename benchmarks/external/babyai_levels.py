"""A level of BabyAI, shown as a text; its actions have names already."""

import gymnasium
import minigrid  # noqa: F401 (registers the levels)

from abreast.rollouts.adapters import TextAdapter


class Shown(gymnasium.Wrapper):
    render_mode = "text"

    def render(self):
        return f"{self.unwrapped.mission}\n{self.unwrapped}"


def level(name="BabyAI-GoToRedBall-v0"):
    return TextAdapter(Shown(gymnasium.make(name)))
