"""Finding games: every package beside this file, every entry point of the group `abreast.games`, and a user's own files.

A game is a subclass of `Environment`. One that is found by name is wrapped in a `Game`, which its package calls `GAME`;
an installed package adds its own with

    [project.entry-points."abreast.games"]
    mygame = "my_package.mygame:GAME"

Without a package, `find_game` takes `my_module:MyGame`, `path/to/game.py` and `path/to/game.py:MyGame`; and, for
environments of other libraries, `pettingzoo:module:function`, `gymnasium:Name-v1` and `sorrel:module:Class` (`SOURCES`).
"""

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from abreast.attributes import check_made
from abreast.checking import Verdict
from abreast.errors import ConfigError, GameError, WorldError, log, short
from abreast.integrations import SOURCES
from abreast.plugins import Plugins, import_target, is_target, split_target
from abreast.settings import apply_overrides, merge, read_yaml
from abreast.training import Config, Environment, Experiment, parse_config
from abreast.training.devices import enough_memory
from abreast.training.environment import locate, locate_models
from abreast.worlds import Gridworld

GAMES = Plugins("game", "abreast.games", "GAME", "abreast.games", GameError)


class AnyGame(Protocol):
    """Where experiments with a game come from: a `Game` of ours, or an environment of another library."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def summary(self) -> str:
        """One sentence for `abreast games`."""

    @property
    def target(self) -> str | None:
        """What `find_game` found it by; runs write it down."""

    def configure(
        self, given: Path | Mapping[str, Any] | None = None, overrides: Iterable[str] = ()
    ) -> Config[Any, Any]:
        """The game's own settings, then those given, then each `section.key=value`."""

    def build(self, config: Config[Any, Any]) -> Experiment:
        """A fresh experiment."""

    def check(self, overrides: Sequence[str] = ()) -> Iterator[Verdict]:
        """Look whether it keeps its contract, with these settings over its own."""


@dataclass(frozen=True)
class Game:
    """A game that can be trained and played by name."""

    environment: type[Environment]
    name: str = ""
    """Made from the name of the class unless given."""
    summary: str = ""
    """One sentence for `abreast games`; the first line of the class's docstring unless given."""
    folder: Path | None = None
    """Where its config.yaml lies; none: its settings are `environment.defaults`."""
    target: str | None = None
    """What `find_game` found it by; runs write it down."""

    def __post_init__(self) -> None:
        if not _is_environment(self.environment):
            raise GameError(
                f"the environment of a Game is {short(self.environment)}: expected a subclass of Environment."
            )
        kind = self.environment
        documented = (kind.__doc__ or "").strip().splitlines()
        object.__setattr__(self, "name", self.name or kind.__name__.removesuffix("Env").lower())
        object.__setattr__(self, "summary", self.summary or (documented or [kind.__name__])[0])

    def configure(
        self, given: Path | Mapping[str, Any] | None = None, overrides: Iterable[str] = ()
    ) -> Config[Any, Any]:
        """The game's own settings, then those given (a file, or what is in one), then each `section.key=value`."""
        section = self.environment.world_section
        sections = read_yaml(given) if isinstance(given, Path) else given or {}
        values = merge(self._own_settings(), sections)
        changed = apply_overrides(values, overrides, lambda: type(parse_config(values, section)))
        world = changed.get("world")
        if isinstance(world, Mapping) and world.get("batched") is True:
            check_batched(self)
        return parse_config({**changed, "game": self.target or changed.get("game")}, section)

    @property
    def has_batched_world(self) -> bool:
        """Whether its environment says so itself: another, derived from one that does, may have other rules."""
        return vars(self.environment).get("batched_world") is not None

    def _own_settings(self) -> Mapping[str, Any]:
        defaults = self.environment.defaults
        if not isinstance(defaults, Mapping):
            kind = self.environment.__name__
            raise GameError(f"{kind}.defaults is {short(defaults)}: expected a mapping of sections with settings.")
        located = self.environment.located_defaults()
        if self.folder is None:
            return located
        return merge(located, locate_models(read_yaml(self.folder / "config.yaml"), self.folder))

    def build(self, config: Config[Any, Any]) -> Environment:
        """A fresh environment."""
        with enough_memory(
            "model.agent_vision_radius, experiment.num_agents, multiprocessing.num_envs or the size of the world"
        ):
            world = self.environment.make_world(config)
            if not isinstance(world, Gridworld):
                raise GameError(
                    f"{self.environment.__name__}.make_world returned {short(world)}: expected a Gridworld."
                )
            check_made(world)
            agents, cells = config.experiment.num_agents, world.height * world.width
            if agents > cells:  # asked before their models are built, which takes time and memory
                raise WorldError(
                    f"experiment.num_agents is {agents}, but the {world.height}x{world.width} world has {cells} cells:"
                    " enlarge world.height or world.width, or lower num_agents."
                )
            return self.environment(world, config)

    def check(self, overrides: Sequence[str] = ()) -> Iterator[Verdict]:
        """Look whether it keeps the contract of `Environment`."""
        from abreast.training.check import check_game

        return check_game(self, overrides)


