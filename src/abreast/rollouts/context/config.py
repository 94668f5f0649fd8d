"""Settings of prompts and answers."""

from typing import Any, Literal

from pydantic import Field, field_validator

from abreast.settings import Section

REPLACEMENT = "\ufffd"
"""Stands for what cannot be shown; no special token contains it."""
MANY_ACTIONS = 5
"""Actions of a turn, where actions have names and no number is set."""


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
    answer_format: Literal["strict", "lenient"] = "lenient"
    """strict: an answer in any other form has no actions; lenient: the actions are taken wherever they can be found."""
    action_sep: str = "||"
    """Stands between the actions of an answer; blanks around it do not matter."""
    max_actions_per_turn: int | None = Field(None, ge=1)
    """Actions of one answer, what is beyond is cut off; none: 5, or 1 where actions are free texts (no action_lookup)."""
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
    max_response_chars: int = Field(50_000, ge=1)
    """Characters of an answer that are read and shown; a longer one is cut off (strict: it has no actions)."""
    special_tokens: list[str] = Field(
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
    """Removed from states and answers, for a tokenizer would take them for its own. Names in <|...|> always are."""
    max_prompt_tokens: int | None = Field(None, ge=1)
    """Tokens of a prompt, or of an episode in training form; none: no limit. Needs a tokenizer."""
    when_too_long: Literal["refuse", "drop_oldest"] = "refuse"
    """Beyond max_prompt_tokens: an error, or without the oldest turns."""

    @field_validator("action_sep")
    @classmethod
    def _is_seen(cls, given: str) -> str:
        if not given.strip():
            raise ValueError(f"it is {given!r}, expected something to see between two actions, such as ||.")
        return given.strip()

    @field_validator("special_tokens")
    @classmethod
    def _are_texts(cls, given: list[str]) -> list[str]:
        if any(not token.strip() or REPLACEMENT in token for token in given):
            raise ValueError(f"they are {given}, expected texts that are not empty.")
        return given

    def with_overrides(self, values: dict[str, Any], where: str) -> "ContextConfig":
        """A copy with the keys of a tag over it."""
        if not values:
            return self
        given = self.model_dump(exclude_unset=True)
        return ContextConfig.parse({**given, **values}, where)
