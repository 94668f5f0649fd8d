"""An environment of sorrel's as a game that can be trained on (`worlds/playable.py`), in one lane."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from abreast.attributes import ClassAttributes
from abreast.errors import ConfigError, StateError
from abreast.integrations.sorrel.carried import modules_of
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.model import SorrelModel
from abreast.plain_values import Unwritable, decode_all, encode_all
from abreast.state import State, copied, join, part_of
from abreast.training.resumable import ModuleVariables
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

LARGEST_TILE, LARGEST_PICTURE = 24, 480
"""Pixels a side, of a cell and of a picture."""
NOT_KEPT = frozenset(
    {"env.world", "env.agents", "env.config", "env._epoch_turn_stats", "env._active_logger", "world.map"}
)
"""Attributes that `reset` makes anew, or that are kept elsewhere."""


@dataclass(frozen=True)
class SorrelPlayer:
    """An agent of sorrel's, and its model as training sees it."""

    agent: Any
    model: SorrelModel


class SorrelGame(Playable):
    """Plays epochs as `run_experiment` of sorrel's does: `take_turn` does all of a turn, and agents choose in it."""

    def __init__(self, env: Any, players: Sequence[SorrelPlayer], playing: Generators) -> None:
        self.env, self.players, self._playing = env, players, playing
        self._objects = [env, env.world, *env.agents]
        self._modules = modules_of([*self._objects, *(agent.model for agent in env.agents)])
        self._classes = ClassAttributes(self._objects)
        framework = root_of(env)
        own = {name for name in self._modules if name.partition(".")[0] != framework}
        self._variables = ModuleVariables(own, self._places)
        self._keeps_map = False

    @property
    def turns(self) -> int:  # type: ignore[override]
        return int(self.env.turn)

    def reset(self, lanes: int) -> None:
        assert lanes == 1, "refused before the run"
        self._playing.begin_again()
        self._playing.__enter__()  # until `finish`
        for player in self.players:
            player.model.watch()
        if hasattr(self.env, "_active_logger"):
            self.env._active_logger = _Steps()
        before = self.env.world.map if hasattr(self.env.world, "map") else None
        agents = list(self.env.agents)
        self.env.reset()
        self._keeps_map |= before is not None and self.env.world.map is before
        models = [player.model.inner for player in self.players]
        if list(map(id, self.env.agents)) != list(map(id, agents)) or any(
            agent.model is not model for agent, model in zip(agents, models, strict=True)
        ):
            raise ConfigError(
                f"{type(self.env).__name__}.reset makes other agents or models, which have learned nothing: keep those of"
                " setup_agents."
            )

    def decisions(self) -> Sequence[Decision] | None:
        env = self.env
        is_over = env.turn >= env.config.experiment.max_turns or (
            env.turn and env.world.is_done and getattr(env, "stop_if_done", False)
        )
        if is_over:
            return None
        if _takes_epoch(env):
            env.take_turn(self.players[0].model.epoch)
        else:
            env.take_turn()
        return ()

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        return (), ()

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        self.env.world.is_done = True
        if hasattr(self.env, "_active_logger"):
            self.env._active_logger = None
        self._playing.__exit__(None, None, None)
        total = float(self.env.world.total_reward)
        models = [player.model for player in self.players]
        rewards = [model.reward for model in models]
        if not any(model.adds for model in models):  # they remember nothing
            rewards = [total / len(models)] * len(models)
        figures = {"total_reward": total, **self._own_figures()}
        return [Played(self.turns, rewards, figures)], ()

    def _own_figures(self) -> dict[str, float]:
        """What the environment makes of its statistics, if it keeps any."""
        found = self.env.aggregate_epoch_stats() if hasattr(self.env, "aggregate_epoch_stats") else {}
        return {str(name): float(value) for name, value in dict(found).items() if isinstance(value, Real)}

    def picture(self) -> Image.Image | None:
        return paint(self.env.world)

    # ---- state

    def state(self) -> State:
        """Where the generators of playing are: enough in this process."""
        return join(playing=self._playing.state())

    def keep(self) -> Callable[[], None]:
        """A function that puts everything back that outlives an epoch, in the environment and in its models: what no file
        can hold cannot be put back either.
        """
        try:
            here, models = copied(self.file_state()), [player.model.keep() for player in self.players]
        except StateError as error:
            raise self._not_put_back(error) from error

        def put_back() -> None:
            self.set_state(here)
            for put_model_back in models:
                put_model_back()
            try:
                self._refuse_changes_elsewhere()
            except StateError as error:
                raise self._not_put_back(error) from error

        return put_back

    def _not_put_back(self, error: StateError) -> ConfigError:
        return ConfigError(
            f"{type(self.env).__name__} cannot be evaluated, because it would not be as it was afterwards: {error}"
        )

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Let the next epoch follow from this seed (there is one lane)."""
        self._playing.set_state(Generators(seeds[0]).state())

    def file_state(self) -> State:
        """All that outlives `reset`; what cannot be written is named in a `StateError`."""
        self._refuse_changes_elsewhere()
        try:
            kept = encode_all(dict(self._lasting()), self._places(), self._modules)
        except Unwritable as error:
            raise StateError(f"{error.path} ({error.kind}) cannot be kept in a file, because {error.reason}.") from None
        return join(playing=self._playing.state(), kept=State({"facts": kept.facts}, kept.arrays))

    def _refuse_changes_elsewhere(self) -> None:
        """Refuse what outlives `reset` in another place than attributes of objects."""
        if self._keeps_map:
            raise StateError(
                f"{type(self.env).__name__}.reset leaves the map as it was, which is part of no checkpoint."
            )
        if (name := self._classes.changed()) is not None:
            raise StateError(
                f"{name} belongs to a class and has changed since the run began: make it an attribute of self."
            )
        if (name := self._variables.changed()) is not None:
            raise StateError(f"{name} has changed since the run began, but a checkpoint holds attributes of objects.")

    def set_state(self, state: State) -> None:
        self._playing.set_state(part_of(state, "playing"))
        kept = part_of(state, "kept")
        if not kept.facts:
            return
        values = decode_all(
            State(kept.facts["facts"], kept.arrays), dict(self._lasting()), self._places(), self._modules
        )
        owners = dict(self._owners())
        for path, value in values.items():
            key, _, name = path.partition(".")
            if key not in owners or path in NOT_KEPT:
                raise StateError(f"{path} is in the file, but is nothing that is kept.")
            vars(owners[key])[name] = value

    def _owners(self) -> Iterator[tuple[str, Any]]:
        yield "env", self.env
        yield "world", self.env.world
        yield from ((f"agent{number}", agent) for number, agent in enumerate(self.env.agents))

    def _lasting(self) -> Iterator[tuple[str, Any]]:
        """Attributes of the environment, the world and the agents that may outlive `reset`."""
        for key, owner in self._owners():
            for name, value in vars(owner).items():
                if f"{key}.{name}" not in NOT_KEPT and not (key.startswith("agent") and name == "model"):
                    yield f"{key}.{name}", value

    def _places(self) -> dict[str, object]:
        """What is here and is not written with those."""
        found: dict[str, object] = {**dict(self._owners()), "agents": self.env.agents, "config": self.env.config}
        for number, player in enumerate(self.players):
            found |= {f"model{number}": player.model.inner, f"memory{number}": player.model.inner.memory}
        return found


class _Steps:
    """A logger of sorrel's: with one, environments gather statistics of their turns."""

    def record_step(self, stats: Any) -> None:
        """They are summed up at the end of the epoch."""


