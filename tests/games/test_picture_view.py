"""Games that show themselves as pixels or text, in the terminal."""

import io
from types import SimpleNamespace

import numpy as np
from rich.console import Console

from abreast.games.picture_view import HALF_BLOCK, HEIGHT, WIDTH, PictureView


def shown(seen):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(PictureView(SimpleNamespace(turns=3, look=lambda: seen)).draw())
    return console.export_text()


def test_two_pixels_are_a_character():
    lines = shown(np.zeros((4, 6, 3), np.uint8)).splitlines()
    assert lines[0] == "turn 3" and lines[1:3] == [HALF_BLOCK * 6] * 2


def test_without_colours_a_picture_is_drawn_in_shades():
    seen = np.zeros((4, 6, 3), np.uint8)
    seen[:, 3:] = 255
    game = SimpleNamespace(turns=3, look=lambda: seen)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(PictureView(game, in_colour=False).draw())
    assert console.export_text() == "turn 3\n@@@   \n@@@   \n\n"


def test_large_pictures_are_made_to_fit():
    lines = shown(np.zeros((700, 500, 3), np.uint8)).splitlines()[1:]
    assert 0 < len(lines) - 1 <= HEIGHT // 2 + 1 and max(map(len, lines)) <= WIDTH


def test_text_is_shown_and_nothing_is_shown_of_nothing():
    assert shown("a board") == "turn 3\na board\n" and shown(None) == "turn 3\n"
