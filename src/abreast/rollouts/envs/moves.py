"""Names of moves, for legends."""

from collections.abc import Mapping


def moves_in_words(names: Mapping[int, str], meanings: Mapping[int, str]) -> str:
    """What each move does, where its name does not tell: names may be changed by `action_lookup`."""
    if all(names[number].strip().casefold() == meaning for number, meaning in meanings.items()):
        return ""
    return f" {', '.join(f'{names[number]} means {meaning}' for number, meaning in meanings.items())}."
