"""A shopper that reads the pages: searches for the instruction's words, opens what fits best, chooses options, buys."""

import re
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any

from abreast.errors import ConfigError
from abreast.rollouts.envs.webshop.config import WebShopConfig
from abreast.rollouts.envs.webshop.pages import BUY_NOW, NEXT, PREVIOUS, SUB_PAGES
from abreast.rollouts.envs.webshop.words import content_words

_LIMIT = re.compile(r",? and price lower than ([\d.]+) dollars$")
_PRICE = re.compile(r"\$([\d.]+)")
_MARKS = re.compile(r"\n| \[SEP\] |\[(?:clicked )?button_?\]|<[!/]?\w[^>]*>")
_NO_OPTIONS = {f"click[{text.lower()}]" for text in (PREVIOUS, "Back to Search", BUY_NOW, *SUB_PAGES)}


def solve(config: WebShopConfig | Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The actions of the next turn."""
    if WebShopConfig.parse(config).observation_mode == "url":
        raise ConfigError("observation_mode is url, which shows no page to read: choose another one for the solver.")
    # without marks and tags, whatever the mode of the page
    texts = [unescape(text.strip()) for text in _MARKS.split(history[-1]["state"]) if text.strip()]
    instruction = texts[texts.index("Instruction:") + 1]
    if texts[-1] == "Search":
        return [f"search[{' '.join(content_words(_LIMIT.sub('', instruction)))}]"]
    if texts[-1] == BUY_NOW:
        choices = options_to_click(history[-2]["info"]["available_actions"], instruction)
        return [*choices[: history[-1]["actions_left"] - 1], f"click[{BUY_NOW.lower()}]"]
    return [f"click[{best_result(texts, instruction)}]"]


def best_result(texts: Sequence[str], instruction: str) -> str:
    """The number of the product whose title has most of the instruction's words, if its price is right."""
    start = next(place for place, text in enumerate(texts) if text.startswith("Page ")) + 1
    listed = [text for text in texts[start:] if text not in (PREVIOUS, NEXT)]
    if not listed:
        return "back to search"
    wish, limit = set(content_words(_LIMIT.sub("", instruction))), _limit(instruction)
    products = list(zip(listed[::3], listed[1::3], listed[2::3], strict=True))

    def fit(product: tuple[str, str, str]) -> tuple[bool, int]:
        _, title, tag = product
        price = _PRICE.search(tag)
        return price is not None and float(price[1]) <= limit, len(wish & set(content_words(title)))

    return max(products, key=fit)[0]


def options_to_click(actions: Sequence[str], instruction: str) -> list[str]:
    """Clicks on the values that the instruction names, the longest first, so that x-large is not taken for large."""
    text = f" {_plain(_LIMIT.sub('', instruction))} "
    clicks = []
    for action in sorted(actions, key=len, reverse=True):
        value = f" {_plain(action.removeprefix('click[').removesuffix(']'))} "
        if action not in _NO_OPTIONS and value.strip() and value in text:
            clicks.append(action)
            text = text.replace(value, " | ", 1)
    return clicks


def _limit(instruction: str) -> float:
    found = _LIMIT.search(instruction)
    return float(found[1]) if found else float("inf")


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9.]+", text.lower()))
