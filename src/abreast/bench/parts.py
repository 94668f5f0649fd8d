"""Where does the time of the sequential run go? World, choosing and update of the reference, one lane, one core.

World is all that is neither choosing nor an update: the game, observations, actions, the memory, the loop.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from abreast.bench.reference import build
from abreast.bench.rows import Row, quotients


@dataclass(frozen=True)
class Size:
    """How much is run."""

    repeats: int
    epochs: int
    hidden: int = 250


SMALL, FULL = Size(2, 8), Size(5, 60)


class Stopwatch:
    """Adds up the time spent in the calls it wraps."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.seconds = 0.0
        self._clock = clock

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = self._clock()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += self._clock() - started

        return timed


def measure(size: Size) -> Iterator[Row]:
    """One run after the other; the first fills the replay and the caches."""
    env = build(1, size.epochs, model={"hidden_size": size.hidden})
    env.run_experiment(animate=False, logging=False)
    choosing, update = Stopwatch(), Stopwatch()
    for agent in env.agents:
        model: Any = agent.model
        model.take_actions = choosing.wrap(model.take_actions)
        model.train_step = update.wrap(model.train_step)
    seconds: dict[str, list[float]] = {"whole": [], "choosing": [], "update": []}
    for _ in range(size.repeats):
        choosing.seconds = update.seconds = 0.0
        started = time.perf_counter()
        epochs = env.run_experiment(animate=False, logging=False).epochs
        steps = size.epochs * env.config.experiment.max_turns * len(env.agents)
        assert len(epochs) == size.epochs
        whole = time.perf_counter() - started
        for name, each in (("whole", whole), ("choosing", choosing.seconds), ("update", update.seconds)):
            seconds[name].append(each / steps)
    yield from rows(seconds)


def rows(seconds: dict[str, list[float]]) -> Iterator[Row]:
    """The rows of seconds per agent-step."""
    whole, parts = seconds["whole"], zip(*seconds.values(), strict=True)
    world = [each - choosing - update for each, choosing, update in parts]
    yield Row("the whole", "µs an agent-step", [each * 1e6 for each in whole])
    for name, values in {"world": world, "choosing": seconds["choosing"], "update": seconds["update"]}.items():
        yield Row(
            name, "µs an agent-step", [each * 1e6 for each in values], quotients(values, whole), "the whole", (), "less"
        )
