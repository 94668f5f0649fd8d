"""What decoding does not make, but has to find where it was: networks, optimisers, functions without a name of their own."""

from collections.abc import Collection, Iterator
from typing import Any

from abreast.plain_values.names import find
from abreast.state import State

LISTS = ("keys", "items", "cells")
NAMED = ("attributes", "slots", "tensors", "parts")
SINGLE = ("defaults", "keywords", "own", "of", "function", "factory", "grad", "value", "bits")
"""Where the nodes of `encode_all` refer to others."""


def needed(state: State, modules: Collection[str]) -> dict[str, str]:
    """What has to be there before a state can be decoded: what it is, by path. (What has a name may be anywhere there.)"""
    facts = state.facts
    found: dict[str, str] = {}
    left = [(name, encoded) for name, encoded in reversed(facts.get("values", {}).items())]
    seen: set[int] = set()
    while left:
        path, encoded = left.pop()
        if type(encoded) is not list or len(encoded) != 1 or encoded[0] in seen:
            continue
        seen.add(encoded[0])
        node = facts["objects"][encoded[0]]
        if (told := _told(node, modules)) is not None:
            found[path] = told
        left += reversed([*_inside(path, node)])
    return found


def _told(node: dict[str, Any], modules: Collection[str]) -> str | None:
    kind = node["kind"]
    if kind == "network":
        return str(node["class"]).rpartition(":")[2]
    if kind == "state_dict":
        return "an optimiser, or what else takes a state by itself"
    if kind == "function":
        return f"the function {node['name'].rpartition(':')[2]}"
    if kind == "name" and not _is_found(node["name"], modules):
        return f"{node['name'].replace(':', '.')}"
    if "<locals>" in str(node.get("class", "")):
        return f"a {node['class'].rpartition('.')[2]}"
    return None


def _inside(path: str, node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if node["kind"] == "torch":
        return
    keys = node.get("keys", ())
    for field in LISTS:
        for number, each in enumerate(node.get(field) or ()):
            key = keys[number] if field == "items" and keys and type(keys[number]) is not list else number
            yield f"{path}{'' if field == 'items' else ' ' + field}[{key!r}]", each
    for field in NAMED:
        for name, each in node.get(field, {}).items():
            yield f"{path}.{name}", each
    for field in SINGLE:
        if field in node:
            yield f"{path}.{field}", node[field]


def _is_found(name: str, modules: Collection[str]) -> bool:
    try:
        find(name, modules)
    except LookupError:
        return False
    return True
