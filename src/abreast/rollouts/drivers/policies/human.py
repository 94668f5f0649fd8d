"""The policy `human`: shows each prompt in the terminal and reads the actions from it."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from abreast.rollouts.context.context import Message
from abreast.rollouts.drivers.policies.base import Answer, Asked, EndOfInput, Played, SimplePolicy

SEPARATOR = "||"


class HumanPolicy(SimplePolicy):
    """One episode at a time. A line is one turn: actions, with || between them, or a whole answer with its tags."""

    most_episodes = 1

    async def __call__(self, asked: Asked) -> Answer:
        if asked.turn == 0:
            _say(f"\n==== episode {asked.number}: {asked.tag.name}, seed {asked.seed}")
            for message in asked.messages:
                _say(f"\n[{message['role']}]\n{_text(message)}")
        else:
            last = asked.cache["history"][-2]
            _say(f"\nreward {last['reward']:g}\n\n{asked.cache['history'][-1]['state']}")
        # By name, as in the prompt: in the order of their numbers, the place of an action might give it away.
        listed = ", ".join(sorted((asked.tag.config.action_lookup or {}).values(), key=str.casefold))
        hint = f"actions ({listed}), with {SEPARATOR} between them" if listed else "your action"
        with _interruptible():
            while True:
                try:
                    line = input(f"{hint}; end with Ctrl-D\n> ").strip()
                except EOFError:
                    raise EndOfInput from None
                if line:
                    break
        if "<answer>" in line.lower() or not listed:
            return Answer(line if "<answer>" in line.lower() else [line])
        return Answer([action.strip() for action in line.split(SEPARATOR) if action.strip()])

    def ended(self, played: Played) -> None:
        """Show what came of it."""
        _say(f"\n{played.cache['history'][-1]['state']}" if played.cache.get("history") else "")
        how = "a success" if played.tally.success else "no success"
        _say(f"==== episode {played.number} is over: {how}, reward {played.tally.reward + played.cache['penalty']:g}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _text(message: Message) -> str:
    content: Any = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "[image]")) for part in content)


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
