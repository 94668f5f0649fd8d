"""The policy `human`: shows each prompt in the terminal and reads the actions from it."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from abreast.rollouts.context.cleaning import printable
from abreast.rollouts.context.context import Context
from abreast.rollouts.context.preview import as_text
from abreast.rollouts.drivers.policies.base import Answer, Asked, EndOfInput, Played, Policy
from abreast.rollouts.episodes.slot import Cache

SEPARATOR = "||"


class HumanPolicy(Policy):
    """One episode at a time. A line is one turn: actions, with || between them, or a whole answer with its tags."""

    most_episodes = 1

    def __init__(self) -> None:
        self._given: list[str] = []
        """The actions of the newest turn."""

    async def __call__(self, asked: Asked) -> Answer:
        if asked.turn == 0:
            _say(f"\n==== episode {asked.number}: {asked.tag.name}, seed {asked.seed}")
            _say(f"\n{as_text(asked.messages)}")
        else:
            _say(f"\n{self._outcome(asked.cache)}\n\n{asked.cache['history'][-1]['state']}")
        left = asked.cache["history"][-1]["actions_left"]
        if asked.turn:  # the prompt of the first turn says it
            _say(f"actions left: {left}")
        # By name, as in the prompt: in the order of their numbers, the place of an action might give it away.
        listed = ", ".join(sorted((asked.tag.config.action_lookup or {}).values(), key=str.casefold))
        most = min(Context(asked.tag).max_actions, left)
        several = f"actions ({listed}), with {SEPARATOR} between them"
        hint = "your action" if not listed else several if most > 1 else f"an action ({listed})"
        with _interruptible():
            while True:
                try:
                    line = input(f"{hint}; end with Ctrl-D\n> ").strip()
                except EOFError:
                    raise EndOfInput from None
                if line:
                    break
        if "<answer>" in line.lower():
            self._given = Context(asked.tag).parse(line).actions
            return Answer(line)
        self._given = [each.strip() for each in line.split(SEPARATOR) if each.strip()] if listed else [line]
        return Answer(list(self._given))

    def ended(self, played: Played) -> None:
        """Show what came of it."""
        history, penalty = played.cache.get("history", []), played.cache["penalty"]
        if len(history) > 1:
            _say(f"\n{self._outcome(played.cache)}")
        _say(f"\n{history[-1]['state']}" if history else "")
        how = "a success" if played.tally.success else "no success"
        parts = f" (reward {played.tally.reward:g}, penalty {penalty:g})" if penalty else ""
        _say(f"==== episode {played.number} is over: {how}, score {played.tally.reward + penalty:g}{parts}")

    def _outcome(self, cache: Cache) -> str:
        """What came of the newest turn: its reward; actions that were unknown, and what they cost."""
        last = cache["history"][-2]
        taken = [str(action).casefold() for action in last["actions"]]
        unknown = [repr(each) for each in self._given if each.casefold() not in taken] if last.get("penalty") else []
        lines = [f"reward {last['reward']:g}"]
        if last.get("penalty"):
            why = f"unknown: {', '.join(unknown)}" if unknown else "not a valid answer"
            lines.append(f"{why}; penalty {last['penalty']:g}")
        return "\n".join(lines)


def _say(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt a read at once; the handler of asyncio would wait for the end of the line."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
