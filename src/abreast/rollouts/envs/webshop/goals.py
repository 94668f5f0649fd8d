"""What shoppers want: goals with their price limits, and which of them belong to training, validation and test.

Every choice here follows from a digest of the product's number, never from a generator that is drawn from in order:
prices and goals are the same in every process, on every Python, and for every part of a catalogue.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import combinations

from abreast.rollouts.envs.webshop.catalogue import Goal, Product
from abreast.rollouts.envs.webshop.words import clean, texts

PRICE_STEPS = [10.0 * number for number in range(1, 100)]
"""Price limits are round."""
TEST_GOALS, VAL_GOALS = 500, 1000


def digest(*key: object) -> bytes:
    """Eight bytes that depend on nothing but the key."""
    return blake2b("\0".join(map(str, key)).encode(), digest_size=8).digest()


def share(*key: object) -> float:
    """A number from 0 up to 1, drawn by the key."""
    return (int.from_bytes(digest(*key)) >> 11) / 2**53


def draw_price(asin: str, lowest: float, highest: float) -> float:
    """What a product costs, somewhere in its range."""
    return round(lowest + (highest - lowest) * share("price", asin), 2)


def draw_price_limit(price: float, *key: object) -> float | None:
    """A round sum above a price: the larger of two out of the next four. None: nothing round is high enough."""
    pairs = list(combinations([step for step in PRICE_STEPS if step > price][:4], 2))
    return pairs[int(share("limit", *key) * len(pairs))][1] if pairs else None


def human_goals(product: Product, entries: object) -> Iterator[Goal]:
    """Goals in shoppers' words, from a product's list in `items_human_ins.json`; those without attributes are left out."""
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        instruction, attributes = _wish(entry)
        if instruction and attributes:
            wanted = entry.get("instruction_options")
            values = list(wanted.values()) if isinstance(wanted, Mapping) else wanted
            yield _goal(product, f"human {number}", instruction, attributes, _lower_texts(values))


def synthetic_goals(product: Product, label: object) -> Iterator[Goal]:
    """A goal made from a product's entry in `items_ins_v2*.json`, with one value, drawn, of each of its options."""
    instruction, attributes = _wish(label)
    if instruction and attributes:
        chosen = {
            name: values[int(share("option", product.asin, name) * len(values))]
            for name, values in sorted(product.options.items())
        }
        named = ", and ".join(f"{name}: {value}" for name, value in chosen.items())
        text = f"{instruction} with {named}" if named else instruction
        yield _goal(product, "synthetic", text, attributes, list(chosen.values()))


def _wish(entry: object) -> tuple[str, list[str]]:
    """The instruction and the attributes it asks for; empty where the entry does not say."""
    if not isinstance(entry, Mapping):
        return "", []
    return clean(entry.get("instruction")).rstrip(". "), _lower_texts(entry.get("instruction_attributes"))


def _lower_texts(values: object) -> list[str]:
    return [text.lower() for text in texts(values)]


def _goal(product: Product, kind: str, instruction: str, attributes: Sequence[str], options: Sequence[str]) -> Goal:
    limit = draw_price_limit(product.price, product.asin, kind)
    if limit is not None:
        instruction = f"{instruction}, and price lower than {limit:.2f} dollars"
    return Goal(product.asin, instruction, attributes, options, limit)


def goals_of_split(split: str, count: int) -> range:
    """The places, in the fixed order of all goals, of one split.

    Test has the first 500, validation the next 1,000, training the rest. With 1,500 goals or fewer, a sixth, a third
    and the other half; with fewer than three, each split has them all.
    """
    if count < 3:
        return range(count)
    test, val = (TEST_GOALS, VAL_GOALS) if count > TEST_GOALS + VAL_GOALS else (max(1, count // 6), max(1, count // 3))
    return {"test": range(test), "val": range(test, test + val), "train": range(test + val, count)}[split]


def goal_for_seed(split: str, seed: int, count: int) -> int:
    """The place of the goal that a seed stands for: seeds go through the goals of a split in turn."""
    places = goals_of_split(split, count)
    return places[seed % len(places)]
