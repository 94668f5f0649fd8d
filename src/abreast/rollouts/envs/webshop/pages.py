"""The pages of the shop: what is on each, what can be clicked, and how it looks in each observation mode."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import quote

from abreast.rollouts.envs.webshop.catalogue import Catalogue, Product

PER_PAGE = 10
BACK_TO_SEARCH, PREVIOUS, NEXT, BUY_NOW = "Back to Search", "< Prev", "Next >", "Buy Now"
SUB_PAGES: Mapping[str, Callable[[Product], Sequence[str]]] = {
    "Description": lambda product: [product.description or "No description."],
    "Features": lambda product: product.bullets or ["No features."],
    "Reviews": lambda product: product.reviews or ["No reviews."],
    "Attributes": lambda product: product.attributes or ["No attributes."],
}


@dataclass(frozen=True)
class Session:
    """Where a shopper is. The page follows from it."""

    name: str
    """Of the goal, so that addresses differ."""
    instruction: str
    page: str = "search"
    """search, results, item, the name of a sub-page, or end."""
    query: str = ""
    results: tuple[str, ...] = ()
    number: int = 1
    """Of the page of results."""
    asin: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Chosen so far, by name of the option."""
    viewed: tuple[str, ...] = ()
    """Products opened so far."""
    reward: float = 0.0


START = {"page": "search", "query": "", "results": (), "number": 1, "asin": "", "options": {}}
"""What `Back to Search` changes of a session."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing on a page."""

    kind: str
    """heading, text, image, search, button, product or option."""
    text: str
    option: str = ""
    """Whose value an option is."""
    chosen: bool = False
    """An option that is chosen, a product that was opened before."""
    leads_to: Mapping[str, Any] | None = None
    """What a click on it changes of the session; none: it cannot be clicked."""


class Page:
    """What a shopper sees."""

    def __init__(self, session: Session, catalogue: Catalogue) -> None:
        self.url = _url(session)
        self.pieces = _pieces(session, catalogue)
        self.has_search_bar = session.page == "search"
        self._clickable: dict[str, list[Piece]] = {}
        for piece in self.pieces:
            if piece.leads_to is not None:
                self._clickable.setdefault(piece.text.lower(), []).append(piece)

    def actions(self) -> list[str]:
        """The legal actions; `search[<words>]` stands for a search with any words."""
        search = ["search[<words>]"] if self.has_search_bar else []
        return search + [f"click[{text}]" for text in self._clickable]

    def target(self, text: str) -> Mapping[str, Any] | None:
        """What a click on a text (in lower case) changes of the session; none: there is no such thing. A button goes before
        an option of the same name, and of several options that offer a value, one where it is not chosen yet."""
        found = self._clickable.get(text, [Piece("text", text)])
        return min(found, key=lambda piece: (piece.kind == "option", piece.chosen)).leads_to


def _pieces(session: Session, catalogue: Catalogue) -> list[Piece]:
    instruction = _texts("Instruction:", session.instruction)
    back = Piece("button", BACK_TO_SEARCH, leads_to=START)
    match session.page:
        case "end":
            score = _texts("Your score (min 0.0, max 1.0)", f"{session.reward:.4g}")
            return [Piece("heading", "Thank you for your order"), *score]
        case "search":
            return [Piece("heading", "WebShop"), *instruction, Piece("search", "Search")]
        case "results":
            return [*instruction, back, *_results(session, catalogue)]
    product, is_item = catalogue.product(session.asin), session.page == "item"
    above = [*instruction, back, Piece("button", PREVIOUS, leads_to={"page": "results" if is_item else "item"})]
    return [*above, *(_item(session, product) if is_item else _texts(*SUB_PAGES[session.page](product)))]


def _results(session: Session, catalogue: Catalogue) -> Iterator[Piece]:
    first, end = (session.number - 1) * PER_PAGE, session.number * PER_PAGE
    yield Piece("text", f"Page {session.number} (Total results: {len(session.results)})")
    if first:
        yield Piece("button", PREVIOUS, leads_to={"number": session.number - 1})
    if end < len(session.results):
        yield Piece("button", NEXT, leads_to={"number": session.number + 1})
    for asin in session.results[first:end]:
        product = catalogue.product(asin)
        opened = {"page": "item", "asin": asin, "options": {}, "viewed": (*session.viewed, asin)}
        yield Piece("image", product.image)
        yield Piece("product", asin, chosen=asin in session.viewed, leads_to=opened)
        yield from _texts(product.title, product.price_tag)


def _item(session: Session, product: Product) -> Iterator[Piece]:
    yield Piece("image", product.image)
    for name, values in product.options.items():
        chosen = session.options.get(name)
        yield Piece("text", name if chosen is None else f"{name} (selected: {chosen})")
        yield from (
            Piece("option", value, name, value == chosen, leads_to={"options": {**session.options, name: value}})
            for value in values
        )
    yield Piece("heading", product.title)
    yield from _texts(f"Price: {product.price_tag}", f"Rating: {product.rating}")
    yield from (Piece("button", name, leads_to={"page": name}) for name in SUB_PAGES)
    yield Piece("button", BUY_NOW, leads_to={"page": "end"})


def _texts(*texts: str) -> Iterator[Piece]:
    return (Piece("text", text) for text in texts)


def _url(session: Session) -> str:
    """The address of a page names all that matters of the session, so two pages are the same if their addresses are."""
    options = json.dumps(session.options) if session.options else ""
    parts: dict[str, list[object]] = {
        "search": [],
        "results": ["search_results", session.query, session.number],
        "item": ["item_page", session.asin, session.query, session.number, options],
        "end": ["done", session.asin, options],
    }
    sub_page: list[object] = ["item_sub_page", session.asin, session.query, session.number, session.page, options]
    path = [session.name, *parts.get(session.page, sub_page)]
    return "/".join(["http://webshop", *(quote(str(part), safe="") for part in path)])


# ---- how a page looks


def show(page: Page, mode: str) -> str:
    """A page as an observation."""
    if mode == "url":
        return page.url
    if mode == "html":
        body = "\n".join(_TAGS[piece.kind](piece, escape(piece.text)) for piece in page.pieces if piece.text)
        return f"<!DOCTYPE html>\n<html>\n<body>\n{body}\n</body>\n</html>"
    seen = [piece for piece in page.pieces if piece.kind != "image"]
    return " [SEP] ".join(piece.text for piece in seen) if mode == "text" else "\n".join(map(_rich, seen))


def _rich(piece: Piece) -> str:
    if piece.kind in ("heading", "text"):
        return piece.text
    mark = "clicked button" if piece.chosen else "button"
    return f"{'  ' * (piece.kind == 'option')}[{mark}] {piece.text} [{mark}_]"


_TAGS: Mapping[str, Callable[[Piece, str], str]] = {
    "heading": lambda _, text: f"<h2>{text}</h2>",
    "text": lambda _, text: f"<p>{text}</p>",
    "image": lambda _, text: f'<img src="{text}">',
    "search": lambda _, text: f'<form><input id="search_input" type="text"><button>{text}</button></form>',
    "button": lambda _, text: f'<button class="btn">{text}</button>',
    "product": lambda _, text: f'<a class="product-link" href="#">{text}</a>',
    "option": lambda piece, text: (
        f'<label><input type="radio" name="{escape(piece.option)}" value="{text}"{" checked" * piece.chosen}>{text}</label>'
    ),
}
