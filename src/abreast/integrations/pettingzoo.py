"""PettingZoo environments as games: `abreast train pettingzoo:mpe2.simple_spread_v3`.

What comes after the colon is a module with a function `parallel_env` or `env`, as PettingZoo's own have, or
MODULE:FUNCTION, or FILE.py:FUNCTION; a class will do. It may return a `ParallelEnv` or an `AECEnv`. Or it is the name of a
registered environment, as `classic/connect_four-v3`, where the PettingZoo that is installed has names.
"""

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from abreast.errors import GameError, nearest, short
from abreast.integrations.adapted.base import Adapted
from abreast.integrations.adapted.experiment import AdaptedGame
from abreast.integrations.adapted.making import called, first_line, plain_name
from abreast.integrations.adapted.parallel import ParallelCopy
from abreast.integrations.adapted.turns import TurnCopy
from abreast.plugins import import_target, modules_beside, split_target

FUNCTIONS = ("parallel_env", "env")
"""What PettingZoo's modules call the functions that make their environments; agents that act at once come first."""
CYCLES = 40
"""How long PettingZoo's own checks play."""


def find(what: str | Callable[..., Any]) -> AdaptedGame:
    """The game that MODULE, MODULE:FUNCTION or FILE.py:FUNCTION points to, or whose environments a function makes."""
    if importlib.util.find_spec("pettingzoo") is None:
        raise GameError(
            f'pettingzoo:{what} needs PettingZoo, which is not installed: pip install "abreast[pettingzoo]".'
        )
    return PettingZooGame.find(what)


class PettingZooGame(AdaptedGame):
    """Makes PettingZoo environments."""

    library = "pettingzoo"

    def registered(self) -> Callable[..., Any] | None:
        """Also: what makes the environments of a module that is like one of PettingZoo's."""
        import pettingzoo

        kinds = {kind: getattr(pettingzoo, f"{kind}_registry", {}) for kind in ("parallel", "aec")}
        for kind, registry in kinds.items():
            if self.text in registry:
                return partial(_make_registered, kind, self.text)
        if "/" in self.text and not self.text.endswith(".py") and ":" not in self.text:
            known = {name for registry in kinds.values() for name in registry}
            hint = nearest(self.text, known, "give MODULE or MODULE:FUNCTION.")
            raise GameError(f"there is no PettingZoo environment {self.text!r}: {hint}")
        found = import_target(self.text, "environment", GameError)
        if not isinstance(found, ModuleType):
            return None
        functions = [getattr(found, name) for name in FUNCTIONS if callable(getattr(found, name, None))]
        if not functions:
            versions = [each for each in modules_beside(self.text) if each.startswith(f"{self.text}_v")]
            hint = f"name the one that makes the environment, as in pettingzoo:{self.text}:FUNCTION."
            if versions:
                hint = f"did you mean 'pettingzoo:{versions[-1]}'?"
            raise GameError(f"{self.text} has neither a function parallel_env nor env: {hint}")
        return functions[0]  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        place, _, name = split_target(self.text)
        module = place.removesuffix(".py").rpartition("/")[2].rpartition(".")[2]
        return plain_name(module if name in (*FUNCTIONS, "raw_env", "") else name)

    @property
    def summary(self) -> str:
        own = "" if isinstance(self.function, partial) else first_line(self.function)
        return own or f"The PettingZoo environment {self.text}."

    def make(self, arguments: Mapping[str, Any]) -> Adapted:
        env = called(self.function, arguments, self.name)
        if hasattr(env, "agent_selection") or hasattr(env, "last"):
            return TurnCopy(env, self.name)
        missing = [each for each in ("reset", "step", "possible_agents", "action_space") if not hasattr(env, each)]
        if missing:
            raise GameError(
                f"pettingzoo:{self.text} makes {short(env)}, which has no {missing[0]}: expected a PettingZoo ParallelEnv or"
                " AECEnv."
            )
        return ParallelCopy(env, self.name)

    def own_check(self, arguments: Mapping[str, Any]) -> str:
        from pettingzoo.test import api_test, parallel_api_test

        copy = self.make(arguments)
        test = api_test if isinstance(copy, TurnCopy) else parallel_api_test
        test(copy.env, num_cycles=CYCLES)
        return f"pettingzoo.test.{test.__name__}"


def _make_registered(kind: str, name: str, **arguments: Any) -> Any:
    import pettingzoo

    try:
        return pettingzoo.make(kind, name, **arguments)
    except ImportError as error:
        raise GameError(f"pettingzoo:{name} cannot be imported: {' '.join(str(error).split())}") from error
