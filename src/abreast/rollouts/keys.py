"""Keys that other projects use in `env_config`: taken under their own names, or refused with the reason.

A configuration class says in `OTHER_NAMES` which keys are other names of its own settings, and in `REFUSED` which keys it
knows but does not have. Any further key is unknown, and an error as in every other section.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from abreast.settings import SeveralFaults


class Refused(NamedTuple):
    """A setting of another project that does not exist here."""

    why: str
    """Completes the sentence "KEY is VALUE: ..."."""
    unless: tuple[Any, ...] = (None,)
    """Values that ask for what happens anyway: with one of them, the key is left out."""


def own_keys(values: Any, other_names: Mapping[str, str], refused: Mapping[str, Refused]) -> Any:
    """`values` under the names of this project; ValueError with a sentence for each key that is refused.

    An empty value under another name counts as not given.
    """
    if not isinstance(values, Mapping) or not (other_names.keys() | refused.keys()) & values.keys():
        return values
    faults, kept = [], {}
    for key, value in values.items():
        if key in refused:
            if not any(_same(value, harmless) for harmless in refused[key].unless):
                faults.append(f"{key} is {value!r:.80}: {refused[key].why}")
        elif key not in other_names:
            kept[key] = value
        elif value is not None:
            own = other_names[key]
            if own in values:
                faults.append(f"{key} is another name of {own}, and both are given: leave one of them out.")
            kept[own] = value
    if faults:
        raise SeveralFaults(faults)
    return kept


def _same(one: object, other: object) -> bool:
    """Equality of plain values; anything else (arrays, functions) equals nothing."""
    plain = (bool, int, float, str, dict, list, tuple, type(None))
    return isinstance(one, plain) and one == other
