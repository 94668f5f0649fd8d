"""Arithmetic in a text: Python's own parser reads it, and what is not listed here is refused. Nothing is ever executed.

Whole numbers of one to nine digits, `+ - * /` and parentheses; one minus may stand before a number or a parenthesis, a plus
may not; there are no powers, decimals or names. `×`, `÷` and the typographic minus `−` are taken for `*`, `/` and `-`.
Values are exact fractions.
"""

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate

LONGEST = 1_000
"""Characters a text may have: with it, every cost below is bounded."""
MOST_DIGITS = 9
DEEPEST = 32
"""Parentheses inside each other."""

_SIGNS = str.maketrans("×÷−", "*/-")
_REFUSED = re.compile(rf"[^-+*/()0-9 ]|[0-9]{{{MOST_DIGITS + 1}}}|(?:^|[-+*/(]) ?- ?-")
"""Other characters, long numbers, and a minus before a minus that is itself a sign."""
_LEADING_ZEROS = re.compile(r"\b0+(?=[0-9])")

Value = Fraction | float


class ExpressionError(ValueError):
    """The text is not an expression as described above."""


def parse(text: str) -> tuple[list[int], Value]:
    """Read a whole text as one expression, or raise `ExpressionError`: the numbers as they stand in it, in order, and its
    value, which is not a number (`math.nan`) if it divides by zero."""
    if len(text) > LONGEST:
        raise ExpressionError(f"it is longer than {LONGEST} characters")
    plain = " ".join(text.translate(_SIGNS).split())
    depth = max(accumulate((character == "(") - (character == ")") for character in plain), default=0)
    if _REFUSED.search(plain) or depth > DEEPEST:
        raise ExpressionError("something in it is no number, operator or parenthesis, or is too long or too deep")
    try:
        value = _value(ast.parse(_LEADING_ZEROS.sub("", plain), mode="eval").body)
    except (SyntaxError, RecursionError) as error:
        raise ExpressionError(str(error)) from None
    return [int(number) for number in re.findall("[0-9]+", plain)], value


def _quotient(left: Value, right: Value) -> Value:
    return left / right if right else math.nan


_OPERATIONS: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
}


def _value(node: ast.expr) -> Value:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return Fraction(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    raise ExpressionError(f"{type(node).__name__} is not among the four operations")
