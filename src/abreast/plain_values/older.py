"""Attributes as model files had them before format 3: nested, each attribute by itself."""

from collections.abc import Mapping
from typing import Any

from abreast.plain_values.encoding import FORMAT

SAME = {"array", "scalar", "tensor", "torch_generator"}


def is_older(facts: Mapping[str, Any]) -> bool:
    """Whether these are facts of before format 3: encoded values by name."""
    return not {"format", "values", "objects"} <= facts.keys()


def translated(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same values as facts of today; what is not of the older form raises anything."""
    objects: list[Any] = []

    def reference(node: dict[str, Any]) -> list[int]:
        objects.append(node)
        return [len(objects) - 1]

    def value(old: Any) -> Any:
        if isinstance(old, list):
            return reference({"kind": "list", "items": [value(each) for each in old]})
        if not isinstance(old, dict):
            return old
        kind, held = old["kind"], old["value"]
        if kind in SAME:
            return reference({"kind": kind, "array": held})
        if kind == "dict":  # of whatever class the current one is
            keys, items = [value(key) for key, _ in held], [value(each) for _, each in held]
            return reference({"kind": "dict", "like": True, "keys": keys, "items": items})
        if kind == "state_dict":
            return reference({"kind": "state_dict", "items": value(held)})
        if kind == "generator":
            return reference({"kind": "older_generator", "state": held})
        if kind == "random":
            return reference({"kind": "random", "items": [value(each) for each in held["value"]]})
        more = {"most": old["most"]} if kind == "deque" else {}
        return reference({"kind": kind, "items": [value(each) for each in held], **more})

    return {"format": FORMAT, "values": {name: value(old) for name, old in facts.items()}, "objects": objects}
