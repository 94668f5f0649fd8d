"""MetaMathQA as an environment: one question, several attempts."""

import random
import string
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from abreast.errors import RolloutError
from abreast.rollouts.envs.metamathqa.answers import LONGEST, Answer, read_answer
from abreast.rollouts.envs.metamathqa.config import MetaMathQAConfig
from abreast.rollouts.envs.metamathqa.questions import SHIPPED, QuestionSet, load_questions
from abreast.rollouts.envs.records import records_of_split

_ASCII = frozenset(map(chr, range(128)))
_LONGEST_REMARK = 200


class MetaMathQAEnv(gymnasium.Env[str, str]):
    """A question; an action is a text with the answer.

    The episode ends with the right answer, or is cut off after `max_attempts` wrong ones. Anything that cannot be an
    answer (no text, an empty one, one beyond 1,000 characters) changes nothing and is no attempt.
    """

    metadata = {"render_modes": ["text"], "render_fps": 1}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(self, config: MetaMathQAConfig | Mapping[str, Any] | None = None) -> None:
        self.config = MetaMathQAConfig.parse(config or {})
        known = self._known()  # a damaged file is reported here, not in the middle of a run
        self.render_mode = "text"
        self.action_space = spaces.Text(LONGEST, charset=string.printable)
        self.observation_space = spaces.Text(known.longest + _LONGEST_REMARK, charset=_ASCII | known.characters)
        self._label: Answer | None = None  # none: no episode is under way
        self._attempts = 0
        self._question = self._state = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        questions = self._known().questions
        if self.config.numbering == "python" and seed is not None:
            query, label = questions[random.Random(seed).randint(0, len(questions) - 1)]
        else:
            chosen = records_of_split(questions, self.config.split)
            query, label = chosen[int(self.np_random.integers(len(chosen)))]
        self._label = self._read(label)
        self._attempts = 0
        self._question = self._state = f"Question: {query}"
        return self._state, self._info(valid=True)

    def step(self, action: object) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._label is None:
            raise RolloutError("there is no metamathqa episode under way: call reset before step.")
        answer = self._read(action) if isinstance(action, str) and len(action) <= LONGEST else None
        if answer is None or not answer.text:
            return self._state, 0.0, False, False, self._info(valid=False)
        correct = answer.says_the_same_as(self._label)
        reward = 0.5**self._attempts if correct else 0.0
        self._attempts += 1
        truncated = not correct and self._attempts == self.config.max_attempts
        if correct or truncated:
            self._label = None
        of_all = "" if self.config.max_attempts is None else f" of {self.config.max_attempts}"
        self._state = (
            f"{self._question}\n\nYour last answer was {'correct' if correct else 'wrong'}. "
            f"Attempts made: {self._attempts}{of_all}."
        )
        return self._state, reward, correct, truncated, self._info(valid=True, effective=True, success=correct)

    def render(self) -> str:
        return self._state

    def _read(self, text: str) -> Answer:
        if self.config.match == "text":
            return Answer("".join(text.lower().split()), None, is_percentage=False)
        return read_answer(text)

    def _known(self) -> QuestionSet:
        """Fetched each time rather than kept: a pickled environment stays small."""
        return load_questions(self.config.data_path or SHIPPED)

    def _info(self, *, valid: bool, effective: bool = False, success: bool = False) -> dict[str, Any]:
        return {
            "success": success,
            "action_is_valid": valid,
            "action_is_effective": effective,
            "attempts": self._attempts,
        }
