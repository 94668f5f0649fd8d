"""An environment in the terminal: the world, one coloured cell per cell, and below it who and what is in it."""

from functools import lru_cache
from itertools import zip_longest
from string import ascii_letters, digits
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from abreast.games.picture_view import PictureView
from abreast.training import Environment, Experiment
from abreast.worlds import Entity
from abreast.worlds.painting import WALL, agent_colour, colour_of, is_wall
from abreast.worlds.sprites import Painter

SIGNS = digits + ascii_letters
"""One for each agent; those after the last have the symbol of their kind."""
BETWEEN = "   "
"""Between two entries of the legend."""


def view_of(env: Experiment, in_colour: bool = True) -> "TerminalView | PictureView":
    """What shows the game of an experiment: its map, if it is a gridworld, or else its picture."""
    return TerminalView(env) if isinstance(env, Environment) else PictureView(env.game, in_colour)


class TerminalView:
    """Draws the first lane of an environment, with a legend of its agents and of the things seen in it so far."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._painter = Painter(tile=8)
        self._things: dict[str, tuple[str, str]] = {}
        """Symbol and style of each kind."""

    def draw(self) -> RenderableType:
        """The environment as it is now. Without colours it can be read as well."""
        agents = list(zip_longest(self._env.agents, SIGNS[: len(self._env.agents)]))
        signs = {id(agent): (sign or agent.symbol, agent.colour or agent_colour(number))
                 for number, (agent, sign) in enumerate(agents)}  # fmt: skip
        picture = Text()
        for row in self._env.world.map:
            for entities in row:
                picture.append(*self._cell(entities, signs))
            picture.append("\n")
        return Group(Text(f"turn {self._env.turn}"), picture, self._agents(signs), self._legend())

    def _cell(self, entities: Any, signs: dict[int, tuple[str, str]]) -> tuple[str, str]:
        """The ground as background, and on it the topmost thing that has a symbol. In a world of one layer, the ground is
        what the world is empty with.
        """
        world = self._env.world
        ground = entities[0] if world.layers > 1 else world.default_entity
        visible = [entity for entity in entities if id(entity) in signs or entity.symbol.strip()]
        top = visible[-1] if visible else ground
        background = self._colour(ground)
        if id(top) in signs:
            sign, colour = signs[id(top)]
            return f"{sign} ", f"bold {colour} on {background}"
        if not top.symbol.strip():
            return "· ", f"{background} on {background}"
        # The ground has its own colour as foreground too: it is seen as a symbol only where there are no colours.
        style = f"{background} on {background}" if top is ground else f"bold {self._colour(top)} on {background}"
        self._things.setdefault(top.kind, (top.symbol, style))
        return f"{top.symbol} ", style

    def _agents(self, signs: dict[int, tuple[str, str]]) -> Text:
        line = Text()
        for agent in self._env.agents:
            sign, colour = signs[id(agent)]
            line.append(sign, f"bold {colour}").append(f" {agent.kind} {agent.score:g}{BETWEEN}")
        return line

    def _legend(self) -> Text:
        line = Text()
        for kind, (symbol, style) in self._things.items():
            line.append(f"{symbol} ", style).append(f" {kind}{BETWEEN}")
        return line

    def _colour(self, entity: Entity) -> str:
        """Its own, or as in films, or of the sprite, if it has one."""
        if entity.colour is not None:
            return entity.colour
        if entity.sprite is None:
            order = self._env.world.kind_number(entity.kind) - 1
            return WALL if is_wall(entity.kind) else colour_of(order)
        return _mean_colour(self._painter.pixels(entity).tobytes())


@lru_cache
def _mean_colour(pixels: bytes) -> str:
    rgba = np.frombuffer(pixels, dtype=np.float32).reshape(-1, 4)
    opaque = rgba[rgba[:, 3] > 0, :3]
    red, green, blue = (int(value) for value in opaque.mean(axis=0)) if len(opaque) else (0, 0, 0)
    return f"#{red:02x}{green:02x}{blue:02x}"
