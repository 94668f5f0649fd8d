"""Arithmetic in a text, read by a small parser: what it does not know it refuses, and nothing is ever executed.

    sum     = product { ("+" | "-") product }
    product = factor  { ("*" | "/") factor }
    factor  = [ "-" ] ( number | "(" sum ")" )
    number  = one to nine of the digits 0-9

So one minus may stand before a number or a parenthesis, a plus may not; there are no powers, decimals or names.
`×`, `÷` and the typographic minus `−` are taken for `*`, `/` and `-`. Values are exact fractions.
"""

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

LONGEST = 1_000
"""Characters a text may have: with it, every cost below is bounded."""
MOST_DIGITS = 9
DEEPEST = 32
"""Parentheses inside each other; far from Python's own limit, so no text can exhaust the stack."""

_TOKEN = re.compile(r"[0-9]+|\S")
_SIGNS = str.maketrans("×÷−", "*/-")
_END = ""

Value = Fraction | float


class ExpressionError(ValueError):
    """The text is not an expression as described above."""


@dataclass(frozen=True)
class Expression:
    """What a text says."""

    numbers: tuple[int, ...]
    """The numbers as they stand in the text, in order."""
    value: Value
    """A fraction; not a number (`math.nan`) if it divides by zero."""


def parse(text: str) -> Expression:
    """Read a whole text as one expression, or raise `ExpressionError`."""
    if len(text) > LONGEST:
        raise ExpressionError(f"it is longer than {LONGEST} characters")
    parser = _Parser(_TOKEN.findall(text.translate(_SIGNS)))
    value = parser.sum(depth=0)
    if parser.next != _END:
        raise ExpressionError("something follows the expression")
    return Expression(tuple(parser.numbers), value)


def _quotient(left: Value, right: Value) -> Value:
    return left / right if right else math.nan


_SUMS: dict[str, Callable[[Value, Value], Value]] = {"+": operator.add, "-": operator.sub}
_PRODUCTS: dict[str, Callable[[Value, Value], Value]] = {"*": operator.mul, "/": _quotient}


class _Parser:
    """One method per rule of the grammar; each consumes its tokens and returns their value."""

    def __init__(self, tokens: list[str]) -> None:
        self.numbers: list[int] = []
        self._tokens = iter(tokens)
        self.next = next(self._tokens, _END)

    def sum(self, depth: int) -> Value:
        value = self.product(depth)
        while self.next in _SUMS:
            value = _SUMS[self._take()](value, self.product(depth))
        return value

    def product(self, depth: int) -> Value:
        value = self.factor(depth)
        while self.next in _PRODUCTS:
            value = _PRODUCTS[self._take()](value, self.factor(depth))
        return value

    def factor(self, depth: int) -> Value:
        if self.next == "-":
            self._take()
            return -self.primary(depth)
        return self.primary(depth)

    def primary(self, depth: int) -> Value:
        token = self._take()
        if token == "(" and depth < DEEPEST:
            value = self.sum(depth + 1)
            if self._take() != ")":
                raise ExpressionError("a parenthesis is not closed")
            return value
        if not token.isdecimal() or not token.isascii() or len(token) > MOST_DIGITS:
            raise ExpressionError("a number is missing or too long, or too many parentheses lie inside each other")
        self.numbers.append(int(token))
        return Fraction(self.numbers[-1])

    def _take(self) -> str:
        token, self.next = self.next, next(self._tokens, _END)
        return token
