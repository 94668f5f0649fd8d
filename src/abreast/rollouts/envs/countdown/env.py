"""Countdown as an environment: one task, one answer that can be read."""

import re
import string
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from gymnasium import spaces

from abreast.rollouts.envs.base import Taken, TextEnv, info_of
from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.expression import LONGEST, ExpressionError, parse
from abreast.rollouts.envs.countdown.tasks import Task, choose_task, tasks_in_file

Verdict = Literal["correct", "wrong value", "wrong numbers", "unreadable"]
"""How an answer came out."""
_REMARKS: Mapping[Verdict, str] = {
    "correct": "Your answer is correct.",
    "wrong value": "Your answer uses the right numbers, but its value is not the target.",
    "wrong numbers": "Your answer does not use every number exactly once.",
    "unreadable": "Your answer is not an arithmetic expression.",
}
_LONGEST_STATE = 1_000
_CLOSE_ENOUGH = Fraction(1, 100_000)
_CLAIMED_VALUE = re.compile(r"\s*-?[0-9]+(\.[0-9]+)?\s*")


class CountdownEnv(TextEnv[str]):
    """Numbers and a target; an action is a text with an expression.

    The first expression ends the episode, right or wrong. A text that is none changes nothing (unless `unreadable_ends`),
    nor does anything but a text.
    """

    def __init__(self, config: CountdownConfig | Mapping[str, Any] | None = None) -> None:
        self.config = CountdownConfig.parse(config or {})
        if self.config.data_path is not None:
            tasks_in_file(self.config)  # a damaged file is reported here, not in the middle of a run
        self.action_space = spaces.Text(LONGEST, charset=string.digits + "+-*/() ")
        self.observation_space = spaces.Text(_LONGEST_STATE, charset=string.printable)
        self._rewards = {"correct": self.config.score, "wrong value": self.config.format_score}

    def _begin(self, seed: int | None) -> dict[str, Any]:
        self._task = task = choose_task(self.config, self.np_random, seed)
        self._text = self._question = f"Numbers: {', '.join(map(str, task.numbers))}\nTarget: {task.target}"
        return info_of(verdict="")

    def _take(self, action: object) -> Taken:
        if not isinstance(action, str):
            return 0.0, False, False, info_of(valid=False, verdict="")
        verdict = judge(action, self._task)
        is_read = verdict != "unreadable"
        self._text = f"{self._question}\n{_REMARKS[verdict]}"
        told = info_of(success=verdict == "correct", valid=is_read, effective=is_read, verdict=verdict)
        return self._rewards.get(verdict, 0.0), is_read or self.config.unreadable_ends, False, told


def judge(answer: str, task: Task) -> Verdict:
    """The verdict on an answer, of whatever length or content."""
    try:
        numbers, value = parse(_expression_in(answer))
    except ExpressionError:
        return "unreadable"
    if sorted(numbers) != sorted(task.numbers):
        return "wrong numbers"
    is_close = -_CLOSE_ENOUGH < value - task.target < _CLOSE_ENOUGH  # never, if it is not a number
    return "correct" if is_close else "wrong value"


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
