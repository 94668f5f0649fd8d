"""Environments from before Gymnasium: `reset` returns an observation, `step` four values."""

from typing import Any

from abreast.rollouts.adapters.base import Adapter, five_values, two_values
from abreast.rollouts.signatures import parameters_of


class FourTuple(Adapter):
    """Wraps an old Gym environment: `reset` returns an observation, `step` (observation, reward, done, info).

    Its seed is passed to `reset` if that takes one (`reset(seed)`, `reset(seed, mode)`), else to its method `seed`; `mode`,
    train or val, is passed if `reset` has an argument of that name. An environment that takes its seed in neither way is
    played without: `abreast check` says so. What already has Gymnasium's form, such as a step of five values, stays.
    """

    def __init__(self, env: Any, mode: str = "train") -> None:
        super().__init__(env)
        self._mode = mode
        self._takes = _arguments(env)
        self._seeds_itself = "seed" not in self._takes and callable(getattr(env, "seed", None))
        self.takes_seed = self._seeds_itself or "seed" in self._takes
        """Whether it can be given a seed."""
        self._render_with = _render_mode(env)
        if self._render_with == NEVER:
            self.render_mode = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        if self._seeds_itself and seed is not None:
            self.inner.seed(seed)
        given = {"seed": seed, "mode": self._mode, "options": options}
        return two_values(self.inner.reset(**{name: given[name] for name in self._takes}))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step. `info["TimeLimit.truncated"]` says that a time limit ended the episode."""
        return five_values(self.inner.step(action))

    def render(self) -> Any:
        """Its `render`; None without one."""
        if self._render_with == NEVER:
            return None
        return self.inner.render() if self._render_with is None else self.inner.render(mode=self._render_with)


NEVER = "never"


def is_old(env: Any) -> bool:
    """Whether its `reset` differs from Gymnasium's, which takes `seed` and `options` by name."""
    parameters = parameters_of(env.reset)
    if parameters is None:
        return False
    named = {each.name for each in parameters.values() if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    return not {"seed", "options"} <= named


def _arguments(env: Any) -> list[str]:
    """Which of seed, mode and options `reset` takes."""
    parameters = parameters_of(env.reset) or {}
    known = [name for name in ("seed", "mode", "options") if name in parameters]
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if takes_any and "seed" not in known and not callable(getattr(env, "seed", None)):
        known.append("seed")
    return known


def _render_mode(env: Any) -> str | None:
    """The argument `mode` for its `render`: NEVER if it can only draw on a screen, None if it needs no argument."""
    render = getattr(env, "render", None)
    if not callable(render):
        return NEVER
    mode = (parameters_of(render) or {}).get("mode")
    if mode is None or mode.default not in ("human", mode.empty):
        return None
    offered = (getattr(env, "metadata", None) or {}).get("render.modes", ())
    return next((each for each in ("ansi", "text", "rgb_array") if each in offered), NEVER)
