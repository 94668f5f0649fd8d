"""One environment and its episode, wherever it lives: the rules of a turn, and playing an episode again.

The manager runs these in its own process, a worker in its; both do the same.
"""

import copy
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from abreast.rollouts.messages import State, Turn

ATOMS = (bool, int, float, str, bytes, type(None))


class Episode:
    """An environment with what is needed to rebuild it: how it was made, its seed, the actions executed since."""

    def __init__(self, make: Callable[[Any], Any], config: Any) -> None:
        self._make, self._config = make, config
        self._env: Any = None
        lookup = config.action_lookup
        self._numbers = None if lookup is None else {name.strip().casefold(): (n, name) for n, name in lookup.items()}
        self.executed: list[Sequence[Any]] = []
        self._seed = 0
        self._state: State = ""

    # ---- an episode

    def start(self, seed: int, executed: Sequence[Sequence[Any]] = ()) -> Turn:
        """Begin an episode, and play it up to where it was. An environment that is there is seeded anew, not rebuilt."""
        self._seed, self.executed = seed, list(executed)
        started = time.perf_counter()
        turn = self._twice(self._begin)
        return turn._replace(seconds=time.perf_counter() - started)

    def take(self, actions: Sequence[str], budget: int) -> Turn:
        """Take a turn: the known ones of the actions, in order, as far as the budget goes, until the episode is done."""
        started = time.perf_counter()
        known = self._known(actions)
        turn = self._twice(lambda: self._execute(known[:budget]))
        self.executed.append(turn.executed)
        return turn._replace(dropped=len(actions) - len(known), seconds=time.perf_counter() - started)

    def digest(self) -> bytes:
        """A fingerprint of the state: what is seen, and where the environment's random stream is."""
        digest = blake2b(digest_size=16)
        for part in [self._state] if isinstance(self._state, str) else self._state:
            digest.update(part.encode(errors="surrogatepass") if isinstance(part, str) else part.tobytes())
        stream = getattr(getattr(self._env, "unwrapped", self._env), "_np_random", None)
        if stream is not None:
            digest.update(repr(stream.bit_generator.state).encode())
        return digest.digest()

    def close(self) -> None:
        """Let the environment clean up."""
        env, self._env = self._env, None
        if hasattr(env, "close"):
            env.close()

    # ---- inside

    def _known(self, actions: Sequence[str]) -> list[tuple[Any, str]]:
        """The actions the environment knows, as it takes them, and their names."""
        if self._numbers is None:
            return [(action, action) for action in actions]
        found = (self._numbers.get(action.strip().casefold()) for action in actions)
        return [known for known in found if known is not None]

    def _begin(self) -> Turn:
        if self._env is None:
            self._env = self._make(self._config)
        observation, info = self._env.reset(seed=self._seed)
        for actions in self.executed:
            for action in actions:
                observation, *_, info = self._env.step(action)
        self._state = _seen(self._env, observation)
        return Turn(self._state, info=_own(info))

    def _execute(self, actions: Sequence[tuple[Any, str]]) -> Turn:
        reward, info, refused, done = 0.0, {}, 0, False
        names: list[str] = []
        executed: list[Any] = []
        for action, name in actions:
            observation, gained, terminated, truncated, told = self._env.step(action)
            reward += float(gained)
            info.update(told)
            refused += not told.get("action_is_valid", True)
            names.append(name)
            executed.append(action)
            if terminated or truncated:
                done = True
                break
        if executed:
            self._state = _seen(self._env, observation)
        return Turn(self._state, reward, _own(info), names, executed, 0, refused, done)

    def _twice(self, work: Callable[[], Turn]) -> Turn:
        """Do it; if it raises, rebuild the environment and do it once more; if it raises again, the episode is over."""
        try:
            return work()
        except Exception:
            pass  # what matters is whether it happens again, in an environment that nothing has happened to
        try:
            self.close()
            if work != self._begin:
                self._begin()
            return work()
        except Exception as error:
            return Turn(self._state, failure=f"{type(error).__name__}: {error}")


def _seen(env: Any, observation: Any) -> State:
    """The text or the pictures an environment shows; one that draws nothing shows its observation."""
    drawn = None if getattr(env, "render_mode", "text") is None else env.render()
    if drawn is None:
        drawn = observation
    if isinstance(drawn, str):
        return drawn
    pictures = drawn if isinstance(drawn, list | tuple) else [drawn]
    if all(isinstance(picture, np.ndarray) and picture.ndim == 3 for picture in pictures):
        return [picture.copy() for picture in pictures]
    return str(drawn)


def _own(info: dict[str, Any]) -> dict[str, Any]:
    """A copy that the environment cannot change later, as one that has come from another process."""
    return {key: value if type(value) in ATOMS else copy.deepcopy(value) for key, value in info.items()}
