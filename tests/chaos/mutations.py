"""Valid inputs made invalid, at random: bytes of a file, values of a tree, settings on a command line."""

import copy
import random
from typing import Any

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
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, 10**30, 10**400, 0.0, -0.0, 0.5, 1e308, 5e-324,
    float("nan"), float("inf"),
    "", "x", "\x00", "\ud800", "é\u202e", "x" * 5000, b"\xff\x00", [], {}, [1, "a", None], {"a": {"b": []}},
    {1: 2}, {None: 1},
    (1, 2), "auto", "dqn", "processes", "threads", "inline",
]  # fmt: skip


def flip(data: bytes, chance: random.Random) -> bytes:
    """Other bytes: some flipped, cut off, doubled, inserted or moved."""
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 5, 20])):
        at = chance.randrange(len(out) + 1)
        to = min(len(out), at + chance.choice([1, 1, 2, 8, 64, 1024]))
        how = chance.randrange(7)
        if how == 0 and at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            out[at:to] = b""
        elif how == 2:
            del out[at:]
        elif how == 3:
            out[at:at] = out[at:to] * chance.choice([1, 2, 50])
        elif how == 4:
            out[at:at] = chance.choice(
                [b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\t", b": ", b"- ", b"&a ", b"*a", b"{", b"]"]
            )
        elif how == 5:
            out[at:to] = chance.randbytes(to - at)
        else:
            out[at:at] = chance.choice(SCALARS).encode("utf-8", "surrogatepass")
    return bytes(out)


def graft(tree: Any, chance: random.Random) -> Any:
    """The same tree with other values or keys at some places."""
    tree = copy.deepcopy(tree)
    for _ in range(chance.choice([1, 1, 2, 4])):
        parent, key = _place(tree, chance)
        if parent is None:
            return chance.choice(VALUES)
        how = chance.randrange(5)
        if how < 3 or isinstance(parent, list):
            parent[key] = chance.choice(VALUES)
        elif how == 3:
            parent[chance.choice(["", "x", 3, None, "per_agent", "algorithm", "parallel", 1.5, True, "\ud800"])] = (
                parent.pop(key)
            )
        else:
            del parent[key]
    return tree


def _place(tree: Any, chance: random.Random) -> tuple[Any, Any]:
    """Some container in a tree and a key in it; none if the tree is no container."""
    places = []
    waiting = [tree]
    while waiting:
        parent = waiting.pop()
        keys = list(parent) if isinstance(parent, dict) else range(len(parent)) if isinstance(parent, list) else ()
        places += [(parent, key) for key in keys]
        waiting += [parent[key] for key in keys]
    return chance.choice(places) if places else (None, None)


def replace_scalar(text: str, chance: random.Random) -> str:
    """A file of `key: value` lines with the value of one line exchanged, or a line doubled."""
    lines = text.splitlines()
    at = chance.randrange(len(lines))
    key, colon, _ = lines[at].partition(":")
    if colon and chance.random() < 0.8:
        lines[at] = f"{key}: {chance.choice(SCALARS)}"
    else:
        lines.insert(chance.randrange(len(lines) + 1), lines[at])
    return "\n".join(lines)
