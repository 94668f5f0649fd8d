"""What all checks of `abreast check` share: verdicts, the loop that judges, comparing what was played, global random states,
another process.

    CHECKS = (Check("episode", "can be played", _can_be_played), Check("seed", "…", _depends_on_its_seed, ["episode"]))
    for verdict in judge(CHECKS, trial, told=str):
        print(*verdict)

A game, a model, an environment of rollouts or of another library: each has a trial, which makes and plays it, and checks
that say what they verified, or what they found and what to do. A check is skipped if it would only find the consequence of
a fault that was found already: the user is told of the first fault only.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from abreast.processes.pickling import Pickler
from abreast.streams import changed_streams, seeded_globals, shared_streams

SEED, OTHER_SEEDS = 1, range(2, 6)
"""Of what is played for a check."""
TIMEOUT_S = 120.0
"""Seconds that another process may take."""
Trace = Sequence[tuple[str, Any]]
"""What was played, in order: where that was, in words that follow "differs", and what was there, as bytes or text."""


class Fault(Exception):
    """A fault of what is checked: what is wrong, and what to do."""


class Skipped(Exception):
    """Raised by a check that does not apply to what is checked: why not."""


class Note(str):
    """A remark of a check that found nothing wrong, but something to be looked at."""


class Verdict(NamedTuple):
    """The result of a check."""

    check: str
    outcome: Literal["ok", "note", "wrong", "skipped"]
    remark: str
    """What was verified; or what is wrong and what to do; or why it was skipped."""


class Closable(Protocol):
    """What is checked, as its checks see it."""

    def close(self) -> None:
        """Called after each check."""


T = TypeVar("T", bound=Closable)


class Check(NamedTuple, Generic[T]):
    """A check, what it verifies, and the checks whose failure would make this one fail too."""

    name: str
    claim: str
    run: Callable[[T], str | None]
    """Raises a `Fault`, or `Skipped`; may return a remark in place of the claim."""
    needs: Sequence[str] = ()


def judge(
    checks: Sequence[Check[T]], trial: T, told: Callable[[BaseException], str], before: Collection[str] = ()
) -> Iterator[Verdict]:
    """Run the checks one after the other; `told` puts into words what was raised and is no `Fault`.

    `before`: checks that have failed already.
    """
    failed = set(before)
    for check in checks:
        cause = next((name for name in check.needs if name in failed), None)
        verdict = (
            _judge_one(check, trial, told)
            if cause is None
            else Verdict(check.name, "skipped", f"not checked: repair {cause!r} first")
        )
        if verdict.outcome == "wrong":
            failed.add(check.name)
        yield verdict


def _judge_one(check: Check[T], trial: T, told: Callable[[BaseException], str]) -> Verdict:
    try:
        try:
            found = check.run(trial)
        finally:
            trial.close()
    except Fault as fault:
        return Verdict(check.name, "wrong", str(fault))
    except Skipped as reason:
        return Verdict(check.name, "skipped", f"not checked: {reason}")
    except (Exception, SystemExit) as error:
        return Verdict(check.name, "wrong", told(error))
    return Verdict(check.name, "note" if isinstance(found, Note) else "ok", found or check.claim)


# ---- what was played


def first_difference(one: Trace, two: Trace) -> str | None:
    """Where two traces differ first, in words."""
    for (place, mine), (_, theirs) in zip(one, two, strict=False):
        if mine != theirs:
            return place
    return None if len(one) == len(two) else "in their length"


def follows_from_seed(play: Callable[[int], Trace], fault: Callable[[str], str]) -> str | None:
    """Refuse what is not the same again under the same seed; `fault` says what to do, given the place of the difference."""
    first = play(SEED)
    if (place := first_difference(first, play(SEED))) is not None:
        raise Fault(fault(place))
    if all(first_difference(first, play(seed)) is None for seed in OTHER_SEEDS):
        return "the same seed gives the same episodes. Other seeds look alike: that is right if nothing in it is random"
    return None


def plays_alike_elsewhere(play: Callable[..., Trace], *arguments: Any) -> None:
    """Refuse what is played differently in another process."""
    if (place := first_difference(play(*arguments), elsewhere(play, *arguments))) is not None:
        raise Fault(
            f"in another process, with the same seed and actions, it plays differently {place}: do not depend on hash() of a"
            " text, the order of a set, the time, or on what was done in this process before."
        )


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Show a warning of Python's `warnings` once inside, wherever and however often it is raised."""
    shown = set[str]()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def once(message: Warning | str, *place: Any, **more: Any) -> None:
            if str(message) not in shown:
                show(message, *place, **more)
            shown.add(str(message))

        warnings.showwarning = once
        yield


# ---- global random states


@contextmanager
def new_global_states() -> Iterator[dict[str, bytes]]:
    """Set random global states, which no user's code can reproduce by seeding; restored afterwards."""
    with seeded_globals(np.random.SeedSequence()):
        yield shared_streams()


def compare_states(before: dict[str, bytes], call: str, repair: str) -> None:
    """Refuse a call that has changed a global random state."""
    if changed := changed_streams(before):
        raise Fault(f"{call} changed the state of {' and '.join(changed)}, which the whole process shares: {repair}")


# ---- another process


def elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a new process, in which texts have other hashes. What it returns can be pickled."""
    code = f"import sys; from {__name__} import answer; answer(sys.argv[1])"
    surroundings = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.curdir for path in sys.path),
        "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "call").open("wb") as file:
            Pickler(file).dump((function, arguments))
        try:
            done = subprocess.run(
                [sys.executable, "-c", code, name],
                env=surroundings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Fault(f"in another process the same episode took longer than {TIMEOUT_S:.0f} seconds.") from None
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise Fault(f"in another process it failed: {said[-1] if said else f'exit code {done.returncode}'}")
        return pickle.loads((folder / "answer").read_bytes())


def answer(folder: str) -> None:
    """What the other process runs."""
    function, arguments = pickle.loads(Path(folder, "call").read_bytes())
    Path(folder, "answer").write_bytes(pickle.dumps(function(*arguments)))
