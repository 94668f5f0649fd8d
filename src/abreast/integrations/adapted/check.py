"""`abreast check` for environments of other libraries: each check verifies one rule, and says how to repair a fault."""

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from abreast.checking import (
    SEED,
    Check,
    Fault,
    Skipped,
    Trace,
    Verdict,
    first_difference,
    follows_from_seed,
    judge,
    plays_alike_elsewhere,
)
from abreast.errors import short
from abreast.integrations.adapted.base import Adapted
from abreast.integrations.adapted.seeding import drawn, episode, kept_between_episodes
from abreast.training.check.telling import SMALL, describe_error, quiet, trains_alike
from abreast.training.devices import compute_threads

if TYPE_CHECKING:
    from abreast.integrations.adapted.experiment import AdaptedExperiment, AdaptedGame, Maker

TURNS = 60
"""Steps of an episode that is played for a check, at most."""


def check_adapted(game: "AdaptedGame") -> Iterator[Verdict]:
    """Check an environment."""
    with compute_threads(1):
        yield from judge(CHECKS, AdaptedTrial(game), describe_error)


class AdaptedTrial:
    """An environment, as its checks make and play it."""

    def __init__(self, game: "AdaptedGame") -> None:
        self.game, self.maker = game, game.maker
        self._made: list[Adapted] = []

    def make(self, **arguments: Any) -> Adapted:
        self._made.append(self.maker.make(arguments))
        return self._made[-1]

    def build(self, *overrides: str) -> "AdaptedExperiment":
        usual = ["experiment.max_turns=12", "multiprocessing.num_envs=2"]
        return self.game.build(self.game.configure(None, [*SMALL, *usual, *overrides]))

    def close(self) -> None:
        while self._made:
            self._made.pop().close()


# ---- the checks


def _can_be_played(trial: AdaptedTrial) -> str | None:
    copy = trial.make()
    for seed in range(3):
        episode(copy, np.random.SeedSequence(seed), TURNS)
    left_out = sorted({path for agent in copy.agents for path in agent.view.left_out})
    return f"can be made and played; agents do not see {', '.join(left_out)}" if left_out else None


def _keeps_its_own_contract(trial: AdaptedTrial) -> str:
    try:
        with quiet(), contextlib.redirect_stderr(io.StringIO()):
            return f"{trial.maker.own_check({})} finds nothing"
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
                if state.dtype.kind == "f" and not np.isfinite(state).all():
                    raise Fault(
                        f"in turn {turn + 1}, agent {agent.name!r} observes {state[~np.isfinite(state)][0]}: return finite"
                        " numbers."
                    )
                low, high = agent.view.bounds
                if low is not None and high is not None and ((state < low).any() or (state > high).any()):
                    raise Fault(
                        f"in turn {turn + 1}, agent {agent.name!r} observes values outside the bounds of its space, for"
                        f" example {short(state[(state < low) | (state > high)].tolist()[0])}: widen the space, or clip."
                    )
            copy.step(drawn(copy, seen, choices))


def _follows_from_its_seed(trial: AdaptedTrial) -> str | None:
    remark = follows_from_seed(
        lambda seed: _episodes(trial.make(), seed),
        lambda place: (
            f"two copies, reset with the same seed and given the same actions, differ {place}: draw from a generator that"
            " reset(seed=...) makes (`self.np_random` in Gymnasium), and keep nothing from one episode to the next. (It can"
            " be trained, but runs cannot be repeated or resumed.)"
        ),
    )
    kept = kept_between_episodes(trial.make(), np.random.SeedSequence(SEED))
    return remark if kept is None else f"the same seed gives the same episodes, but {kept.removesuffix('.')}"


def _has_true_copies(trial: AdaptedTrial) -> None:
    one, two = trial.make(), trial.make()
    choices = np.random.default_rng(SEED)

    def play_the_other() -> None:
        if not two.acting:
            two.reset(SEED)
        two.step(drawn(two, [(agent, *two.see(agent)) for agent in two.acting], choices))

    place = first_difference(_episodes(trial.make(), SEED), _episodes(one, SEED, play_the_other))
    if place is not None:
        raise Fault(
            f"a copy that is played beside another gives other episodes, {place}: copies share something that"
            " changes, such as a list of a class or a module; make it an attribute of self, in __init__ or reset."
        )


def _is_the_same_in_another_process(trial: AdaptedTrial) -> None:
    plays_alike_elsewhere(_made_and_played, trial.maker)


def _made_and_played(maker: "Maker") -> Trace:
    return _episodes(maker.make({}), SEED)


def _episodes(copy: Adapted, seed: int, between: Callable[[], object] | None = None) -> Trace:
    """Two of them, one after the other."""
    seeds = [np.random.SeedSequence(seed, spawn_key=(number,)) for number in range(2)]
    return [each for own in seeds for each in episode(copy, own, TURNS, between)]


def _can_be_filmed(trial: AdaptedTrial) -> str:
    env = trial.build("multiprocessing.num_envs=1")
    env.make_lanes()
    if not env.is_filmed:
        raise Skipped("it has no render mode rgb_array or ansi, so runs have no films")
    env.game.reset(1)
    with quiet():
        seen = env.game.look()
    if seen is None:
        raise Fault(
            "render() returns neither pixels (height, width, 3) nor text: return what metadata['render_modes'] says."
        )
    return "render() returns " + ("text" if isinstance(seen, str) else f"{seen.shape[1]} x {seen.shape[0]} pixels")


def _trains_alike(trial: AdaptedTrial) -> str | None:
    return trains_alike(trial.build, "let it depend on the seed of its reset and on its actions alone.")


PLAY, OWN, FIT, SEEDED, COPIES = "episode", "own test", "spaces", "seed", "copies"
CHECKS: tuple[Check[AdaptedTrial], ...] = (
    Check(PLAY, "can be made and played; rewards are finite, entries are complete", _can_be_played),
    Check(OWN, "its library's own test finds nothing", _keeps_its_own_contract, [PLAY]),
    Check(FIT, "observations are finite and inside the bounds of their spaces", _fits_its_spaces, [PLAY]),
    Check(SEEDED, "the same seed gives the same episodes, other seeds give others", _follows_from_its_seed, [PLAY]),
    Check(COPIES, "copies played side by side give the same as alone", _has_true_copies, [PLAY, SEEDED]),
    Check("several actors", "a copy in another process plays alike", _is_the_same_in_another_process, [PLAY, SEEDED]),
    Check("film", "can be rendered", _can_be_filmed, [PLAY]),
    Check(
        "training", "learners in processes learn what the sequential run does", _trains_alike, [PLAY, SEEDED, COPIES]
    ),
)
