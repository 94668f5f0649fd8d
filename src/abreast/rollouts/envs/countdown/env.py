"""Countdown as an environment: one task, one answer that can be read."""

import string
from collections.abc import Mapping
from typing import Any

from gymnasium import spaces

from abreast.rollouts.envs.base import Taken, TextEnv, info_of
from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.expression import LONGEST
from abreast.rollouts.envs.countdown.judging import Verdict, judge
from abreast.rollouts.envs.countdown.tasks import choose_task, tasks_in_file

_REMARKS = {
    Verdict.CORRECT: "Your answer is correct.",
    Verdict.WRONG_VALUE: "Your answer uses the right numbers, but its value is not the target.",
    Verdict.WRONG_NUMBERS: "Your answer does not use every number exactly once.",
    Verdict.UNREADABLE: "Your answer is not an arithmetic expression.",
}
_LONGEST_STATE = 1_000


class CountdownEnv(TextEnv[str]):
    """Numbers and a target; an action is a text with an expression.

    The first expression ends the episode, right or wrong. A text that is none changes nothing (unless `unreadable_ends`),
    nor does anything but a text.
    """

    name = "countdown"

    def __init__(self, config: CountdownConfig | Mapping[str, Any] | None = None) -> None:
        self.config = CountdownConfig.parse(config or {})
        if self.config.data_path is not None:
            tasks_in_file(self.config)  # a damaged file is reported here, not in the middle of a run
        self.action_space = spaces.Text(LONGEST, charset=string.digits + "+-*/() ")
        self.observation_space = spaces.Text(_LONGEST_STATE, charset=string.printable)
        self._rewards = {Verdict.CORRECT: self.config.score, Verdict.WRONG_VALUE: self.config.format_score}

    def _begin(self, seed: int | None) -> dict[str, Any]:
        self._task = task = choose_task(self.config, self.np_random, seed)
        self._text = self._question = f"Numbers: {', '.join(map(str, task.numbers))}\nTarget: {task.target}"
        return info_of(verdict="")

    def _take(self, action: object) -> Taken:
        if not isinstance(action, str):
            return 0.0, False, False, info_of(valid=False, verdict="")
        verdict = judge(action, self._task)
        is_read = verdict is not Verdict.UNREADABLE
        ends = is_read or self.config.unreadable_ends
        self._text = f"{self._question}\n{_REMARKS[verdict]}"
        success = verdict is Verdict.CORRECT
        info = info_of(success=success, valid=is_read, effective=is_read, verdict=verdict.value)
        return self._rewards.get(verdict, 0.0), ends, False, info
