"""Tokens as an engine sampled them, so that nothing is tokenised twice and log-probabilities belong to their tokens.

    tokens = TokenEpisode(context, tokenizer)              # an episode that is played with token ids
    while not episode.done:
        ids, logprobs = engine(tokens.prompt(episode.cache))
        episode.step(tokens.write(ids, logprobs))
    trained_on = tokens.sequence(episode.cache)

    recorded(context, cache)                               # an episode whose server told its tokens (server.keep_tokens)

A prompt is the tokens of the prompt before, those that the model wrote, and those of the text that the chat template puts
behind the answer. So the mask is 1 exactly for tokens that were sampled. A template that changes earlier turns is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from abreast.errors import RolloutError
from abreast.rollouts.context.context import Context
from abreast.rollouts.context.tokens import REMEDY, Tokens, answer_in, chat_of, place_of_end, prompt_text


class Sampled(NamedTuple):
    """What an engine told of an answer."""

    prompt_ids: Sequence[int] | None = None
    ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    """Of each of `ids`."""


def kept_of(history: Sequence[Mapping[str, Any]], sampled: Sampled | None) -> dict[str, Any] | None:
    """What the newest turn of a history keeps: of its prompt only what was added, if it begins with the turns before.

    `prompt_ids` is the whole prompt, `added_ids` what follows the tokens of the turn before.
    """
    if sampled is None or sampled == Sampled():
        return None
    kept: dict[str, Any] = {"ids": _list(sampled.ids), "logprobs": _list(sampled.logprobs)}
    before, prompt = _prompts(history), _list(sampled.prompt_ids)
    known = before[-1] if before else None
    if known and prompt is not None and prompt[: len(known)] == known:
        return {"added_ids": prompt[len(known) :], **kept}
    return {"prompt_ids": prompt, **kept}


def recorded(context: Context, cache: Mapping[str, Any]) -> Tokens | None:
    """An episode as one sequence, of the tokens that its server told; None if it did not tell all."""
    turns = recorded_turns(context, cache)
    if not turns:
        return None
    again = next((turn for turn, entry in enumerate(_answers(cache)[1:], 2) if "prompt_ids" in entry["sampled"]), None)
    if again is not None:
        raise RolloutError(
            f"the prompt of turn {again} does not begin with the tokens of the turns before (the server has tokenised them"
            " anew, or a history window or the chat template has removed some), so the episode is not one sequence: export"
            " it per turn."
        )
    last = turns[-1]
    mask, placed, logprobs = [0] * len(last.input_ids), [0.0] * len(last.input_ids), list[float | None]()
    for turn in turns:
        (begin, end), told = turn.spans[0], turn.logprobs or []
        mask[begin:end] = turn.loss_mask[begin:end]
        placed[end - 1] += turn.rewards[-1]
        logprobs += told[len(logprobs) :]
    has_all = all(turn.logprobs is not None for turn in turns)
    return Tokens(last.input_ids, mask, placed, [turn.spans[0] for turn in turns], 0, logprobs if has_all else None)


def recorded_turns(context: Context, cache: Mapping[str, Any]) -> list[Tokens] | None:
    """Each turn as a sequence of its own: its prompt and its answer, as the server told their tokens."""
    entries, prompts = _answers(cache), _prompts(cache["history"])
    if not entries or None in prompts or len(prompts) != len(entries):
        return None
    made = []
    for turn, (entry, whole, reward) in enumerate(zip(entries, prompts, context.rewards(cache), strict=True)):
        assert whole is not None
        ids, told = entry["sampled"]["ids"], entry["sampled"]["logprobs"]
        before = len(whole) - len(ids)
        logprobs = None if told is None else [*[None] * before, *told]
        mask, rewards = [0] * before + [1] * len(ids), [0.0] * (len(whole) - 1) + [reward]
        made.append(Tokens(whole, mask, rewards, [(before, len(whole))], turn, logprobs))
    return made


def _prompts(history: Sequence[Mapping[str, Any]]) -> list[list[int] | None]:
    """The tokens of each answered turn, prompt and answer; None where they are not known."""
    found = list[list[int] | None]()
    for entry in history:
        if "actions" in entry:
            kept = entry.get("sampled") or {}
            before = found[-1] if found and "added_ids" in kept else []
            added, ids = kept.get("added_ids", kept.get("prompt_ids")), kept.get("ids")
            found.append(None if before is None or added is None or ids is None else [*before, *added, *ids])
    return found


def _answers(cache: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [entry for entry in cache["history"] if "actions" in entry]


def _list(given: Sequence[Any] | None) -> list[Any] | None:
    return None if given is None else list(given)


class TokenEpisode:
    """The tokens of an episode while it is played. `options` go to the chat template."""

    def __init__(self, context: Context, tokenizer: Any, **options: Any) -> None:
        self._context, self._chat, self._tokenizer = context, chat_of(context, tokenizer, options), tokenizer
        self._text, self._ids, self._has_end = "", list[int](), False
        self._mask, self._logprobs = list[int](), list[float | None]()
        self._spans = list[tuple[int, int]]()
        self._has_logprobs = True

    def prompt(self, cache: Mapping[str, Any]) -> list[int]:
        """The tokens of the prompt of the newest turn."""
        chat, context, turn = self._chat, self._context, len(self._spans)
        text = prompt_text(chat, context, cache, turn)
        added = text
        if turn:
            shown = context.shown(cache["history"][turn - 1])[0].removeprefix(context.opening)
            rest = text[len(self._text) :]
            answer = answer_in(rest, shown) if text.startswith(self._text) else None
            if answer is None:
                raise RolloutError(
                    f"the prompt of turn {turn + 1} does not begin with the turns before, as they were shown (a history"
                    f" window, or the chat template of {chat.name}, has changed them), so the episode is not one sequence:"
                    f" {REMEDY}"
                )
            added = rest[len(answer) :]
        ids = chat.encode(added)
        if turn:
            ids = ids[place_of_end(chat, ids, added) + 1 :] if self._has_end else ids
        self._text = text
        self._add(ids, 0, None)
        return list(self._ids)

    def write(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> str:
        """Note what the model wrote; returns its text. It ends at its first special token."""
        chat, begin = self._chat, len(self._ids)
        place = next((place for place, token in enumerate(ids) if token in chat.special_ids), len(ids))
        has_end = place < len(ids) and ids[place] == chat.end_of_turn
        kept = [int(token) for token in ids[: place + has_end]]
        self._has_logprobs &= logprobs is not None
        self._add(kept, 1, None if logprobs is None else [float(each) for each in logprobs[: len(kept)]])
        if not kept:  # a turn needs a token, for its reward
            self._add([chat.end_of_turn], 0, None)
        self._has_end = has_end or not kept
        self._spans.append((begin, len(self._ids)))
        return str(self._tokenizer.decode(kept[:place], skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def sequence(self, cache: Mapping[str, Any]) -> Tokens:
        """The episode up to its last answer."""
        end = self._spans[-1][1] if self._spans else len(self._ids)
        placed = [0.0] * end
        for (_, after), reward in zip(self._spans, self._context.rewards(cache), strict=False):
            placed[after - 1] = reward
        logprobs = self._logprobs[:end] if self._has_logprobs and self._spans else None
        return Tokens(self._ids[:end], self._mask[:end], placed, list(self._spans), 0, logprobs)

    def _add(self, ids: list[int], is_written: int, logprobs: Sequence[float] | None) -> None:
        self._ids += ids
        self._mask += [is_written] * len(ids)
        self._logprobs += logprobs if logprobs is not None else [None] * len(ids)
