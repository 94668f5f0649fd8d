"""The public product files of WebShop, read as a stream: the largest has more than a million products.

items_shuffle.json, items_shuffle_1000.json    products, a list
items_ins_v2.json, items_ins_v2_1000.json      attributes and made-up goals, by product
items_human_ins.json                           goals in shoppers' words, by product (may be missing)
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abreast.errors import ConfigError
from abreast.rollouts.envs.webshop.build import Source
from abreast.rollouts.envs.webshop.goals import digest

PRODUCTS, LABELS, WISHES = "items_shuffle", "items_ins_v2", "items_human_ins.json"
_CHUNK = 1 << 20
_LONGEST_VALUE = 64 << 20


def files_source(data: Path) -> Source:
    """The files in a folder, or beside the product file that is named."""
    products = _products_file(data)
    labels = products.with_name(products.name.replace(PRODUCTS, LABELS))
    if not labels.is_file():
        raise ConfigError(f"there is no file {labels}, which goes with {products.name}: put it beside it.")
    wishes = products.with_name(WISHES)
    present = [path for path in (products, labels, wishes) if path.is_file()]
    return Source(
        name=f"{products.stem}-{digest(products.absolute()).hex()}.sqlite",
        key=digest(*((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in present)).hex(),
        products=lambda: read_list(products),
        labels=lambda: read_object(labels),
        wishes=lambda: read_object(wishes) if wishes in present else (),
    )


def _products_file(data: Path) -> Path:
    if data.is_file():
        if not data.name.startswith(PRODUCTS):
            raise ConfigError(f"data is {data}, expected a file called {PRODUCTS}*.json, or the folder it is in.")
        return data
    if not data.is_dir():
        raise ConfigError(f"data is {data}, which is not there: name the folder of the product files, or one of them.")
    found = sorted(data.glob(f"{PRODUCTS}*.json"))
    if not found:
        raise ConfigError(f"data is {data}, where there is no {PRODUCTS}*.json: name the folder of the product files.")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ConfigError(f"data is {data}, which holds {names}: name the one to use, such as {found[-1]}.")
    return found[0]


def read_list(path: Path) -> Iterator[Any]:
    """The values of a file that holds one JSON list, one after the other."""
    return (value for _, value in _Stream(path).items("[", "]"))


def read_object(path: Path) -> Iterator[tuple[str, Any]]:
    """The keys and values of a file that holds one JSON object, one after the other."""
    return _Stream(path).items("{", "}")


class _Stream:
    """A file of JSON, of which only the value under way is held."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text, self._at = "", 0
        self._decoder = json.JSONDecoder()

    def items(self, opening: str, closing: str) -> Iterator[tuple[str, Any]]:
        """What stands between the brackets, with its key if it has one."""
        try:
            with self._path.open(encoding="utf-8-sig") as self._file:
                self._expect(opening)
                while self._next() != closing:
                    key = self._value() if opening == "{" else ""
                    if opening == "{":
                        self._expect(":")
                    yield key, self._value()
                    if self._next() != closing:
                        self._expect(",")
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(f"the file {self._path} cannot be read as JSON: {error}. Fetch it again.") from None

    def _next(self) -> str:
        """The next character that is no blank."""
        while True:
            while self._at < len(self._text):
                if not self._text[self._at].isspace():
                    return self._text[self._at]
                self._at += 1
            if not self._read_on():
                raise ValueError("it ends too early")

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise ValueError(f"expected {character!r}, found {self._text[self._at : self._at + 20]!r}")
        self._at += 1

    def _value(self) -> Any:
        self._next()
        while True:
            try:
                value, self._at = self._decoder.raw_decode(self._text, self._at)
                return value
            except json.JSONDecodeError:  # damaged, or not read to its end yet
                if not self._read_on():
                    raise

    def _read_on(self) -> bool:
        """Read as much again as is held: whoever tries again and again after it still does work in proportion."""
        self._text, self._at = self._text[self._at :], 0
        if len(self._text) > _LONGEST_VALUE:
            return False
        more = self._file.read(max(_CHUNK, len(self._text)))
        self._text += more
        return bool(more)
