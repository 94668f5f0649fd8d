"""The contract of an environment, check by check, and how to repair one that does not keep it.

    for verdict in check_environment("my_module:MyEnv"):
        print(*verdict)

What follows from another fault is not judged: an environment that draws from global random state cannot keep to its seed
either, and is told of the first alone.
"""

import pickle
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

from abreast.errors import short
from abreast.rollouts.check.trial import SEED, Fault, Moment, Subject, begin, find_subject, raised, step
from abreast.rollouts.episodes.episode import Episode, is_picture

OTHER_SEEDS = range(2, 10)
TOLD = ("success", "action_is_valid", "action_is_effective")
JUNK_TEXTS = ("", " ", "no such action", "\x00", "√🙂", "[" * 1000, "9" * 5000)
JUNK_NUMBERS = (-1, 10**9)


class Verdict(NamedTuple):
    """What a check came to."""

    check: str
    outcome: Literal["ok", "wrong", "skipped"]
    remark: str
    """What was found to hold; what is wrong and what to do; or why it was skipped."""


def check_environment(target: str) -> Iterator[Verdict]:
    """Check an environment, given as MODULE:ENV or by the name of its type."""
    subject = find_subject(target)
    failed: set[str] = set()
    for check in CHECKS:
        cause = next((name for name in check.needs if name in failed), None)
        if cause is not None:
            verdict = Verdict(check.name, "skipped", f"first repair: {cause}")
        else:
            verdict = _judge(check, subject)
        if verdict.outcome == "wrong":
            failed.add(check.name)
        yield verdict


# ---- the checks


def _can_be_played(subject: Subject) -> None:
    subject.play(subject.make(), SEED)


def _leaves_global_random_state_alone(subject: Subject) -> None:
    with _new_global_states() as before:
        env = subject.make()
        _compare_states(before, "making it")
        for moment in subject.moments(env, SEED):
            _compare_states(before, moment.call)


def _depends_on_its_seed(subject: Subject) -> str | None:
    env = subject.make()
    first = subject.play(env, SEED)
    draw = "call super().reset(seed=seed) and draw all that is random from self.np_random."
    place = _first_difference(first, subject.play(subject.make(), SEED))
    if place is not None:
        raise Fault(f"two episodes with the same seed and the same actions differ {place}: {draw}")
    others = [subject.play(env, seed) for seed in OTHER_SEEDS]
    shows_nothing = all(_first_difference(first, other) is None for other in others)
    if shows_nothing and not _draws(subject, env):
        raise Fault(f"{len(others) + 1} different seeds gave the same episode, so the seed changes nothing: {draw}")
    place = _first_difference(first, subject.play(env, SEED))
    if place is not None:
        raise Fault(
            f"reset(seed={SEED}) of an environment that has been played before gives another episode than that of a fresh"
            f" one, {place}: something is left over, set everything anew in reset."
        )
    if shows_nothing:
        return "it draws from its own stream, but nothing that was seen depends on it: so be it, if it keeps a secret"
    return None


def _shares_nothing(subject: Subject) -> None:
    alone = [subject.play(subject.make(), seed) for seed in (SEED, SEED + 1)]
    both = [subject.moments(subject.make(), seed) for seed in (SEED, SEED + 1)]
    together: list[list[Moment]] = [[], []]
    for pair in zip_longest(*both):
        for episode, moment in zip(together, pair, strict=True):
            episode += [moment] if moment is not None else []
    places = [_first_difference(mine, theirs) for mine, theirs in zip(alone, together, strict=True)]
    place = next((place for place in places if place is not None), None)
    if place is not None:
        raise Fault(
            f"two of them, played by turns, come to something else than each alone, {place}: they share something, such as a"
            " random stream or a list of the module or the class; keep everything in self."
        )


