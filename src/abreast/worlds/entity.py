"""What stands in a cell of a gridworld."""

import copy
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from abreast.worlds.gridworld import Gridworld
    from abreast.worlds.sprites import Sprite

SIMPLE = (int, float, str, bool, type(None), tuple)
Location = tuple[int, int, int]
"""(row, column, layer)."""


class Entity:
    """One thing in one cell.

    Subclasses set the attributes below on the class; an instance usually holds its location and nothing else.
    `kind` and `has_transitions` are read when the entity is placed: to change them later, place the entity again.
    """

    value: float = 0.0
    """Reward for an agent that moves, or tries to move, onto it."""
    passable: bool = False
    """Whether another entity may take its place."""
    has_transitions: bool = False
    """Whether `transition` is called every turn. A turn costs only the entities for which this is true."""
    kind: str = "Entity"
    """What observations show; the class name unless a subclass says otherwise."""
    symbol: str = "E"
    """One character for text views; the first letter of the kind unless a subclass says otherwise."""
    sprite: "Sprite | None" = None
    """Picture: RGBA pixels, or the path of an image file; None: a shape in a colour in films, and a plain tile in views of
    pixels. Films are painted after the epoch: what changes its sprite in the course of it has transitions, or is an agent,
    or is replaced by another entity.
    """
    colour: str | None = None
    """Of its shape, of an agent's disc and of its text, where people look: `#rrggbb`; None: one of a palette."""

    location: Location
    _has_own_symbol: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" not in cls.__dict__:
            cls.kind = cls.__name__
        cls._has_own_symbol = cls._has_own_symbol or "symbol" in cls.__dict__
        if not cls._has_own_symbol:
            cls.symbol = cls.kind[0]

    def transition(self, world: "Gridworld") -> None:
        """Change by itself, once a turn, before the agents act (only with `has_transitions`)."""

    def clone(self) -> Self:
        """A copy to put into another cell, with lists and the like of its own.

        (`copy.copy` is four times slower, and a reset makes one per cell.)
        """
        twin = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            twin.__dict__[name] = value if isinstance(value, SIMPLE) else copy.deepcopy(value)
        return twin

    def __repr__(self) -> str:
        return f"{self.kind} at {getattr(self, 'location', None)}"
