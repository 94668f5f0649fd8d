"""What came of a rollout, as figures: of the episodes of this session, and of those that a resumed run already had."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.policies.base import Counts, Played, Tokens
from abreast.rollouts.episodes.summary import Ended, Tally, pass_at_k, summary_of_tag


class Result(NamedTuple):
    """What is needed of an episode for the figures."""

    group_id: int
    num_actions: int
    tally: Tally
    error: str | None
    tokens: Tokens


def result_of(played: Played) -> Result:
    """The result of an episode that was played."""
    return Result(played.group_id, played.num_actions, played.tally, played.error, played.tokens)


def result_of_line(line: Mapping[str, Any]) -> Result:
    """The result of an episode that a run already had. How long its turns took is not known."""
    tally = Tally(
        reward=line["reward"],
        success=line["success"],
        given=line.get("num_given", 0),
        invalid=line.get("num_invalid", 0),
    )
    tokens = line.get("tokens") or {}
    used = Tokens(tokens.get("prompt", 0), tokens.get("completion", 0))
    return Result(line["group_id"], line.get("num_actions", 0), tally, line.get("error"), used)


def figures(results: Sequence[Result], group_size: int, turns_per_s: float) -> dict[str, str]:
    """The figures by name."""
    means = summary_of_tag([Ended(result.num_actions, result.tally, ()) for result in results])
    return {
        "episodes": f"{len(results):,}",
        "success": f"{means['success']:.1%}",
        **_pass_at(group_size, results),
        "reward": f"{means['reward']:.3f}",
        "invalid actions": f"{means['invalid_rate']:.1%}",
        "actions per episode": f"{means['num_actions']:.1f}",
        "latency p50": f"{means['latency_p50_ms']:.3f} ms",
        "latency p95": f"{means['latency_p95_ms']:.3f} ms",
        "turns per second": f"{turns_per_s:,.0f}",
        "timeouts": f"{means['timeouts']:.0f}",
    }


def usage(counts: Counts, before: Iterable[Result], config: PlayConfig) -> dict[str, str]:
    """What a server was used for: requests of this session; tokens and their price of the whole run."""
    tokens = counts.tokens
    for result in before:
        tokens = tokens.plus(result.tokens)
    rows = {
        "requests": f"{counts.requests:,}",
        "requests sent again": f"{counts.retries:,}",
        "prompt tokens": f"{tokens.prompt:,}",
        "answer tokens": f"{tokens.completion:,}",
    }
    if counts.uncounted:
        rows["answers without counts"] = f"{counts.uncounted:,}"
    server = config.server
    if server.price_in is not None or server.price_out is not None:
        price = (tokens.prompt * (server.price_in or 0.0) + tokens.completion * (server.price_out or 0.0)) / 1e6
        rows["cost"] = f"{price:,.4f}"
    return rows


def _pass_at(group_size: int, results: Sequence[Result]) -> dict[str, str]:
    """The chance that at least one episode of a group succeeds, in the mean of the groups that are complete."""
    groups: dict[int, list[bool]] = {}
    for result in results:
        groups.setdefault(result.group_id, []).append(result.tally.success)
    key = f"pass@{group_size}"
    chances = [pass_at_k(each)[key] for each in groups.values() if len(each) == group_size]
    return {key: f"{fmean(chances):.1%}"} if group_size > 1 and chances else {}
