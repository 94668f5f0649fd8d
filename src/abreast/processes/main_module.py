"""The user's main script, and how a child imports it, if it needs what is defined there."""

import runpy
import sys
from pathlib import Path
from types import ModuleType

NAME_IN_CHILDREN = "__mp_main__"
"""As `multiprocessing` has it: what stands under `if __name__ == "__main__"` is not executed."""


def main_module() -> str | None:
    """Where other processes can import the main module of this program: its file, or its name if `python -m` has started it.

    None if they cannot: a notebook, or a script that is read from a pipe.
    """
    main = sys.modules["__main__"]
    spec, path = getattr(main, "__spec__", None), Path(getattr(main, "__file__", None) or "<stdin>")
    if spec is not None and spec.name != "__main__":
        return str(spec.name)
    return str(path.absolute()) if path.is_file() else None


def import_main(name: str) -> None:
    """Make the main module of the program that of this process, too."""
    module = ModuleType(NAME_IN_CHILDREN)
    if Path(name).is_absolute():
        found = runpy.run_path(name, run_name=NAME_IN_CHILDREN)
    else:
        found = runpy.run_module(name, run_name=NAME_IN_CHILDREN, alter_sys=True)
    vars(module).update(found)
    sys.modules["__main__"] = sys.modules[NAME_IN_CHILDREN] = module