def _draws(subject: Subject, env: Any) -> bool:
    """Whether it draws from a stream of its own that follows its seed, be it that nothing shows it: a secret may be kept."""
    states = []
    for seed in OTHER_SEEDS:
        subject.play(env, seed)
        stream = getattr(getattr(env, "unwrapped", env), "_np_random", None)
        if not isinstance(stream, np.random.Generator):
            return False
        fresh, _ = gymnasium.utils.seeding.np_random(seed)
        states.append((str(stream.bit_generator.state), str(fresh.bit_generator.state)))
    return len({state for state, _ in states}) == len(states) and all(state != fresh for state, fresh in states)


def _is_a_gymnasium_environment(subject: Subject) -> None:
    env = subject.make()
    if hasattr(env, "action_space"):
        env.action_space.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_env(env, skip_render_check=True)
        except (AssertionError, TypeError, AttributeError, gymnasium.error.Error) as error:
            raise Fault(f"Gymnasium's own check says: {str(error).rstrip('.')}.{_about_text(env)}") from error


def _about_text(env: Any) -> str:
    """What is most often the matter with spaces of text."""
    space = getattr(env, "observation_space", None)
    text = begin(env, SEED)[0]
    if not isinstance(space, gymnasium.spaces.Text) or not isinstance(text, str) or text in space:
        return ""
    strange = "".join(sorted(set(text) - space.character_set))
    if strange:
        return f" The charset of its observation_space, a space of text, lacks {short(strange)}: give charset=."
    allowed = f"{space.min_length} to {space.max_length}"
    return f" Its first observation has {len(text)} characters, its observation_space allows {allowed}."


def _tells_what_it_should(subject: Subject) -> None:
    for moment in subject.play(subject.make(), SEED)[1:]:
        missing = [key for key in TOLD if key not in moment.info]
        if missing:
            raise Fault(f"the info of step has no {', '.join(missing)}: put it in, as True or False, at every step.")
        for key in TOLD:
            if not isinstance(moment.info[key], bool | np.bool_):
                raise Fault(f"info[{key!r}] is {short(moment.info[key])}: make it True or False.")


def _shows_text_or_pictures(subject: Subject) -> None:
    for moment in subject.play(subject.make(), SEED):
        seen = moment.observation if moment.shown is None else moment.shown
        pictures = seen if isinstance(seen, list | tuple) else [seen]
        if isinstance(seen, str) or (pictures and all(is_picture(picture) for picture in pictures)):
            continue
        what = "render gives nothing and the observation" if moment.shown is None else "what render gives"
        raise Fault(
            f"{what} is {short(seen)}: let render return a text, or arrays of height x width x 3 in uint8, and set"
            " render_mode to something else than None."
        )


def _bears_junk(subject: Subject) -> None:
    env = subject.make()
    is_text = isinstance(getattr(env, "action_space", None), gymnasium.spaces.Text)
    for junk in (*JUNK_TEXTS, *(() if is_text else JUNK_NUMBERS)):
        begin(env, SEED)
        try:
            step(env, junk)
        except Fault:
            raise
        except Exception as error:
            raise Fault(
                f"the action {short(junk)} {raised(error)}: change nothing for an unknown action, and set"
                " info['action_is_valid'] to False."
            ) from error


def _can_be_sent(subject: Subject) -> None:
    try:
        pickle.loads(pickle.dumps((subject.factory, subject.config)))
    except Exception as error:
        raise Fault(
            f"it cannot be pickled ({type(error).__name__}: {error}), so it could only be played in the main process:"
            " give a class or a function that a module has under its own name, not a lambda or a local one."
        ) from error


def _comes_to_the_same_when_played_again(subject: Subject) -> None:
    digests, episode = subject.digests(subject.actions())
    again = Episode(subject.make, subject.config)
    again.start(SEED, episode.executed)
    if again.take_digest()[1].hex() != digests[-1]:
        raise Fault(
            "played again with the same seed and actions, without being rendered in between, it comes to another state, so"
            " it cannot be rebuilt after a crash: let render only look."
        )


