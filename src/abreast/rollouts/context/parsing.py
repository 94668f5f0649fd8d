"""From an answer to actions.

    <think>The box is below.</think><answer>Down || Left</answer>

Strict: exactly this form, white space around the parts aside; each tag once, in lower case. Without `enable_think`, exactly
`<answer>...</answer>`. Any other answer has no actions and is not valid.

Blocks, as RAGEN reads: the first `<think>...</think>` with `<answer>...</answer>` right behind it (without `enable_think`,
the first `<answer>...</answer>`) counts, wherever it stands. Tags and special tokens inside are taken out, and actions are
split at every separator. Any other answer has no actions.

Lenient: tags in upper case, with blanks, unclosed, repeated or nested, text around them, `<answer>` alone.
- The first `<answer>` counts that is not inside `<think>`: what a model writes after it is made up. It ends at the next
  `</answer>`, or at the end.
- A `<think>` that is never closed ends at the last `<answer>`; without one the answer was cut off, and there are no actions.
- A `</think>` that was never opened closes what was written from the beginning (chat templates may write `<think>`).
- Without any answer tag, what follows `</think>`, or else the whole text, is the answer. It is valid only if no `<think>`
  was wanted.

Actions stand between separators; those beyond the most of a turn are cut off, which does not make an answer invalid. Actions
that are free texts (no `action_lookup`) are never taken apart if a turn has one action; if it has more, a separator in
brackets belongs to the text: `search[a || b]` is one action.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from abreast.errors import RolloutError, short
from abreast.rollouts.context.cleaning import Cleaner, encodable
from abreast.rollouts.context.config import REPLACEMENT, ContextConfig

_TAG = re.compile(r"<\s{0,4}(/?)\s{0,4}(think|answer)\s{0,4}>", re.IGNORECASE)
_ANSWER = re.compile("<answer>")
_ANSWER_FOLLOWS = re.compile(r"</think>\s*<answer>")


class Parsed(NamedTuple):
    """What an answer says."""

    actions: list[str]
    think: str
    response: str
    """The answer in its normal form, or, if no actions are found, as it was written, up to its first special token."""
    is_valid: bool
    """Whether its form is what was asked for."""


_Found = tuple[str, str, bool]
"""Thoughts, answer, and whether that is all there is."""


class Parser:
    """Reads answers. `are_free` says that actions are texts of any kind."""

    def __init__(self, config: ContextConfig, max_actions: int, are_free: bool) -> None:
        self._config, self._max_actions, self._are_free = config, max_actions, are_free
        self._clean = Cleaner(config.special_tokens)
        self._bracket_or_sep = re.compile(rf"({re.escape(config.action_sep)})|([\[({{])|([\])}}])")
        self._first_tag = "<think>" if config.enable_think else "<answer>"
        self.opening = self._first_tag if config.prefill else ""
        """The tag that a prompt ends with; an empty text without `prefill`."""

    def __call__(self, answer: str) -> Parsed:
        """What an answer says; never raises for a text."""
        if not isinstance(answer, str):
            raise RolloutError(f"an answer is {short(answer)}: expected the text a language model wrote.")
        config, is_cut = self._config, len(answer) > self._config.max_response_chars
        answer = answer[: config.max_response_chars]
        if config.answer_format == "blocks":
            return self._read_blocks(self.opened(encodable(answer)))
        text = self._clean(answer)
        is_inside = config.prefill or (config.think_is_prefilled and config.enable_think)
        read = self._with_tag(text) if is_inside else text
        if config.answer_format == "lenient":
            found: _Found | None = _lenient(read, config.enable_think)
        else:
            found = None if is_cut else _blocks(read, config.enable_think)
            found = found if found is not None and found[2] else None
        think, given, is_valid = found or ("", "", False)
        actions = self._actions(given)
        if not actions:
            return Parsed([], think, self._clean.cut(answer)[0], False)
        return Parsed(actions, think, self.form(think, actions), is_valid)

    def opened(self, answer: str) -> str:
        """An answer with the tag that its prompt ended with before it."""
        return self._with_tag(answer) if self._config.prefill else answer

    def _with_tag(self, answer: str) -> str:
        """An answer that begins with its first tag, which some servers send, though it was in the prompt."""
        return answer if answer.lstrip().startswith(self._first_tag) else f"{self._first_tag}{answer}"

    def _read_blocks(self, text: str) -> Parsed:
        found = _blocks(text, self._config.enable_think)
        if found is None:
            return Parsed([], "", self._clean.cut(text)[0], False)
        think, answer = (self._clean(_TAG.sub(REPLACEMENT, _TAG.sub("", part))).strip() for part in found[:2])
        actions = [action.strip() for action in answer.split(self._config.action_sep) if action.strip()]
        kept = actions[: self._max_actions]
        if len(actions) > len(kept):
            answer = f" {self._config.action_sep} ".join(kept)
        return Parsed(kept, think, self._written(think, answer), bool(kept))

    def form(self, think: str, actions: list[str]) -> str:
        """An answer in its normal form."""
        return self._written(think, f" {self._config.action_sep} ".join(actions))

    def _written(self, think: str, answer: str) -> str:
        thought = f"<think>{think}</think>" if self._config.enable_think else ""
        return f"{thought}<answer>{answer}</answer>"

    def _actions(self, answer: str) -> list[str]:
        if self._are_free:
            parts = [answer] if self._max_actions == 1 else self._split_outside_brackets(answer)
        else:
            parts = answer.split(self._config.action_sep)
        return [part.strip() for part in parts if part.strip()][: self._max_actions]

    def _split_outside_brackets(self, text: str) -> list[str]:
        parts, begin, depth = list[str](), 0, 0
        for found in self._bracket_or_sep.finditer(text):
            if found[2]:
                depth += 1
            elif found[3]:
                depth = max(depth - 1, 0)
            elif not depth:
                parts.append(text[begin : found.start()])
                begin = found.end()
        return [*parts, text[begin:]]


def _blocks(text: str, with_think: bool) -> _Found | None:
    """The first thoughts that an answer follows. Valid is it if there is nothing else: no text around, no tags inside."""
    begin = text.find("<think>" if with_think else "<answer>")
    opening = (_ANSWER_FOLLOWS if with_think else _ANSWER).search(text, begin) if begin >= 0 else None
    end = -1 if opening is None else text.find("</answer>", opening.end())
    if opening is None or end < 0:  # if what has to follow the first opening tag is missing, no later one has it
        return None
    think = text[begin + len("<think>") : opening.start()] if with_think else ""
    answer = text[opening.end() : end]
    around = text[:begin] + text[end + len("</answer>") :]
    return think.strip(), answer, not around.strip() and not _TAG.search(f"{think} {answer}")


def _lenient(text: str, with_think: bool) -> _Found:
    tags = list(_TAG.finditer(text))  # of each, [1] is a slash if it closes, [2] its name
    first = next((tag for tag in tags if tag[2].lower() == "think"), None)
    is_thinking = first is not None and bool(first[1])  # it was opened before the answer began
    after_think = 0
    for number, tag in enumerate(tags):
        if tag[2].lower() == "think":
            is_thinking = not tag[1]
            after_think = tag.end() if tag[1] else after_think
        elif not is_thinking and tag[1]:  # it was not opened
            return _found(text[:after_think], text[after_think : tag.start()])
        elif not is_thinking:
            return _answer_at(text, tags[number:])
    if not is_thinking:
        return _without_tags(text[:after_think]), _without_tags(text[after_think:]), not with_think
    opened = [number for number, tag in enumerate(tags) if tag[2].lower() == "answer" and not tag[1]]
    return _answer_at(text, tags[opened[-1] :]) if opened else (_without_tags(text), "", False)


def _answer_at(text: str, tags: Sequence[re.Match[str]]) -> _Found:
    """The answer that the first of these tags opens, up to the one that closes it."""
    opening, *later = tags
    end = next((tag.start() for tag in later if tag[2].lower() == "answer" and tag[1]), len(text))
    return _found(text[: opening.start()], text[opening.end() : end])


def _found(think: str, answer: str) -> _Found:
    return _without_tags(think), _without_tags(answer), True


def _without_tags(text: str) -> str:
    """Tags become blanks: what stood around one must not form a special token. It may form a tag: see `cleaning`."""
    return _TAG.sub(REPLACEMENT, _TAG.sub(" ", text)).strip()
