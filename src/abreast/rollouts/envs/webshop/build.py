"""Building the catalogue file: once, by one process, beside its place, and renamed when it is whole."""

import json
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from abreast.errors import ConfigError
from abreast.rollouts.envs.webshop.catalogue import Catalogue, Goal, Product, find_catalogue, open_catalogue
from abreast.rollouts.envs.webshop.goals import digest, human_goals, synthetic_goals
from abreast.rollouts.envs.webshop.records import product_from, search_text
from abreast.rollouts.envs.webshop.words import clean

FORMAT = 1
"""Raise it with every change of what is built from the same files."""
_LONGEST_WAIT = 6 * 3600.0

_TABLES = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    BEGIN;
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
    CREATE TABLE products (id INTEGER PRIMARY KEY, asin TEXT UNIQUE COLLATE NOCASE, data TEXT);
    CREATE VIRTUAL TABLE words USING fts5(text, content='', tokenize='porter unicode61');
    CREATE TABLE goals (kind TEXT, place INTEGER, data TEXT, PRIMARY KEY (kind, place)) WITHOUT ROWID;
    CREATE TEMP TABLE entries (asin TEXT, kind TEXT, data TEXT, PRIMARY KEY (asin, kind)) WITHOUT ROWID;
    CREATE TEMP TABLE drawn (kind TEXT, digest BLOB, data TEXT);
"""
_NUMBER_THE_GOALS = """
    INSERT INTO goals SELECT kind, row_number() OVER (PARTITION BY kind ORDER BY digest, data) - 1, data FROM drawn
"""


@dataclass(frozen=True)
class Source:
    """Where products come from, in the shape of the public files."""

    name: str
    """What the catalogue file is called."""
    key: str
    """Another one for other content: a catalogue of another key is out of date."""
    products: Callable[[], Iterable[object]]
    """Records of `items_shuffle*.json`."""
    labels: Callable[[], Iterable[tuple[str, object]]]
    """Entries of `items_ins_v2*.json`: by product, its attributes and a goal made from them."""
    wishes: Callable[[], Iterable[tuple[str, object]]]
    """Entries of `items_human_ins.json`: by product, what shoppers wrote."""


def catalogue_from(source: Source, folders: Sequence[Path]) -> Catalogue:
    """The catalogue made from a source: found in one of the folders, or built in the first that can be written."""
    key = f"{source.key} format {FORMAT}"
    for folder in folders:
        if (found := find_catalogue(folder / source.name, key)) is not None:
            return found
    writable = next(filter(_writable, folders), None)
    if writable is None:
        places = " and ".join(map(str, folders))
        raise ConfigError(
            f"the catalogue of the web shop cannot be written to {places}: set cache_dir to a folder that can."
        )
    path = writable / source.name
    with _one_at_a_time(path):
        if find_catalogue(path, key) is None:  # unless another process built it while this one waited
            _build_whole(path, key, source)
    return open_catalogue(path, key)


def user_folders() -> list[Path]:
    """Where a catalogue goes that has no folder of its own: the user's cache, or else the place for temporary files."""
    folders = []
    with suppress(RuntimeError):  # a user without a home
        folders.append(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "abreast")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return [*folders, Path(tempfile.gettempdir()) / f"abreast-{user}"]


def _writable(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Whoever comes second waits. A lock of SQLite's, because it falls with its process and is the same on every system."""
    with closing(sqlite3.connect(path.with_name(f".{path.name}.lock"), timeout=_LONGEST_WAIT)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error:
            pass  # a file system without locks: then both build, and the last one's file stays
        else:
            for left_over in path.parent.glob(f".{path.name}.*.part"):  # of a process that was killed while building
                left_over.unlink(missing_ok=True)
        yield


def _build_whole(path: Path, key: str, source: Source) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with closing(sqlite3.connect(beside, isolation_level=None)) as database:
            _fill(database, key, source)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(f"the catalogue {path} cannot be built: {error}.") from error
    finally:
        beside.unlink(missing_ok=True)


def _fill(database: sqlite3.Connection, key: str, source: Source) -> None:
    """Fill an empty database, product by product."""
    database.executescript(_TABLES)
    for kind, entries in {"label": source.labels(), "wishes": source.wishes()}.items():
        for asin, entry in entries:
            row = (clean(asin), kind, json.dumps(entry))
            database.execute("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", row)
    characters: set[str] = set()
    for number, record in enumerate(source.products(), start=1):
        if not isinstance(record, Mapping):
            raise ConfigError(f"product {number} is {record!r:.80}, expected an object with asin, name and so on.")
        added = _add_product(database, record)
        characters.update(added, added.lower())
    counted = dict(database.execute("SELECT kind, count(*) FROM drawn GROUP BY kind").fetchall())
    meta = {
        "source": key,
        "goal_counts": json.dumps({kind: counted.get(kind, 0) for kind in ("human", "synthetic")}),
        "characters": "".join(sorted(characters)),
    }
    database.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
    database.execute(_NUMBER_THE_GOALS)
    database.execute("INSERT INTO words (words) VALUES ('optimize')")
    database.execute("COMMIT")


def _add_product(database: sqlite3.Connection, record: Mapping[str, object]) -> str:
    """Add a product and the goals for it, unless its number was there before; returns their texts."""
    found = database.execute("SELECT kind, data FROM entries WHERE asin = ?", (clean(record.get("asin")),)).fetchall()
    entries = {kind: json.loads(data) for kind, data in found}
    product = product_from(record, entries.get("label"))
    if product is None:
        return ""
    text = _as_json(product)
    added = database.execute("INSERT OR IGNORE INTO products (asin, data) VALUES (?, ?)", (product.asin, text))
    if not added.rowcount:
        return text
    database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, search_text(product)))
    human, synthetic = human_goals(product, entries.get("wishes")), synthetic_goals(product, entries.get("label"))
    for kind, goals in (("human", human), ("synthetic", synthetic)):
        rows = [(kind, digest("order", kind, product.asin, n), _as_json(goal)) for n, goal in enumerate(goals)]
        database.executemany("INSERT INTO drawn VALUES (?, ?, ?)", rows)
        text += "".join(data for _, _, data in rows)
    return text


def _as_json(thing: Product | Goal) -> str:
    # dataclasses.asdict copies all, and slowly
    return json.dumps({name: getattr(thing, name) for name in thing.__slots__}, ensure_ascii=False)
