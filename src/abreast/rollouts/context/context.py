"""From a cache to chat messages, and from an answer to the input of a step.

    context = Context(manager.tag_of(0))
    answer = ask_the_model(context.messages(cache))
    manager.step([context.input(cache["env_id"], answer)])

Messages of a turn are those of the turn before, an answer and one message more (without a `history_window`): servers can
keep what they have computed for a prompt, and an episode can be trained on as one sequence.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from abreast.errors import RolloutError
from abreast.rollouts.context.cleaning import Cleaner
from abreast.rollouts.context.config import MANY_ACTIONS, ContextConfig
from abreast.rollouts.context.parsing import Parsed, Parser
from abreast.rollouts.context.pictures import ImageForm, Piece, content_of, pieces_of, text_part
from abreast.rollouts.context.tools import MOST, Call, Tools, call_messages, call_text
from abreast.rollouts.registry import Tag

Message = dict[str, Any]
"""A chat message: `role`, and `content`, which is a text, or content parts if there are pictures."""


class Context:
    """Prompts and answers of a tag. The configuration is the tag's own unless another is given."""

    def __init__(self, tag: Tag, config: ContextConfig | None = None) -> None:
        self.tag = tag
        self.config = tag.context if config is None else config
        self._names = tag.config.action_lookup
        most = self.config.max_actions_per_turn or (MANY_ACTIONS if self._names else 1)
        self.max_actions = min(most, tag.budget)
        """Actions of one answer."""
        self._clean = Cleaner(self.config.special_tokens)
        self._parser = Parser(self.config, self.max_actions, are_free=not self._names)
        self.tools = Tools(tag, self.max_actions) if self.config.tools else None
        """The tools that answers call, if they do."""
        self.opening = self._parser.opening
        """The tag that a prompt ends with, as the beginning of the answer; an empty text without `prefill`."""
        self.system = self.config.system_prompt
        """The system message."""
        self._parts = self._fixed_parts()
        parts = (part.format(**self._parts) for part in self.config.texts.instruction.split("\n\n"))
        self.instruction = "\n\n".join(part.strip() for part in parts if part.strip())
        """What to do, what a state means, which actions there are, and how to answer."""

    # ---- prompts

    def messages(self, cache: Mapping[str, Any], images: ImageForm = "url", turn: int | None = None) -> list[Message]:
        """The messages that ask for the answer of a turn (default: the newest).

        They end with a user's message; with `prefill`, with the beginning of the answer.
        """
        newest = len(_history(cache)) - 1
        turn = newest if turn is None else turn
        if not 0 <= turn <= newest:
            raise RolloutError(
                f"turn is {turn}: expected a number from 0 to {newest}, since the episode has had so many."
            )
        window = self.config.history_window or turn + 1
        asked = self.conversation(cache, images, first=max(0, turn + 1 - window), turns=turn)
        return [*asked, {"role": "assistant", "content": self.opening}] if self.opening else asked

    def conversation(
        self, cache: Mapping[str, Any], images: ImageForm = "url", first: int = 0, turns: int | None = None
    ) -> list[Message]:
        """Messages from the turn `first` on. `turns`: how many turns are answered, then the next state follows.

        Without it: the whole episode so far, ending with its last answer, as a trainer wants it.
        """
        history = _history(cache)
        answered = self.answered(cache) if turns is None else turns
        shown = range(first, answered + (turns is not None))
        messages: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        for number in shown:
            begin = [f"{self._beginning(cache)}\n\n"] if number == first else []
            calls = messages[-1].get("tool_calls") if number > first else None
            before = history[number - 1] if number else {}
            results = self._results(before, self._turn(cache, number, images), is_labelled=not calls)
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": content_of(result)}
                for call, result in zip(calls or (), results, strict=bool(calls))
            ]
            if not calls:
                messages.append({"role": "user", "content": content_of([*begin, *chain(*results)])})
            if number < answered:
                messages.append(self._answer(history[number], number))
        if images == "pil" and any(isinstance(message["content"], list) for message in messages):
            for message in messages:  # templates of processors expect one form in all messages
                if isinstance(message["content"], str):
                    message["content"] = [text_part(message["content"])]
        return messages

    def _answer(self, entry: Mapping[str, Any], number: int) -> Message:
        """The message of an answer."""
        calls = entry.get("calls") if self.tools else None
        if not calls:
            return {"role": "assistant", "content": self.shown(entry)[0]}
        written = self.with_tool_calls("", [(call["name"], call["arguments"]) for call in calls])
        texts = {key: str(entry.get(key) or "").removesuffix(written) for key in ("llm_raw_response", "llm_response")}
        return call_messages(self.shown(texts)[0], calls, number)

    def _results(self, before: Mapping[str, Any], turn: Sequence[Piece], is_labelled: bool) -> list[list[Piece]]:
        """Return the result of each call of the turn before; without calls, what is said in this turn, alone.

        What is said in this turn is the result of the last call that was executed, or else a part of that of the last.
        `is_labelled`: whether the results of several calls tell to which they belong.
        """
        calls, texts, results = _calls_of(before), self.config.texts, list[list[Piece]]()
        last = max((place for place, call in enumerate(calls) if "why" not in call), default=len(calls) - 1)
        for place, call in enumerate(calls):
            label = texts.result.format(number=place + 1, name=call["name"]) if is_labelled and len(calls) > 1 else ""
            gap, why = "\n\n" if label and place else "", call.get("why")
            told = (
                texts.not_executed.format(why=why)
                if why
                else ""
                if place == last
                else call.get("result") or texts.executed
            )
            end = ["\n" if told else "", *turn] if place == last else []
            results.append([self._clean(f"{gap}{label}{told}"), *end])
        return results or [[*turn]]

    def answered(self, cache: Mapping[str, Any]) -> int:
        """How many turns of an episode have an answer."""
        return sum(1 for entry in cache.get("history", ()) if "actions" in entry)

    def shown(self, entry: Mapping[str, Any]) -> tuple[str, str | None]:
        """What messages show as the answer of a turn (without the text of a model, its actions in their normal form), and
        the special token at which it was cut off: an empty text if it was too long, None if it is whole."""
        raw, response = entry.get("llm_raw_response") or "", entry.get("llm_response") or ""
        text = raw or response if self.config.answers == "raw" else response or raw
        if not text and entry.get("actions"):
            text = (self.tools or self._parser).form("", list(entry["actions"]))
        most = self.config.max_response_chars
        shown, token = self._clean.cut(self._parser.opened(text)[:most])
        return shown, "" if token is None and len(text) > most else token

    def rewards(self, cache: Mapping[str, Any]) -> list[float]:
        """What each answer brought, penalties included. A penalty that no turn accounts for is taken off the last one."""
        entries = [entry for entry in _history(cache) if "actions" in entry]
        rewards = [float(entry["reward"]) + float(entry.get("penalty", 0.0)) for entry in entries]
        if rewards:
            rewards[-1] += cache.get("penalty", 0.0) - sum(float(entry.get("penalty", 0.0)) for entry in entries)
        return rewards

    # ---- answers

    def parse(self, answer: str) -> Parsed:
        """What an answer says."""
        return self._read(answer)[0]

    def _read(self, answer: str, calls: Sequence[tuple[str, str]] = ()) -> tuple[Parsed, list[Call]]:
        """Return what an answer says, and its calls; `calls` are those that a server has taken out of it."""
        if self.tools is None or not isinstance(answer, str):
            return self._parser(answer), []
        return self.tools.read(self._clean.cut(answer[: self.config.max_response_chars])[0], calls)

    def with_tool_calls(self, answer: str, calls: Sequence[tuple[str, str]]) -> str:
        """An answer, with the tools that it called, by name and arguments, as `tool_call_form` writes them."""
        if self.tools is not None:
            return answer + "".join(call_text(name, given) for name, given in calls[:MOST])
        form = self.config.tool_call_form or ""
        return answer + "".join(form.replace("{name}", name).replace("{arguments}", given) for name, given in calls)

    def input(self, env_id: int, answer: str, calls: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the input of `EnvStateManager.step` for an answer.

        Args:
            env_id: number of the environment.
            answer: the text of a model; it may end with `calls`, as `with_tool_calls` writes them.
            calls: names and arguments (JSON texts) of the `tool_calls` in a server's message.
        """
        written = self.with_tool_calls("", calls)
        text = answer.removesuffix(written) if calls else answer
        taken = calls if self.tools is not None else ()  # otherwise they are read as text
        parsed, found = self._read(text if taken else f"{text}{written}" if calls else answer, taken)
        return {
            "env_id": env_id,
            "llm_raw_response": f"{text}{written}" if calls else answer,
            "llm_response": f"{parsed.think}{written}" if taken else parsed.response,
            "actions": parsed.actions,
            "format_is_valid": parsed.is_valid,
            **({"calls" if taken else "text_calls": found} if found else {}),
        }

    # ---- inside

    def _fixed_parts(self) -> dict[str, str]:
        """The parts of texts that are the same in all turns of all episodes."""
        kind, config, texts, sep = self.tag.kind, self.tag.config, self.config.texts, self.config.action_sep
        legend = kind.legend(config) if kind.legend is not None else ""
        listed = (self._names or {}).values() if kind.listed_actions is None else kind.listed_actions(config)
        # By name: in the order of their numbers, the place of an action might give it away (the arms of a bandit).
        actions = texts.actions.format(names=", ".join(sorted(listed, key=str.casefold))) if listed else ""
        many, words = self.max_actions > 1, self.config.max_words
        count = texts.count.format(most=self.max_actions, separator=sep) if many else ""
        length = texts.length.format(max_words=words) if words else ""
        answer = texts.several.format(separator=sep) if many else texts.action if self._names else texts.answer
        example = f"{texts.think if self.config.enable_think else ''}{answer}"
        form = texts.form.format(example=example, count=count, length=length)
        if self.config.tools:
            form, actions = texts.call.format(count=count, length=length), ""
        return {
            "task": self.tag.instruction.strip(),
            "legend": legend.strip(),
            "actions": actions,
            "form": form,
            "count": count,
            "length": length,
        }

    def _beginning(self, cache: Mapping[str, Any]) -> str:
        """The instruction; with the task of the episode, if the first state does not tell it."""
        task = _mapping(cache.get("info")).get("instruction")
        if not isinstance(task, str) or not task.strip() or task in _history(cache)[0]["state"]:
            return self.instruction
        return f"{self.instruction}\n\nTask: {self._clean(task)}"

    def _turn(self, cache: Mapping[str, Any], number: int, images: ImageForm) -> list[Piece]:
        """What is said in a turn. It depends on this turn and the one before alone, so that it never changes later."""
        entry, before = cache["history"][number], cache["history"][number - 1] if number else None
        texts, state = self.config.texts, self._clean(entry["state"])
        reward = no_action = ""
        if before is not None:
            if self.config.show_rewards:
                reward = texts.reward.format(turn=number, reward=f"{float(before['reward']):.6g}")
            if not before["actions"] and before.get("tool_calls") and self.tools is None:
                no_action = texts.tool_call.format(turn=number, names=", ".join(map(self._clean, before["tool_calls"])))
            elif not before["actions"] and not _calls_of(before):
                no_action = texts.no_action.format(turn=number)
        listed = self._available(_mapping(cache.get("info") if before is None else before.get("info")))
        shown = texts.turn.format(
            **self._parts,
            turn=number + 1,
            reward=reward,
            no_action=no_action,
            state="\0",  # no text holds it
            available=texts.available.format(actions="\n".join(listed)) if listed else "",
            actions_left=texts.actions_left.format(**entry) if self.config.show_actions_left else "",
        )
        above, _, below = shown.partition("\0")
        return [above, *pieces_of(state, entry.get("images", ()), images), below]

    def _available(self, info: Mapping[str, Any]) -> list[str]:
        """The actions that an info lists, by name."""
        listed = info.get("available_actions")
        if isinstance(listed, str | bytes | Mapping) or not isinstance(listed, Sequence) or not listed:
            return []
        names: list[Any] = [(self._names or {}).get(each, each) if isinstance(each, int) else each for each in listed]
        if not all(isinstance(name, str) for name in names):
            return []
        most = self.config.max_listed_actions
        more = [f"({len(names) - most} more)"] if len(names) > most else []
        return [*map(self._clean, names[:most]), *more] if most else []


def _history(cache: Mapping[str, Any]) -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = cache.get("history") or []
    if not history:
        raise RolloutError("the cache has no first state, so there is nothing to ask a model: call reset first.")
    return history


def _calls_of(entry: Mapping[str, Any]) -> Sequence[Call]:
    """Return the calls of an answer, with what came of each; see `outcomes`."""
    return entry.get("calls") or entry.get("text_calls") or ()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
