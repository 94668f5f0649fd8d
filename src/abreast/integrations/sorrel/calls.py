"""How a model is called while its agent plays: by its environment, and by agents, whose calls are noted."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from abreast.integrations.sorrel.events import MEMORY_CALLS, MODEL_CALLS, Event

Note = Callable[..., None]
"""Is told an event and the arguments of the call."""


class EpochCalls:
    """How an environment calls the model of one of its agents at the start and the end of an epoch, and to train it.

    Environments may have their own ways (`_model_start_epoch_action` and others).
    """

    def __init__(self, env: Any, agent: Any) -> None:
        self._env, self._agent = env, agent

    def start(self, epoch: int) -> None:
        if hasattr(self._env, "_model_start_epoch_action"):
            self._env._model_start_epoch_action(self._agent, epoch)
        else:
            self._agent.model.start_epoch_action(epoch=epoch)

    def end(self, epoch: int) -> None:
        if hasattr(self._env, "_model_end_epoch_action"):
            self._env._model_end_epoch_action(self._agent, epoch)
        else:
            self._agent.model.end_epoch_action(epoch=epoch)

    def train(self) -> Any:
        if hasattr(self._env, "_model_train_step"):
            return self._env._model_train_step(self._agent)
        return self._agent.model.train_step()


class Watch:
    """Notes calls of a model, and of its memory, that playing changes them by. Calls inside of such a call belong to it."""

    def __init__(self, model: Any, note: Note) -> None:
        self._model, self._note = model, note
        self.is_on = False

    def begin(self) -> None:
        """Note calls from now on. (Again after a call that may have made another memory.)"""
        self.is_on = True
        for owner, calls in self._owners():
            for name, event in calls.items():
                if callable(getattr(type(owner), name, None)):
                    vars(owner)[name] = _Noted(self, getattr(type(owner), name).__get__(owner), event)

    def end(self) -> None:
        """The model is as it was, without a trace of this."""
        self.is_on = False
        for owner, calls in self._owners():
            for name in calls:
                if isinstance(vars(owner).get(name), _Noted):
                    del vars(owner)[name]

    def _owners(self) -> tuple[tuple[Any, Mapping[str, Event]], ...]:
        return (self._model, MODEL_CALLS), (self._model.memory, MEMORY_CALLS)

    @contextmanager
    def off(self) -> Iterator[None]:
        """Inside, calls are not noted: they belong to one that is."""
        was, self.is_on = self.is_on, False
        try:
            yield
        finally:
            self.is_on = was

    def call(self, method: Callable[..., Any], event: Event, *arguments: Any, **named: Any) -> Any:
        """Call a method, and note it."""
        if not self.is_on:
            return method(*arguments, **named)
        with self.off():
            result = method(*arguments, **named)
        self._note(event, *arguments, **named)
        return result


class _Noted:
    """A method whose calls are noted."""

    def __init__(self, watch: Watch, method: Callable[..., Any], event: Event) -> None:
        self._watch, self._method, self._event = watch, method, event

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._watch.call(self._method, self._event, *arguments, **named)
