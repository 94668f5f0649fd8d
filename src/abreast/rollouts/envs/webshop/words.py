"""Text of products and shoppers: cleaned to characters a page can show, and cut into words."""

import re
import unicodedata

MAX_WORDS = 64
"""Words a search looks at; what comes after them is left out."""

_WORD = re.compile(r"[^\W_]+")
STOP_WORDS = frozenset(
    _WORD.findall(
        """a about all also am an and any are as at be been but by can could do does for from get give had has have
        he her his how i if in into is it its just like me more most my need no not of off on one only or
        other our out please she should so some such than that the their them then there these they this those to
        too us very want was we well were what when where which who will with would you your find looking look buy
        show something d im ive ll m re s t ve"""
    )
)
"""Words that say nothing about a product."""


def clean(text: object) -> str:
    """One line of text in compatible Unicode form; without control characters, and without emoji and other signs
    beyond the basic plane. Whatever is not text is empty."""
    if not isinstance(text, str):
        return ""
    text = unicodedata.normalize("NFKC", text)
    if not (text.isascii() and text.isprintable()):
        text = "".join(_kept(character) for character in text)
    return " ".join(text.split())


def _kept(character: str) -> str:
    if character.isspace():
        return " "
    return "" if ord(character) > 0xFFFF or unicodedata.category(character).startswith("C") else character


def texts(values: object) -> list[str]:
    """The texts in a list, cleaned; what is not text is left out, and so is what is not a list."""
    return [text for text in map(clean, values) if text] if isinstance(values, list) else []


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, in order, each once."""
    return list(dict.fromkeys(_WORD.findall(text.lower())))


def content_words(text: str) -> list[str]:
    """The words of a text that say something about a product, in order, each once."""
    return [word for word in words_of(text) if word not in STOP_WORDS]


def search_words(text: str) -> list[str]:
    """What a search looks for: the words that say something, or all words where none does; a bounded number."""
    return (content_words(text) or words_of(text))[:MAX_WORDS]
