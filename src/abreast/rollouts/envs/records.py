"""Records from a user's file: JSON lines, a JSON list or Parquet; each with its place in the file, for messages."""

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from abreast.errors import ConfigError
from abreast.plugins import import_extra

Split = Literal["all", "train", "val", "test"]
Record = TypeVar("Record")


def records_of_split(records: Sequence[Record], split: Split) -> Sequence[Record]:
    """Of every ten records, in the order of the file, the first eight are for training, the ninth for test, the tenth for
    validation. With fewer than ten, each split has them all."""
    if split == "all" or len(records) < 10:
        return records
    wanted = {"train": range(8), "test": (8,), "val": (9,)}[split]
    return [record for number, record in enumerate(records) if number % 10 in wanted]


def load_records(
    path: Path, fields: Sequence[str], make: Callable[[dict[str, Any], str], Record]
) -> tuple[Record, ...]:
    """Return what `make` makes of every record and its place ("tasks.jsonl, line 3").

    A record that is damaged or lacks a field is a `ConfigError`.
    """
    readers = {".jsonl": _json_lines, ".json": _json_list, ".parquet": _parquet_rows}
    if path.suffix not in readers:
        raise ConfigError(f"the data file {path} ends in {path.suffix!r}, expected .jsonl, .json or .parquet.")
    records = list[Record]()
    try:
        for place, record in readers[path.suffix](path, fields):
            if not isinstance(record, dict) or not all(field in record for field in fields):
                raise ConfigError(
                    f"{place} is not a record with the fields {' and '.join(fields)}: correct or remove it."
                )
            records.append(make(record, place))
    except OSError as error:
        raise ConfigError(f"cannot read the data file {path}: {error.strerror or error}.") from None
    if not records:
        raise ConfigError(f"the data file {path} holds no records with {' and '.join(fields)}: give another.")
    return tuple(records)


def _json_lines(path: Path, fields: Sequence[str]) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                place = f"{path}, line {number}"
                yield place, _from_json(line, place)


def _json_list(path: Path, fields: Sequence[str]) -> Iterator[tuple[str, Any]]:
    records = _from_json(path.read_bytes(), str(path))
    if not isinstance(records, list):
        raise ConfigError(f"{path} does not hold a JSON list: expected one of records with {' and '.join(fields)}.")
    for number, record in enumerate(records, start=1):
        yield f"{path}, record {number}", record


def _from_json(data: bytes, place: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
        raise ConfigError(f"{place} is not valid JSON ({error}): correct or remove it.") from None


def _parquet_rows(path: Path, fields: Sequence[str]) -> Iterator[tuple[str, Any]]:
    parquet = import_extra("pyarrow.parquet", f"reading {path} needs", "parquet", ConfigError)
    try:
        with parquet.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(columns=list(fields)) for row in batch.to_pylist())
            for number, record in enumerate(rows, start=1):
                yield f"{path}, row {number}", record
    except import_module("pyarrow").ArrowException as error:
        raise ConfigError(f"{path} is not a valid Parquet file: {str(error).splitlines()[0]}") from None
