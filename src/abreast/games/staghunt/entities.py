"""What lives and grows in the forest of stag hunt."""

from abreast.games.things import Ground
from abreast.worlds import EmptyEntity, Entity, Gridworld, Location, Wall
from abreast.worlds.sprites import pixel_art


def neighbours(location: Location) -> list[Location]:
    """The cells above, below, left and right; on the map for every cell inside the ring of trees."""
    row, column, layer = location
    return [(row - 1, column, layer), (row + 1, column, layer), (row, column - 1, layer), (row, column + 1, layer)]


class Tree(Wall):
    """The edge of the forest."""

    sprite = pixel_art(
        {"m": "#1f3a24", "a": "#2f6b3a", "b": "#43884a", "s": "#5b3d25", "t": "#3f2a19"},
        "..mmmm..",
        ".mabbam.",
        "mabbbaam",
        "mabbaaam",
        "maaaaaam",
        ".mmaamm.",
        "...st...",
        "..sstt..",
    )


class Moss(Ground):
    """The ground, on the bottom layer."""

    sprite = pixel_art(
        {"a": "#9db87a", "b": "#8ca868", "c": "#adc68a"},
        "aaaaaaba",
        "abaaaaaa",
        "aaacaaaa",
        "aaaaaaca",
        "baaabaaa",
        "aaaaaaaa",
        "acaaaaba",
        "aaaabaaa",
    )


class Animal(Entity):
    """Wanders by itself: each turn, with the chance `wander_prob`, to a random free cell beside it."""

    has_transitions = True

    def __init__(self, wander_prob: float) -> None:
        self.wander_prob = wander_prob

    def transition(self, world: Gridworld) -> None:
        if world.rng.random() >= self.wander_prob:
            return
        # A hare is passable, for hunters; asking for an empty cell keeps other animals from treading on it.
        free = [cell for cell in neighbours(self.location) if isinstance(world.observe(cell), EmptyEntity)]
        if free:
            world.move(self, free[int(world.rng.integers(len(free)))])


class Hare(Animal):
    """Caught by whoever walks onto it."""

    passable = True
    symbol = "h"
    sprite = pixel_art(
        {"m": "#4d3b2f", "a": "#c4a688", "p": "#eaa9a0", "w": "#f7efe4", "k": "#1e1712"},
        ".mm..mm.",
        ".mp..pm.",
        ".mp..pm.",
        ".mammam.",
        "makaakam",
        "maaaaaam",
        ".mwppwm.",
        "..mmmm..",
    )

    def __init__(self, value: float, wander_prob: float) -> None:
        super().__init__(wander_prob)
        self.value = value


class Stag(Animal):
    """Too strong for one hunter: it cannot be walked onto, only caught by enough hunters around it."""

    symbol = "S"
    sprite = pixel_art(
        {"m": "#3a2113", "a": "#8a4f2a", "b": "#a9683b", "h": "#e9d8b4", "k": "#120a06"},
        "h.h..h.h",
        "hhh..hhh",
        "..hmmh..",
        "mmabbamm",
        "makbbkam",
        ".mabbam.",
        "..mbbm..",
        "..mkkm..",
    )
