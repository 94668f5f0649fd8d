"""What a sweep is asked for, from the command line or from YAML, and the runs that follow from it.

games × settings × seeds  ─expand─▶  SweepRun, SweepRun, …  ─config─▶  RunConfig   (as `run_many` takes it)
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from abreast.errors import ConfigError, short
from abreast.games import find_game
from abreast.runs import SEED, RunConfig
from abreast.settings import Section, parse_yaml

SETTING = re.compile(r"[\w.]+=", re.ASCII)
"""How a word begins that is a setting, and no game."""
LONGEST = 60
"""Characters of a folder's name that say what is in it."""
MOST_RUNS = 100_000
MAX_LABEL = 40
"""Characters of a label in tables and pictures; what is cut off stands in full beside it, in runs.csv and index.jsonl."""
PER_AGENT = "model.per_agent."


class Range(Section):
    """Values between two ends, for a search."""

    low: int | float
    """The lowest."""
    high: int | float
    """The highest."""
    log: bool = False
    """Whether the search is as thorough between 0.001 and 0.01 as between 0.01 and 0.1."""
    step: int | float | None = None
    """If given, only low, low + step, low + 2 step and so on."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high or (self.log and (self.low <= 0 or self.step is not None)):
            raise ValueError(
                f"the range goes from {self.low} to {self.high}: expected low <= high, and with log 0 < low and no step."
            )
        if self.step is not None and (self.step <= 0 or (self.is_whole and not isinstance(self.step, int))):
            raise ValueError(f"step is {self.step}: expected more than 0, and an integer between two integers.")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether its values are integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)


class Asked(Section):
    """What a sweep is asked for: sweep.yaml, and what `--config` reads."""

    games: list[str] = Field(min_length=1)
    """What `abreast train` takes: names, FILE.py, pettingzoo:MODULE and so on."""
    seeds: list[int] = Field([0], min_length=1)
    """The seed of each run with the same settings. A number N in YAML stands for 0 to N - 1."""
    settings: dict[str, list[Any] | Range] = Field(default_factory=dict)
    """By section.key: the values to be tried; in a search, also a range."""
    evaluations: int = Field(10, ge=1)
    """How many checkpoints of each run are kept, at equal distances, for `abreast compare`."""
    search: Literal["optuna"] | None = None
    """What chooses the settings of each trial; null: all combinations are run."""
    trials: int = Field(50, ge=1)
    """Of a search."""
    search_seed: int = Field(0, ge=0)
    """Of a search."""
    greedy: bool | None = None
    """How agents act where a search evaluates them: as `--greedy` or `--explore` of `abreast eval`; null: as declared."""
    trials_at_once: int = Field(1, ge=1)
    """Trials that a search chooses before it knows the results of any of them. Its choices depend on it."""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> "Asked":
        """What a YAML file says: one value stands for a list of one, and a number of seeds for so many."""
        given = dict(values)
        if isinstance(given.get("games"), str):
            given["games"] = [given["games"]]
        if isinstance(seeds := given.get("seeds"), int) and not isinstance(seeds, bool):
            given["seeds"] = first_seeds(seeds)
        if isinstance(settings := given.get("settings"), Mapping):
            given["settings"] = {str(key): _values(f"settings.{key}", value) for key, value in settings.items()}
        asked = cls.parse(given)
        asked._check()
        return asked

    def _check(self) -> None:
        for key, values in self.settings.items():
            if key == SEED:
                raise ConfigError(f"{SEED} is given as a setting, but a sweep has seeds of its own: give --seeds.")
            if values == []:
                raise ConfigError(f"{key} has no value: give at least one, as in {key}=A,B.")
            if isinstance(values, Range) and self.search is None:
                raise ConfigError(f"{key} is a range, which only a search can take: give --search optuna, or a list.")
        lists = {key: [*map(_text, values)] for key, values in self.settings.items() if isinstance(values, list)}
        for name, listed in {"seeds": [*map(str, self.seeds)], "games": self.games, **lists}.items():
            if twice := [value for value in listed if listed.count(value) > 1]:
                raise ConfigError(f"{name} has {twice[0]} twice: each run is made once.")
        if self.search is not None and len(self.games) > 1:
            raise ConfigError(f"a search is in one game, but games has {len(self.games)}: make a search in each.")

    def as_yaml_values(self) -> dict[str, Any]:
        """What sweep.yaml holds, and `read` reads."""
        left_out = set() if self.search else {"search", "trials", "search_seed", "greedy", "trials_at_once"}
        return {key: value for key, value in self.model_dump(exclude_none=True).items() if key not in left_out}


def _values(name: str, value: Any) -> list[Any] | Range:
    """What is to be tried of a setting, as YAML says it."""
    if not isinstance(value, Mapping):
        return value if isinstance(value, list) else [value]
    if not value.keys() & Range.model_fields.keys():
        raise ConfigError(
            f"{name} is {short(dict(value))}: expected a list of values, or, for a search, low and high. (Settings are named"
            " section.key, and a value that is a mapping is in a list.)"
        )
    return Range.parse(value, name)


def _text(value: Any) -> str:
    """A value as JSON; a date, say, is refused as a setting later."""
    return json.dumps(value, default=str)


class SweepRun(NamedTuple):
    """One run of a sweep."""

    name: str
    """Of its folder."""
    game: str
    settings: dict[str, Any]
    """Those asked for, by section.key."""
    seed: int
    beside: tuple[str, ...] = ()
    """Settings that every run of a sweep has, so that it can be compared."""

    def config(self, folder: Path) -> RunConfig:
        """As `run_many` takes it, in the folder of the sweep."""
        chosen = [f"{key}={json.dumps(value)}" for key, value in self.settings.items()]
        return RunConfig(self.game, [*self.beside, *chosen, f"{SEED}={self.seed}"], folder / "runs" / self.name)


# ---- from words


def split_words(words: Iterable[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """The games and the settings in what was typed."""
    games, settings = list[str](), dict[str, list[Any]]()
    for word in words:
        if not SETTING.match(word):
            games.append(word)
            continue
        key, _, text = word.partition("=")
        if key in settings:
            raise ConfigError(f"{key} is given twice: give all its values at once, as in {key}=A,B.")
        settings[key] = split_values(key, text)
    return games, settings


def split_values(key: str, text: str) -> list[Any]:
    """The values in A,B,C. A comma within brackets, braces or quotes is part of a value."""
    try:
        if text.rstrip().endswith(","):
            raise ValueError
        values = parse_yaml(f"[{text}]")
        json.dumps(values)  # a date, say, is no value of a setting
    except (ValueError, TypeError):
        raise ConfigError(
            f"the values of {key}={text} cannot be read: expected A,B,C, with lists as in [64,64],[128] and texts that"
            " have commas in quotes."
        ) from None
    if not values:
        raise ConfigError(f"{key} has no value: give at least one, as in {key}=A,B.")
    return list(values)


def parse_seeds(text: str) -> list[int]:
    """`10` stands for 0 to 9, `3,5` for themselves."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or (len(parts) == 1 and int(text) < 1):
        raise ConfigError(f"--seeds is {short(text)}: expected how many, as in 10, or which, as in 3,5.")
    return [int(part) for part in parts] if len(parts) > 1 else first_seeds(int(text))


