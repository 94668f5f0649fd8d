"""What is shown of a rollout: episodes, success, reward, speed, requests to a server."""

import time

from abreast.display import Display, HasTeam, Shown
from abreast.rollouts.drivers.policies.base import Counts
from abreast.rollouts.drivers.results import SESSION, Results, percent


class RolloutDisplay(Display):
    """Shows turns and episodes as they are taken. Success, reward and score are those of `results`, of the whole run; speed,
    requests and tokens are of this session.
    """

    def __init__(
        self,
        episodes: int,
        results: Results,
        counts: Counts | None = None,
        manager: HasTeam | None = None,
        is_silent: bool = False,
    ) -> None:
        super().__init__(is_silent)
        self._episodes, self._results, self._counts = episodes, results, counts
        self._label = SESSION if results.before else ""
        self._turns, self._elapsed_s, self._started = 0, 0.0, time.perf_counter()
        self.now("the policy, or an environment of this process, is at work", *([] if manager is None else [manager]))

    @property
    def turns_per_s(self) -> float:
        """Turns per second up to the last one, all time included."""
        return self._turns / self._elapsed_s if self._elapsed_s else 0.0

    def turn(self) -> None:
        """Count a turn."""
        self._turns += 1
        self._elapsed_s = time.perf_counter() - self._started
        self.progressed()

    def figures(self) -> Shown:
        over, done, mean = self._results.episodes, len(self._results.tallies), self._results.mean
        left_s = self._elapsed_s / done * (self._episodes - over) if done else None
        means = [
            f"success {percent(mean('success'), 0)}",
            f"reward {mean('reward'):.2f}",
            f"score {mean('score'):.2f}",
            *([f"{len(self._results.errors):,} could not go on"] if self._results.errors else []),
        ]
        below = ["  ".join(means)] if over else []
        if self._counts is not None:
            asked = f"{self._counts.requests:,} requests, {self._counts.retries:,} again"
            tokens = f"tokens: {self._counts.tokens.prompt:,} in, {self._counts.tokens.completion:,} out"
            below.append(f"server{self._label}  {asked}  {tokens}")
        speed = f"{self.turns_per_s:,.0f} turns/s{self._label}"
        return Shown("episodes", over, self._episodes, left_s, [speed], below=below)
