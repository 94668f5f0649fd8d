"""A tokenizer of Hugging Face's shape, as far as it is needed here; one that cannot do it is refused by a sentence.

Used are `apply_chat_template(messages, tokenize=False, add_generation_prompt=...)`,
`encode(text, add_special_tokens=False)`, `decode`, and what tells special tokens: `all_special_ids`, `eos_token_id`,
`added_tokens_decoder`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from abreast.errors import RolloutError

_PROBE = "abreast"


class ChatTokenizer:
    """Renders messages and encodes texts. `options` are passed on to the chat template, say enable_thinking=False."""

    def __init__(self, tokenizer: Any, options: Mapping[str, Any]) -> None:
        self._tokenizer, self._options = tokenizer, dict(options)
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        for method in ("apply_chat_template", "encode", "decode"):
            if not callable(getattr(tokenizer, method, None)):
                raise RolloutError(
                    f"the tokenizer {self.name} has no method {method}: expected one of Hugging Face's shape."
                )
        if "chat_template" not in options and getattr(tokenizer, "chat_template", "") is None:
            raise RolloutError(
                f"the tokenizer {self.name} has no chat template, so messages cannot become tokens: take the tokenizer of a"
                " chat model, or pass chat_template=."
            )

    def render(self, messages: Sequence[Mapping[str, Any]], asks: bool) -> str:
        """The text of messages; `asks`: with the beginning of an answer."""
        if any(not isinstance(message["content"], str) for message in messages):
            raise RolloutError(
                "the messages hold pictures, and a tokenizer takes texts only: give the processor of your model"
                " Context.messages(cache, images='pil')."
            )
        try:
            return self._tokenizer.apply_chat_template(  # type: ignore[no-any-return]
                [dict(message) for message in messages], tokenize=False, add_generation_prompt=asks, **self._options
            )
        except Exception as error:
            hint = " Without a place for a system message, set context.system_prompt to an empty text."
            raise RolloutError(
                f"the chat template of {self.name} refused the messages: {type(error).__name__}:"
                f" {' '.join(str(error).split())[:300].rstrip('.')}.{hint if 'system' in str(error).lower() else ''}"
            ) from error

    def encode(self, text: str) -> list[int]:
        """The tokens of a text; none is added."""
        return [int(token) for token in self._tokenizer.encode(text, add_special_tokens=False)]

    def encode_pieces(self, pieces: Sequence[str]) -> list[list[int]]:
        """The tokens of each piece of a text.

        The text is encoded as a whole where no token reaches over the border of two pieces. Otherwise each piece is encoded
        alone, as it is when a model writes an answer to a prompt; this must spell the same text.
        """
        text, whole = "", self.encode("".join(pieces))
        ends = [0]
        for piece in pieces:
            text += piece
            begin = self.encode(text) if len(ends) < len(pieces) else whole
            if whole[: len(begin)] != begin or len(begin) < ends[-1]:
                break
            ends.append(len(begin))
        else:
            return [whole[start:end] for start, end in pairwise(ends)]
        alone = [self.encode(piece) for piece in pieces]
        if self._decode([token for piece in alone for token in piece]) != self._decode(whole):
            raise RolloutError(
                f"the tokenizer {self.name} has tokens that reach over the border of a prompt and an answer, so it cannot be"
                " told which of them the model wrote: take another tokenizer."
            )
        return alone

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Tokens that no text of a user becomes."""
        added = getattr(self._tokenizer, "added_tokens_decoder", None) or {}
        found = {number for number, token in added.items() if getattr(token, "special", False)}
        found |= set(getattr(self._tokenizer, "all_special_ids", None) or ())
        found |= {getattr(self._tokenizer, "eos_token_id", None)}
        return frozenset(int(number) for number in found if isinstance(number, int))

    @cached_property
    def end_of_turn(self) -> int:
        """The special token that ends an answer."""
        asked = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _PROBE}]
        _, found, tail = self.render(asked, asks=False).rpartition(_PROBE)
        place = self.first_special(tail) if found else None
        if place is None:
            raise RolloutError(
                f"the tokenizer {self.name} ends an answer with {tail!r}, in which there is no special token, so a model"
                " could not learn where to stop: take a tokenizer with a special token for the end of a turn."
            )
        return self.encode(tail)[place]

    def first_special(self, text: str) -> int | None:
        """The place of the first special token of a text."""
        return next((place for place, token in enumerate(self.encode(text)) if token in self.special_ids), None)

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