def first_seeds(number: int) -> list[int]:
    """So many."""
    if number > MOST_RUNS:
        raise ConfigError(f"there are {short(number)} seeds, so more than {MOST_RUNS:,} runs: ask for less at a time.")
    return list(range(number))


# ---- the runs


def expand(asked: Asked) -> list[SweepRun]:
    """All runs, game by game, seeds innermost; settings that cannot be are refused."""
    lists = {key: values for key, values in asked.settings.items() if isinstance(values, list)}
    if len(asked.games) * math.prod(map(len, lists.values())) * len(asked.seeds) > MOST_RUNS:
        raise ConfigError(f"the sweep has more than {MOST_RUNS:,} runs: ask for less at a time.")
    runs = list[SweepRun]()
    for game, values in product(asked.games, product(*lists.values())):
        settings = dict(zip(lists, values, strict=True))
        varied = [settings[key] for key in lists if len(lists[key]) > 1]
        runs += with_seeds(asked, len(runs), game, settings, varied)
    return runs


def examples(asked: Asked) -> list[SweepRun]:
    """All runs; of a search, some in which each value of a list is tried, and the ends of each range."""
    if asked.search is None:
        return expand(asked)
    runs = list[SweepRun]()
    choices = {
        key: (values.low, values.high) if isinstance(values, Range) else values
        for key, values in asked.settings.items()
    }
    for number in range(max(map(len, choices.values()), default=1)):
        settings = {key: values[number % len(values)] for key, values in choices.items()}
        runs += with_seeds(asked, len(runs), asked.games[0], settings, ())
    return runs


def with_seeds(
    asked: Asked, first: int, game: str, settings: Mapping[str, Any], named: Sequence[Any]
) -> list[SweepRun]:
    """The runs with the same settings, numbered from `first`. `named`: the values that their folders are named by."""
    beside = _beside(asked, game, settings)
    words = re.sub(r"[^a-z0-9.]+", "-", " ".join(map(str, [game, *named])).lower())[:LONGEST].strip("-.")
    return [
        SweepRun(f"{number:04d}-{words}-seed-{seed}", game, dict(settings), seed, beside)
        for number, seed in enumerate(asked.seeds, first)
    ]


def label_of(name: str, settings: Mapping[str, Any], others: Collection[str] = ()) -> str:
    """Return a label of at most `MAX_LABEL` characters that none of the others has: a name, and the end of each setting.

    A setting of one agent names it: `agent 0 learning_rate=0.01`. A label that is too long is cut and numbered.
    """
    words = [name]
    for key, value in settings.items():
        agent, _, last = key.removeprefix(PER_AGENT).rpartition(".")
        text = f"{value:.3g}" if isinstance(value, float) else _text(value).strip('"')
        words.append(f"{f'agent {agent} ' if key.startswith(PER_AGENT) else ''}{last}={text}")
    full = " ".join(words)
    if len(full) <= MAX_LABEL and full not in others:
        return full
    marks = (f" … #{number}" for number in range(1, len(others) + 2))
    return next(label for mark in marks if (label := full[: MAX_LABEL - len(mark)] + mark) not in others)


def _beside(asked: Asked, game: str, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Checkpoints at equal distances. What was asked for counts more."""
    try:
        config = find_game(game).configure(None, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
    except ConfigError as error:
        raise error.inside(game) if len(asked.games) > 1 else error from None
    every = math.ceil(config.experiment.epochs / asked.evaluations)
    kept = {"checkpoint_interval": every, "checkpoint_minutes": None, "keep_checkpoints": asked.evaluations + 1}
    return tuple(
        f"experiment.{key}={json.dumps(value)}" for key, value in kept.items() if f"experiment.{key}" not in settings
    )
