"""Pictures in messages: the parts that servers and processors expect."""

import base64
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

ImageForm = Literal["url", "pil"] | Callable[[Any], str]
"""url: data URIs in PNG, as servers of OpenAI's interface take them; pil: the images themselves, for local processors. Or a
function that returns the URL of an image."""
PLACEHOLDER = "<images>"
"""Stands in a state for one picture."""

Piece = str | dict[str, Any]
"""A part of a message: a text, or a picture in the form of a content part."""


def pieces_of(state: str, images: Sequence[Any], form: ImageForm) -> Iterator[Piece]:
    """The texts and pictures of a state, in order. Pictures without a placeholder come last."""
    texts = re.split(f"({re.escape(PLACEHOLDER)})", state)
    left = iter(images)
    for text in texts:
        image = next(left, None) if text == PLACEHOLDER else None
        yield text if image is None else _picture(image, form)
    for image in left:
        yield _picture(image, form)


def content_of(pieces: Sequence[Piece]) -> str | list[dict[str, Any]]:
    """A text, if there are no pictures; else content parts."""
    parts: list[dict[str, Any]] = []
    texts: list[str] = []
    for piece in (*pieces, None):
        if isinstance(piece, str):
            texts.append(piece)
            continue
        if "".join(texts):
            parts.append(text_part("".join(texts)))
        texts = []
        parts += [] if piece is None else [piece]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def png_of(image: Any) -> bytes:
    """An image as a file in PNG."""
    png = io.BytesIO()
    image.save(png, "PNG")
    return png.getvalue()


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _picture(image: Any, form: ImageForm) -> dict[str, Any]:
    if form == "pil":
        return {"type": "image", "image": image}
    url = _data_uri(image) if form == "url" else form(image)
    return {"type": "image_url", "image_url": {"url": url}}


def _data_uri(image: Any) -> str:
    return f"data:image/png;base64,{base64.b64encode(png_of(image)).decode()}"
