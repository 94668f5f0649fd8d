"""Finding parts by name: every package in a folder of ours, every entry point of a group, and what a user points to.

An installed package adds its own with, say,

    [project.entry-points."abreast.games"]
    mygame = "my_package.mygame:GAME"

Without a package, `import_target` finds `my_module:Game` and `path/to/game.py:Game`.
"""

import importlib
import pkgutil
import re
import sys
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from abreast.errors import AbreastError, GameError, nearest, words

IMPORTING: ContextVar[str | None] = ContextVar("IMPORTING", default=None)
"""The module that is being imported because a user has named it."""


@cache
def entry_points(group: str) -> metadata.EntryPoints:
    """Those of a group. Asked once: it takes 40 ms where a hundred packages are installed."""
    return metadata.entry_points(group=group)


def end_if_too_old() -> None:
    """End the program, with a sentence and exit code 2, if an installed package is older than this one needs.

    Packages that cannot be found by their metadata are passed over.
    """
    with suppress(metadata.PackageNotFoundError):
        for name, least in re.findall(
            r"^([\w.-]+)>=([\d.]+)$", "\n".join(metadata.requires("abreast") or ()), re.MULTILINE
        ):
            there = metadata.distribution(name)
            found, needed = ([int(number) for number in re.findall(r"\d+", each)] for each in (there.version, least))
            if found < needed:
                sys.stderr.write(
                    f"abreast: {name} {there.version} is installed in {there.locate_file('')}, but abreast needs {name}"
                    f' {least} or newer: run `pip install "{name}>={least}"`. If another package needs the older one,'
                    " install abreast in an environment of its own.\n"
                )
                sys.exit(2)


class Plugins(NamedTuple):
    """Parts of one kind."""

    noun: str
    """What a part is called in messages."""
    package: str
    """The package whose sub-packages are the parts that ship."""
    attribute: str
    """What such a sub-package calls its part."""
    group: str
    """The entry-point group of parts that other packages bring."""
    error: type[AbreastError]

    def names(self) -> list[str]:
        """The names of all parts that can be found, whether or not they load."""
        return sorted({*self._own_names(), *(point.name for point in entry_points(group=self.group))})

    def ships(self, name: str) -> bool:
        """Whether it is one of ours."""
        return name in self._own_names()

    def find(self, name: str) -> Any:
        """The part of that name."""
        if self.ships(name):  # ours cannot be taken away
            return getattr(importlib.import_module(f"{self.package}.{name}"), self.attribute)
        installed = {point.name: point for point in entry_points(group=self.group)}
        if name not in installed:
            raise self.error(f"there is no {self.noun} {name!r}: {nearest(name, self.names())}")
        try:
            return installed[name].load()
        except Exception as error:
            where = installed[name].value
            raise self.error(f"the {self.noun} {name!r} ({where}) does not load: {error!r}.") from error

    def _own_names(self) -> list[str]:
        package = importlib.import_module(self.package)
        return [module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg]


def import_extra(name: str, whose: str, extra: str, error: type[AbreastError], otherwise: str = ".") -> Any:
    """Import an optional package, or raise an error that says how to install it; `whose` ends with "needs" or "need"."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise error(
            f'{whose} the package {name.partition(".")[0]}: pip install "abreast[{extra}]"{otherwise}'
        ) from None


def is_target(text: str) -> bool:
    """Whether a text points to a user's own code (`module:Name`, `file.py`, `file.py:Name`) instead of being a name."""
    return ":" in text or text.endswith(".py")


def split_target(text: str) -> tuple[str, str, str]:
    """The module or file of a target, the colon if there is one, and the name."""
    return text.rpartition(":") if ":" in text else (text, "", "")


def import_target(
    text: str, noun: str, error: type[AbreastError], kind: type | None = None, is_of_run: bool = False
) -> Any:
    """What `module:Name` or `file.py:Name` points to; the module itself where no name is given. `kind`: of the classes that
    are proposed where there is no such name. Files that settings of a run name are looked for in `sys.path`, too, as
    modules are, but in the current folder first.
    """
    place, colon, attribute = split_target(text)
    if not place or (colon and not attribute):
        raise error(f"{text!r} names no {noun}: expected MODULE:NAME or FILE.py:NAME, say my_module:Mine.")
    module = _import_file(Path(place), error, is_of_run) if place.endswith(".py") else _import_module(place, error)
    if not attribute:
        return module
    if not hasattr(module, attribute):
        own = [key for key, value in vars(module).items() if _fits(value, kind) and not key.startswith("_")]
        nothing = f"it has no {'function or class' if kind is None else f'class derived from {kind.__name__}'}."
        raise error(f"{place} has no {attribute!r}: {nearest(attribute, own, None if own else nothing)}")
    return getattr(module, attribute)


def _fits(value: object, kind: type | None) -> bool:
    """Whether a part of a module may be meant; if classes of a kind are, then none of ours, which it has imported."""
    if kind is None:
        return callable(value)
    return isinstance(value, type) and issubclass(value, kind) and not value.__module__.startswith("abreast.")


def modules_beside(name: str) -> list[str]:
    """The modules of the package that a module is named in; of the current folder, where it is in no package."""
    package = name.rpartition(".")[0]
    return [
        f"{package}.{each.name}".lstrip(".")
        for each in pkgutil.iter_modules(getattr(sys.modules.get(package), "__path__", ["."]))
    ]


def _import_file(path: Path, error: type[AbreastError], is_of_run: bool) -> ModuleType:
    """The module in a file, imported by its name from its folder, so that worker processes find it too."""
    folders = ("", *sys.path) if is_of_run else ("",)
    found = next((each for folder in folders if (each := Path(folder) / path).is_file()), None)
    if found is None:
        hint = nearest(path.name, (each.name for each in path.parent.glob("*.py")), "")
        raise error(f"there is no file {path}: {hint}" if hint else f"there is no file {path}.")
    main = sys.modules["__main__"]
    if Path(getattr(main, "__file__", None) or "").resolve() == found.resolve():
        return main  # the script that runs: importing it again would run it twice, and make another class of each
    folder = str(found.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = _import_module(found.stem, error)
    if Path(module.__file__ or "").resolve() != found.resolve():
        raise error(
            f"{found} cannot be imported, because there is another module {found.stem!r} ({module.__file__}): rename the"
            " file."
        )
    return module


def refuse_while_importing(call: str) -> None:
    """Refuse a run that a module begins while it is imported to be looked at: every command would train."""
    if (name := IMPORTING.get()) is not None:
        raise GameError(
            f"{name} calls {call} when it is imported, as all commands and workers do: put that below"
            ' `if __name__ == "__main__":`.'
        )


def _import_module(name: str, error: type[AbreastError]) -> ModuleType:
    before = IMPORTING.set(name)
    try:
        return importlib.import_module(name)
    except AbreastError as raised:
        raise error(str(raised)) from raised
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise error(f"importing {name} failed: {missing}.") from None
        package, _, last = name.rpartition(".")
        if isinstance(found := getattr(sys.modules.get(package), last, None), ModuleType):
            return found  # one that lies elsewhere, which its package calls so
        hint = nearest(missing.name, modules_beside(missing.name), "run this in the folder it lies in, or install it.")
        raise error(f"there is no module {missing.name!r}: {hint}") from None
    except (Exception, SystemExit) as raised:
        raise error(f"importing {name!r} failed: it raised {words(raised, Path(__file__).parent)}.") from raised
    finally:
        IMPORTING.reset(before)
