"""Pictures of gridworlds for people: films, and what `render` shows. What agents see is in `sprites.py`.

    scene = Scene.of(world, agents)                          in every turn: cheap, nothing is drawn
    picture = ScenePainter(world.kind_names).paint(scene)    later, or never

A sprite of an entity's own is shown as it is. A kind without one is a shape in a colour, both chosen by the order in which
kinds appear in the world; what the world is empty with, and walls, are plain; an agent is a disc. Agents have their number
on them. The lowest of several layers is the ground: its kinds are pale tiles.

A scene refers to the entities, and notes how those look that change: agents, and entities with transitions. Others are shown
as they look when the picture is painted. So a scene takes 2 µs in a world of 10×10×2 cells with five agents, and 9 µs in one
of 40×40×2 with twelve (to read the sprite of every cell: 6 and 105 µs; to find by their addresses the cells in which another
entity stands, and to look at these: 7 and 270 µs).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from abreast.worlds.entity import Entity
from abreast.worlds.sprites import Sprite, scaled, sprite_key

WIDTH, LARGEST_SIDE, LARGEST_TILE, STEP = 480, 960, 96, 8
"""Pixels: a map is at least so wide, if it is not larger than this on any side and its tiles are not larger than that. Tiles
have a multiple of the last, if they can, so that sprites of 8×8 are enlarged by a whole number.
"""
ICON = 24
"""Pixels a side of what legends show."""
AGENT_COLOURS = (
    "#2e6f95", "#d1495b", "#3c7a57", "#d98a1f", "#7d5ba6", "#2a9d9b", "#a0522d", "#6c7a92", "#b8336a", "#7f8c1f",
    "#17415c", "#c9a227", "#8f1d1d", "#5aa469",
)  # fmt: skip
"""One per agent, in films, curves and reports (`--c0` to `--c13` of report/page.css); from the 15th agent on they repeat."""
KIND_COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")
"""Those of Okabe and Ito, which can be told apart by people who see fewer colours."""
SHAPES = (
    "18 18 82 18 82 82 18 82",  # a square
    "50 10 92 84 8 84",  # a triangle
    "50 6 94 50 50 94 6 50",  # a diamond
    "50 5 62 37 96 38 69 59 78 92 50 73 22 92 31 59 4 38 38 37",  # a star
    "36 10 64 10 64 36 90 36 90 64 64 64 64 90 36 90 36 64 10 64 10 36 36 36",  # a cross
    "8 16 92 16 50 90",  # a triangle on its head
    "28 12 72 12 94 50 72 88 28 88 6 50",  # a hexagon
    "14 12 86 12 56 50 86 88 14 88 44 50",  # an hourglass
)
"""Corners, in hundredths of a tile. Their number and that of the colours have no divisor in common: 56 kinds differ."""
GROUND, GRID, WALL, OUTLINE = "#f1efe9", "#dedad0", "#5b5f68", "#2b2d36"


def look_of(entity: Any) -> tuple[str, Sprite | None, str | None]:
    """Kind, sprite and colour. (Entities of sorrel have no colour.)"""
    return entity.kind, entity.sprite, getattr(entity, "colour", None)


class Scene(NamedTuple):
    """A world as it looked."""

    cells: NDArray[Any]
    """Its entities (rows, columns, layers)."""
    agents: Sequence[Entity]
    noted: Mapping[int, tuple[str, Sprite | None, str | None]]
    """Kinds, sprites and colours that entities had then, by their ids."""

    @classmethod
    def of(cls, world: Any, agents: Sequence[Entity], changing: Iterable[Entity] = ()) -> Self:
        """The world as it is now; `changing`: entities that may look otherwise later, beside the agents."""
        noted = {id(entity): look_of(entity) for each in (agents, changing) for entity in each}
        return cls(world.map.copy(), list(agents), noted)


class Look(NamedTuple):
    """What an entity looks like."""

    kind: str
    sprite: Any
    """What tells it apart (`sprite_key`)."""
    order: int
    """Of its kind among those of the world; the last, if it changed since it was placed."""
    agent: int | None
    """Its number, if it is one."""
    is_ground: bool
    """Whether it lies under other layers."""
    colour: str | None = None
    """One of its own."""


class ScenePainter:
    """Draws scenes of a world, and remembers what it has drawn."""

    def __init__(self, kinds: Sequence[str]) -> None:
        """`kinds`: those of the world, in order, the one that it is empty with first."""
        self._orders = {kind: order for order, kind in enumerate(kinds)}
        self._sprites: dict[Any, Sprite | None] = {}
        self._cells: dict[Any, NDArray[np.uint8]] = {}

    def paint(self, scene: Scene) -> Image.Image:
        """A picture of it."""
        return self._paint(scene, self._looks_in(scene, {}))

    def _paint(self, scene: Scene, looks: Sequence[Look]) -> Image.Image:
        rows, columns, layers = scene.cells.shape
        tile = tile_for(rows, columns)
        cells = [self._cell(looks[first : first + layers], tile) for first in range(0, len(looks), layers)]
        pixels = np.stack(cells).reshape(rows, columns, tile, tile, 3)
        return Image.fromarray(pixels.swapaxes(1, 2).reshape(rows * tile, columns * tile, 3))

    def paint_all(self, scenes: Sequence[Scene]) -> tuple[Iterable[Image.Image], list[tuple[Image.Image, str]]]:
        """Pictures, and icons and names of the kinds that are seen in them; agents and empty cells aside."""
        known = dict[Any, Look]()
        looks = [self._looks_in(scene, known) for scene in scenes]
        seen = {look.kind: look for look in known.values() if look.agent is None and look.order}
        shown = sorted(seen.values(), key=attrgetter("order"))
        legend = [(Image.fromarray(self._cell([look], ICON)).convert("RGBA"), look.kind) for look in shown]
        return map(self._paint, scenes, looks), legend

    def _looks_in(self, scene: Scene, known: dict[Any, Look]) -> list[Look]:
        """Return those of all cells, layer by layer; `known` has those of other scenes of the same epoch."""
        agents, layers, looks = (
            {id(agent): number for number, agent in enumerate(scene.agents)},
            scene.cells.shape[2],
            [],
        )
        for index, entity in enumerate(scene.cells.flat):
            noted = scene.noted.get(id(entity))
            is_ground = layers > 1 and not index % layers
            same = id(entity), is_ground, noted and (noted[0], id(noted[1]), noted[2])
            if same not in known:
                kind, sprite, colour = noted or look_of(entity)
                key = sprite_key(kind, sprite)
                self._sprites[key] = sprite  # kept: a freed array could hand its id to another one
                known[same] = Look(
                    kind,
                    key,
                    self._orders.get(kind, len(self._orders)),
                    agents.get(id(entity)),
                    is_ground,
                    colour,
                )
            looks.append(known[same])
        return looks

    def _cell(self, looks: Sequence[Look], tile: int) -> NDArray[np.uint8]:
        """A cell with these looks in its layers, the lowest first."""
        key = tile, *looks
        if key not in self._cells:
            cell = Image.new("RGBA", (tile, tile), GROUND)
            ImageDraw.Draw(cell).rectangle((0, 0, tile, tile), outline=GRID if tile >= STEP else None)
            for look in looks:
                cell.alpha_composite(self._drawn(look, tile))
            self._cells[key] = np.asarray(cell.convert("RGB"))
        return self._cells[key]

    def _drawn(self, look: Look, tile: int) -> Image.Image:
        """What is put into a cell. The number of an agent is beside its sprite, where there is room for both."""
        sprite = self._sprites[look.sprite]
        image = Image.new("RGBA", (tile, tile)) if sprite is None else scaled(sprite, tile)
        if look.agent is None and sprite is None:
            _draw_kind(ImageDraw.Draw(image), look, tile)
        elif look.agent is not None and (sprite is None or tile >= 2 * STEP):
            size = round(tile * (0.84 if sprite is None else 0.42))
            corner = (tile - size) // 2 if sprite is None else tile - size
            image.alpha_composite(badge(look.agent, size, look.colour), (corner, corner))
        return image


def _draw_kind(pen: ImageDraw.ImageDraw, look: Look, tile: int) -> None:
    """A kind that has no sprite; what the world is empty with is not drawn."""
    colour, whole = look.colour or colour_of(look.order), (0, 0, tile, tile)
    corners = [int(number) / 100 * (tile - 1) for number in SHAPES[look.order % len(SHAPES)].split()]
    if is_wall(look.kind):
        pen.rectangle(whole, fill=look.colour or WALL)
    elif look.is_ground and look.order:
        pen.rectangle(whole, fill=f"{colour}73")  # pale: they let the ground through
        pen.polygon(corners, fill=f"{colour}8c")
    elif look.order:
        pen.polygon(corners, fill=colour, outline=OUTLINE if tile >= STEP else None)


def tile_for(rows: int, columns: int) -> int:
    """Pixels a side of a cell."""
    wanted = math.ceil(WIDTH / columns / STEP) * STEP
    fits = LARGEST_SIDE // max(rows, columns)
    return max(1, min(wanted, LARGEST_TILE, fits - fits % STEP or fits))


def badge(number: int, size: int, colour: str | None = None) -> Image.Image:
    """A disc in the colour of an agent, with its number."""
    image, middle = Image.new("RGBA", (size, size)), (size - 1) / 2
    pen, height = ImageDraw.Draw(image), size * (0.72 if number < 10 else 0.56 if number < 100 else 0.4)
    pen.ellipse((0, 0, size - 1, size - 1), fill=colour or agent_colour(number), outline=OUTLINE)
    pen.text((middle + 0.5, middle), str(number), "white", font(max(6, round(height))), "mm")
    return image


@cache
def font(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own."""
    return ImageFont.load_default(height)


def agent_colour(number: int) -> str:
    """The colour of an agent that has none of its own."""
    return AGENT_COLOURS[number % len(AGENT_COLOURS)]


def colour_of(order: int) -> str:
    """The colour of a kind without a sprite, by the order of kinds."""
    return KIND_COLOURS[order % len(KIND_COLOURS)]


def is_wall(kind: str) -> bool:
    return kind.lower().endswith("wall")
