"""What came of a rollout, as figures: of the episodes of this session, and of those that a resumed run already had."""

from collections.abc import Mapping, Sequence
from math import nan
from statistics import fmean
from typing import Any, NamedTuple

from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Counts, Tokens
from abreast.rollouts.episodes.summary import FIGURES, Tally, latencies, pass_at_k


class Result(NamedTuple):
    """What is needed of an episode for the figures."""

    group_id: int
    tally: Tally
    error: str | None
    tokens: Tokens
    penalty: float = 0.0
    cut_off: int = 0
    """Answers that a limit of tokens has cut off (finish_reason: length)."""
    with_tool_calls: int = 0
    """Answers that called tools."""
    tag: str = ""

    @property
    def score(self) -> float:
        """The reward with penalties."""
        return self.tally.reward + self.penalty


def result_of(line: Mapping[str, Any], tally: Tally | None = None) -> Result:
    """The result of an episode. Without its tally, it is not known how long its turns took."""
    counted = Tally(
        reward=line["reward"],
        success=line["success"],
        given=line["num_given"],
        executed=line["num_actions"],
        invalid=line["num_invalid"],
    )
    tokens, history = line["tokens"], line["history"]
    return Result(
        line["group_id"],
        tally or counted,
        line["error"],
        Tokens(tokens.get("prompt", 0), tokens.get("completion", 0)),
        line["penalty"],
        sum(entry.get("finish_reason") == "length" for entry in history),
        sum("tool_calls" in entry for entry in history),
        line["tag"],
    )


SESSION = " (this session)"
"""Follows the name of a figure of a resumed run that is not about all of its episodes."""


def figures(
    results: Sequence[Result], group_size: int, turns_per_s: float, before: Sequence[Result] = ()
) -> dict[str, str]:
    """The figures by name: of all episodes, those that a resumed run had before included, or else labelled."""
    means = _means([*before, *results])
    failed = sum(result.error is not None for result in (*before, *results))
    rows = {
        "episodes": f"{len(before) + len(results):,}",
        **({"could not go on": f"{failed:,}"} if failed else {}),
        "success": f"{means['success']:.1%}",
        **_pass_at(group_size, [*before, *results]),
        "reward": f"{means['reward']:.3f}",
        "score": f"{means['score']:.3f}",
        "invalid actions": f"{means['invalid_rate']:.1%}",
        "actions per episode": f"{means['num_actions']:.1f}",
    }
    odd = {
        "answers cut off by a limit of tokens": sum(result.cut_off for result in (*before, *results)),
        "answers with tool calls": sum(result.with_tool_calls for result in (*before, *results)),
    }
    rows |= {name: f"{count:,}" for name, count in odd.items() if count}
    tags = dict.fromkeys(result.tag for result in (*before, *results))
    for tag in tags if len(tags) > 1 else ():
        of_tag = _means([result for result in (*before, *results) if result.tag == tag])
        rows |= {f"success, {tag}": f"{of_tag['success']:.1%}", f"score, {tag}": f"{of_tag['score']:.3f}"}
    if not results:
        return rows
    label, half, most = SESSION if before else "", *latencies(result.tally for result in results)
    return rows | {  # lines do not hold how long turns took
        f"latency p50{label}": f"{half:.3f} ms",
        f"latency p95{label}": f"{most:.3f} ms",
        f"turns per second{label}": f"{turns_per_s:,.0f}",
        f"timeouts{label}": f"{sum(result.tally.timeouts for result in results):.0f}",
    }


def _means(results: Sequence[Result]) -> dict[str, float]:
    """Over the episodes that came to an end of their own."""
    told = [result.tally.figures(result.penalty) for result in results if result.error is None]
    return {key: fmean(each[key] for each in told) if told else nan for key in FIGURES}


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
        if result.error is None:
            groups.setdefault(result.group_id, []).append(result.tally.success)
    key = f"pass@{group_size}"
    chances = [pass_at_k(each)[key] for each in groups.values() if len(each) == group_size]
    return {key: f"{fmean(chances):.1%}"} if group_size > 1 and chances else {}
