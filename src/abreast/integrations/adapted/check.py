"""`abreast check` for environments of other libraries: each check verifies one rule, and says how to repair a fault."""

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from abreast.checking import SEED, Check, Fault, Note, Skipped, Verdict
from abreast.errors import short
from abreast.integrations.adapted.base import Adapted
from abreast.integrations.adapted.seeding import drawn, episode
from abreast.settings import apply_overrides
from abreast.training.check.game import PLAY, PLAYED, SEEDED, GameTrial, check_played
from abreast.training.check.telling import quiet

if TYPE_CHECKING:
    from abreast.integrations.adapted.experiment import AdaptedExperiment, AdaptedGame

TURNS = 60
"""Steps of an episode that is played for a check, at most."""
DRAW = "draw from a generator that reset(seed=...) makes (`self.np_random` in Gymnasium)"


def check_adapted(game: "AdaptedGame", overrides: Sequence[str] = ()) -> Iterator[Verdict]:
    """Check an environment, with settings of the user's."""
    return check_played(AdaptedTrial(game, DRAW, overrides), CHECKS)


@dataclass
class AdaptedTrial(GameTrial):
    """An environment, as its checks make and play it."""

    _made: list[Adapted] = field(default_factory=list)

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of the function that makes it, from the settings."""
        return dict(
            apply_overrides({"world": {}}, (each for each in self.settings if each.startswith("world.")))["world"]
        )

    def make(self) -> Adapted:
        self._made.append(self.game.make(self.arguments))
        return self._made[-1]

    def close(self) -> None:
        while self._made:
            self._made.pop().close()


# ---- the checks


def _can_be_played(trial: AdaptedTrial) -> str | None:
    copy = trial.make()
    with quiet():
        trial.game.seeding(trial.arguments, [trial.game.make(trial.arguments)])
    for seed in range(3):
        episode(copy, np.random.SeedSequence(seed), TURNS)
    left_out = sorted({path for agent in copy.agents for path in agent.view.left_out})
    return f"can be made and played; agents do not see {', '.join(left_out)}" if left_out else None


def _keeps_its_own_contract(trial: AdaptedTrial) -> str:
    try:
        # It warns of habits; what breaks the contract, it raises.
        with quiet(), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings(action="ignore"):
            return f"{trial.game.own_check(trial.arguments)} finds nothing"
    except ImportError as error:
        raise Skipped(f"the library's own test needs {error.name or error}") from None
    except (Exception, SystemExit) as error:
        what = " ".join(str(error).split()) or type(error).__name__
        raise Fault(f"its library's own test says: {what}. That test's documentation says what is expected.") from error


def _fits_its_spaces(trial: AdaptedTrial) -> None:
    copy = trial.make()
    choices = np.random.default_rng(SEED)
    for seed in range(2):
        copy.reset(seed)
        for turn in range(TURNS):
            if not copy.acting:
                break
            seen = [(agent, *copy.see(agent)) for agent in copy.acting]
            for number, state, _ in seen:
                agent = copy.agents[number]
                low, high = agent.view.bounds
                if low is not None and high is not None and ((state < low).any() or (state > high).any()):
                    raise Fault(
                        f"in turn {turn + 1}, agent {agent.name!r} observes values outside the bounds of its space, for"
                        f" example {short(state[(state < low) | (state > high)].tolist()[0])}: widen the space, or clip."
                    )
            copy.step(drawn(copy, seen, choices))


def _depends_on_nothing_before(trial: AdaptedTrial) -> str | None:
    leak, fault = trial.game.seeding(trial.arguments, [])
    if fault is not None:
        raise Fault(f"{fault} Until then, a run that was stopped is resumed with --inexact.")
    return None if leak is None else Note(leak)


def _can_be_filmed(trial: AdaptedTrial) -> str:
    env: AdaptedExperiment = trial.game.build(trial.configure())
    with quiet():
        env.make_lanes()
        if env.why_not_seen is not None:
            raise Skipped(f"{env.why_not_seen}, so runs have no films")
        env.game.reset(1)
        seen = env.game.look()
    if seen is None:
        raise Fault(f"{env.why_not_seen}. Runs have no films then, and go on.")
    return "render() returns " + ("text" if isinstance(seen, str) else f"{seen.shape[1]} x {seen.shape[0]} pixels")


CHECKS: tuple[Check[Any], ...] = (
    Check(PLAY, "can be made and played; rewards are finite, entries are complete", _can_be_played),
    Check("own test", "its library's own test finds nothing", _keeps_its_own_contract, [PLAY]),
    Check("spaces", "observations are finite and inside the bounds of their spaces", _fits_its_spaces, [PLAY]),
    *PLAYED,
    Check("reset", "episodes do not depend on what was played before", _depends_on_nothing_before, [PLAY, SEEDED]),
    Check("film", "can be rendered", _can_be_filmed, [PLAY]),
)
