"""Changes of valid inputs: bytes that are flipped, cut, doubled; values of another type, too deep, too large, not finite."""

import json
import random
from typing import Any

import yaml

ODD_TEXTS = (
    "", " ", "\0", "\ud800", "\udcff", "é́", "\u202e", "a" * 3_000, "<think>", "<answer>", "</answer>", "${a.b}", "../x", "/",
    "-1", "NaN", "1e999", "[", "{", "%s", "\n", "\x1b[31m", "😀", "null",
)  # fmt: skip
ODD_VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    float("-inf"), [], {}, [[]], [None], {"": None}, {"a": 1}, [1, "a", None], *ODD_TEXTS,
)  # fmt: skip
ODD_BYTES = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r", b"\t", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\ud800", b":", b",",
    b"- ", b"&a ", b"*a", b"!!python/object:os.system ", b"---\n", b"NaN", b"9" * 5_000, b"[" * 3_000, b"a" * 100_000,
)  # fmt: skip


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice([1, 2, 10, 200]))
        how = rng.randrange(6)
        if how == 0 and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif how == 1:
            data = data[:at]
        elif how == 2:
            data = data[:at] + data[end:]
        elif how == 3:
            data = data[:end] + data[at:]
        else:
            data = data[:at] + rng.choice(ODD_BYTES) + data[at:]
    return data


def damaged_text(text: str, rng: random.Random) -> str:
    """A text with some changes."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        odd = rng.choice([*ODD_TEXTS, chr(rng.randrange(0x11_0000)), text])
        text = text[:at] + odd + text[at + rng.choice([0, 0, 1, 5]) :]
    return text


def damaged_value(value: Any, rng: random.Random) -> Any:
    """A value in which something was replaced, removed, doubled or renamed."""
    places = list(_places(value, ()))
    for _ in range(rng.randint(1, 3)):
        place = rng.choice(places)
        value = _replaced(value, place, rng)
    return value


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield from _places(each, (*path, key))


def _replaced(value: Any, path: tuple[Any, ...], rng: random.Random) -> Any:
    if not path:
        return _other(value, rng)
    key, *rest = path
    if isinstance(value, dict) and key in value:
        inner = _replaced(value[key], tuple(rest), rng)
        how = rng.randrange(8) if not rest else 7
        if how == 0:
            return {name: each for name, each in value.items() if name != key}
        name = rng.choice([rng.choice(ODD_TEXTS), f"{key}x", str(key).upper()]) if how == 1 else key
        return {**{each: value[each] for each in value if each != key}, name: inner}
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        how = rng.randrange(8) if not rest else 7
        changed = [] if how == 0 else [value[key]] * 3 if how == 1 else [_replaced(value[key], tuple(rest), rng)]
        return [*value[:key], *changed, *value[key + 1 :]]
    return value


def _other(value: Any, rng: random.Random) -> Any:
    how = rng.randrange(8)
    if how == 0 and isinstance(value, str):
        return damaged_text(value, rng)
    if how == 1 and isinstance(value, int | float):
        return rng.choice([-value, value + 1, value * 10**6, value % 7 + 0.5, str(value)[:20]])
    if how == 2:
        return [value]
    if how == 3:
        return {"key": value}
    if how == 4:
        nested: Any = value
        for _ in range(rng.choice([20, 90, 400])):
            nested = [nested]
        return nested
    return rng.choice(ODD_VALUES)


def dump_json(value: Any, rng: random.Random) -> bytes:
    """JSON, sometimes with characters as they are, sometimes with a key that is there twice."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.7)
    if rng.random() < 0.1 and isinstance(value, dict) and value:
        key = rng.choice([key for key in value if isinstance(key, str)] or ["a"])
        text = f"{text[:-1]}, {json.dumps(key)}: {json.dumps(rng.choice(ODD_VALUES))}}}"
    return text.encode("utf-8", "surrogatepass")


def dump_yaml(value: Any, rng: random.Random) -> bytes:
    """YAML; JSON where a value cannot be written as YAML."""
    try:
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=rng.random() < 0.3)
    except (yaml.YAMLError, RecursionError):
        text = json.dumps(value)
    return text.encode("utf-8", "surrogatepass")
