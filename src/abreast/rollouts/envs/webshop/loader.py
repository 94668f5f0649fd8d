"""The public product files of WebShop, read as a stream: the largest has more than a million products.

items_shuffle.json, items_shuffle_1000.json    products, a list
items_ins_v2.json, items_ins_v2_1000.json      attributes and made-up goals, by product
items_human_ins.json                           goals in shoppers' words, by product (may be missing)
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from abreast.errors import ConfigError
from abreast.rollouts.envs.webshop.build import Source
from abreast.rollouts.envs.webshop.goals import digest

PRODUCTS, LABELS, WISHES = "items_shuffle", "items_ins_v2", "items_human_ins.json"
_NAMES = {"small": f"{PRODUCTS}_1000.json", "full": f"{PRODUCTS}.json"}
_CHUNK = 1 << 20
_LONGEST_VALUE = 64 << 20
_BETWEEN = re.compile(r"[\s,:]*")


def files_source(data: Path, dataset: str | None = None) -> Source:
    """The files in a folder (with a `dataset`, those of that size), or beside the product file that is named."""
    products = _products_file(data, _NAMES.get(dataset or "", f"{PRODUCTS}*.json"))
    labels = products.with_name(products.name.replace(PRODUCTS, LABELS))
    if not labels.is_file():
        raise ConfigError(f"there is no file {labels}, which goes with {products.name}: put it beside it.")
    wishes = products.with_name(WISHES)
    present = [path for path in (products, labels, wishes) if path.is_file()]
    return Source(
        name=f"{products.stem}-{digest(products.absolute()).hex()}.sqlite",
        key=digest(*((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in present)).hex(),
        products=lambda: read_values(products, "[", "]"),
        labels=lambda: read_object(labels),
        wishes=lambda: read_object(wishes) if wishes in present else (),
    )


def _products_file(data: Path, name: str) -> Path:
    found = [data] if data.is_file() else sorted(data.glob(name))
    if len(found) != 1 or not found[0].name.startswith(PRODUCTS):
        names = ", ".join(path.name for path in found) or "none"
        raise ConfigError(
            f"data is {data}: expected a file called {name}, or a folder with one. Found: {names}; name the one to use."
        )
    return found[0]


def read_object(path: Path) -> Iterator[tuple[str, Any]]:
    """The keys and values of a file that holds one JSON object, one after the other."""
    values = read_values(path, "{", "}")
    return zip(values, values, strict=False)


def read_values(path: Path, opening: str, closing: str) -> Iterator[Any]:
    """What stands between the brackets of a file, keys and values alike; only the value under way is held."""
    decoder, text, at = json.JSONDecoder(), "", 0
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = next(filter(str.strip, iter(lambda: file.read(1), "")), "")
            if first != opening:
                raise ValueError(f"expected {opening!r}, but it begins with {first!r}")
            while not text.startswith(closing, at):
                try:
                    value, end = decoder.raw_decode(text, at)
                except json.JSONDecodeError as error:  # damaged, or not read to its end yet
                    held = text[at:]
                    more = file.read(max(_CHUNK, len(held))) if len(held) <= _LONGEST_VALUE else ""
                    if not more:
                        raise ValueError(f"it ends too early, or is damaged ({error})") from None
                    text, at = held + more, 0
                else:
                    yield value
                    at = end
                at = next(_BETWEEN.finditer(text, at)).end()
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"the file {path} cannot be read as JSON: {error}. Fetch it again.") from None
