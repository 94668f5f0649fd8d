"""The figures of a comparison, from the evaluations of its runs.

rewards of episodes ─mean─▶ score of a run ─normalised by task─▶ figures over runs × tasks, per agent and in sum
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from abreast import __version__
from abreast.comparison.found import Compared
from abreast.errors import ConfigError, nearest, short
from abreast.evaluations import Point, Rewards, RunEvaluations
from abreast.games import AnyGame, find_game_of_run
from abreast.headline import SUM, groups_of
from abreast.training.statistics import (
    FEWEST_RUNS,
    bootstrap_interval,
    improvement_interval,
    interquartile_mean_of_tasks,
    mean,
    performance_profile,
    probability_of_improvement,
    stratified_interval,
)

THRESHOLDS = 101
"""Points of a performance profile."""
NORMALISE = ("none", "range", "random")
RANDOM = "random"
"""The algorithm of random agents, in every comparison."""


class Evaluated(NamedTuple):
    """A run with its evaluations."""

    run: Compared
    names: list[str]
    curve: list[Point]
    best: int
    """Epochs of its best checkpoint."""
    absolute: Rewards
    """What was got there on many episodes."""
    mode: str = ""
    """How its agents acted."""
    other: tuple[str, Rewards] | None = None
    """The other mode, and what was got in it at the best checkpoint; None if it was not played."""


class Comparison(NamedTuple):
    """All figures, as rows; intervals are empty where there are too few runs."""

    about: dict[str, Any]
    runs: list[dict[str, Any]]
    summary: list[dict[str, Any]]
    improvement: list[dict[str, Any]]
    curves: list[dict[str, Any]]
    profiles: list[dict[str, Any]]
    other_modes: list[dict[str, Any]]
    """Rows like those of `summary`, of algorithms that get something else in the other mode."""
    notes: list[str]


def evaluate_all(
    runs: Sequence[Compared],
    episodes: int,
    seed: int,
    on_point: Callable[[str], None] = lambda name: None,
    greedy: bool | None = None,
) -> list[Evaluated]:
    """Evaluate all runs at all their checkpoints, as far as that was not done before; `greedy` as in `evaluate`."""
    found, games = [], dict[tuple[str, Path], AnyGame]()

    def find(run: Compared) -> AnyGame:
        place = run.task, run.folder.resolve().parent  # a file of the same name elsewhere may be another game
        if place not in games:
            games[place] = find_game_of_run(run.folder)
        return games[place]

    for run in runs:
        evaluations = RunEvaluations(run.folder, partial(find, run), episodes, seed, greedy)
        curve = evaluations.curve(lambda name=run.folder.name: on_point(name))  # type: ignore[misc]
        best = evaluations.absolute(curve)
        on_point(run.folder.name)
        found.append(Evaluated(run, evaluations.names, curve, *best))
    return found


def check_normalise(wanted: str | None, tasks: Collection[str]) -> str:
    """How scores are normalised; what cannot be is refused."""
    how = wanted or ("none" if len(tasks) == 1 else "range")
    if how not in NORMALISE:
        raise ConfigError(f"--normalise is {short(how)}: {nearest(how, NORMALISE)}")
    if how == "none" and len(tasks) > 1:
        raise ConfigError("scores of different games have different units: give --normalise range or random.")
    return how


def compare(
    found: Sequence[Evaluated],
    normalise: str | None = None,
    random: Mapping[str, Rewards] | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """Compare runs that were evaluated.

    normalise: none: scores as they are; range: 0 and 1 are the lowest and the highest score in a task; random: 0 is what
        random agents get, 1 the highest score. Left out: none for one task, range for several.
    random: what random agents get in each task. They are an algorithm of the comparison.
    """
    tasks = list(dict.fromkeys(each.run.task for each in found))
    baseline = {} if any(each.run.algorithm == RANDOM for each in found) else random or {}
    played = [*found, *(Evaluated(Compared(Path(), task, RANDOM, 0), [], [], 0, baseline[task]) for task in baseline)]
    algorithms = list(dict.fromkeys(each.run.algorithm for each in played))
    how = check_normalise(normalise, tasks)
    told = [*notes, *_too_few(found)]
    others = {
        each.run.algorithm: each.other[0] for each in found if each.other and _differ(each.absolute, each.other[1])
    }
    modes = {
        name: ", ".join(dict.fromkeys(each.mode for each in played if each.run.algorithm == name))
        for name in algorithms
    }
    numbers = {len(each.absolute[0]) for each in found}
    groups = headline_groups(found, min(numbers))
    comparison = Comparison({}, _run_rows(found, SUM in groups), [], [], [], [], [], told)
    if SUM not in groups:
        told.append(
            "the agents have sides: there is no sum of all, and the newest checkpoint counts as the best. What a side gets"
            " depends on its opponents: `abreast tournament` lets runs play each other."
        )
    agents = {_name_of(agent, found): [agent] for agent in range(min(numbers))}
    whose = groups | agents
    if len(numbers) > 1:
        told.append(f"the runs have {min(numbers)} to {max(numbers)} agents: figures per agent are of the first ones.")
    epochs = common_epochs(found, tasks, told)
    for who, group in whose.items():
        scale = {task: _scale(found, task, group, how, random) for task in tasks}

        def scores(
            algorithm: str,
            of: Callable[[Evaluated], Rewards],
            scale: Mapping[str, tuple[float, float]] = scale,
            group: Sequence[int] = group,
        ) -> list[list[float]]:
            """By task and run."""
            own = [each for each in played if each.run.algorithm == algorithm]
            return [
                [(_score(of(each), group) - low) / size for each in own if each.run.task == task]
                for task, (low, size) in scale.items()
            ]

        final = {algorithm: scores(algorithm, lambda each: each.absolute) for algorithm in algorithms}
        everything = [value for by_task in final.values() for runs in by_task for value in runs]
        thresholds = np.linspace(min(everything), max(everything), THRESHOLDS).tolist()
        rows = [_summary_row(who, name, modes[name], by_task) for name, by_task in final.items()]
        comparison.summary.extend(sorted(rows, key=lambda row: -row["interquartile_mean"]))
        comparison.other_modes.extend(
            _summary_row(who, name, other, scores(name, lambda each: each.other[1] if each.other else each.absolute))
            for name, other in others.items()
        )
        for algorithm, by_task in final.items():
            comparison.profiles.extend(
                {"who": who, "algorithm": algorithm, "score": score, "share": share}
                for score, share in zip(thresholds, performance_profile(by_task, thresholds), strict=True)
            )
            for number, place in enumerate(epochs):
                by_task = scores(algorithm, lambda each, place=place: _at(each, place))  # type: ignore[misc]
                x = place[tasks[0]] if len(tasks) == 1 else (number + 1) / len(epochs)
                comparison.curves.append({"who": who, "algorithm": algorithm, "x": x} | _with_interval(by_task))
            for other in (each for each in algorithms if each != algorithm):
                comparison.improvement.append(
                    {
                        "who": who,
                        "algorithm": algorithm,
                        "over": other,
                        "probability": probability_of_improvement(final[algorithm], final[other]),
                        **_ends(improvement_interval(final[algorithm], final[other])),
                    }
                )
    comparison.about.update(
        abreast=__version__,
        tasks=tasks,
        algorithms=algorithms,
        normalise=how,
        x="epochs" if len(tasks) == 1 else "share of the evaluations",
        episodes=len(found[0].curve[0].rewards),
        absolute_episodes=len(found[0].absolute),
        who=[*whose],
        headline=[*groups],
        agents=[*agents],
    )
    return comparison


def common_epochs(found: Sequence[Evaluated], tasks: Sequence[str], notes: list[str]) -> list[dict[str, int]]:
    """The evaluations that all runs have: for each, its epochs in each task."""
    common = {}
    for task in tasks:
        sets = [{point.epochs for point in each.curve} for each in found if each.run.task == task]
        common[task] = sorted(set.intersection(*sets))
        if any(each != sets[0] for each in sets):
            notes.append(f"runs in {task} have checkpoints after different epochs: curves have those that all have.")
    if len({len(epochs) for epochs in common.values()}) > 1:
        notes.append("the games have different numbers of checkpoints: there are no curves.")
        return []
    return [dict(zip(tasks, epochs, strict=True)) for epochs in zip(*common.values(), strict=True)]


# ---- inside


def headline_groups(found: Sequence[Evaluated], agents: int) -> dict[str, list[int]]:
    """Return the groups of agents (`headline.groups_of`) whose rewards are compared first; the sum if games differ in them.

    The sum of all agents has an empty group: runs may have different numbers of agents.
    """
    rewards = dict[str, list[list[float]]]()
    for each in found:
        rewards.setdefault(each.run.task, []).extend(reward[:agents] for reward in each.absolute)
    names = [_name_of(agent, found) for agent in range(agents)]
    groups = [groups_of(of_task, names) for of_task in rewards.values()]
    return groups[0] if SUM not in groups[0] and all(each == groups[0] for each in groups) else {SUM: []}


def _score(rewards: Rewards, group: Sequence[int]) -> float:
    """Return the mean over episodes of what the agents of a group got together; an empty group stands for all agents."""
    return mean([sum(each[agent] for agent in group or range(len(each))) for each in rewards])


def _scale(
    found: Sequence[Evaluated], task: str, group: Sequence[int], how: str, random: Mapping[str, Rewards] | None
) -> tuple[float, float]:
    """What is taken from a score, and what the rest is divided by."""
    if how == "none":
        return 0.0, 1.0
    scores = [_score(each.absolute, group) for each in found if each.run.task == task]
    low = min(scores) if how == "range" else _score((random or {})[task], group)
    return low, (max(scores) - low) or 1.0


def _too_few(found: Sequence[Evaluated]) -> list[str]:
    """A sentence where there are too few runs for an interval."""
    counts = Counter((each.run.algorithm, each.run.task) for each in found)
    few = [
        f"{algorithm} in {task} has {number}" for (algorithm, task), number in counts.items() if number < FEWEST_RUNS
    ]
    return [f"no interval, because it takes {FEWEST_RUNS} runs: {', '.join(few)}."] if few else []


def _at(each: Evaluated, place: Mapping[str, int]) -> Rewards:
    """What was got after so many epochs; random agents always get the same."""
    return next((point.rewards for point in each.curve if point.epochs == place[each.run.task]), each.absolute)


def _differ(one: Rewards, two: Rewards) -> bool:
    """Whether the 95 % intervals of what some agent gets are apart."""
    first, second = (map(bootstrap_interval, zip(*rewards, strict=True)) for rewards in (one, two))
    return any(a and b and (a[1] < b[0] or b[1] < a[0]) for a, b in zip(first, second, strict=True))


def _name_of(agent: int, found: Sequence[Evaluated]) -> str:
    """What an agent is called: by the game if all runs agree."""
    names = {each.names[agent] if agent < len(each.names) else "" for each in found}
    return names.pop() if len(names) == 1 else f"agent {agent}"


def _ends(interval: tuple[float, float] | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {"low": low, "high": high}


def _with_interval(by_task: Sequence[Sequence[float]]) -> dict[str, Any]:
    return {"interquartile_mean": interquartile_mean_of_tasks(by_task), **_ends(stratified_interval(by_task))}


def _summary_row(who: str, algorithm: str, mode: str, by_task: Sequence[Sequence[float]]) -> dict[str, Any]:
    runs = [value for each in by_task for value in each]
    return {
        "who": who,
        "algorithm": algorithm,
        "mode": mode,
        "runs": len(runs),
        "mean": mean(runs),
        **_with_interval(by_task),
    }


def _run_rows(found: Sequence[Evaluated], has_sum: bool) -> list[dict[str, Any]]:
    """What is known of each run; its scores are as they are, not normalised."""
    return [
        {
            "run": str(each.run.folder),
            "task": each.run.task,
            "algorithm": each.run.algorithm,
            "settings": each.run.settings,
            "seed": each.run.seed,
            "best_epochs": each.best,
            "mode": each.mode,
            **({"score": _score(each.absolute, [])} if has_sum else {}),
            **{f"score_{number}": _score(each.absolute, [number]) for number in range(len(each.absolute[0]))},
        }
        for each in found
    ]
