"""Settings of prompts and answers."""

from collections.abc import Mapping
from string import Formatter
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from abreast.errors import nearest
from abreast.settings import Section, merge

REPLACEMENT = "\ufffd"
"""Stands for what cannot be shown; no special token contains it."""
MANY_ACTIONS = 5
"""Actions of a turn, where actions have names and no number is set."""


_PARTS = frozenset({"task", "legend", "actions", "form", "count", "length"})
_FILLED_IN: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "instruction": _PARTS,
        "turn": _PARTS | {"turn", "reward", "no_action", "state", "available", "actions_left"},
        "actions": frozenset({"names"}),
        "form": frozenset({"example", "count", "length"}),
        "call": frozenset({"count", "length"}),
        "several": frozenset({"separator"}),
        "count": frozenset({"most", "separator"}),
        "length": frozenset({"max_words"}),
        "reward": frozenset({"turn", "reward"}),
        "no_action": frozenset({"turn"}),
        "tool_call": frozenset({"turn", "names"}),
        "result": frozenset({"number", "name"}),
        "not_executed": frozenset({"why"}),
        "available": frozenset({"actions"}),
        "actions_left": frozenset({"actions_left"}),
    }
)
"""What stands in braces in each of the texts below."""


class PromptTexts(Section):
    """Every text of a prompt but the system message. Names in braces are filled in; braces themselves are doubled."""

    instruction: str = "{task}\n\n{legend}\n\n{actions}\n\n{form}"
    """The beginning of the first message; parts, with blank lines between them, are left out where they are empty."""
    actions: str = "Actions: {names}."
    """Which actions there are, if they have names."""
    form: str = "Answer in this form and write nothing else:\n{example}{count}{length}"
    """How to answer."""
    think: str = "<think>your reasoning</think>"
    """In the example of an answer: the thoughts, if they are wanted."""
    call: str = "Act by calling a tool.{count}{length}"
    """How to act, in the place of `form`, with `tools`."""
    answer: str = "<answer>your answer</answer>"
    """In the example: the answer, where it is one free text."""
    action: str = "<answer>your action</answer>"
    """In the example: the answer, where it is one action that has a name."""
    several: str = "<answer>first action {separator} second action</answer>"
    """In the example: the answer, where it may hold several actions."""
    count: str = "\nYou may give up to {most} actions in one answer; they are taken in order."
    """How many actions an answer may hold, if more than one."""
    length: str = "\nUse {max_words} words at most."
    """How long an answer may be, if `max_words` is set."""
    turn: str = "Turn {turn}\n{reward}{no_action}State:\n{state}{available}{actions_left}"
    """A turn."""
    reward: str = "Reward of turn {turn}: {reward}\n"
    """What the turn before brought, with `show_rewards`."""
    no_action: str = "Your answer in turn {turn} had no valid action.\n"
    """If the turn before had none."""
    tool_call: str = "Your answer in turn {turn} had no valid action: it called {names}, and no tools can be called.\n"
    """In its place, if the answer called tools."""
    result: str = "Result of call {number}, {name}:\n"
    """With `tools`: stands before the result of each call, where the text of an answer holds several."""
    not_executed: str = "Not executed: {why}"
    """With `tools`: the result of a call that was not executed."""
    executed: str = "Executed."
    """With `tools`: the result of an executed call after which no text was shown."""
    available: str = "\nActions available now:\n{actions}"
    """The actions that the environment lists, one a line."""
    actions_left: str = "\nActions left: {actions_left}"
    """With `show_actions_left`."""

    @field_validator("*")
    @classmethod
    def _can_be_filled_in(cls, given: str, info: ValidationInfo) -> str:
        known = _FILLED_IN.get(info.field_name or "", frozenset())
        try:
            names = [name for _, name, _, _ in Formatter().parse(given) if name is not None]
        except ValueError as error:
            raise ValueError(f"its braces are not pairs ({error}): double those that are to be shown.") from None
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise ValueError(f"it has {{{unknown}}}: {nearest(unknown, known)} Double braces that are to be shown.")
        if info.field_name == "turn" and names.count("state") != 1:
            raise ValueError("it needs {state} once, which is what the environment shows.")
        return given


