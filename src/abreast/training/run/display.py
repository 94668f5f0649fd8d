"""What is shown of a run that trains: epochs, reward and learning figures of each agent, speed."""

from collections import deque

from abreast.display import Display, Row, Shown
from abreast.headline import SUM, as_text, groups_of, results_of
from abreast.training.run.metrics import EpochRecord
from abreast.training.social import OUTCOMES

SMOOTHED = 20
"""Epochs over which rewards are averaged for the display."""


class ProgressDisplay(Display):
    """Shows each epoch as it ends."""

    def __init__(self, epochs: int, done: int = 0, max_steps: int | None = None) -> None:
        """`done`: epochs that a run that goes on has behind it. `max_steps`: what else may end it first."""
        super().__init__()
        self._epochs, self._done, self._max_steps = epochs, done, max_steps
        self._told = 0
        """What was counted when the newest epoch ended."""
        self._recent: deque[EpochRecord] = deque(maxlen=SMOOTHED)

    def show(self, record: EpochRecord) -> None:
        """Take in an epoch; the terminal is redrawn eight times a second, whatever the speed of the run."""
        self._done += 1
        self._recent.append(record)
        _, done, total = self._counted(record)
        self.ended(done, total, done - self._told)
        self._told = done

    def _counted(self, record: EpochRecord) -> tuple[str, int, int]:
        """Return what the run counts, epochs or steps (whichever ends first), how many there are, and how many of all."""
        if self._max_steps is not None and record["steps"] / self._max_steps > self._done / self._epochs:
            return "step", min(record["steps"], self._max_steps), self._max_steps
        return "epoch", self._done, self._epochs

    def figures(self) -> Shown:
        recent, done = list(self._recent), self._done
        if not recent:
            return Shown("epoch", done, self._epochs, None)
        last = recent[-1]
        unit, done, total = self._counted(last)
        rewards = [
            sum(column) / len(recent) for column in zip(*(each["reward_per_agent"] for each in recent), strict=True)
        ]
        what = "reward of the epoch" if len(recent) == 1 else f"mean reward of {len(recent)} epochs"
        explored = [f"epsilon {last['epsilon']:.3f}"] if last["epsilon"] else []  # PPO has none
        own = [f"{name} {value:.3g}" for name, value in _mean_metrics(recent).items()]
        groups = groups_of([each["reward_per_agent"] for each in recent], last.get("agents", ()))
        told = f"all  {sum(rewards):.1f}" if SUM in groups else as_text(results_of([rewards], groups))
        names = last.get("agents") or [f"agent {agent}" for agent in range(len(rewards))]
        learned = [[_figure(*each) for each in figures.items()] for figures in last["learning"]]
        return Shown(
            unit,
            done,
            total,
            last["time"]["elapsed_s"] / done * (total - done),
            [f"{last['time']['agent_steps_per_s']:,.0f} agent-steps/s"],
            [Row(*each) for each in zip(names, rewards, learned, strict=True)],
            ["  ".join([f"{told}  {what}", *explored, *own]), *_learners(last)],
        )


def _figure(name: str, value: float | None) -> str:
    return f"{name} {'not finite' if value is None else f'{value:.3g}'}"


def _mean_metrics(records: list[EpochRecord]) -> dict[str, float]:
    """The game's own figures, in the mean of those epochs that have them; social outcomes are only written down."""
    found: dict[str, list[float]] = {}
    for figures in (record.get("metrics", {}) for record in records):
        for name, value in figures.items():
            if value is not None and name not in OUTCOMES:
                found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def _learners(record: EpochRecord) -> list[str]:
    """How learners in workers are."""
    health = record["time"]
    if "lag_per_agent" not in health:
        return []
    lags = sorted({min(health["lag_per_agent"]), max(health["lag_per_agent"])})
    waits = f"waits: actor {health['train_s']:.2f} s"
    if "learner_idle_s" in health:
        waits += f", learners {max(health['learner_idle_s']):.2f} s"
    behind = f"learners  versions behind: {' to '.join(map(str, lags))}"
    return [f"{behind}  {record['updates_per_agent_step']:.3f} updates a step  {waits}"]
