"""Which adapter an environment needs, if any."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from abreast.rollouts.adapters.actions import action_space_of
from abreast.rollouts.adapters.old import FourTuple, is_old
from abreast.rollouts.adapters.report import Reporter
from abreast.rollouts.adapters.text import TextAdapter


def adapt(env: Any, config: Any, mode: str = "train") -> Any:
    """The environment itself if it can be played as it is, else an adapter around it.

    With an `action_lookup`, the manager sends numbers; without, texts: an environment whose actions are numbers then needs
    an adapter. So does one that shows nothing but arrays of numbers. `mode` is for environments whose `reset` takes it.
    """
    if isinstance(env, TextAdapter) or not hasattr(env, "reset") or not hasattr(env, "step"):
        return env
    if is_old(env):
        env = FourTuple(env, mode)
    space, lookup = action_space_of(env), getattr(config, "action_lookup", None)
    if lookup is not None:
        return TextAdapter(env, lookup) if isinstance(space, Discrete) and _shows_numbers(env) else env
    return TextAdapter(env) if isinstance(space, Discrete | MultiDiscrete | Box) else env  # which refuses Box


@dataclass(frozen=True)
class Adapted:
    """Makes environments of a type, adapted where they need it."""

    make: Callable[[Any], Any]
    mode: str = "train"
    reports: bool = False
    """Whether they send along what they have returned: see `Reporter`."""
    is_replayable: bool = True
    """What their configuration says (`EnvConfig.is_replayable`)."""
    shows_each: bool = False
    """Whether the text after each action of a turn is wanted, not only after the last: it is the result of a tool call."""

    def __call__(self, config: Any) -> Any:
        env = adapt(self.make(config), config, self.mode)
        return Reporter(env) if self.reports else env

    @property
    def args(self) -> tuple[Any, ...]:
        """What it calls, named as in a `functools.partial`: `comes_from_main` looks there for the user's script."""
        return self.make, getattr(self.make, "func", None), *getattr(self.make, "args", ())

    @property
    def replayable(self) -> bool:
        """What the environment's class and configuration say: False if an episode cannot be rebuilt from its seed and its
        actions.
        """
        return self.is_replayable and all(bool(getattr(part, "replayable", True)) for part in self.args)


def _shows_numbers(env: Any) -> bool:
    """Whether it shows nothing but its observations, and these are arrays that are no pictures."""
    space = getattr(env, "observation_space", None)
    if getattr(env, "render_mode", "text") is not None or not isinstance(space, Box):
        return False
    return not (space.dtype == np.uint8 and len(space.shape) == 3 and space.shape[2] == 3)
