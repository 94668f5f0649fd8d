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
    CREATE TEMP TABLE labels (asin TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID;
    CREATE TEMP TABLE wishes (asin TEXT PRIMARY KEY, data TEXT) WITHOUT ROWID;
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
    for folder in folders:
        if _writable(folder):
            path = folder / source.name
            with _one_at_a_time(path):
                if find_catalogue(path, key) is None:  # unless another process built it while this one waited
                    _build_whole(path, key, source)
            return open_catalogue(path, key)
    places = " and ".join(str(folder) for folder in folders)
    raise ConfigError(
        f"the catalogue of the web shop cannot be written to {places}: set cache_dir to a folder that can."
    )


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
            _Builder(database).build(key, source)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except (sqlite3.Error, OSError) as error:
        raise ConfigError(f"the catalogue {path} cannot be built: {error}.") from error
    finally:
        beside.unlink(missing_ok=True)


class _Builder:
    """Fills an empty database, product by product."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._characters: set[str] = set()
        self._counts = {"human": 0, "synthetic": 0}

    def build(self, key: str, source: Source) -> None:
        self._database.executescript(_TABLES)
        self._add_entries("labels", source.labels())
        self._add_entries("wishes", source.wishes())
        for number, record in enumerate(source.products(), start=1):
            if not isinstance(record, Mapping):
                raise ConfigError(f"product {number} is {record!r:.80}, expected an object with asin, name and so on.")
            self._add_product(record)
        meta = {
            "source": key,
            "goal_counts": json.dumps(self._counts),
            "characters": "".join(sorted(self._characters)),
        }
        self._database.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        self._database.execute(_NUMBER_THE_GOALS)
        self._database.execute("INSERT INTO words (words) VALUES ('optimize')")
        self._database.execute("COMMIT")

    def _add_entries(self, table: str, entries: Iterable[tuple[str, object]]) -> None:
        rows = ((clean(asin), json.dumps(entry)) for asin, entry in entries)
        self._database.executemany(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", rows)

    def _entry(self, table: str, asin: str) -> object:
        row = self._database.execute(f"SELECT data FROM {table} WHERE asin = ?", (asin,)).fetchone()
        return json.loads(row[0]) if row else None

    def _add_product(self, record: Mapping[str, object]) -> None:
        asin = clean(record.get("asin"))
        label, wishes = self._entry("labels", asin), self._entry("wishes", asin)
        product = product_from(record, label)
        if product is None:
            return
        added = self._database.execute(
            "INSERT OR IGNORE INTO products (asin, data) VALUES (?, ?)", (product.asin, self._as_text(product))
        )
        if not added.rowcount:  # the number was there before: the first one stays
            return
        self._database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, search_text(product)))
        self._add_goals("human", human_goals(product, wishes))
        self._add_goals("synthetic", synthetic_goals(product, label))

    def _add_goals(self, kind: str, goals: Iterable[Goal]) -> None:
        for number, goal in enumerate(goals):
            place = digest("order", kind, goal.asin, number)
            self._database.execute("INSERT INTO drawn VALUES (?, ?, ?)", (kind, place, self._as_text(goal)))
            self._counts[kind] += 1

    def _as_text(self, thing: Product | Goal) -> str:
        values = {name: getattr(thing, name) for name in thing.__slots__}  # dataclasses.asdict copies all, and slowly
        text = json.dumps(values, ensure_ascii=False)
        self._characters.update(text, text.lower())
        return text
