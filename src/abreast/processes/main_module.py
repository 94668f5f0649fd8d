"""The user's main script, and how a child imports it, if it needs what is defined there."""

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

NAME_IN_CHILDREN = "__mp_main__"
"""As `multiprocessing` has it: what stands under `if __name__ == "__main__"` is not executed."""


class MainModule(NamedTuple):
    """Where it can be imported from."""

    name: str
    """Its file; if `python -m` has started it, the name of the module."""
    is_module: bool


def main_module() -> MainModule | None:
    """The main module of this program. None if no other process can import it: a notebook, or a script from a pipe."""
    main = sys.modules["__main__"]
    sys.modules.setdefault(NAME_IN_CHILDREN, main)  # what children send is found under this name
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return MainModule(spec.name, True)
    path = Path(getattr(main, "__file__", None) or "<stdin>")
    return MainModule(str(path.absolute()), False) if path.is_file() else None


def import_main(main: MainModule) -> None:
    """Make the main module of the program that of this process, too."""
    module = ModuleType(NAME_IN_CHILDREN)
    if main.is_module:
        found = runpy.run_module(main.name, run_name=NAME_IN_CHILDREN, alter_sys=True)
    else:
        found = runpy.run_path(main.name, run_name=NAME_IN_CHILDREN)
    vars(module).update(found)
    sys.modules["__main__"] = sys.modules[NAME_IN_CHILDREN] = module
