"""The policy `human`: shows each prompt in the terminal and reads the actions from it."""

import signal
import sys

from abreast.errors import printable
from abreast.rollouts.context.context import Context
from abreast.rollouts.context.preview import as_text
from abreast.rollouts.drivers.policies.base import Answer, Asked, EndOfInput, Played, Policy
from abreast.rollouts.episodes.slot import Cache

SEPARATOR = "||"


class HumanPolicy(Policy):
    """One episode at a time. A line is one turn: actions, with || between them, or a whole answer with its tags."""

    most_episodes = 1

    async def __call__(self, asked: Asked) -> Answer:
        left = asked.cache["history"][-1]["actions_left"]
        if asked.turn == 0:
            _say(f"\n==== episode {asked.number}: {asked.tag.name}, seed {asked.seed}\n\n{as_text(asked.messages)}")
        else:  # the prompt of the first turn says how many are left
            _say(f"\n{_outcome(asked.cache)}\n\n{asked.cache['history'][-1]['state']}\nactions left: {left}")
        # By name, as in the prompt: in the order of their numbers, the place of an action might give it away.
        listed = ", ".join(sorted((asked.tag.config.action_lookup or {}).values(), key=str.casefold))
        most = min(Context(asked.tag).max_actions, left)
        several = f"actions ({listed}), with {SEPARATOR} between them"
        hint = "your action" if not listed else several if most > 1 else f"an action ({listed})"
        line = ""
        # Ctrl-C interrupts a read at once; the handler of asyncio would wait for the end of the line.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            while not line:
                line = input(f"{hint}; end with Ctrl-D\n> ").strip()
        except EOFError:
            raise EndOfInput from None
        finally:
            signal.signal(signal.SIGINT, before)
        if "<answer>" in line.lower():
            return Answer(line)
        return Answer([each.strip() for each in line.split(SEPARATOR) if each.strip()] if listed else [line])

    def ended(self, played: Played) -> None:
        """Show what came of it."""
        history, penalty = played.cache.get("history", []), played.cache["penalty"]
        if len(history) > 1:
            _say(f"\n{_outcome(played.cache)}")
        _say(f"\n{history[-1]['state']}" if history else "")
        how = "a success" if played.tally.success else "over" if played.tally.is_silent else "no success"
        parts = f" (reward {played.tally.reward:g}, penalty {penalty:g})" if penalty else ""
        _say(f"==== episode {played.number} is over: {how}, score {played.tally.reward + penalty:g}{parts}")


def _outcome(cache: Cache) -> str:
    """What came of the newest turn: its reward; what was invalid, and what that costs."""
    last = cache["history"][-2]
    costs = [f"penalty {last['penalty']:g}"] if last.get("penalty") else []
    return "\n".join([f"reward {last['reward']:g}", *last.get("invalid", ()), *costs])


def _say(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()
