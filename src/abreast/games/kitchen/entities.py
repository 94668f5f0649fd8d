"""What stands in the kitchen."""

from enum import StrEnum

from abreast.games.things import SandyGround
from abreast.worlds import Entity, Gridworld, pixel_art
from abreast.worlds.sprites import Pixels


class Floor(SandyGround):
    """The ground, on the bottom layer."""


class Counter(Entity):
    """In the way; also what is beyond the edge of the kitchen."""

    symbol = "#"
    sprite = pixel_art(
        {"a": "#a9825a", "b": "#8d6a47", "m": "#5f452c"},
        "mmmmmmmm",
        "maaaaaam",
        *["maabaaam", "maaaabam"] * 2,
        "mbbbbbbm",
        "mmmmmmmm",
    )


def _on_counter(palette: dict[str, str], *rows: str) -> Pixels:
    return pixel_art({"x": "#a9825a", "y": "#5f452c", **palette}, "yyyyyyyy", *(f"y{row}y" for row in rows), "yyyyyyyy")


class Onions(Entity):
    """Whoever walks into them has an onion then."""

    symbol = "O"
    sprite = _on_counter(
        {"a": "#d9a441", "b": "#f3d27a", "g": "#6b8e3d"}, "xxgxxx", "xagaxx", "abaaax", "abaaaa", "xaaxba", "xxxxax"
    )


class Dishes(Entity):
    """Whoever walks into them has a dish then."""

    symbol = "D"
    sprite = _on_counter({"w": "#f7f7f4", "g": "#c4c8cc"}, "xwwwwx", "wggggw", "wgwwgw", "wgwwgw", "wggggw", "xwwwwx")


class Hatch(Entity):
    """Where soup is served."""

    symbol = "S"
    sprite = _on_counter({"k": "#2f3b4c", "a": "#9fd3c7"}, "kkkkkk", "kaaaak", "kaaaak", "kkaakk", "kkkkkk", "xxxxxx")


class PotState(StrEnum):
    """What is in a pot; the value is its kind, so everybody who sees the pot sees it."""

    EMPTY = "EmptyPot"
    FILLED = "FilledPot"
    COOKING = "CookingPot"
    READY = "ReadyPot"


def _pot(inside: str) -> Pixels:
    palette = {"m": "#33363d", "h": "#6d7280", "i": inside}
    return _on_counter(palette, "xmmmmx", "miiiim", "miiiim", "hmmmmh", "xmmmmx", "xxmmxx")


POTS = {
    PotState.EMPTY: _pot("#4b4f59"),
    PotState.FILLED: _pot("#d9a441"),
    PotState.COOKING: _pot("#e06f2c"),
    PotState.READY: _pot("#8fd14f"),
}


class Pot(Entity):
    """Cooks by itself once it has enough onions."""

    has_transitions = True
    symbol = "P"

    def __init__(self, onions_needed: int, cook_turns: int) -> None:
        self.onions_needed, self.cook_turns = onions_needed, cook_turns
        self.onions, self.turns_left = 0, 0
        self._look(PotState.EMPTY)

    def _look(self, state: PotState) -> None:
        self.state, self.kind, self.sprite = state, state.value, POTS[state]

    def _become(self, state: PotState, world: Gridworld) -> None:
        self._look(state)
        world.add(self.location, self)

    @property
    def has_room(self) -> bool:
        """Whether it takes another onion."""
        return self.onions < self.onions_needed

    def add_onion(self, world: Gridworld) -> None:
        """Put an onion in; the last one makes it cook."""
        self.onions += 1
        if self.has_room:
            self._become(PotState.FILLED, world)
        else:
            self.turns_left = self.cook_turns
            self._become(PotState.COOKING, world)

    def transition(self, world: Gridworld) -> None:
        if self.state is PotState.COOKING:
            self.turns_left -= 1
            if self.turns_left <= 0:
                self._become(PotState.READY, world)

    def empty(self, world: Gridworld) -> None:
        """Take the soup out."""
        self.onions = 0
        self._become(PotState.EMPTY, world)
