"""An environment of sorrel's as a game that can be trained on (`worlds/playable.py`), in one lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from abreast.codec import Names
from abreast.errors import ConfigError
from abreast.integrations.sorrel.generators import Generators
from abreast.integrations.sorrel.kept import encode_attributes, owners_of, set_attributes, shared_places
from abreast.integrations.sorrel.model import SorrelModel
from abreast.models.own import reseed_generators
from abreast.state import State
from abreast.worlds.playable import Decision, Late, Outcome, Playable, Played

LARGEST_TILE, LARGEST_PICTURE = 24, 480
"""Pixels a side, of a cell and of a picture."""
KEPT = "kept"


@dataclass(frozen=True)
class SorrelPlayer:
    """An agent of sorrel's: its model as training sees it."""

    model: SorrelModel


class SorrelGame(Playable):
    """Plays epochs as `run_experiment` of sorrel's does: `take_turn` does all of a turn, and agents choose in it."""

    players: Sequence[SorrelPlayer] = ()
    turns: int = 0

    def __init__(self, env: Any, models: Sequence[SorrelModel], generators: Generators) -> None:
        self.env, self.generators = env, generators
        self.players = [SorrelPlayer(model) for model in models]

    def reset(self, lanes: int) -> None:
        assert lanes == 1, "refused before the run"
        for player in self.players:
            player.model.settle()
        self.generators.__enter__()  # until `finish`; if the epoch is interrupted, `seeded_globals` ends it
        if hasattr(self.env, "_active_logger"):
            self.env._active_logger = _Unread()
        self.env.reset()
        self.turns = int(self.env.turn)
        if [id(agent.model) for agent in self.env.agents] != [id(player.model.inner) for player in self.players]:
            raise ConfigError(
                f"{type(self.env).__name__}.reset makes other models, which have learned nothing: keep those of"
                " setup_agents."
            )

    def decisions(self) -> Sequence[Decision] | None:
        env = self.env
        is_stopped = env.turn and env.world.is_done and getattr(env, "stop_if_done", False)
        if is_stopped or env.turn >= env.config.experiment.max_turns:
            return None
        env.take_turn(*[self.players[0].model.epoch][: _takes_epoch(env)])
        self.turns = int(env.turn)
        return ()

    def step(self, actions: Sequence[Sequence[int]]) -> tuple[Sequence[Outcome], Sequence[Late]]:
        return (), ()

    def finish(self) -> tuple[list[Played], Sequence[Late]]:
        self.env.world.is_done = True
        if hasattr(self.env, "_active_logger"):
            self.env._active_logger = None
        self.generators.__exit__(None, None, None)
        total = float(self.env.world.total_reward)
        counted = [player.model.reward for player in self.players]
        rest = total / len(counted) if not any(each is not None for each in counted) else 0.0  # they remember nothing
        rewards = [rest if each is None else each for each in counted]
        return [Played(self.turns, rewards, {"total_reward": total, **self._own_figures()})], ()

    def _own_figures(self) -> dict[str, float]:
        """What the environment makes of its statistics, if it keeps any."""
        found = self.env.aggregate_epoch_stats() if hasattr(self.env, "aggregate_epoch_stats") else {}
        return {str(name): float(value) for name, value in dict(found).items() if isinstance(value, Real)}

    def picture(self) -> Image.Image | None:
        return paint(self.env.world)

    # ---- state

    def state(self) -> State:
        """All that the run has changed, the models and the generators with it. What cannot be kept is left out, and named
        in `why_not_resumable`.
        """
        for player in self.players:
            player.model.settle()
        data, left_out = encode_attributes(*self._kept())
        self.why_not_resumable = next(iter(left_out.values()), None)
        return State({}, {KEPT: data})

    def set_state(self, state: State) -> None:
        owners, places, names = self._kept()
        set_attributes(owners, state.arrays[KEPT], places, names)
        with self.generators:  # which refuse a place that is none
            pass

    def _kept(self) -> tuple[dict[str, Any], dict[str, Any], Names]:
        owners = {**owners_of(self.env), "generators": self.generators}
        return owners, {**owners, **shared_places(self.env.config)}, Names(owners_of(self.env).values())

    def draw_from(self, seeds: Sequence[np.random.SeedSequence]) -> None:
        """Let the next epoch follow from this seed (there is one lane), with generators of the environment's own."""
        self.generators.seed(int(seeds[0].generate_state(1)[0]))
        reseed_generators(self.env, {}, seeds[0])


class _Unread:
    """A logger of sorrel's: with one, environments gather statistics of their turns, which are summed up in the end."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


def _takes_epoch(env: Any) -> bool:
    code = getattr(type(env).take_turn, "__code__", None)
    return code is None or code.co_argcount > 1 or bool(code.co_flags & 0x0C)


# ---- pictures


def paint(world: Any) -> Image.Image | None:
    """The world as it looks now: the sprite of every entity, layer upon layer."""
    cells = getattr(world, "map", None)
    if not isinstance(cells, np.ndarray) or cells.ndim != 3:
        return None
    height, width, _ = cells.shape
    side = max(1, min(LARGEST_TILE, LARGEST_PICTURE // max(height, width)))
    picture = Image.new("RGBA", (width * side, height * side), "white")
    for layer, row, column in np.ndindex(cells.transpose(2, 0, 1).shape):
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