def _comes_to_the_same_elsewhere(subject: Subject) -> None:
    actions = subject.actions()
    here, _ = subject.digests(actions)
    there = subject.digests_elsewhere(actions)
    if here != there:
        turn = next(number for number, pair in enumerate(zip(here, there, strict=True)) if pair[0] != pair[1])
        place = "at the start" if turn == 0 else f"after step {turn}"
        raise Fault(
            f"in another process the same seed and actions come to another state {place}: nothing may depend on hash() of a"
            " text, the order of a set, the time or the process."
        )


class Check(NamedTuple):
    """A check, what it finds to hold, and the checks without which it says nothing new."""

    name: str
    claim: str
    run: Callable[[Subject], str | None]
    """Raises a `Fault`; may return what it found, if that is not just what is claimed."""
    needs: Sequence[str] = ()


PLAY, GLOBAL, SEEDED, RENDER, REPLAY = "episode", "global random state", "seed", "render", "replay"
SOUND = (PLAY, GLOBAL, SEEDED)
CHECKS = (
    Check(PLAY, "can be made, reset, stepped and shown", _can_be_played),
    Check(GLOBAL, "left alone", _leaves_global_random_state_alone, [PLAY]),
    Check(SEEDED, "the same seed gives the same episode, others give others", _depends_on_its_seed, [PLAY, GLOBAL]),
    Check("instances", "share nothing", _shares_nothing, SOUND),
    Check("gymnasium", "passes Gymnasium's own check", _is_a_gymnasium_environment, SOUND),
    Check("info", f"tells {', '.join(TOLD)}", _tells_what_it_should, [PLAY]),
    Check(RENDER, "gives text or RGB arrays", _shows_text_or_pictures, [PLAY]),
    Check("junk actions", "do not raise", _bears_junk, [PLAY]),
    Check("pickling", "can be sent to a worker process", _can_be_sent),
    Check(REPLAY, "comes to the same state when played again", _comes_to_the_same_when_played_again, [*SOUND, RENDER]),
    Check("other processes", "come to the same state", _comes_to_the_same_elsewhere, [*SOUND, RENDER, REPLAY]),
)


# ---- inside


def _judge(check: Check, subject: Subject) -> Verdict:
    try:
        try:
            found = check.run(subject)
        finally:
            subject.close()
    except Fault as fault:
        return Verdict(check.name, "wrong", str(fault))
    except (Exception, SystemExit) as error:
        return Verdict(check.name, "wrong", f"it {raised(error)}.")
    return Verdict(check.name, "ok", found or check.claim)


def _first_difference(one: Sequence[Moment], two: Sequence[Moment]) -> str | None:
    """Where two episodes come apart, in words."""
    for number, (mine, theirs) in enumerate(zip(one, two, strict=False)):
        if not mine.equals(theirs):
            return "at the start" if number == 0 else f"after step {number}"
    return None if len(one) == len(two) else "in their length"


@contextmanager
def _new_global_states() -> Iterator[dict[str, bytes]]:
    """States that nobody can come back to by seeding anew; afterwards they are as before."""
    plain, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002 (the global one is what this is about)
    torch = sys.modules.get("torch")
    torchs = torch.get_rng_state() if torch is not None else None
    try:
        random.seed()
        np.random.seed()  # noqa: NPY002
        if torch is not None:
            torch.seed()
        yield _global_states()
    finally:
        random.setstate(plain)
        np.random.set_state(numpys)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(torchs)


def _global_states() -> dict[str, bytes]:
    """The global random states there are; torch has one only where somebody has imported it."""
    states = {
        "the module random": pickle.dumps(random.getstate()),
        "numpy.random": pickle.dumps(np.random.get_state()),  # noqa: NPY002
    }
    if "torch" in sys.modules:
        states["torch"] = sys.modules["torch"].get_rng_state().numpy().tobytes()
    return states


def _compare_states(before: dict[str, bytes], call: str) -> None:
    changed = [name for name, state in _global_states().items() if state != before.get(name, state)]
    if changed:
        raise Fault(
            f"{call} changed that of {' and '.join(changed)}, which everything else in the process"
            " shares: draw from self.np_random instead."
        )