def _takes_epoch(env: Any) -> bool:
    code = getattr(type(env).take_turn, "__code__", None)
    return code is None or code.co_argcount > 1 or bool(code.co_flags & 0x0C)


def root_of(env: Any) -> str:
    """The package that the environment's oldest class is of: sorrel's, where it is installed."""
    kinds = [kind for kind in type(env).__mro__ if kind.__module__ not in ("builtins", "abc", "typing")]
    return kinds[-1].__module__.partition(".")[0]


# ---- pictures


def paint(world: Any) -> Image.Image | None:
    """The world as it looks now: the sprite of every entity, layer upon layer."""
    cells = getattr(world, "map", None)
    if not isinstance(cells, np.ndarray) or cells.ndim != 3:
        return None
    height, width, layers = cells.shape
    side = max(1, min(LARGEST_TILE, LARGEST_PICTURE // max(height, width)))
    picture = Image.new("RGBA", (width * side, height * side), "white")
    for layer in range(layers):
        for row in range(height):
            for column in range(width):
                sprite = getattr(cells[row, column, layer], "sprite", None)
                tile = _tile(sprite, side) if isinstance(sprite, str | Path) else None
                if tile is not None:
                    picture.alpha_composite(tile, (column * side, row * side))
    return picture.convert("RGB")


@lru_cache(maxsize=512)
def _tile(sprite: Path | str, side: int) -> Image.Image | None:
    try:
        return Image.open(Path(sprite).expanduser()).convert("RGBA").resize((side, side))
    except (OSError, ValueError):
        return None
