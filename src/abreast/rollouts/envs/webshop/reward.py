"""How well a purchase fits a goal.

reward = kind × (attributes found + options chosen right + price within limit) / (attributes + options + 1)
"""

import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz
from rapidfuzz.utils import default_process

from abreast.rollouts.envs.webshop.catalogue import Goal, Product
from abreast.rollouts.envs.webshop.words import content_words, words_of

FUZZY_MATCH = 85.0
"""Two texts are taken for the same when their token-set ratio is above it."""

_COLOURS = """amber apricot aqua army ash azure beige black blonde blue bronze brown burgundy camel caramel champagne
    charcoal chocolate coffee copper coral cream cyan denim emerald fuchsia gold golden graphite gray green grey hazel
    indigo ivory jade khaki lavender lemon lilac lime magenta maroon mauve mint mocha mustard navy nude ochre olive
    orange peach pearl pink plum purple red rose ruby rust salmon sand sapphire scarlet silver slate tan taupe teal
    turquoise vanilla violet white wine yellow"""
_COLOUR = re.compile(rf"\b({'|'.join(words_of(_COLOURS))})\b")
_SPELLINGS = {"gray": "grey", "golden": "gold"}


def score(bought: Product, chosen: Iterable[str], goal: Goal, wanted: Product) -> dict[str, float]:
    """Rate a product bought with the chosen option values; `wanted` is the product the goal was written for.

    total: the reward. r_type: 1 for the right kind of product, less for others, down to 0. r_attributes: share of the goal's
    attributes that the product has. r_options: share of the goal's options that were chosen; 1 when the goal names none.
    r_price: 1 within the limit, else 0.
    """
    attributes = matched_attributes(bought, goal.attributes)
    options = matched_options(chosen, goal.options)
    price = goal.price_limit is None or bought.price <= goal.price_limit
    r_type = type_factor(bought, wanted)
    return {
        "total": r_type * (attributes + options + price) / (len(goal.attributes) + len(goal.options) + 1),
        "r_type": r_type,
        "r_attributes": attributes / len(goal.attributes) if goal.attributes else 1.0,
        "r_options": options / len(goal.options) if goal.options else 1.0,
        "r_price": float(price),
    }


def type_factor(bought: Product, wanted: Product) -> float:
    """Is it the right kind of thing? The title decides first: whatever shares next to no word with it is something else."""
    overlap = title_overlap(bought.title, wanted.title)
    if overlap == 0:
        return 0.0
    if overlap < 0.1:
        return 0.1
    same_query = bought.query == wanted.query != ""
    same_category = len(set(bought.categories) & set(wanted.categories)) >= 2
    return 1.0 if same_query or same_category or overlap > 0.2 else 0.5


def title_overlap(bought: str, wanted: str) -> float:
    """Share of the wanted title's words that are in the bought one's; 0.2, neither near nor far, if it has none.

    The public WebShop compares the nouns that a language model finds. Here it is all words but the empty ones, which
    needs no model and gives the same answer everywhere.
    """
    words = content_words(wanted)
    return len(set(words) & set(content_words(bought))) / len(words) if words else 0.2


def matched_attributes(bought: Product, attributes: Sequence[str]) -> int:
    """How many attributes are like one of the product's, or stand in its title, bullets or description."""
    texts = [text.lower() for text in (bought.title, " ".join(bought.bullets), bought.description)]
    return sum(
        any(alike(attribute, own) for own in bought.attributes) or any(attribute in text for text in texts)
        for attribute in attributes
    )


def matched_options(chosen: Iterable[str], options: Iterable[str]) -> int:
    """How many options are like a chosen one, all shades of a colour being that colour."""
    colours = [plain_colour(value) for value in chosen]
    return sum(any(alike(plain_colour(option), value) for value in colours) for option in options)


def plain_colour(value: str) -> str:
    """The first colour that a value names, or the value itself: `dark blue | 2 pack` is `blue`."""
    found = _COLOUR.search(value.lower())
    return _SPELLINGS.get(found[1], found[1]) if found else value


def alike(one: str, other: str) -> bool:
    """Fuzzy equality of two short texts, whatever the order of their words."""
    return fuzz.token_set_ratio(one, other, processor=default_process) > FUZZY_MATCH
