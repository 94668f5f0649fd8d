"""Finding parts by name: every package in a folder of ours, and every entry point of a group.

An installed package adds its own with, say,

    [project.entry-points."abreast.games"]
    mygame = "my_package.mygame:GAME"
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from abreast.errors import AbreastError, nearest


@dataclass(frozen=True)
class Plugins:
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
        return sorted(self._sources())

    def ships(self, name: str) -> bool:
        """Whether it is one of ours."""
        return name in self._own_names()

    def find(self, name: str) -> Any:
        """The part of that name."""
        sources = self._sources()
        if name not in sources:
            raise self.error(f"there is no {self.noun} {name!r}: {nearest(name, sources)}")
        return sources[name]()

    def _sources(self) -> dict[str, Callable[[], Any]]:
        points = entry_points(group=self.group)
        sources: dict[str, Callable[[], Any]] = {point.name: partial(self._installed, point) for point in points}
        return sources | {name: partial(self._own, name) for name in self._own_names()}  # ours cannot be taken away

    def _own_names(self) -> list[str]:
        package = importlib.import_module(self.package)
        return [module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg]

    def _own(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{self.package}.{name}"), self.attribute)

    def _installed(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except Exception as error:
            raise self.error(f"the {self.noun} {point.name!r} ({point.value}) does not load: {error!r}.") from error
