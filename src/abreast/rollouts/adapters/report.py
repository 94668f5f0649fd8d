"""What an environment itself has returned, sent along in `info`: for those who need the observation, not what is shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from abreast.rollouts.adapters.base import Adapter
from abreast.rollouts.adapters.old import five_values, two_values
from abreast.rollouts.adapters.text import TextAdapter

REPORT = "abreast.report"
"""Key of `info`: (observation, info) of a reset, (observation, reward, terminated, truncated, info) of a step."""


class Reporter(Adapter):
    """Adds to `info` what the environment has returned."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = two_values(self._env.reset(seed=seed))
        return observation, {**info, REPORT: (observation, info)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = five_values(self._env.step(action))
        report = observation, reward, terminated, truncated, info
        return observation, reward, terminated, truncated, {**info, REPORT: report}


@dataclass(frozen=True)
class Reporting:
    """Makes environments that report. What a `TextAdapter` adds to `info` is not in the report."""

    make: Callable[[Any], Any]

    def __call__(self, config: Any) -> Any:
        env = self.make(config)
        return env.around(Reporter) if isinstance(env, TextAdapter) else Reporter(env)

    @property
    def args(self) -> tuple[Any, ...]:
        """What it calls, as in `Adapted`."""
        return self.make, *getattr(self.make, "args", ())

    @property
    def replayable(self) -> bool:
        """What the environment's class says."""
        return bool(getattr(self.make, "replayable", True))
