"""Countdown as an environment: one task, one answer that can be read."""

import string
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from abreast.errors import RolloutError
from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.expression import LONGEST
from abreast.rollouts.envs.countdown.judging import Verdict, judge
from abreast.rollouts.envs.countdown.tasks import Task, choose_task, tasks_in_file

_REMARKS = {
    Verdict.CORRECT: "Your answer is correct.",
    Verdict.WRONG_VALUE: "Your answer uses the right numbers, but its value is not the target.",
    Verdict.WRONG_NUMBERS: "Your answer does not use every number exactly once.",
    Verdict.UNREADABLE: "Your answer is not an arithmetic expression.",
}
_LONGEST_STATE = 1_000


class CountdownEnv(gymnasium.Env[str, str]):
    """Numbers and a target; an action is a text with an expression.

    The first expression ends the episode, right or wrong. A text that is none changes nothing (unless `unreadable_ends`),
    nor does anything but a text.
    """

    metadata = {"render_modes": ["text"], "render_fps": 1}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(self, config: CountdownConfig | Mapping[str, Any] | None = None) -> None:
        self.config = CountdownConfig.parse(config or {})
        if self.config.data_path is not None:
            tasks_in_file(self.config)  # a damaged file is reported here, not in the middle of a run
        self.render_mode = "text"
        self.action_space = spaces.Text(LONGEST, charset=string.digits + "+-*/() ")
        self.observation_space = spaces.Text(_LONGEST_STATE, charset=string.printable)
        self._rewards = {
            Verdict.CORRECT: self.config.score,
            Verdict.WRONG_VALUE: self.config.format_score,
            Verdict.WRONG_NUMBERS: 0.0,
            Verdict.UNREADABLE: 0.0,
        }
        self._task: Task | None = None
        self._state = self._question = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._task = task = choose_task(self.config, self.np_random, seed)
        self._state = self._question = f"Numbers: {', '.join(map(str, task.numbers))}\nTarget: {task.target}"
        return self._state, _info(None, valid=True)

    def step(self, action: object) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._task is None:
            raise RolloutError("there is no countdown episode under way: call reset before step.")
        if not isinstance(action, str):
            return self._state, 0.0, False, False, _info(None, valid=False)
        verdict = judge(action, self._task)
        is_read = verdict is not Verdict.UNREADABLE
        ends = is_read or self.config.unreadable_ends
        if ends:
            self._task = None
        self._state = f"{self._question}\n{_REMARKS[verdict]}"
        return self._state, self._rewards[verdict], ends, False, _info(verdict, valid=is_read)

    def render(self) -> str:
        return self._state


def _info(verdict: Verdict | None, *, valid: bool) -> dict[str, Any]:
    return {
        "success": verdict is Verdict.CORRECT,
        "action_is_valid": valid,
        "action_is_effective": valid and verdict is not None,
        "verdict": "" if verdict is None else verdict.value,
    }
