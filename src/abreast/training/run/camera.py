"""Films one epoch into an animated GIF."""

import io
from pathlib import Path

from PIL import Image

from abreast.files import write_whole
from abreast.worlds.playable import Playable

MILLISECONDS_A_TURN = 120


class Camera:
    """Takes a picture of a game whenever it is called."""

    def __init__(self, game: Playable, path: Path) -> None:
        self._game, self._path = game, path
        self._pictures: list[Image.Image] = []

    def __call__(self) -> None:
        if not self._game.turns:  # a pass may be played again from its beginning
            self._pictures.clear()
        picture = self._game.picture()
        if picture is not None:
            self._pictures.append(picture)

    def save(self) -> None:
        """Write the film, if the game looks like anything."""
        if not self._pictures:
            return
        first, *others = self._pictures
        film = io.BytesIO()
        first.save(film, "GIF", save_all=True, append_images=others, duration=MILLISECONDS_A_TURN, loop=0)
        self._path.parent.mkdir(exist_ok=True)
        write_whole(self._path, film.getvalue())
