"""The kitchen, drawn as text."""

from collections.abc import Mapping
from typing import Any, Self

import pydantic
from pydantic import Field

from abreast.games.kitchen.entities import Counter, Dishes, Floor, Hatch, Onions, Pot
from abreast.settings import Section
from abreast.training import Config, parse_config
from abreast.worlds import EmptyEntity, Gridworld

GROUND, TOP = 0, 1
STATIONS = {kind.symbol: kind for kind in (Counter, Onions, Dishes, Hatch, Pot)}
CRAMPED = ("##P##", "O...O", "#...#", "#D#S#")


class KitchenConfig(Section):
    """Settings of the kitchen and of the soup."""

    layout: list[str] = Field(default_factory=lambda: list(CRAMPED))
    """The map, row by row: # counter, O onions, D dishes, P pot, S hatch, . floor."""
    onions_needed: int = Field(2, ge=1)
    """Onions in a soup."""
    cook_turns: int = Field(5, ge=1)
    """Turns for which a full pot cooks."""
    soup_value: float = 5.0
    """Reward for a soup that is served, for every agent, whoever did it."""
    onion_reward: float = 0.3
    """Reward for putting an onion into a pot, for who does it: a help in learning."""
    dish_reward: float = 0.6
    """Reward for filling a dish with soup, for who does it: a help in learning."""

    @pydantic.model_validator(mode="after")
    def _is_a_map(self) -> Self:
        known, rows = {*STATIONS, "."}, self.layout
        odd = sorted(set("".join(rows)) - known)
        if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
            raise ValueError(f"world.layout is {list(rows)}: expected rows of the same length.")
        if odd:
            raise ValueError(f"world.layout has {odd[0]!r}: expected only {', '.join(map(repr, sorted(known)))}.")
        edge = rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows)
        if "." in edge or "." not in "".join(rows):
            raise ValueError("world.layout needs floor (.) to walk on, and none of them at its edge: close it with #.")
        missing = [f"no {kind.__name__} ({symbol})" for symbol, kind in STATIONS.items() if symbol not in "".join(rows)]
        if missing:
            raise ValueError(f"world.layout has {', '.join(missing)}: no soup could be served. Add what is missing.")
        return self


class KitchenWorld(Gridworld):
    """Floor, counters, and what stands on them."""

    def __init__(self, config: Mapping[str, Any] | Config[Any, Any]) -> None:
        self.settings: KitchenConfig = parse_config(config, KitchenConfig).world
        layout = self.settings.layout
        super().__init__(len(layout), len(layout[0]), layers=2, default_entity=EmptyEntity())

    def lay_out(self) -> None:
        """Everything in its place, the pots empty."""
        self.fill(GROUND, Floor)
        for row, line in enumerate(self.settings.layout):
            for column, symbol in enumerate(line):
                if symbol != ".":
                    self.add((row, column, TOP), self._station(symbol))

    def _station(self, symbol: str) -> Counter | Onions | Dishes | Hatch | Pot:
        if symbol == Pot.symbol:
            return Pot(self.settings.onions_needed, self.settings.cook_turns)
        return STATIONS[symbol]()  # type: ignore[call-arg]
