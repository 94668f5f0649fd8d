"""What an answer is worth."""

import re
from enum import Enum
from fractions import Fraction

from abreast.rollouts.envs.countdown.expression import LONGEST, ExpressionError, parse
from abreast.rollouts.envs.countdown.tasks import Task

_CLOSE_ENOUGH = Fraction(1, 100_000)
_CLAIMED_VALUE = re.compile(r"\s*-?[0-9]+(\.[0-9]+)?\s*")


class Verdict(Enum):
    """How an answer came out."""

    CORRECT = "correct"
    WRONG_VALUE = "wrong value"
    WRONG_NUMBERS = "wrong numbers"
    UNREADABLE = "unreadable"


def judge(answer: str, task: Task) -> Verdict:
    """The verdict on an answer, of whatever length or content."""
    try:
        expression = parse(_expression_in(answer))
    except ExpressionError:
        return Verdict.UNREADABLE
    if sorted(expression.numbers) != sorted(task.numbers):
        return Verdict.WRONG_NUMBERS
    is_close = -_CLOSE_ENOUGH < expression.value - task.target < _CLOSE_ENOUGH  # never, if it is not a number
    return Verdict.CORRECT if is_close else Verdict.WRONG_VALUE


def _expression_in(answer: str) -> str:
    """The expression alone, without `<answer>` tags around it or `= value` behind it.

    The claimed value must be a number, but which one does not matter: the expression speaks for itself.
    """
    if len(answer) > LONGEST:
        raise ExpressionError(f"it is longer than {LONGEST} characters")
    _, opened, tagged = answer.rpartition("<answer>")
    if opened:
        answer = tagged.partition("</answer>")[0]
    expression, equals, claimed = answer.partition("=")
    if equals and not _CLAIMED_VALUE.fullmatch(claimed):
        raise ExpressionError("what follows the equals sign is not a number")
    return expression
