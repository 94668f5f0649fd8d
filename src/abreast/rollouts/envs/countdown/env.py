"""Countdown as an environment: one task, one answer."""

import string
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from abreast.errors import RolloutError
from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.expression import LONGEST
from abreast.rollouts.envs.countdown.judging import REWARDS, Verdict, judge
from abreast.rollouts.envs.countdown.tasks import Task, choose_task, load_tasks

_REMARKS = {
    Verdict.CORRECT: "Your answer is correct.",
    Verdict.WRONG_VALUE: "Your answer uses the right numbers, but its value is not the target.",
    Verdict.WRONG_NUMBERS: "Your answer does not use every number exactly once.",
    Verdict.UNREADABLE: "Your answer is not an arithmetic expression.",
}
_LONGEST_STATE = 1_000


class CountdownEnv(gymnasium.Env[str, str]):
    """Numbers and a target; the one action is a text with an expression.

    Any text ends the episode, readable or not: there is one try. Anything but a text changes nothing.
    """

    metadata = {"render_modes": ["text"], "render_fps": 1}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(self, config: CountdownConfig | Mapping[str, Any] | None = None) -> None:
        self.config = CountdownConfig.parse(config or {})
        if self.config.data_path is not None:
            load_tasks(self.config.data_path)  # a damaged file is reported here, not in the middle of a run
        self.render_mode = "text"
        self.action_space = spaces.Text(LONGEST, charset=string.digits + "+-*/() ")
        self.observation_space = spaces.Text(_LONGEST_STATE, charset=string.printable)
        self._task: Task | None = None
        self._state = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._task = task = choose_task(self.config, self.np_random)
        self._state = f"Numbers: {', '.join(map(str, task.numbers))}\nTarget: {task.target}"
        return self._state, _info(None, valid=True)

    def step(self, action: object) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._task is None:
            raise RolloutError("there is no countdown episode under way: call reset before step.")
        if not isinstance(action, str):
            return self._state, 0.0, False, False, _info(None, valid=False)
        verdict = judge(action, self._task)
        self._task = None
        self._state += f"\n{_REMARKS[verdict]}"
        return self._state, REWARDS[verdict], True, False, _info(verdict, valid=verdict is not Verdict.UNREADABLE)

    def render(self) -> str:
        return self._state


def _info(verdict: Verdict | None, *, valid: bool) -> dict[str, Any]:
    return {
        "success": verdict is Verdict.CORRECT,
        "action_is_valid": valid,
        "action_is_effective": valid and verdict is not None,
        "verdict": "" if verdict is None else verdict.value,
    }
