"""Questions and their labels, from a file in the shape of the public data set."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from abreast.errors import ConfigError
from abreast.rollouts.envs.metamathqa.answers import LONGEST, label_in
from abreast.rollouts.envs.records import load_records

SHIPPED = Path(__file__).parent / "data" / "questions.jsonl"


class Question(NamedTuple):
    """What is asked, and the answer that counts."""

    query: str
    label: str


@cache
def load_questions(path: Path) -> tuple[Question, ...]:
    """The questions of a file, read once per process; the worked solutions are not kept."""
    return load_records(path, ("query", "response"), _question)


@cache
def text_bounds(path: Path) -> tuple[int, frozenset[str]]:
    """The length of the longest question of a file, and all characters beyond ASCII that occur in one."""
    queries = [question.query for question in load_questions(path)]
    return max(map(len, queries)), frozenset().union(*(query for query in queries if not query.isascii()))


def _question(record: dict[str, Any], place: str) -> Question:
    query, response = record["query"], record["response"]
    label = label_in(response) if isinstance(response, str) else None
    if not isinstance(query, str) or not query.strip() or label is None or len(label) > LONGEST:
        raise ConfigError(
            f"{place}: query must be a text, and response one that ends with 'The answer is:' and a label of at most"
            f" {LONGEST} characters."
        )
    return Question(query.strip(), label)
