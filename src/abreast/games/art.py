"""Pictures several games use, drawn for this project."""

from functools import cache

from abreast.worlds.painting import agent_colour
from abreast.worlds.sprites import Pixels, pixel_art

SAND = pixel_art(
    {"a": "#e8d9a8", "b": "#dccb95", "c": "#f1e5bd"},
    "aaaaabaa",
    "abaaaaaa",
    "aaaacaaa",
    "aaaaaaab",
    "acaaaaaa",
    "aaaabaaa",
    "baaaaaca",
    "aaabaaaa",
)

GRASS = pixel_art(
    {"a": "#7fae5c", "b": "#6f9e4e", "c": "#8fbd6a"},
    "aaabaaaa",
    "acaaaaba",
    "aaaaaaaa",
    "baaacaaa",
    "aaaaaaab",
    "aacaaaaa",
    "aaaabaca",
    "abaaaaaa",
)


@cache
def figures(number: int) -> dict[str, Pixels]:
    """A small person in the coat of agent `number`, looking up, down, left and right."""
    faces = {
        "up": ("mhhhhhhm", ".mhhhhm."),
        "down": ("mskssksm", ".mssssm."),
        "left": ("mksksshm", ".msssm.."),
        "right": ("mhsskskm", "..msssm."),
    }
    palette = {
        "m": "#2b2d36",
        "h": "#5a3d2b",
        "s": "#f2cfa5",
        "k": "#2b2d36",
        "c": agent_colour(number),
    }
    head, body = ("..mmmm..", ".mhhhhm."), ("mccccccm", "mccccccm", ".mccccm.", ".mm..mm.")
    return {facing: pixel_art(palette, *head, *face, *body) for facing, face in faces.items()}
