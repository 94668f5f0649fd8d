"""The policy `replay`: gives the answers of recorded episodes again, and says where the results differ from the record."""

from pathlib import Path

from abreast.errors import RolloutError, short
from abreast.rollouts.drivers.lines import Line, find_file, line_of, read_lines
from abreast.rollouts.drivers.policies.base import Answer, Asked, Played, Policy, Unanswered

COMPARED = ("reward", "penalty", "success", "truncated", "error")
"""Compared beside each turn of the history."""


class ReplayPolicy(Policy):
    """Plays the episodes of a file; `differences` has a sentence for each that came out otherwise."""

    def __init__(self, file: Path | str | None) -> None:
        if file is None:
            raise RolloutError("the policy replay needs trajectories: name a run folder or a file after it.")
        path = find_file(Path(file))
        lines, self.faults = read_lines(path)
        if not lines:
            raise RolloutError(f"{path} holds no episode that could be played again.")
        self.lines: dict[int, Line] = {line["episode"]: line for line in lines}
        self.differences: dict[int, str] = {}

    async def __call__(self, asked: Asked) -> Answer:
        line = self.lines.get(asked.number)
        if line is None:
            raise Unanswered(f"episode {asked.number} is not in the file that is replayed.")
        answers = line["answers"]
        if asked.turn >= len(answers):
            raise Unanswered(line["error"] or f"the recorded episode ended after {len(answers)} turns.")
        entry = line["history"][asked.turn]
        calls = [(call["name"], call["arguments"]) for call in entry.get("calls", ())]
        return Answer(answers[asked.turn], None, entry.get("finish_reason"), entry.get("tool_calls", ()), calls)

    def ended(self, played: Played) -> None:
        """Compare an episode with its record."""
        line = self.lines.get(played.number)
        difference = None if line is None else _difference(line, played)
        if difference is not None:
            self.differences[played.number] = f"episode {played.number} {difference}"


def _difference(line: Line, played: Played) -> str | None:
    """What differs first, in the order of the turns."""
    now = line_of(played, lambda image: "")
    before, after = line["history"], now["history"]
    for turn, (recorded, entry) in enumerate(zip(before, after, strict=False)):
        for key in dict.fromkeys([*recorded, *entry]):
            if key not in ("images", "sampled") and recorded.get(key) != entry.get(key):
                return f"differs in turn {turn}: {key} is {short(entry.get(key))}, recorded was {short(recorded.get(key))}."
    if len(before) != len(after):
        return f"differs: it had {len(after) - 1} turns, recorded were {len(before) - 1}."
    differing = (key for key in COMPARED if (now[key] or False) != (line[key] or False))  # older records: no null
    return next((f"differs: {key} is {short(now[key])}, recorded was {short(line[key])}." for key in differing), None)
