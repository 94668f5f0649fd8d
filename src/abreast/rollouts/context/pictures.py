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
    parts = [text_part(piece) if isinstance(piece, str) else piece for piece in pieces if piece]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    joined = parts[:1]
    for part in parts[1:]:
        if part["type"] == joined[-1]["type"] == "text":
            joined[-1] = text_part(joined[-1]["text"] + part["text"])
        else:
            joined.append(part)
    return joined


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
    if isinstance(image, str):  # the name of a file stands for it, in an episode that was read from one
        form = str
    url = form(image) if callable(form) else f"data:image/png;base64,{base64.b64encode(png_of(image)).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}
