"""Observations as texts: the same for the same observation, in every process, whatever numpy's print options are."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

MOST_NUMBERS = 1000
"""Arrays with more numbers than this are shown by their ends."""
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLOURED = re.compile(r"\x1b\[([\d;]*)m([^\x1b]*)(?=\x1b\[|$)", re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[\d;?]*[A-Za-z]")


def text_of(observation: Any) -> str:
    """An observation in words.

    Numbers and texts are themselves; a tuple is `(14, 10, 0)`, an array `[0.5, -1]`; a dict has one line for each key,
    `position.x: 3` for one inside another.
    """
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):
        return "\n".join(_flat(observation, ""))
    if isinstance(observation, tuple | list):
        left, right = "()" if isinstance(observation, tuple) else "[]"
        return f"{left}{', '.join(text_of(each) for each in observation)}{right}"
    if isinstance(observation, np.ndarray):
        return _text_of_array(observation)
    if isinstance(observation, float | np.floating):
        return f"{float(observation):.6g}"
    return str(observation)


def without_escapes(text: str) -> str:
    """A text for a terminal without its escape codes; what was coloured becomes `<red:S>`, since colours may mean something.

    In FrozenLake only the colour tells where the player is.
    """
    return _ESCAPE.sub("", _COLOURED.sub(_named, text))


def _named(match: re.Match[str]) -> str:
    codes = [int(code) for code in match[1].split(";") if code]
    colours = [COLOURS[code % 10] for code in codes if code // 10 in (3, 4, 9, 10) and code % 10 < len(COLOURS)]
    return f"<{colours[-1]}:{match[2]}>" if colours and match[2] else match[2]


def _flat(observation: Mapping[Any, Any], above: str) -> Iterator[str]:
    for key, value in observation.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}: {text_of(value)}"


def _text_of_array(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return text_of(array.item())
    if array.ndim == 1 and len(array) <= MOST_NUMBERS:
        return text_of(array.tolist())  # the same, in a tenth of the time
    return np.array2string(
        array,
        max_line_width=10**6,
        separator=", ",
        threshold=MOST_NUMBERS,
        edgeitems=3,
        formatter={"all": text_of},
        legacy=False,
    )
