"""Small tokenizers of Hugging Face's shape: one token a character, but for special tokens and pairs that merge."""

import re
from collections.abc import Callable

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|endoftext|>"


def chatml(messages, asks, content=lambda message, is_last: message["content"], opening=f"{START}assistant\n", end=END):
    shown = [
        f"{START}{message['role']}\n{content(message, place == len(messages) - 1)}{end}\n"
        for place, message in enumerate(messages)
    ]
    return "".join(shown) + (opening if asks else "")


class CharTokenizer:
    """`merges`: texts that become one token wherever they stand, also over the border of a prompt and an answer."""

    name_or_path = "chars"

    def __init__(
        self, template: Callable[..., str] | None = chatml, special=(START, END, PAD), merges=(), blank_first=False
    ):
        self.chat_template = "a template" if template else None
        self._template = template
        self._words = [*special, *merges]
        self.all_special_ids = list(range(len(special)))
        self.eos_token_id = self._words.index(END) if END in self._words else None
        self._split = re.compile(
            "|".join([*map(re.escape, sorted(self._words, key=len, reverse=True)), "."]), re.DOTALL
        )
        self._blank_first = blank_first
        self.rendered = 0

    def apply_chat_template(self, conversation, tokenize=True, add_generation_prompt=False, **options):
        assert tokenize is False
        self.rendered += 1
        return (options.get("chat_template") or self._template)(conversation, add_generation_prompt)

    def encode(self, text, add_special_tokens=True):
        assert add_special_tokens is False
        text = f" {text}" if self._blank_first and text else text
        return [
            self._words.index(piece) if piece in self._words else 1000 + ord(piece)
            for piece in self._split.findall(text)
        ]

    def decode(self, ids, skip_special_tokens=False, clean_up_tokenization_spaces=True):
        assert skip_special_tokens is False and clean_up_tokenization_spaces is False
        return "".join(self._words[number] if number < 1000 else chr(number - 1000) for number in ids)
