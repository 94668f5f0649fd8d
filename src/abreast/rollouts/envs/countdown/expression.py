"""Arithmetic in a text, read by a small parser: what it does not know it refuses, and nothing is ever executed.

    sum     = product { ("+" | "-") product }
    product = factor  { ("*" | "/") factor }
    factor  = [ "-" ] ( number | "(" sum ")" )
    number  = one to nine of the digits 0-9

So one minus may stand before a number or a parenthesis, a plus may not; there are no powers, decimals or names.
`×`, `÷` and the typographic minus `−` are taken for `*`, `/` and `-`. Values are exact fractions.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

LONGEST = 1_000
"""Characters a text may have: with it, every cost below is bounded."""
MOST_DIGITS = 9
DEEPEST = 32
"""Parentheses inside each other; far from Python's own limit, so no text can exhaust the stack."""

_TOKEN = re.compile(r"[0-9]+|\S")
_SIGNS = str.maketrans("×÷−", "*/-")


class ExpressionError(ValueError):
    """The text is not an expression as described above."""


@dataclass(frozen=True)
class Expression:
    """What a text says."""

    numbers: tuple[int, ...]
    """The numbers as they stand in the text, in order."""
    value: Fraction | None
    """None: it divides by zero."""


def parse(text: str) -> Expression:
    """Read a whole text as one expression, or raise `ExpressionError`."""
    if len(text) > LONGEST:
        raise ExpressionError(f"it is longer than {LONGEST} characters")
    parser = _Parser(_TOKEN.findall(text.translate(_SIGNS)))
    value = parser.sum(depth=0)
    if parser.next != _END:
        raise ExpressionError("something follows the expression")
    return Expression(tuple(parser.numbers), value)


_END = ""


class _Parser:
    """One method per rule of the grammar; each consumes its tokens and returns their value."""

    def __init__(self, tokens: list[str]) -> None:
        self.numbers: list[int] = []
        self._tokens = iter(tokens)
        self.next = next(self._tokens, _END)

    def sum(self, depth: int) -> Fraction | None:
        value = self.product(depth)
        while self.next in ("+", "-"):
            operator = self._take()
            value = _combine(value, operator, self.product(depth))
        return value

    def product(self, depth: int) -> Fraction | None:
        value = self.factor(depth)
        while self.next in ("*", "/"):
            operator = self._take()
            value = _combine(value, operator, self.factor(depth))
        return value

    def factor(self, depth: int) -> Fraction | None:
        if self.next == "-":
            self._take()
            value = self.primary(depth)
            return None if value is None else -value
        return self.primary(depth)

    def primary(self, depth: int) -> Fraction | None:
        token = self._take()
        if token == "(":
            if depth == DEEPEST:
                raise ExpressionError(f"more than {DEEPEST} parentheses lie inside each other")
            value = self.sum(depth + 1)
            if self._take() != ")":
                raise ExpressionError("a parenthesis is not closed")
            return value
        if not token.isdecimal() or not token.isascii():
            raise ExpressionError("a number or a parenthesis is missing")
        if len(token) > MOST_DIGITS:
            raise ExpressionError(f"a number has more than {MOST_DIGITS} digits")
        self.numbers.append(int(token))
        return Fraction(self.numbers[-1])

    def _take(self) -> str:
        token, self.next = self.next, next(self._tokens, _END)
        return token


def _combine(left: Fraction | None, operator: str, right: Fraction | None) -> Fraction | None:
    if left is None or right is None:
        return None
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return left / right if right else None
