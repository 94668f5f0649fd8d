"""What came of a rollout, as figures, counted episode by episode; the live display shows the same ones."""

from collections import defaultdict
from collections.abc import Mapping
from math import nan
from statistics import fmean
from typing import Any

from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Counts, Tokens
from abreast.rollouts.episodes.slot import Tally
from abreast.rollouts.episodes.summary import latencies, pass_at_k

SESSION = " (this session)"
"""Follows the name of a figure of a resumed run that is not about all of its episodes."""


class Results:
    """Figures of the episodes that a resumed run already had (`before`), and of those of this session (`tallies`)."""

    def __init__(self) -> None:
        self.before = 0
        self.tokens_before = Tokens()
        self.tallies: list[Tally] = []
        self.errors: list[str] = []
        """Why episodes could not go on."""
        self._sums: dict[tuple[str, str], float] = defaultdict(float)
        """By tag, or an empty text for all, and figure: over the episodes that came to an end of their own."""
        self._groups: dict[int, list[bool]] = defaultdict(list)
        self._odd = {"answers cut off by a limit of tokens": 0, "answers with tool calls": 0}

    @property
    def episodes(self) -> int:
        """All of the run."""
        return self.before + len(self.tallies)

    def add(self, line: Mapping[str, Any], tally: Tally | None = None) -> None:
        """Count an episode. One that the run already had has no tally: it is not known how long its turns took."""
        if tally is None:
            self.before += 1
            self.tokens_before = self.tokens_before.plus(Tokens(line["tokens"]["prompt"], line["tokens"]["completion"]))
        else:
            self.tallies.append(tally)
        for entry in line["history"]:
            self._odd["answers cut off by a limit of tokens"] += entry.get("finish_reason") == "length"
            self._odd["answers with tool calls"] += "tool_calls" in entry and "calls" not in entry
        counted = Tally(line["reward"], line["success"], line["num_given"], line["num_actions"], line["num_invalid"])
        told = {"ended": 1.0, **counted.figures(line["penalty"])}
        if line["error"] is None:
            self._groups[line["group_id"]].append(line["success"])
        else:
            self.errors.append(line["error"])
            told = {"ended": 0.0}
        for tag in ("", line["tag"]):
            for figure, value in told.items():
                self._sums[tag, figure] += value

    def mean(self, figure: str, tag: str = "") -> float:
        """Over the episodes, of a tag or all, that came to an end of their own; NaN if there are none."""
        ended = self._sums[tag, "ended"]
        return self._sums[tag, figure] / ended if ended else nan

    def rows(self, group_size: int, turns_per_s: float) -> dict[str, str]:
        """The figures by name: of all episodes, or else labelled."""
        rows = {
            "episodes": f"{self.episodes:,}",
            **({"could not go on": f"{len(self.errors):,}"} if self.errors else {}),
            "success": f"{self.mean('success'):.1%}",
            **self._pass_at(group_size),
            "reward": f"{self.mean('reward'):.3f}",
            "score": f"{self.mean('score'):.3f}",
            "invalid actions": f"{self.mean('invalid_rate'):.1%}",
            "actions per episode": f"{self.mean('num_actions'):.1f}",
        }
        rows |= {name: f"{count:,}" for name, count in self._odd.items() if count}
        tags = [tag for tag, figure in self._sums if tag and figure == "ended"]
        for tag in tags if len(tags) > 1 else ():
            rows[f"success, {tag}"] = f"{self.mean('success', tag):.1%}"
            rows[f"score, {tag}"] = f"{self.mean('score', tag):.3f}"
        if not self.tallies:
            return rows
        half, most = latencies(second for each in self.tallies for second in each.seconds)
        label = SESSION if self.before else ""
        return rows | {
            f"environment latency p50{label}": f"{half:.3f} ms",
            f"environment latency p95{label}": f"{most:.3f} ms",
            f"turns per second{label}": f"{turns_per_s:,.0f}",
            f"timeouts{label}": f"{sum(tally.timeouts for tally in self.tallies):.0f}",
        }

    def _pass_at(self, group_size: int) -> dict[str, str]:
        """The chance that at least one episode of a group succeeds, in the mean of the groups that are complete."""
        key = f"pass@{group_size}"
        chances = [pass_at_k(group)[key] for group in self._groups.values() if len(group) == group_size]
        return {key: f"{fmean(chances):.1%}"} if group_size > 1 and chances else {}


def usage(counts: Counts, results: Results, config: PlayConfig, is_resumed: bool) -> dict[str, str]:
    """What a server was used for: requests of this session; tokens and their price of the whole run.

    What requests of episodes took that were under way when a run was stopped is not known when it goes on.
    """
    tokens, label = counts.tokens.plus(results.tokens_before), SESSION if results.before else ""
    half, most = latencies(counts.seconds)
    rows = {
        f"requests{label}": f"{counts.requests:,}",
        f"request latency p50{label}": f"{half:,.0f} ms",
        f"request latency p95{label}": f"{most:,.0f} ms",
        f"requests sent again{label}": f"{counts.retries:,}",
        "prompt tokens": f"{tokens.prompt:,}",
        "answer tokens": f"{tokens.completion:,}",
    }
    if counts.uncounted:
        rows[f"answers without counts{label}"] = f"{counts.uncounted:,}"
    server = config.server
    if server.price_in is not None or server.price_out is not None:
        price = (tokens.prompt * (server.price_in or 0.0) + tokens.completion * (server.price_out or 0.0)) / 1e6
        rows["cost (at least)" if is_resumed or counts.uncounted else "cost"] = f"{price:,.4f}"
    if is_resumed:
        rows["tokens of episodes that the stop has lost"] = "not counted"
    return rows
