"""The pages of the shop: what is on each, what can be clicked, and how it looks in each observation mode."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
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


@dataclass(frozen=True, slots=True)
class Piece:
    """One thing on a page."""

    kind: str
    """heading, text, image, search, button, product or option; the last three can be clicked."""
    text: str
    option: str = ""
    """Whose value an option is."""
    chosen: bool = False
    """An option that is chosen, a product that was opened before."""


class Page:
    """What a shopper sees."""

    def __init__(self, url: str, pieces: Sequence[Piece]) -> None:
        self.url = url
        self.pieces = pieces
        self.has_search_bar = any(piece.kind == "search" for piece in pieces)
        self._clickable: dict[str, list[Piece]] = {}
        for piece in pieces:
            if piece.kind in ("button", "product", "option"):
                self._clickable.setdefault(piece.text.lower(), []).append(piece)

    def actions(self) -> list[str]:
        """The legal actions; `search[<words>]` stands for a search with any words."""
        search = ["search[<words>]"] if self.has_search_bar else []
        return search + [f"click[{text}]" for text in self._clickable]

    def target(self, text: str) -> Piece | None:
        """What a click on a text (in lower case) hits: a button rather than an option of the same name, and a value
        that several options offer where it is not chosen yet."""
        found = self._clickable.get(text, [])
        order = sorted(found, key=lambda piece: (piece.kind == "option", piece.chosen))
        return order[0] if order else None


def page_of(session: Session, catalogue: Catalogue) -> Page:
    """The page a shopper is on."""
    return Page(_url(session), list(_pieces(session, catalogue)))


def _pieces(session: Session, catalogue: Catalogue) -> Iterator[Piece]:
    if session.page == "end":
        yield Piece("heading", "Thank you for your order")
        yield from _texts("Your score (min 0.0, max 1.0)", f"{session.reward:.4g}")
        return
    if session.page == "search":
        yield Piece("heading", "WebShop")
    yield from _texts("Instruction:", session.instruction)
    if session.page == "search":
        yield Piece("search", "Search")
        return
    yield Piece("button", BACK_TO_SEARCH)
    if session.page == "results":
        yield from _results(session, catalogue)
        return
    yield Piece("button", PREVIOUS)
    product = catalogue.product(session.asin)
    if session.page == "item":
        yield from _item(session, product)
    else:
        yield from _texts(*SUB_PAGES[session.page](product))


def _results(session: Session, catalogue: Catalogue) -> Iterator[Piece]:
    yield Piece("text", f"Page {session.number} (Total results: {len(session.results)})")
    if session.number > 1:
        yield Piece("button", PREVIOUS)
    if session.number * PER_PAGE < len(session.results):
        yield Piece("button", NEXT)
    for asin in session.results[(session.number - 1) * PER_PAGE : session.number * PER_PAGE]:
        product = catalogue.product(asin)
        yield Piece("image", product.image)
        yield Piece("product", asin, chosen=asin in session.viewed)
        yield from _texts(product.title, product.price_tag)


def _item(session: Session, product: Product) -> Iterator[Piece]:
    yield Piece("image", product.image)
    for name, values in product.options.items():
        chosen = session.options.get(name)
        yield Piece("text", name if chosen is None else f"{name} (selected: {chosen})")
        for value in values:
            yield Piece("option", value, option=name, chosen=value == chosen)
    yield Piece("heading", product.title)
    yield from _texts(f"Price: {product.price_tag}", f"Rating: {product.rating}")
    for button in (*SUB_PAGES, BUY_NOW):
        yield Piece("button", button)


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
    return {"text": _as_text, "text_rich": _as_rich_text, "html": _as_html, "url": _as_url}[mode](page)


def _as_text(page: Page) -> str:
    return " [SEP] ".join(piece.text for piece in page.pieces if piece.kind != "image")


def _as_rich_text(page: Page) -> str:
    return "\n".join(_rich(piece) for piece in page.pieces if piece.kind != "image")


def _rich(piece: Piece) -> str:
    if piece.kind in ("heading", "text"):
        return piece.text
    mark = "clicked button" if piece.chosen else "button"
    indent = "  " if piece.kind == "option" else ""
    return f"{indent}[{mark}] {piece.text} [{mark}_]"


def _as_html(page: Page) -> str:
    body = "\n".join(_TAGS[piece.kind](piece, escape(piece.text)) for piece in page.pieces if piece.text)
    return f"<!DOCTYPE html>\n<html>\n<body>\n{body}\n</body>\n</html>"


def _as_url(page: Page) -> str:
    return page.url


def _radio_button(piece: Piece, text: str) -> str:
    checked = " checked" if piece.chosen else ""
    return f'<label><input type="radio" name="{escape(piece.option)}" value="{text}"{checked}>{text}</label>'


_TAGS: Mapping[str, Callable[[Piece, str], str]] = {
    "heading": lambda _, text: f"<h2>{text}</h2>",
    "text": lambda _, text: f"<p>{text}</p>",
    "image": lambda _, text: f'<img src="{text}">',
    "search": lambda _, text: f'<form><input id="search_input" type="text"><button>{text}</button></form>',
    "button": lambda _, text: f'<button class="btn">{text}</button>',
    "product": lambda _, text: f'<a class="product-link" href="#">{text}</a>',
    "option": _radio_button,
}
