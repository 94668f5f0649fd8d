"""A made-up catalogue for first runs and tests, in the shape of the public product files.

It is made on first use, in about a second, and is the same everywhere: of Python's random numbers only `random()` is
used, whose sequence for a seed never changes between versions.
"""

import json
import random
import string
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import yaml

from abreast.rollouts.envs.webshop.build import Source
from abreast.rollouts.envs.webshop.loader import LABELS, PRODUCTS, WISHES

PRODUCT_COUNT = 3000
_SEED = 20
_VOCABULARY = Path(__file__).parent / "data" / "vocabulary.yaml"
_DIGITS = string.digits + string.ascii_uppercase

Thing = TypeVar("Thing")


def generated_source(count: int | None = None) -> Source:
    """The made-up catalogue, as a source to build from; of its products only as many as are needed are made."""
    key = _vocabulary_key()
    made = cache(lambda: list(records(min(count or PRODUCT_COUNT, PRODUCT_COUNT))))
    return Source(
        name=f"webshop-{key}.sqlite",
        key=f"generated {key}",
        products=lambda: (record for record, _, _ in made()),
        labels=lambda: ((record["asin"], label) for record, label, _ in made()),
        wishes=lambda: ((record["asin"], wishes) for record, _, wishes in made()),
    )


def write_files(folder: Path, count: int = PRODUCT_COUNT) -> None:
    """Write the made-up catalogue as product files, as an example for your own."""
    made = list(records(count))
    contents: dict[str, Any] = {
        f"{PRODUCTS}.json": [record for record, _, _ in made],
        f"{LABELS}.json": {record["asin"]: label for record, label, _ in made},
        WISHES: {record["asin"]: wishes for record, _, wishes in made},
    }
    for name, content in contents.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def records(count: int = PRODUCT_COUNT) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    """Each product's record, its label (attributes and a made-up goal) and the wishes for it."""
    vocabulary = yaml.safe_load(_VOCABULARY.read_text(encoding="utf-8"))
    kinds = [
        {**kind, "department": department, "path": f"{part['path']} › {kind['path']}"}
        for department, part in vocabulary["departments"].items()
        for kind in part["kinds"]
    ]
    for number in range(count):
        yield _Maker(vocabulary, number, kinds[number % len(kinds)]).make()


@cache
def _vocabulary_key() -> str:
    """Another key when the vocabulary, the seed or the number of products changes."""
    text = f"{_SEED} {PRODUCT_COUNT} {Path(__file__).read_text(encoding='utf-8')}"
    return blake2b(text.encode() + _VOCABULARY.read_bytes(), digest_size=8).hexdigest()


class _Maker:
    """Makes one product."""

    def __init__(self, vocabulary: dict[str, Any], number: int, kind: dict[str, Any]) -> None:
        self._vocabulary, self._number, self._kind = vocabulary, number, kind
        self._dice = random.Random(_SEED * 1_000_003 + number)

    def make(self) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
        kind = self._kind["kind"]
        self._words = {
            "brand": self._pick(self._vocabulary["brands"]),
            "series": self._pick(self._vocabulary["series"]),
            "audience": self._pick(self._vocabulary["audiences"]),
            "kind": kind,
        }
        features = self._some(self._kind["features"], 3, 5)
        shown = " and ".join(feature.title() for feature in features[:2])
        options = {
            name: self._some(self._vocabulary["values"][values], 3, 7) for name, values in self._kind["options"].items()
        }
        record = {
            "asin": _asin(self._number),
            "name": "{brand} {series} {Kind}, {shown}, {audience}".format(
                Kind=kind.title(), shown=shown, **self._words
            ),
            "category": self._kind["department"],
            "query": kind,
            "product_category": f"{self._kind['path']} › {kind.title()}",
            "pricing": self._pricing(*self._kind["price"]),
            "small_description": self._bullets(features),
            "full_description": self._description(features),
            "customization_options": {
                name.title(): [{"value": value, "image": None} for value in values] for name, values in options.items()
            },
            "images": [],
            **self._opinions(),
        }
        asked = self._some(features, 1, 3)
        label = {
            "attributes": features,
            "instruction": f"Find me {', '.join(asked)} {kind}",
            "instruction_attributes": asked,
        }
        return record, label, [self._wish(features, options)]

    def _bullets(self, features: Sequence[str]) -> list[str]:
        patterns = self._some(self._vocabulary["bullets"], len(features), len(features))
        bullets = [
            pattern.format(feature=feature, Feature=feature.capitalize(), **self._words)
            for pattern, feature in zip(patterns, features, strict=True)
        ]
        return bullets + self._some(self._vocabulary["extra bullets"], 0, 2)

    def _description(self, features: Sequence[str]) -> str:
        listed = _listed(features)
        pattern: str = self._pick(self._vocabulary["descriptions"])
        return pattern.format(features=listed, Features=listed.capitalize(), **self._words)

    def _pricing(self, lowest: float, highest: float) -> str:
        price = lowest + (highest - lowest) * self._dice.random() ** 2  # most things are cheap
        if self._dice.random() < 0.2:
            return f"${price:.2f} - ${price * 1.3:.2f}"
        return f"${price:.2f}"

    def _opinions(self) -> dict[str, Any]:
        reviews = self._some(self._vocabulary["reviews"], 0, 3)
        if not reviews:
            return {"average_rating": None, "reviews": []}
        return {
            "average_rating": round(sum(stars for stars, _, _ in reviews) / len(reviews), 1),
            "reviews": [{"score": stars, "title": title, "body": body} for stars, title, body in reviews],
        }

    def _wish(self, features: Sequence[str], options: dict[str, list[str]]) -> dict[str, Any]:
        asked = self._some(features, 1, 2)
        names = self._some(list(options), 1, 2)
        values = {name: self._pick(options[name]) for name in names}
        phrases = [f"{name} {value}" if value[0].isdigit() else value for name, value in values.items()]
        wanted: str = self._pick(self._vocabulary["wanted options"])
        pattern: str = self._pick(self._vocabulary["wishes"])
        text = pattern.format(
            features=_listed(asked), kind=self._words["kind"], options=wanted.format(values=" and ".join(phrases))
        )
        return {
            "instruction": text,
            "instruction_attributes": asked,
            "instruction_options": list(values.values()),
            "attributes": list(features),
            "options": [f"{name}: {value}" for name, value in values.items()],
        }

    def _pick(self, things: Sequence[Thing]) -> Thing:
        return things[int(self._dice.random() * len(things))]

    def _some(self, things: Sequence[Thing], fewest: int, most: int) -> list[Thing]:
        """A few of the things, in their own order."""
        count = min(len(things), fewest + int(self._dice.random() * (most - fewest + 1)))
        drawn = sorted((self._dice.random(), place) for place in range(len(things)))[:count]
        return [things[place] for place in sorted(place for _, place in drawn)]


def _listed(features: Sequence[str]) -> str:
    return " and ".join([", ".join(features[:-1]), features[-1]] if len(features) > 1 else features)


def _asin(number: int) -> str:
    """A product's number that looks like one: ten characters, different for each."""
    scattered = number * 2_654_435_761 % 36**8
    return "B0" + "".join(_DIGITS[scattered // 36**place % 36] for place in reversed(range(8)))
