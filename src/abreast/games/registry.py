"""Finding games: every package beside this file, and every entry point of the group `abreast.games`.

A game package exposes `GAME`, a `Game`. An installed package adds its own with

    [project.entry-points."abreast.games"]
    mygame = "my_package.mygame:GAME"
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from abreast.errors import ConfigError, GameError, WorldError, nearest
from abreast.settings import apply_overrides, read_yaml
from abreast.training import Config, Environment, parse_config
from abreast.worlds import Gridworld

GROUP = "abreast.games"


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
    return sorted(_sources())


def find_game(name: str) -> Game:
    """The game of that name."""
    sources = _sources()
    if name not in sources:
        raise GameError(f"there is no game {name!r}: {nearest(name, sources)}")
    game = sources[name]()
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


def _sources() -> dict[str, Callable[[], Any]]:
    package = importlib.import_module(__package__)
    sources: dict[str, Callable[[], Any]] = {
        module.name: partial(_own, module.name) for module in pkgutil.iter_modules(package.__path__) if module.ispkg
    }
    sources.update({point.name: partial(_installed, point) for point in entry_points(group=GROUP)})
    return sources


def _own(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}").GAME


def _installed(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise GameError(f"the game {point.name!r} ({point.value}) does not load: {error!r}.") from error
