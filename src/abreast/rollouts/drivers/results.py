"""What came of a rollout, as figures, counted episode by episode; the live display shows the same ones."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import isnan, nan
from statistics import fmean
from typing import Any

from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Counts, Tokens
from abreast.rollouts.episodes.slot import Tally
from abreast.rollouts.episodes.summary import latencies, pass_at_k

SESSION = " (this session)"
"""Follows the name of a figure of a resumed run that is not about all of its episodes."""


def percent(share: float, digits: int = 1) -> str:
    """Return a share in percent, or a dash if it is not known."""
    return "–" if isnan(share) else f"{share:.{digits}%}"


class Results:
    """Figures of the episodes that a resumed run already had (`before`), and of those of this session (`tallies`)."""

    def __init__(self) -> None:
        self.before = 0
        self.tokens_before = Tokens()
        self.tallies: list[Tally] = []
        self.errors: list[str] = []
        """Why episodes could not go on."""
        self._sums: dict[str, dict[str, float]] = {}
        """By tag and figure: over all episodes, those that could not go on among them."""
        self._groups: dict[tuple[str, int], list[bool]] = defaultdict(list)
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
        tag, success, given = line["tag"], bool(line["success"]), line["num_given"]
        counted = Tally(line["reward"], success, given, line["num_actions"], line["num_invalid"])
        told = {
            **counted.figures(line["penalty"]),
            "episodes": 1,
            "given": given,
            "invalid_rate": counted.invalid,
            "silent": line["success"] is None,
        }
        self._groups[tag, line["group_id"]].append(success)
        self.errors += [] if line["error"] is None else [line["error"]]
        sums = self._sums.setdefault(tag, dict.fromkeys(told, 0.0))
        for figure, value in told.items():
            sums[figure] += value

    @property
    def silent(self) -> list[str]:
        """Tags whose success is not known: some episodes end without a word of it, and none with one."""
        return [tag for tag, sums in self._sums.items() if sums["silent"] and not sums["success"]]

    def mean(self, figure: str, tag: str | None = None) -> float:
        """Return the mean over all episodes, or those of a tag, where it is known; the share of all actions for
        `invalid_rate`. NaN if there are none.
        """
        unknown = self.silent if figure == "success" else ()
        sums = [each for name, each in self._sums.items() if tag in (None, name) and name not in unknown]
        count = sum(each["given" if figure == "invalid_rate" else "episodes"] for each in sums)
        return sum(each[figure] for each in sums) / count if count else nan

    def rows(self, group_size: int, turns_per_s: float) -> dict[str, str]:
        """The figures by name: of all episodes, or else labelled."""
        rows = {
            "episodes": f"{self.episodes:,}",
            **({"could not go on": f"{len(self.errors):,}"} if self.errors else {}),
            "success": percent(self.mean("success")),
            **self._pass_at(group_size),
            "reward": f"{self.mean('reward'):.3f}",
            "score": f"{self.mean('score'):.3f}",
            "invalid actions": percent(self.mean("invalid_rate")),
            "actions per episode": f"{self.mean('num_actions'):.1f}",
        }
        rows |= {name: f"{count:,}" for name, count in self._odd.items() if count}
        for tag in self._sums if len(self._sums) > 1 else ():
            rows[f"success, {tag}"] = percent(self.mean("success", tag))
            rows[f"score, {tag}"] = f"{self.mean('score', tag):.3f}"
        if not self.tallies:
            return rows
        label = SESSION if self.before else ""
        return rows | {
            **_latencies(
                f"environment latency {{}}{label}", [second for each in self.tallies for second in each.seconds], 3
            ),
            f"turns per second{label}": f"{turns_per_s:,.0f}",
            f"timeouts{label}": f"{sum(tally.timeouts for tally in self.tallies):.0f}",
        }

    def _pass_at(self, group_size: int) -> dict[str, str]:
        """The chance that at least one episode of a group succeeds, in the mean of the groups that are complete."""
        key, silent = f"pass@{group_size}", self.silent
        groups = [(tag, group) for (tag, _), group in self._groups.items() if len(group) == group_size > 1]
        chances = [pass_at_k(group)[key] for tag, group in groups if tag not in silent]
        return {key: percent(fmean(chances) if chances else nan)} if groups else {}


def usage(counts: Counts, results: Results, config: PlayConfig, is_resumed: bool, was_whole: bool) -> dict[str, str]:
    """Return what a server was used for: requests of this session; tokens and their price of the whole run.

    The tokens of episodes that were under way when a run was stopped are unknown when it is resumed; `was_whole` says that
    the run had all its episodes then.
    """
    tokens, label = counts.tokens.plus(results.tokens_before), SESSION if results.before else ""
    rows = {
        f"requests{label}": f"{counts.requests:,}",
        **_latencies(f"request latency {{}}{label}", counts.seconds, 0),
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
    if is_resumed and not was_whole:
        rows["tokens of episodes that the stop has lost"] = "not counted"
    return rows


def _latencies(name: str, seconds: Sequence[float], digits: int) -> dict[str, str]:
    """Return the rows of a latency, whose name has braces for the percentile; none if nothing was timed."""
    named = zip(("p50", "p95"), latencies(seconds), strict=True)
    return {name.format(share): f"{each:,.{digits}f} ms" for share, each in named} if seconds else {}
