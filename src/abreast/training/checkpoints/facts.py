"""What the facts of a checkpoint have to be before a run goes on from them.

A checksum says that a file is as it was written, not by whom: facts of another type, or counts that contradict each other,
would end in a stack, or in a loop that waits for a round nobody has ordered.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from abreast.errors import CheckpointError, short
from abreast.state import State

MOST = 2**62
"""A count is less: it still fits into an array when some are added to it."""


class Kind(NamedTuple):
    """A kind of fact."""

    fits: Callable[[Any], bool]
    told: str


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < MOST and math.isfinite(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_played(value: Any) -> bool:
    """Turns, rewards and the game's own figures of an epoch, and the steps of all players, if they are told."""
    if not isinstance(value, list) or len(value) not in (3, 4) or not isinstance(value[2], dict):
        return False
    if len(value) == 4 and value[3] is not None and not _is_count(value[3]):
        return False
    figures = all(each is None or _is_number(each) for each in value[2].values())
    return _is_count(value[0]) and _list_of(_is_number)(value[1]) and figures


COUNT = Kind(_is_count, "a number from 0")
SECONDS = Kind(lambda value: _is_number(value) and value >= 0, "seconds")
TEXT = Kind(_is_text, "a text")

MANIFEST = {
    "experiment": TEXT,
    "schedule": TEXT,
    "config": TEXT,
    "devices": Kind(_list_of(_is_text), "a list of devices"),
    "epochs": COUNT,
    "first_epoch": COUNT,
    "recorded": COUNT,
    "rounds": COUNT,
    "resumable": Kind(lambda value: type(value) is bool, "true or false"),
    "reason": Kind(lambda value: value is None or _is_text(value), "a text or nothing"),
}
RECORD = {
    "record.count": COUNT,
    "record.first_epoch": COUNT,
    "record.agent_steps": COUNT,
    "record.updates_before": COUNT,
    "record.seconds": SECONDS,
    "record.elapsed_s": SECONDS,
}
LOOP = {
    "loop.epochs_played": COUNT,
    "loop.passes": COUNT,
    "loop.unfinished": Kind(_list_of(lambda each: isinstance(each, dict)), "a list of passes"),
}
PASS = {
    "number": COUNT,
    "epoch": COUNT,
    "played": Kind(lambda value: _list_of(_is_played)(value) and bool(value), "what was played"),
    "epsilons": Kind(_list_of(_is_number), "numbers"),
    "updates": COUNT,
    "written": Kind(_list_of(_list_of(_is_count)), "numbers of rows, per agent and lane"),
    "collect_s": SECONDS,
}


def reward_of(facts: Mapping[str, Any]) -> float | None:
    """The reward that a checkpoint had in training, if it says so."""
    reward = facts.get("reward")
    return float(reward) if reward is not None and _is_number(reward) else None


def check_manifest(facts: Mapping[str, Any], where: str) -> None:
    """Refuse facts of a checkpoint to resume from that are missing or of another type."""
    _check(facts, MANIFEST, where)


def check_run(run: State, facts: Mapping[str, Any], agents: int, interval: int, where: str) -> None:
    """Refuse a part `run` whose facts are none, or contradict each other or those of the manifest.

    interval: epochs from one update to the next.
    """
    _check(run.facts, {**RECORD, **LOOP}, where)
    unfinished = run.facts["loop.unfinished"]
    for each in unfinished:
        _check(each, PASS, where)
        if each.keys() != PASS.keys() or len(each["played"]) != len(each["epsilons"]):
            raise CheckpointError(f"{where} cannot be used: one of its unfinished passes is {short(each)}.")
        if len(each["written"]) != agents or any(len(played[1]) != agents for played in each["played"]):
            raise CheckpointError(f"{where} cannot be used: an unfinished pass is not one of {agents} agents.")
    passes, lines = run.facts["loop.passes"], run.facts["record.count"]
    waiting = sum(len(each["played"]) for each in unfinished)
    same = {
        "record.count": facts["recorded"],
        "record.first_epoch": facts["first_epoch"],
        "loop.epochs_played": facts["epochs"],
        "loop.passes": facts["rounds"] + len(unfinished),
    }
    for name, expected in same.items():
        if run.facts[name] != expected:
            raise CheckpointError(f"{where} contradicts itself: {name} is {run.facts[name]}, expected {expected}.")
    numbers, epoch = [each["number"] for each in unfinished], facts["epochs"] - waiting
    if numbers != list(range(passes - len(unfinished), passes)):
        raise CheckpointError(f"{where} contradicts itself: its unfinished passes are {short(numbers)} of {passes}.")
    for each in unfinished:
        end = epoch + len(each["played"])
        due = end // interval - epoch // interval
        if (each["epoch"], each["updates"]) != (epoch, due):
            raise CheckpointError(
                f"{where} contradicts itself: the unfinished pass {each['number']} begins with epoch {each['epoch']} and has"
                f" {each['updates']} updates, expected {epoch} and {due}."
            )
        epoch = end
    if facts["first_epoch"] + lines + waiting != facts["epochs"]:
        raise CheckpointError(
            f"{where} contradicts itself: {lines} epochs from {facts['first_epoch']} on are recorded and {waiting} are"
            f" under way, but {facts['epochs']} were played."
        )


def _check(facts: Mapping[str, Any], expected: Mapping[str, Kind], where: str) -> None:
    for name, kind in expected.items():
        if name not in facts:
            raise CheckpointError(f"{where} cannot be used: its fact {name} is missing.")
        if not kind.fits(facts[name]):
            raise CheckpointError(
                f"{where} cannot be used: its fact {name} is {short(facts[name])}, expected {kind.told}."
            )
