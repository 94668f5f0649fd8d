"""Valid inputs made invalid, at random: bytes that are flipped, cut, doubled; values of another type, too deep, too large,
not finite; settings that YAML reads otherwise than one thinks."""

import json
import random
from typing import Any

import yaml

BOMB = "\n".join(
    [f"a0: &a0 [{', '.join(['x'] * 9)}]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
)
"""YAML of half a kilobyte that stands for 9**12 words."""
MAP_BOMB = "\n".join(
    ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{{', '.join(f'k{i}: *a{n - 1}' for i in range(9))}}}" for n in range(1, 12))]
)
DEEP = 400
"""More than the recursion limit allows: a level takes several calls."""
SCALARS = [
    "", "~", "true", "no", "0", "-1", "1", "3", "0.5", "-0.0", "1e-320", "1e308", "1e400", ".nan", ".inf", "-.inf", "1e-4",
    "9" * 30, "9" * 5000, "0x" + "f" * 5000, "0b" + "1" * 20000, "1_0", "1:30:00", "190:20:30.15", "2020-01-01",
    "2020-13-45",
    "2020-01-01T99:00:00Z", "''", '"\\0"', '"\\uD800"', '"\\uDFFF x"', "'\u202e'", "x" * 3000,
    "!!python/object/apply:os.getcwd []",
    "!!binary abc", "!!binary aGk=", "!!set {a, b}", "!!omap [a: 1]", "!!pairs [a: 1]", "!!timestamp x", "!!float x", "!x y",
    "&a [*a]", "&a {b: *a}", "*nowhere", "<<: 1", "{<<: [1]}", "{<<: {a: 1}}", "[]", "{}", "[1, [2, {a: b}]]", "{1: 2}",
    "{null: 1}", "{true: 1, 1: 2}", "{[1]: 2}", "{{a: b}: c}", "? [a]\n: b", "[" * DEEP, "[" * DEEP + "]" * DEEP,
    "{a: " * 300 + "1" + "}" * 300, "%YAML 9.9", "--- 1\n--- 2", "...", "@", "`", "|\n x", ">-\n x", "\t", "\ufeff1",
    "٣", "²", "1٣",
    "dqn", "ppo", "iqn", "os:sep", "abreast.models:DQN", "x.py:Y", ":", "a:b:c", "../x.py", "auto", "cuda:99", "cpu", "meta",
    "{algorithm: ppo}", "{0: {algorithm: ppo}}", "{0: 3}", "{'0': {}, 0: {}}", "{99999999999999999999: {}}", "{-1: {}}",
    "{0: {per_agent: {}}}", "{'" + "1" * 5000 + "': {}}", "\x00", "\x7f", "\x1b[31m", "\u2028", "😀",
]  # fmt: skip
ODD_TEXTS = (
    "", " ", "\0", "\ud800", "\udcff", "é́", "\u202e", "a" * 3_000, "<think>", "<answer>", "</answer>", "${a.b}", "../x", "/",
    "-1", "NaN", "1e999", "[", "{", "%s", "\n", "\x1b[31m", "😀", "null",
)  # fmt: skip
ODD_VALUES = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**400, 0.5, -0.0, 1e308, float("nan"), float("inf"),
    float("-inf"), [], {}, [[]], [None], {"": None}, {"a": 1}, [1, "a", None], {1: 2},
    {None: 1}, (1, 2), b"\xff\x00", 5e-324, "auto", "dqn", "processes", "threads", "inline", *ODD_TEXTS,
)  # fmt: skip
ODD_KEYS = ("x", 3, None, 1.5, True, "per_agent", "algorithm", "parallel")
ODD_BYTES = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r", b"\t", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\ud800", b":", b",",
    b"- ", b"&a ", b"*a", b"!!python/object:os.system ", b"---\n", b"NaN", b"9" * 5_000, b"[" * 3_000, b"a" * 100_000,
)  # fmt: skip


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a few changes: flipped, cut, removed, doubled, exchanged or inserted."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 20])):
        at = rng.randrange(len(out) + 1)
        end = min(len(out), at + rng.choice([1, 1, 2, 10, 64, 1024]))
        how = rng.randrange(8)
        if how == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del out[at:]
        elif how == 2:
            del out[at:end]
        elif how == 3:
            out[at:at] = out[at:end] * rng.choice([1, 2, 50])
        elif how == 4:
            out[at:end] = rng.randbytes(end - at)
        elif how == 5:
            out[at:at] = rng.choice(SCALARS).encode("utf-8", "surrogatepass")
        else:
            out[at:at] = rng.choice(ODD_BYTES)
    return bytes(out)


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
        name = (
            rng.choice([rng.choice(ODD_TEXTS), rng.choice(ODD_KEYS), f"{key}x", str(key).upper()]) if how == 1 else key
        )
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
    text = json.dumps(value, ensure_ascii=rng.random() < 0.7, default=str)
    if rng.random() < 0.1 and isinstance(value, dict) and value:
        key = rng.choice([key for key in value if isinstance(key, str)] or ["a"])
        text = f"{text[:-1]}, {json.dumps(key)}: {json.dumps(rng.choice(ODD_VALUES), default=str)}}}"
    return text.encode("utf-8", "surrogatepass")


def dump_yaml(value: Any, rng: random.Random) -> bytes:
    """YAML; JSON where a value cannot be written as YAML."""
    try:
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=rng.random() < 0.3)
    except (yaml.YAMLError, RecursionError):
        text = json.dumps(value, default=str)
    return text.encode("utf-8", "surrogatepass")


def damaged_setting(text: str, rng: random.Random) -> str:
    """A file of `key: value` lines with the value of one line exchanged, or a line doubled."""
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    key, colon, _ = lines[at].partition(":")
    if colon and rng.random() < 0.8:
        lines[at] = f"{key}: {rng.choice(SCALARS)}"
    else:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    return "\n".join(lines)
