"""A product as the public files write it, made into a product as the shop shows it.

Scraped records are uneven: a field may be missing, empty, null, or of another type. What cannot be read is left empty.
"""

import re
from collections.abc import Mapping
from typing import Any

from abreast.rollouts.envs.webshop.catalogue import Product
from abreast.rollouts.envs.webshop.goals import draw_price
from abreast.rollouts.envs.webshop.words import clean, texts

PRICE_OF_THE_UNPRICED = 100.0
_MAX_NUMBER = 40
_MAX_TITLE, _MAX_BULLET, _MAX_DESCRIPTION = 500, 1_000, 10_000
_MAX_BULLETS, _MAX_VALUES, _MAX_REVIEWS = 50, 200, 20
_PRICE = re.compile(r"\$\s*(\d[\d,]{0,11}(?:\.\d{1,2})?)")


def product_from(record: Mapping[str, Any], label: object) -> Product | None:
    """The product in a record of `items_shuffle*.json` and its label in `items_ins_v2*.json`; None if it has no name."""
    asin, title = clean(record.get("asin")), clean(record.get("name"))[:_MAX_TITLE]
    if not asin or asin == "nan" or len(asin) > _MAX_NUMBER or not title:
        return None
    lowest, highest = _price_range(record.get("pricing"))
    attributes = label.get("attributes") if isinstance(label, Mapping) else None
    bullets = record.get("small_description")
    return Product(
        asin=asin,
        title=title,
        price=draw_price(asin, lowest, highest),
        price_tag=f"${lowest:.2f}" if lowest == highest else f"${lowest:.2f} to ${highest:.2f}",
        query=clean(record.get("query")).lower(),
        categories=texts(clean(record.get("product_category")).split("›")),
        bullets=[text[:_MAX_BULLET] for text in texts([bullets] if isinstance(bullets, str) else bullets)][
            :_MAX_BULLETS
        ],
        description=clean(record.get("full_description"))[:_MAX_DESCRIPTION],
        options=_options(record.get("customization_options")),
        attributes=[text.lower() for text in texts(attributes)],
        rating=clean(str(record.get("average_rating") or "")) or "N.A.",
        reviews=_reviews(record.get("reviews")),
        image=next(iter(texts(record.get("images"))), ""),
    )


def search_text(product: Product) -> str:
    """What a search finds a product by."""
    options = (f"{name} {' '.join(values)}" for name, values in product.options.items())
    return " ".join([product.title, *product.bullets, product.description, *options])


def _price_range(pricing: object) -> tuple[float, float]:
    prices = (
        [float(price.replace(",", "")) for price in _PRICE.findall(pricing)[:2]] if isinstance(pricing, str) else []
    )
    return (min(prices), max(prices)) if prices else (PRICE_OF_THE_UNPRICED, PRICE_OF_THE_UNPRICED)


def _options(customization: object) -> dict[str, list[str]]:
    options: dict[str, list[str]] = {}
    for name, choices in customization.items() if isinstance(customization, Mapping) else ():
        entries = [choice for choice in choices if isinstance(choice, Mapping)] if isinstance(choices, list) else []
        values = [clean(choice.get("value")).lower().replace("/", " | ") for choice in entries]
        values = list(dict.fromkeys(" ".join(value.split()) for value in values if value))
        if values and clean(name):
            options[clean(name).lower()] = values[:_MAX_VALUES]
    return options


def _reviews(entries: object) -> list[str]:
    """Each review in one text: its score, its title, what it says. Scraped files spell the keys in two ways."""
    reviews = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping):
            score = clean(str(entry.get("score") or entry.get("stars") or ""))
            said = entry.get("title"), entry.get("body") or entry.get("review")
            parts = [f"{score} stars" if score else "", *map(clean, said)]
            reviews.append(". ".join(part for part in parts if part)[:_MAX_BULLET])
    return [review for review in reviews if review][:_MAX_REVIEWS]
