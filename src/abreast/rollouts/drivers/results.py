"""What came of a rollout, as figures: of the episodes of this session, and of those that a resumed run already had."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Counts, Tokens
from abreast.rollouts.episodes.summary import Ended, Tally, pass_at_k, summary_of_tag


class Result(NamedTuple):
    """What is needed of an episode for the figures."""

    group_id: int
    num_actions: int
    tally: Tally
    error: str | None
    tokens: Tokens
    penalty: float = 0.0
    cut_off: int = 0
    """Answers that a limit of tokens has cut off (finish_reason: length)."""
    with_tool_calls: int = 0
    """Answers that called tools."""

    @property
    def score(self) -> float:
        """The reward with penalties."""
        return self.tally.reward + self.penalty


def result_of(line: Mapping[str, Any], tally: Tally | None = None) -> Result:
    """The result of an episode. Without its tally, it is not known how long its turns took."""
    counted = Tally(line["reward"], line["success"], line["num_given"], line["num_invalid"])
    tokens, history = line["tokens"], line["history"]
    return Result(
        line["group_id"],
        line["num_actions"],
        tally or counted,
        line["error"],
        Tokens(tokens.get("prompt", 0), tokens.get("completion", 0)),
        line["penalty"],
        sum(entry.get("finish_reason") == "length" for entry in history),
        sum("tool_calls" in entry for entry in history),
    )


SESSION = " (this session)"
"""Follows the name of a figure of a resumed run that is not about all of its episodes."""


def figures(
    results: Sequence[Result], group_size: int, turns_per_s: float, before: Sequence[Result] = ()
) -> dict[str, str]:
    """The figures by name: of all episodes, those that a resumed run had before included, or else labelled."""
    means = _means([*before, *results])
    rows = {
        "episodes": f"{len(before) + len(results):,}",
        "success": f"{means['success']:.1%}",
        **_pass_at(group_size, [*before, *results]),
        "reward": f"{means['reward']:.3f}",
        "score": f"{fmean(result.score for result in (*before, *results)):.3f}",
        "invalid actions": f"{means['invalid_rate']:.1%}",
        "actions per episode": f"{means['num_actions']:.1f}",
    }
    odd = {
        "answers cut off by a limit of tokens": sum(result.cut_off for result in (*before, *results)),
        "answers with tool calls": sum(result.with_tool_calls for result in (*before, *results)),
    }
    rows |= {name: f"{count:,}" for name, count in odd.items() if count}
    if not results:
        return rows
    label, now = SESSION if before else "", _means(results)  # lines do not hold how long turns took
    return rows | {
        f"latency p50{label}": f"{now['latency_p50_ms']:.3f} ms",
        f"latency p95{label}": f"{now['latency_p95_ms']:.3f} ms",
        f"turns per second{label}": f"{turns_per_s:,.0f}",
        f"timeouts{label}": f"{now['timeouts']:.0f}",
    }


def _means(results: Sequence[Result]) -> dict[str, float]:
    return summary_of_tag([Ended(result.num_actions, result.tally, ()) for result in results])


def usage(counts: Counts, before: Sequence[Result], config: PlayConfig, is_resumed: bool) -> dict[str, str]:
    """What a server was used for: requests of this session; tokens and their price of the whole run.

    What requests of episodes took that were under way when a run was stopped is not known when it goes on.
    """
    tokens, label = counts.tokens, SESSION if before else ""
    for result in before:
        tokens = tokens.plus(result.tokens)
    rows = {
        f"requests{label}": f"{counts.requests:,}",
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


def _pass_at(group_size: int, results: Sequence[Result]) -> dict[str, str]:
    """The chance that at least one episode of a group succeeds, in the mean of the groups that are complete."""
    groups: dict[int, list[bool]] = {}
    for result in results:
        groups.setdefault(result.group_id, []).append(result.tally.success)
    key = f"pass@{group_size}"
    chances = [pass_at_k(each)[key] for each in groups.values() if len(each) == group_size]
    return {key: f"{fmean(chances):.1%}"} if group_size > 1 and chances else {}