def list_games() -> list[str]:
    """The names of all games that can be found, whether or not they load."""
    return GAMES.names()


def check_batched(game: AnyGame) -> None:
    """Refuse to play a game in a batched world that it has not."""
    if isinstance(game, Game) and game.has_batched_world:
        return
    raise ConfigError(
        f"{game.name} has no batched world, so world.batched cannot be true: leave it out. (`abreast settings GAME` lists"
        " world.batched if there is one.)"
    )


def find_game(text: str) -> AnyGame:
    """The game of that name, or the one that `module:Name`, `file.py` or `file.py:Name` points to; or, with the name of
    another library before it, one of that library's environments.
    """
    source, rest = _split_source(text)
    if source:
        return import_target(SOURCES[source[:-1]], "game", GameError)(rest)  # type: ignore[no-any-return]
    if not is_target(text):
        if (file := Path(f"{text}.py")).is_file() and text not in GAMES.names():
            raise GameError(f"there is no game {text!r}, but a file {file}: for the game in it, give {file}.")
        return _as_game(text, GAMES.find(text), name=text)
    found = import_target(text, "game", GameError)
    return _as_game(locate(text, Path()), _game_in(text, found) if isinstance(found, ModuleType) else found)


def _split_source(text: str) -> tuple[str, str]:
    """The name of another library, with its colon, and what comes after it; without one, nothing and the whole text."""
    source, colon, rest = text.partition(":")
    return (source + colon, rest) if colon and source in SOURCES else ("", text)


def _as_game(text: str, found: object, name: str = "") -> Game:
    if isinstance(found, Game):
        return replace(found, target=text)
    if _is_environment(found):
        return Game(found, name, target=text)  # type: ignore[arg-type]
    hint = f" Or did you mean pettingzoo:{text} or gymnasium:{text}?" if callable(found) else ""
    raise GameError(
        f"the game {text!r} is {short(found)}: expected a subclass of Environment or an abreast.games.Game.{hint}"
    )


def _is_environment(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, Environment)


def _game_in(file: str, module: ModuleType) -> object:
    """The game of a file: its `GAME`, or its only environment."""
    if hasattr(module, "GAME"):
        return module.GAME
    own = {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    found = {name: value for name, value in own.items() if _is_environment(value)}
    if not found:
        raise GameError(f"{file} has no game: expected a subclass of Environment, or a Game called GAME.")
    if len(found) > 1:
        raise GameError(
            f"{file} has several games, {', '.join(found)}: say which, for example {file}:{next(iter(found))}."
        )
    return next(iter(found.values()))


def find_game_of_run(run: Path, remedy: str | None = None, given: str | None = None) -> AnyGame:
    """The game that a run folder is of. Its file is looked for in the folders above the run, then in the current one.

    remedy: what a user can do if it is not found.
    given: another game, for the agents of the run.
    """
    recorded = _find_code_of_run(run).get("game")
    if given is not None:
        return find_game(given)
    remedy = remedy or f"give it, as in `abreast play GAME --run {shlex.quote(str(run))}`."
    if not isinstance(recorded, str):
        raise GameError(f"{run / 'config.yaml'} does not say of which game it is: {remedy}")
    source, rest = _split_source(recorded)
    place, colon, name = split_target(rest)
    folder = _folder_above(run, place)
    try:
        return find_game(recorded if folder is None else f"{source}{folder / place}{colon}{name}")
    except GameError as error:
        told = str(error).rstrip(".?")
        raise GameError(f"{run} is of the game {recorded!r}, which cannot be loaded ({told}): {remedy}") from error


def _find_code_of_run(run: Path) -> dict[str, Any]:
    """The settings of a run. Files of models and networks that they name may lie in the folders above the run, too: these
    are added to `sys.path`, as workers have it. Which code will be imported is said before.
    """
    config = read_yaml(run / "config.yaml")
    of_models = list(_targets_in(config.get("model")))
    if code := list(dict.fromkeys([*_targets_in(config.get("game")), *of_models])):
        log.warning("%s names code that is imported and run now: %s", run / "config.yaml", ", ".join(code))
    for place in (split_target(each)[0] for each in of_models):
        folder = _folder_above(run, place)
        if folder is not None and str(folder) not in sys.path:
            sys.path.append(str(folder))
        elif (
            folder is None
            and place.endswith(".py")
            and not any(Path(each, place).is_file() for each in ("", *sys.path))
        ):
            raise GameError(
                f"{run / 'config.yaml'} names {place}, which is neither in a folder above it nor in the current one: run"
                f" this in the folder from which {place} is seen, or move the run into it."
            )
    return config


def _folder_above(run: Path, place: str) -> Path | None:
    """The folder nearest above a run from which such a file is seen."""
    folders = run.resolve().parents if place.endswith(".py") else ()
    return next((folder for folder in folders if (folder / place).is_file()), None)


def _targets_in(value: object) -> Iterator[str]:
    """All that names a user's code in the settings of a run, wherever that folder comes from."""
    if isinstance(value, str) and is_target(value) and not value.startswith("abreast."):
        yield value
    for each in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _targets_in(each)
