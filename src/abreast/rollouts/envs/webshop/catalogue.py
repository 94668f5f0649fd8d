"""The catalogue: products, their search index and the goals, in one read-only SQLite file.

All workers of a machine read the same file through the operating system's page cache; a process holds one connection
with SQLite's small cache and the products it saw last, so memory does not grow with the catalogue or with workers.
"""

import copy
import json
import os
import sqlite3
import string
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gymnasium.spaces import Text

from abreast.errors import ConfigError

MAX_RESULTS = 50
"""Products a search finds at most."""
PLAIN_CHARACTERS = frozenset(string.digits + string.ascii_letters + string.punctuation + " \n")
"""What pages consist of, whatever the catalogue adds."""

_KEPT_PRODUCTS, _KEPT_SEARCHES = 256, 256


@dataclass(frozen=True, slots=True)
class Product:
    """Something to buy."""

    asin: str
    """Its number."""
    title: str
    price: float
    """What it costs, when its tag names a range too."""
    price_tag: str
    query: str
    """The kind of product, as somebody would search for it."""
    categories: Sequence[str]
    bullets: Sequence[str]
    description: str
    options: Mapping[str, Sequence[str]]
    """What may be chosen, in lower case: name, such as color, and values."""
    attributes: Sequence[str]
    rating: str
    reviews: Sequence[str]
    image: str
    """Address of a picture, or nothing."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a shopper wants."""

    asin: str
    """The product the shopper has in mind."""
    instruction: str
    attributes: Sequence[str]
    options: Sequence[str]
    price_limit: float | None
    """None: any price will do."""


class Catalogue:
    """A catalogue file, open for reading. Pickles as its path; each process opens it for itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.product = lru_cache(_KEPT_PRODUCTS)(self._product)
        self.search = lru_cache(_KEPT_SEARCHES)(self._search)
        self._pid = -1
        self._connection: sqlite3.Connection
        meta = dict(self._rows("SELECT key, value FROM meta"))
        self.source = str(meta["source"])
        self.goal_counts: Mapping[str, int] = json.loads(meta["goal_counts"])
        self.characters = PLAIN_CHARACTERS | set(meta["characters"])
        self._space = Text(1, charset=self.characters)

    def _product(self, asin: str) -> Product:
        ((data,),) = self._rows("SELECT data FROM products WHERE asin = ?", asin)
        return Product(**json.loads(data))

    def _search(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The numbers of the products that fit these words best, by BM25; the order of the file settles ties."""
        query = " OR ".join(f'"{word}"' for word in words)  # quoted: no word is taken for an operator
        rows = self._rows(
            "SELECT asin FROM (SELECT rowid AS id, bm25(words) AS rank FROM words WHERE words MATCH ?"
            " ORDER BY rank, id LIMIT ?) JOIN products USING (id) ORDER BY rank, id",
            query,
            MAX_RESULTS,
        )
        return tuple(asin for (asin,) in rows)

    def goal(self, kind: str, place: int) -> Goal:
        """The goal of a kind (human, synthetic) at a place in the fixed order."""
        ((data,),) = self._rows("SELECT data FROM goals WHERE kind = ? AND place = ?", kind, place)
        return Goal(**json.loads(data))

    def text_space(self, max_length: int) -> Text:
        """A space of texts in the characters of this catalogue, with random state of its own."""
        space = copy.copy(self._space)  # shares the tables of characters, which may be long and never change
        space.max_length = max_length
        return space

    def _rows(self, sql: str, *values: object) -> list[Any]:
        if self._pid != os.getpid():  # a connection must not be carried over a fork
            # immutable: the file is never written after it got its name, so no locks and no journal are looked for.
            uri = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
            self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._pid = os.getpid()
        return self._connection.execute(sql, values).fetchall()

    def __reduce__(self) -> tuple[object, ...]:
        return open_catalogue, (self.path, self.source)


_OPEN: dict[tuple[Path, str], Catalogue] = {}


def find_catalogue(path: Path, source: str) -> Catalogue | None:
    """The catalogue in a file if it is there, whole, and made from `source`; one for all environments of a process."""
    if (path, source) not in _OPEN:
        with suppress(sqlite3.Error, ValueError, KeyError):
            catalogue = Catalogue(path)
            _OPEN[path, catalogue.source] = catalogue
    return _OPEN.get((path, source))


def open_catalogue(path: Path, source: str) -> Catalogue:
    """The catalogue in a file that must be there, because an environment of another process uses it."""
    catalogue = find_catalogue(path, source)
    if catalogue is None:
        raise ConfigError(f"the catalogue {path} is gone or was rebuilt from other files: make the environment anew.")
    return catalogue
