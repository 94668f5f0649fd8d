"""From an episode to tokens: ids, which of them the model wrote, and the rewards of its answers.

    tokens = tokenize(context, cache, tokenizer)          # the whole episode as one sequence
    turns = tokenize_turns(context, cache, tokenizer)     # one sequence per turn: its prompt and its answer
    ids = prompt_ids(context, cache, tokenizer)           # what to answer now, for an engine that takes tokens

One sequence is cheaper, but it is what the model saw only if every prompt is the beginning of the next. Templates of many
thinking models remove earlier `<think>` parts, or write `<think>` themselves: these are refused by `tokenize`.
`tokenize_turns` works with them: it appends the tokens of an answer to those of its prompt, so no template changes it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

from abreast.errors import RolloutError
from abreast.rollouts.context.context import Context

_PROBE = "abreast"


@dataclass(frozen=True)
class Tokens:
    """A sequence to train on. All lists but `spans` have one entry per token."""

    input_ids: list[int]
    loss_mask: list[int]
    """1 for tokens that the model wrote: its answers, each with its end-of-turn token unless it was cut off before that.

    An answer ends at its first special token: what the model wrote after it is neither shown nor trained on."""
    rewards: list[float]
    """The reward of an answer, penalties included, at the last token of it that the model wrote; else 0."""
    spans: list[tuple[int, int]]
    """Begin and end of each answer, with its end-of-turn token."""
    first_turn: int
    """The turn of the first span: more than 0 if older turns were dropped, or if this is a later turn."""
    logprobs: list[float | None] | None = None
    """As the engine that sampled the answers gave them; None for tokens that it did not sample, or if it gave none."""


T = TypeVar("T")


_Rendered = tuple[str, str, str]
"""The text before the answer of a turn, the answer, and how it goes on up to the next."""


def tokenize(context: Context, cache: Mapping[str, Any], tokenizer: Any, **options: Any) -> Tokens:
    """An episode as one sequence. `options` go to the chat template, among them `chat_template` itself."""
    chat, turns = chat_of(context, tokenizer, options), _answered(context, cache)
    window = context.config.history_window
    if window is not None and window < turns:
        raise RolloutError(
            f"history_window is {window}, but the episode has {turns} turns: prompts did not show all of them, so one"
            " sequence is not what the model saw. Use tokenize_turns."
        )
    rewards, ends = context.rewards(cache), [_wrote_end(chat, context, cache, turn) for turn in range(turns)]
    return _shortened(
        lambda first: _sequence(chat, context, cache, rewards, ends, first),
        range(turns),
        context,
        lambda tokens: len(tokens.input_ids),
    )


def tokenize_turns(context: Context, cache: Mapping[str, Any], tokenizer: Any, **options: Any) -> list[Tokens]:
    """Each turn of an episode as a sequence of its own: its prompt, then its answer."""
    chat, rewards = chat_of(context, tokenizer, options), context.rewards(cache)
    made = []
    for turn in range(_answered(context, cache)):
        before = prompt_text(chat, context, cache, turn)
        answer = context.shown(cache["history"][turn])[0].removeprefix(context.opening)
        prompt, written = chat.encode_pieces([before, answer])
        _check_no_end(chat, written, turn)
        has_end = _wrote_end(chat, context, cache, turn)
        end = [chat.end_of_turn] if has_end or not written else []
        ids = [*prompt, *written, *end]
        mask = [0] * len(prompt) + [1] * len(written) + [int(has_end)] * len(end)
        made.append(Tokens(ids, mask, [0.0] * (len(ids) - 1) + [rewards[turn]], [(len(prompt), len(ids))], turn))
    return made


def prompt_ids(context: Context, cache: Mapping[str, Any], tokenizer: Any, **options: Any) -> list[int]:
    """The tokens of the prompt of the newest turn, within `max_prompt_tokens`."""
    chat = chat_of(context, tokenizer, options)
    return chat.encode(prompt_text(chat, context, cache, len(cache["history"]) - 1))


# ---- the tokenizer


def chat_of(context: Context, tokenizer: Any, options: Mapping[str, Any]) -> "ChatTokenizer":
    """The tokenizer for a context; its chat template is given the tools, if there are any, and must show them."""
    if context.tools is None:
        return ChatTokenizer(tokenizer, options)
    chat, asked = (
        ChatTokenizer(tokenizer, {**options, "tools": context.tools.schemas}),
        [{"role": "user", "content": "?"}],
    )
    if chat.render(asked, asks=True) == ChatTokenizer(tokenizer, options).render(asked, asks=True):
        raise RolloutError(
            f"the chat template of {chat.name} has no place for tools, so a model could not know them: set context.tools to"
            " false, or pass a chat_template= that shows them."
        )
    return chat


class ChatTokenizer:
    """Renders messages and encodes texts. `options` are passed on to the chat template, say enable_thinking=False.

    A tokenizer of Hugging Face's shape, as far as it is needed here; one that cannot do it is refused by a sentence. Used
    are `apply_chat_template(messages, tokenize=False, add_generation_prompt=...)`, `encode(text, add_special_tokens=False)`,
    `decode`, and what tells special tokens: `all_special_ids`, `eos_token_id`, `added_tokens_decoder`.
    """

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


# ---- inside


def _answered(context: Context, cache: Mapping[str, Any]) -> int:
    turns = context.answered(cache)
    if not turns:
        raise RolloutError("the episode has no answer yet, so there is nothing to train on: step it first.")
    if any(entry.get("calls") for entry in cache["history"]):
        raise RolloutError(
            "the server has taken tool calls out of the text, so what the model wrote is not known: play with --keep-tokens"
            " to record it, or start the server without a tool parser."
        )
    return turns


def _wrote_end(chat: ChatTokenizer, context: Context, cache: Mapping[str, Any], turn: int) -> bool:
    """Whether the model wrote the end of its turn where the shown answer ends: no limit has cut it off before."""
    entry = cache["history"][turn]
    _, token = context.shown(entry)
    return entry.get("finish_reason") != "length" and (token is None or chat.encode(token) == [chat.end_of_turn])


def prompt_text(chat: ChatTokenizer, context: Context, cache: Mapping[str, Any], turn: int) -> str:
    """The text of the prompt of a turn, within the limits."""
    window = context.config.history_window or turn + 1
    return _shortened(
        lambda first: chat.render(context.conversation(cache, first=first, turns=turn), asks=True) + context.opening,
        range(max(0, turn + 1 - window), turn + 1),
        context,
        lambda text: len(chat.encode(text)),
    )


def _shortened(make: Callable[[int], T], firsts: range, context: Context, length: Callable[[T], int]) -> T:
    """What is made from the first turn that keeps it within `max_prompt_tokens`."""
    most = context.config.max_prompt_tokens
    for first in firsts:
        made = make(first)
        if most is None or (size := length(made)) <= most:
            return made
        if context.config.when_too_long == "refuse":
            break
    is_cut = context.config.when_too_long == "drop_oldest"
    raise RolloutError(
        f"the prompt has {size:,} tokens{', even with its last turn alone' if is_cut else ''}, but max_prompt_tokens is"
        f" {most:,}: raise it{'' if is_cut else ', or set history_window or when_too_long: drop_oldest'}."
    )


def _sequence(
    chat: ChatTokenizer,
    context: Context,
    cache: Mapping[str, Any],
    rewards: Sequence[float],
    ends: Sequence[bool],
    first: int,
) -> Tokens:
    """The tokens of an episode from the turn `first` on, up to its last answer."""
    turns = _rendered(chat, context.conversation(cache, first=first), first, context.opening)
    pieces, done = list[str](), 0
    for before, answer, _ in turns:
        pieces += [before[done:], answer]
        done = len(before) + len(answer)
    encoded = chat.encode_pieces([*pieces, turns[-1][2]])
    ids, mask = list(encoded[0]), [0] * len(encoded[0])
    placed, spans = [0.0] * len(ids), list[tuple[int, int]]()
    for number, (_, _, tail) in enumerate(turns):
        written, after = encoded[2 * number + 1], encoded[2 * number + 2]
        _check_no_end(chat, written, first + number)
        end = place_of_end(chat, after, tail)
        has_end = ends[first + number]
        if not has_end and written:
            end = -1
        begin = len(ids)
        ids += [*written, *after]
        mask += [*[1] * len(written), *[int(has_end and place == end) for place in range(len(after))]]
        placed += [0.0] * (len(written) + len(after))
        spans.append((begin, begin + len(written) + end + 1))
        placed[spans[-1][1] - 1] = rewards[first + number]
    return Tokens(ids, mask, placed, spans, first)


def _rendered(chat: ChatTokenizer, messages: Sequence[Mapping[str, Any]], first: int, opening: str) -> list[_Rendered]:
    """The answered turns of a conversation. Every text must be the beginning of the next, and hold the answer as written.

    `opening` is the beginning of an answer that the model did not write.
    """
    whole, turns = chat.render(messages, asks=False), list[_Rendered]()
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, after = (
            chat.render(messages[:place], asks=True) + opening,
            chat.render(messages[: place + 1], asks=False),
        )
        number = first + len(turns) + 1
        if not whole.startswith(after):
            raise RolloutError(
                f"the chat template of {chat.name} changes the text of turn {number} when later turns are added (many remove"
                f" earlier reasoning), so one mask for the episode would be wrong: {REMEDY}"
            )
        shown = message["content"].removeprefix(opening)
        answer = answer_in(after[len(before) :], shown) if after.startswith(before) else None
        if answer is None:
            raise RolloutError(
                f"the chat template of {chat.name} does not show the answer of turn {number} as the model wrote it, right"
                f" after the prompt, so the mask would be wrong: {REMEDY}"
            )
        turns.append((before, answer, after[len(before) + len(answer) :]))
    return turns


REMEDY = "use tokenize_turns, or pass a chat_template= that keeps answers as they are."


def answer_in(text: str, answer: str) -> str | None:
    """The part of a text that is the answer. Templates may remove white space around it, or put a blank before it."""
    if text.startswith(answer):
        return answer
    blanks = len(text) - len(text.lstrip())
    return text[: blanks + len(answer.strip())] if text[blanks:].startswith(answer.strip()) else None


def _check_no_end(chat: ChatTokenizer, written: Sequence[int], turn: int) -> None:
    if chat.end_of_turn in written:
        raise RolloutError(
            f"the answer of turn {turn + 1} holds the end-of-turn token of {chat.name}, so it would end in the middle: add"
            " it to context.special_tokens, and it is removed."
        )


def place_of_end(chat: ChatTokenizer, after: Sequence[int], tail: str) -> int:
    """Where the end-of-turn token is in the tokens that follow an answer."""
    place = next((place for place, token in enumerate(after) if token in chat.special_ids), None)
    if place is None or after[place] != chat.end_of_turn or chat.first_special(tail) is None:
        raise RolloutError(
            f"the chat template of {chat.name} ends an answer with {tail!r}, not with its end-of-turn token, so the mask"
            f" would be wrong: {REMEDY}"
        )
    return place
