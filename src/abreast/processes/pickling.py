"""Pickling what users bring: also lambdas, local classes and what was defined in a notebook."""

import io
import pickle
import sys
from collections.abc import Callable
from types import FunctionType
from typing import IO, Any

import cloudpickle  # type: ignore[import-untyped]

from abreast.processes.main_module import main_module


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Sends classes and functions by name where another process can import them, and by value where it cannot.

    Those of the user's script go by name: children that need them import the script, and a class must be one and the same
    for all that is sent. A notebook, or a script that is read from a pipe, cannot be imported.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._has_script = main_module() is not None

    def reducer_override(self, value: Any) -> Any:
        is_named = self._has_script and isinstance(value, type | FunctionType) and value.__module__ == "__main__"
        if is_named and getattr(sys.modules["__main__"], value.__qualname__, None) is value:
            return NotImplemented
        return super().reducer_override(value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, find: Callable[[Any], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._find = find

    def persistent_load(self, name: Any) -> Any:  # a method: Python 3.13.0 lets nobody set one on an instance
        return self._find(name)


def loads_with(data: bytes, find: Callable[[Any], Any]) -> Any:
    """What was pickled; `find` is given the name of each object that was left out, and returns it."""
    return _Unpickler(data, find).load()
