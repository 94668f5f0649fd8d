"""An environment that computes for some time, for benchmarks."""

import hashlib
from typing import Any

import gymnasium

from abreast.bench.bare import Task
from abreast.bench.turns import seconds_of
from abreast.rollouts import EnvConfig
from abreast.rollouts.registry import EnvKind


class BusyConfig(EnvConfig):
    """Settings of an environment that computes for some time."""

    rounds: int = 0
    """How many rounds of hashing a step takes."""
    action_lookup: dict[int, str] | None = {0: "go"}  # noqa: RUF012 (pydantic copies it)
    """Its one action."""


class Busy(gymnasium.Env[str, Any]):
    """Hashes for some time, then shows how often it was stepped.

    (Not a loop in Python: the same loop takes 0.8 ms in one process and 1.1 ms in another, depending on where its memory
    lies, and that difference would hide what is compared here.)
    """

    metadata = {"render_modes": ["text"]}  # noqa: RUF012 (Gymnasium's own form)
    render_mode = "text"
    observation_space = gymnasium.spaces.Discrete(2)  # type: ignore[assignment]
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config: BusyConfig) -> None:
        self.rounds = config.rounds
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.rounds:
            hashlib.pbkdf2_hmac("sha256", b"abreast", b"", self.rounds)
        self.steps += 1
        return 0, 0.0, False, False, {}

    def render(self) -> str:
        return str(self.steps)


KIND = EnvKind("busy", "Hashes for some time.", Busy, BusyConfig, "Go on.")


def rounds_for(microseconds: float) -> int:
    """Rounds of hashing that take so long."""
    rounds = 1000
    env = Busy(BusyConfig(rounds=rounds))
    fastest = min(seconds_of(lambda: env.step(0)) for _ in range(100))
    return int(rounds * microseconds / (fastest * 1e6))


def stepping(rounds: int, envs: int) -> Task:
    """Steps so many environments, one after the other, and nothing else."""
    env = Busy(BusyConfig(rounds=rounds))

    def step_all() -> None:
        for _ in range(envs):
            env.step(0)

    return step_all
