"""Rows of trajectories as a Parquet file. Its columns are the same for any episodes, also where a list is empty."""

import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from abreast.errors import RolloutError
from abreast.rollouts.context.cleaning import encodable


def to_parquet(rows: Sequence[Mapping[str, Any]], per_turn: bool, with_tokens: bool) -> bytes:
    """The bytes of the file."""
    try:
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise RolloutError(
            'writing Parquet needs the package pyarrow: pip install "abreast[parquet]", or write .jsonl.'
        ) from None
    schema = _schema(pyarrow, per_turn, with_tokens)
    table = pyarrow.Table.from_pylist([_encodable(row) for row in rows], schema=schema)
    file = io.BytesIO()
    parquet.write_table(table, file)
    return file.getvalue()


def _schema(pyarrow: Any, per_turn: bool, with_tokens: bool) -> Any:
    text, number, real, truth = pyarrow.string(), pyarrow.int64(), pyarrow.float64(), pyarrow.bool_()
    message = pyarrow.struct([("role", text), ("content", text)])
    of = pyarrow.list_
    turn = [("turn", number), ("answer", text), ("turn_reward", real)]
    episode = [("answers", of(text)), ("rewards", of(real))]
    tokens = [("input_ids", of(number)), ("loss_mask", of(pyarrow.int8())), ("token_rewards", of(real))]
    return pyarrow.schema(
        [
            ("episode", number),
            ("group_id", number),
            ("tag", text),
            ("env_type", text),
            ("seed", pyarrow.uint64()),
            ("success", truth),
            ("reward", real),
            ("penalty", real),
            ("score", real),
            ("terminated", truth),
            ("truncated", truth),
            ("error", text),
            ("num_actions", number),
            ("num_turns", number),
            ("prompt_tokens", number),
            ("completion_tokens", number),
            ("policy", text),
            ("model", text),
            ("abreast_version", text),
            ("config_digest", text),
            ("messages", of(message)),
            ("images", of(text)),
            *(turn if per_turn else episode),
            *(tokens if with_tokens else []),
        ]
    )


def _encodable(value: Any) -> Any:
    """The value with halves of characters replaced: JSON can hold them, Parquet cannot."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, Mapping):
        return {key: _encodable(each) for key, each in value.items()}
    if isinstance(value, list) and value and not isinstance(value[0], int | float):
        return [_encodable(each) for each in value]
    return value
