"""Gymnasium environments as games with one agent: `abreast train gymnasium:CartPole-v1`.

What comes after the colon is the name of a registered environment, MODULE:NAME where the module registers it when it is
imported, or MODULE:FUNCTION or FILE.py:FUNCTION, where a class will do too.
"""

import importlib.util
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import gymnasium

from abreast.errors import GameError, nearest, short
from abreast.integrations.adapted.base import Adapted
from abreast.integrations.adapted.experiment import AdaptedGame
from abreast.integrations.adapted.making import called, first_line, plain_name
from abreast.integrations.adapted.single import SingleCopy
from abreast.plugins import import_target, split_target

REGISTERED_BY = {"MiniGrid": "minigrid", "BabyAI": "minigrid", "ALE": "ale_py", "highway": "highway_env"}
"""Packages that register environments when they are imported, by how the names begin."""

SPACES = ("observation_space", "action_space")


class GymnasiumGame(AdaptedGame):
    """Makes Gymnasium environments."""

    library = "gymnasium"

    @cached_property
    def _spec(self) -> Any:
        """Of a registered environment; None: it is made by a function."""
        if self.own is not None:
            return None
        place, colon, name = split_target(self.text)
        if not colon:
            place, name = "", self.text
        if place.endswith(".py") or name.endswith(".py"):
            return None
        if place:
            if hasattr(import_target(place, "Gymnasium environment", GameError), name):
                return None
        elif name not in gymnasium.registry:
            package = next((each for start, each in REGISTERED_BY.items() if name.startswith(start)), None)
            if package is not None and importlib.util.find_spec(package) is None:
                raise GameError(
                    f"gymnasium:{self.text} needs the package {package}, which is not installed: install it."
                )
            if package is not None:
                import_target(package, "Gymnasium environment", GameError)
        try:
            return gymnasium.spec(name)
        except gymnasium.error.Error:
            where = "there is no Gymnasium environment"
            if place:
                where = f"{place} registers no Gymnasium environment, and has no function,"
            raise GameError(f"{where} {name!r}: {_hint(name)}") from None

    def registered(self) -> Callable[..., Any] | None:
        return None if self._spec is None else self._make_registered

    def _make_registered(self, **arguments: Any) -> Any:
        # What its checker would complain of at every step, `abreast check` says once.
        return gymnasium.make(self._spec, **{"disable_env_checker": True, **arguments})

    @property
    def name(self) -> str:
        return plain_name(split_target(self.text)[2] or self.text)

    @property
    def summary(self) -> str:
        if self._spec is not None:
            return f"The Gymnasium environment {self._spec.id}."
        return first_line(self.function) or f"The Gymnasium environment {self.text}."

    def make(self, arguments: Mapping[str, Any]) -> Adapted:
        env = called(self.function, arguments, self.name)
        spaces = [each for each in SPACES if not isinstance(getattr(env, each, None), gymnasium.Space)]
        missing = [*spaces, *(each for each in ("reset", "step") if not hasattr(env, each))]
        if missing:
            raise GameError(
                f"gymnasium:{self.text} makes {short(env)}, which has no {missing[0]}: expected a gymnasium.Env."
            )
        if isinstance(env, gymnasium.vector.VectorEnv):
            raise GameError(
                f"gymnasium:{self.text} makes a vector environment: give one that is played alone;"
                " multiprocessing.num_envs says how many copies there are."
            )
        return SingleCopy(env, self.name)

    def own_check(self, arguments: Mapping[str, Any]) -> str:
        from gymnasium.utils.env_checker import check_env

        check_env(self.make(arguments).env.unwrapped, skip_render_check=True)
        return "gymnasium.utils.env_checker.check_env"


find = GymnasiumGame.find
"""The game with a name, the one that MODULE:NAME or FILE.py:FUNCTION points to, or whose environments a function makes."""


def _hint(name: str) -> str:
    """A name that is like it, or how to say where it is."""
    hint = nearest(name, gymnasium.registry)
    return hint if hint.startswith("did") else "name the module that registers it too, as in gymnasium:MODULE:NAME."
