"""Finding games: every package beside this file, and every entry point of the group `abreast.games`.

A game package exposes `GAME`, a `Game`. An installed package adds its own with

    [project.entry-points."abreast.games"]
    mygame = "my_package.mygame:GAME"
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abreast.errors import ConfigError, GameError, WorldError
from abreast.plugins import Plugins
from abreast.settings import apply_overrides, read_yaml
from abreast.training import Config, Environment, parse_config
from abreast.worlds import Gridworld

GAMES = Plugins("game", "abreast.games", "GAME", "abreast.games", GameError)


@dataclass(frozen=True)
class Game:
    """A game that can be trained and played by name."""

    name: str
    summary: str
    """One sentence for `abreast games`."""
    environment: type[Environment]
    world: Callable[[Any], Gridworld]
    """Makes the world from a configuration."""
    folder: Path
    """Where its config.yaml lies."""

    def configure(self, file: Path | None = None, overrides: Iterable[str] = ()) -> Config[Any, Any]:
        """The game's own settings, then those of a file, then each `section.key=value`."""
        values = merge(read_yaml(self.folder / "config.yaml"), read_yaml(file) if file else {})
        return parse_config(apply_overrides(values, overrides), self.environment.world_section)

    def build(self, config: Config[Any, Any]) -> Environment:
        """A fresh environment."""
        try:
            world = self.world(config)
            agents, cells = config.experiment.num_agents, world.height * world.width
            if agents > cells:  # asked before their models are built, which takes time and memory
                raise WorldError(
                    f"experiment.num_agents is {agents}, but the {world.height}x{world.width} world has {cells} cells:"
                    " enlarge world.height or world.width, or lower num_agents."
                )
            return self.environment(world, config)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            raise ConfigError(
                "there is not enough memory for this configuration: lower model.buffer_capacity, model.hidden_size,"
                " model.n_frames, model.agent_vision_radius, experiment.num_agents or the size of the world."
            ) from None


def list_games() -> list[str]:
    """The names of all games that can be found, whether or not they load."""
    return GAMES.names()


def find_game(name: str) -> Game:
    """The game of that name."""
    game = GAMES.find(name)
    if not isinstance(game, Game):
        raise GameError(f"the game {name!r} is {game!r}, expected an abreast.games.Game.")
    return game


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Sections of `below` with the keys of `above` over them."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if value is None and isinstance(under, Mapping):
            continue  # an empty heading in a YAML file changes nothing
        merged[key] = merge(under, value) if isinstance(under, Mapping) and isinstance(value, Mapping) else value
    return merged
