"""Symbols of grids that a configuration may change: which ones are shown, and what they mean."""

from collections.abc import Mapping, Sequence


def symbols_of(given: Mapping[int, str] | None, usual: Sequence[str]) -> tuple[str, ...]:
    """The symbols in use, in the order of their numbers; ValueError if a grid of them could not be read back."""
    if given is None:
        return tuple(usual)
    numbers = list(range(len(usual)))
    if sorted(given) != numbers:
        raise ValueError(f"grid_lookup is {dict(given)}: expected a symbol for each of the numbers {numbers}.")
    symbols = tuple(given[number] for number in numbers)
    if len(set(symbols)) < len(symbols) or len({len(symbol) for symbol in symbols}) > 1 or not symbols[0]:
        raise ValueError(
            f"grid_lookup is {dict(given)}: expected symbols that differ and have the same length, so that rows are of equal"
            " width and can be read."
        )
    if any(len(symbol.splitlines()) > 1 or symbol != symbol.splitlines()[0] for symbol in symbols):
        raise ValueError(f"grid_lookup is {dict(given)}: expected symbols without line breaks.")
    return symbols


def meanings_of(given: Mapping[str, str] | None, symbols: Sequence[str], usual: Sequence[str]) -> dict[str, str]:
    """What each symbol means; ValueError if a meaning is given for a symbol that is not shown, or for only some."""
    if given is None:
        return dict(zip(symbols, usual, strict=True))
    if set(given) != set(symbols):
        raise ValueError(
            f"grid_vocab is {dict(given)}, but the symbols of grid_lookup are {', '.join(map(repr, symbols))}: give a"
            " meaning for each of them, or leave it out."
        )
    return {symbol: given[symbol] for symbol in symbols}
