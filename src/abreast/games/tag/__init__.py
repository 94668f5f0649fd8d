"""Tag: catch and run, with the roles changing hands."""

from pathlib import Path

from abreast.games.registry import Game
from abreast.games.tag.env import TagEnv
from abreast.games.tag.world import TagConfig, TagWorld

GAME = Game(
    name="tag",
    summary="Whoever is it walks into somebody else to pass the tag on; everybody else keeps away.",
    environment=TagEnv,
    folder=Path(__file__).parent,
)

__all__ = ["GAME", "TagConfig", "TagEnv", "TagWorld"]
