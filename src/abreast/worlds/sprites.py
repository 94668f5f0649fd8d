"""Pictures of entities, and the picture of a world made from them.

A sprite is an array of RGBA pixels or the path of an image file. Small ones are drawn in the source with `pixel_art`,
where a review can see them.
"""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from abreast.errors import WorldError
from abreast.worlds.entity import Entity
from abreast.worlds.gridworld import Gridworld

Pixels = NDArray[np.uint8]
Sprite = Pixels | Path | str


def pixel_art(palette: dict[str, str], *rows: str) -> Pixels:
    """A square picture from text: one character a pixel, colours as `#rrggbb`; '.' is transparent."""
    size = len(rows)
    pixels = np.zeros((size, size, 4), dtype=np.uint8)
    for y, row in enumerate(rows):
        if len(row) != size:
            raise WorldError(f"row {y} of a {size}x{size} sprite is {len(row)} pixels wide: {row!r}.")
        for x, character in enumerate(row):
            if character != ".":
                pixels[y, x] = (*bytes.fromhex(palette[character].removeprefix("#")), 255)
    return pixels


def plain_tile(kind: str) -> Pixels:
    """The sprite of a kind that has none: one colour, made from the name so that it is the same in every process."""
    colour = zlib.crc32(kind.encode())
    tile = np.full((8, 8, 4), 255, dtype=np.uint8)
    tile[..., :3] = [64 + (colour >> shift & 0xFF) // 2 for shift in (0, 8, 16)]
    return tile


class Painter:
    """Draws cells in tiles of `tile` × `tile` pixels and remembers every combination it has drawn."""

    def __init__(self, tile: int) -> None:
        self.tile = tile
        self._scaled: dict[Any, tuple[Any, NDArray[np.float32]]] = {}
        self._cells: dict[tuple[Any, ...], Pixels] = {}

    def draw(self, world: Gridworld, top: int, left: int, height: int, width: int) -> Pixels:
        """The given rectangle of the world, black beyond its edge: pixels of shape (height·tile, width·tile, 3)."""
        tile = self.tile
        picture = np.zeros((height * tile, width * tile, 3), dtype=np.uint8)
        for row in range(max(top, 0), min(top + height, world.height)):
            for column in range(max(left, 0), min(left + width, world.width)):
                y, x = (row - top) * tile, (column - left) * tile
                picture[y : y + tile, x : x + tile] = self._cell(world.map[row, column])
        return picture

    def _cell(self, entities: NDArray[Any]) -> Pixels:
        key = tuple(sprite_key(entity.kind, entity.sprite) for entity in entities)
        drawn = self._cells.get(key)
        if drawn is None:
            canvas = np.zeros((self.tile, self.tile, 3), dtype=np.float32)
            for entity in entities:
                rgba = self.pixels(entity)
                alpha = rgba[..., 3:] / 255.0
                canvas = canvas * (1.0 - alpha) + rgba[..., :3] * alpha
            drawn = self._cells[key] = canvas.astype(np.uint8)
        return drawn

    def pixels(self, entity: Entity) -> NDArray[np.float32]:
        """The sprite of an entity, scaled to a tile: RGBA."""
        key = sprite_key(entity.kind, entity.sprite)
        if key not in self._scaled:
            sprite = plain_tile(entity.kind) if entity.sprite is None else entity.sprite
            # The sprite is kept beside its picture: a freed array could hand its id to another one.
            self._scaled[key] = (entity.sprite, np.asarray(scaled(sprite, self.tile), dtype=np.float32))
        return self._scaled[key][1]


def draw_world(world: Gridworld, tile: int = 16) -> Pixels:
    """A picture of the whole world: pixels of shape (height·tile, width·tile, 3)."""
    return Painter(tile).draw(world, 0, 0, world.height, world.width)


def scaled(sprite: Sprite, tile: int) -> Image.Image:
    """A sprite in tiles of this size: RGBA."""
    image = _open(sprite) if isinstance(sprite, str | Path) else Image.fromarray(sprite, "RGBA")
    return image.resize((tile, tile), Image.Resampling.NEAREST)


def sprite_key(kind: str, sprite: Sprite | None) -> Any:
    """What tells pictures of entities apart, as long as their sprites are kept."""
    if sprite is None:
        return kind
    return str(sprite) if isinstance(sprite, str | Path) else id(sprite)


def _open(path: str | Path) -> Image.Image:
    try:
        with Image.open(path) as image:
            return image.convert("RGBA")
    except OSError as error:
        raise WorldError(f"cannot read the sprite {path}: {error}.") from None