class ContextConfig(Section):
    """How an episode is told to a language model, and how its answers are read. A tag may override single keys."""

    system_prompt: str = (
        "You play a game in turns. Think about each turn before you act, and reach the highest reward you can."
    )
    """The system message; an empty text: none, for chat templates that have no place for one."""
    enable_think: bool = True
    """Whether an answer has a <think> part before its <answer> part."""
    think_is_prefilled: bool = False
    """Whether the chat template itself writes <think>, so that an answer begins inside of it."""
    prefill: bool = False
    """Whether a prompt ends with the opening tag of the answer (<think>, or <answer>), for the server to go on from. It
    must know continue_final_message, as vLLM and SGLang do."""
    answer_format: Literal["strict", "blocks", "lenient"] = "lenient"
    """strict: an answer in any other form has no actions; blocks: the first think block with an answer block right after it
    counts, wherever it stands; lenient: the actions are taken wherever they can be found."""
    action_sep: str = "||"
    """Stands between the actions of an answer; blanks around it do not matter."""
    max_actions_per_turn: int | None = Field(None, ge=1)
    """Actions of one answer, what is beyond is cut off; null: 5, or 1 where actions are free texts (no action_lookup)."""
    history_window: int | None = Field(None, ge=1)
    """Turns a prompt shows, the one to be answered included; the instruction always stays. None: all."""
    answers: Literal["raw", "normalised"] = "raw"
    """What later prompts and the training form show of earlier answers: as the model wrote them, or as they were read."""
    show_rewards: bool = False
    """Whether a prompt tells the rewards of the turns before."""
    show_actions_left: bool = True
    """Whether a prompt tells how many actions are left."""
    max_listed_actions: int = Field(200, ge=0)
    """Of the actions available now, so many are listed; 0: none."""
    max_words: int | None = Field(None, ge=1)
    """Words that a prompt asks an answer not to exceed; nothing is cut off. None: it says nothing about it."""
    tools: bool = False
    """Whether actions are taken by calling tools: prompts say nothing of <answer>, chat templates and servers are given the
    tools, and answers are read as calls. Needs a template or a server that has tools."""
    tool_call_form: str | None = Field(None, pattern=r"\{(name|arguments)\}")
    """A tool call as text, with {name} and {arguments} in it, say <answer>{name}</answer>: it is put behind the text of the
    answer. None: tools that a model calls are not carried out, and the next prompt says so."""
    texts: PromptTexts = Field(default_factory=PromptTexts)
    """The words of prompts."""
    max_response_chars: int = Field(50_000, ge=1)
    """Characters of an answer that are read and shown; a longer one is cut off (strict: it has no actions)."""
    special_tokens: list[Annotated[str, Field(pattern=r"\S")]] = Field(
        default_factory=lambda: [
            "<s>",
            "</s>",
            "<bos>",
            "<eos>",
            "<start_of_turn>",
            "<end_of_turn>",
            "[INST]",
            "[/INST]",
        ]
    )
    """Removed from states, for a tokenizer would take them for its own, and answers end at them. So do names in <|...|>."""
    max_prompt_tokens: int | None = Field(None, ge=1)
    """Tokens of a prompt, or of an episode in training form; null: no limit. Needs a tokenizer."""
    when_too_long: Literal["refuse", "drop_oldest"] = "refuse"
    """Beyond max_prompt_tokens: an error, or without the oldest turns."""

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if self.tools and (self.prefill or self.tool_call_form):
            other = "prefill" if self.prefill else "tool_call_form"
            raise ValueError(f"it has tools and {other}, which are two forms of an answer: leave one of them out.")
        return self

    @field_validator("action_sep")
    @classmethod
    def _is_seen(cls, given: str) -> str:
        if not given.strip():
            raise ValueError(f"it is {given!r}, expected something to see between two actions, such as ||.")
        return given.strip()

    def between(self, below: Mapping[str, Any], above: Mapping[str, Any], where: str) -> "ContextConfig":
        """A copy with other values for what was not given, and with the keys of a tag over it."""
        given = merge(below, self.model_dump(exclude_unset=True))
        return ContextConfig.parse(merge(given, above), where) if below or above else self
