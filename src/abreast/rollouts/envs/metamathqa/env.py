"""MetaMathQA as an environment: one question, several attempts."""

import random
import string
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gymnasium import spaces

from abreast.errors import ConfigError
from abreast.rollouts.envs.base import Taken, TextEnv, info_of
from abreast.rollouts.envs.metamathqa.answers import LONGEST, Answer, label_in, read_answer
from abreast.rollouts.envs.metamathqa.config import MetaMathQAConfig
from abreast.rollouts.envs.records import load_records, records_of_split

SHIPPED = Path(__file__).parent / "data" / "questions.jsonl"
_ASCII = frozenset(map(chr, range(128)))
_LONGEST_REMARK = 200


class MetaMathQAEnv(TextEnv[str]):
    """A question; an action is a text with the answer.

    The episode ends with the right answer, or is cut off after `max_attempts` wrong ones. Anything that cannot be an
    answer (no text, an empty one, one beyond 1,000 characters) changes nothing and is no attempt.
    """

    def __init__(self, config: MetaMathQAConfig | Mapping[str, Any] | None = None) -> None:
        self.config = MetaMathQAConfig.parse(config or {})
        self._path = self.config.data_path or SHIPPED
        longest, characters = text_bounds(self._path)  # a damaged file is reported here, not in the middle of a run
        self.action_space = spaces.Text(LONGEST, charset=string.printable)
        self.observation_space = spaces.Text(longest + _LONGEST_REMARK, charset=_ASCII | characters)

    def _begin(self, seed: int | None) -> dict[str, Any]:
        questions = load_questions(self._path)  # not kept: a pickled environment stays small
        if self.config.numbering == "python" and seed is not None:
            query, label = questions[random.Random(seed).randint(0, len(questions) - 1)]
        else:
            chosen = records_of_split(questions, self.config.split)
            query, label = chosen[int(self.np_random.integers(len(chosen)))]
        self._label = self._read(label)
        self._attempts = 0
        self._question = self._text = f"Question: {query}"
        return info_of(attempts=0)

    def _take(self, action: object) -> Taken:
        answer = self._read(action) if isinstance(action, str) and len(action) <= LONGEST else None
        if answer is None or not answer.text:
            return 0.0, False, False, info_of(valid=False, attempts=self._attempts)
        correct = answer.says_the_same_as(self._label)
        reward = 0.5**self._attempts if correct else 0.0
        self._attempts += 1
        truncated = not correct and self._attempts == self.config.max_attempts
        of_all = "" if self.config.max_attempts is None else f" of {self.config.max_attempts}"
        self._text = (
            f"{self._question}\n\nYour last answer was {'correct' if correct else 'wrong'}. "
            f"Attempts made: {self._attempts}{of_all}."
        )
        return reward, correct, truncated, info_of(success=correct, effective=True, attempts=self._attempts)

    def _read(self, text: str) -> Answer:
        if self.config.match == "text":
            return Answer("".join(text.lower().split()), None, is_percentage=False)
        return read_answer(text)


@cache
def load_questions(path: Path) -> tuple[tuple[str, str], ...]:
    """The questions of a file with the answers that count, read once per process; the worked solutions are not kept."""
    return load_records(path, ("query", "response"), _question)


@cache
def text_bounds(path: Path) -> tuple[int, frozenset[str]]:
    """The length of the longest question of a file, and all characters beyond ASCII that occur in one."""
    queries = [query for query, _ in load_questions(path)]
    return max(map(len, queries)), frozenset().union(*(query for query in queries if not query.isascii()))


def _question(record: dict[str, Any], place: str) -> tuple[str, str]:
    query, response = record["query"], record["response"]
    label = label_in(response) if isinstance(response, str) else None
    if not isinstance(query, str) or not query.strip() or label is None or len(label) > LONGEST:
        raise ConfigError(
            f"{place}: query must be a text, and response one that ends with 'The answer is:' and a label of at most"
            f" {LONGEST} characters."
        )
    return query.strip(), label
