"""The checks of `abreast check`: each verifies one part of the contract, and says how to repair what is wrong.

    for verdict in check_environment("my_module:MyEnv"):
        print(*verdict)

A check is skipped if it would only find the consequence of a fault that was found already: an environment that does not
depend on its seed alone cannot be replayed either, but the user is told of the first fault only. Environments are played
with generators of their own, as rollouts play those that draw from the ones that a process shares.
"""

import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import zip_longest
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Text
from gymnasium.utils.env_checker import check_env

from abreast.checking import (
    SEED,
    TIMEOUT_S,
    Check,
    Fault,
    Note,
    Skipped,
    Verdict,
    first_difference,
    judge,
    new_global_states,
    plays_alike_elsewhere,
)
from abreast.codec import encode_message
from abreast.errors import StateError, short
from abreast.rollouts.adapters import FourTuple, TextAdapter
from abreast.rollouts.adapters.actions import refusal
from abreast.rollouts.check.trial import (
    LIMIT_S,
    STEPS,
    Alone,
    Shown,
    Trial,
    digests_of,
    find_trial,
    raised,
    told,
    trace_of,
)
from abreast.rollouts.episodes.episode import Episode, is_picture
from abreast.streams import changed_streams

OTHER_SEEDS = range(2, 10)
INFO_KEYS = ("success", "action_is_valid", "action_is_effective")
JUNK_TEXTS = ("", " ", "no such action", "\x00", "√🙂", "[" * 1000, "9" * 5000)
Run = Callable[[Trial], str | None]


def check_environment(
    target: str, custom: Mapping[str, Any] | None = None, doing: Callable[[str], object] = lambda what: None
) -> Iterator[Verdict]:
    """Check an environment in a process of its own, which is killed if a call does not return.

    Args:
        target: the environment, named as in `abreast rollout`.
        custom: tags of the user.
        doing: called with what is done meanwhile.
    """
    return _watch(find_trial(target, custom), doing)


def _watch(trial: Trial, doing: Callable[[str], object]) -> Iterator[Verdict]:
    fork, checks, failed = multiprocessing.get_context("fork"), list(CHECKS), list[str]()
    while checks:
        mine, theirs = fork.Pipe(duplex=False)
        child = fork.Process(target=_send_verdicts, args=(checks, trial, failed, theirs))
        child.start()
        theirs.close()
        what, steps, limit_s = "it", None, LIMIT_S
        try:
            while checks:
                if not mine.poll(limit_s):
                    raise Fault(f"{what} has not returned after {limit_s:g} seconds: return, or raise, in less.")
                said = mine.recv()
                if isinstance(said, Verdict):
                    failed += [said.check] * (said.outcome == "wrong")
                    del checks[0]
                    yield said
                else:
                    what, steps, limit_s = said
                    doing(f"{checks[0].name}: {what.rstrip(',')}")
        except (Fault, EOFError) as error:
            child.kill()
            child.join()
            trial.steps = trial.steps if steps is None else steps
            failed.append(checks[0].name)
            ended = f"{what} ended the process (exit code {child.exitcode}): raise an exception instead."
            yield Verdict(checks.pop(0).name, "wrong", str(error) or ended)
        finally:
            child.kill()
            child.join()


def _send_verdicts(checks: Sequence[Check[Trial]], trial: Trial, failed: Sequence[str], pipe: Connection) -> None:
    os.dup2(2, 1)  # standard output has the verdicts: what an environment prints goes to standard error
    trial.doing = pipe.send
    for verdict in judge(checks, trial, told, failed):
        pipe.send(verdict)


def _if_replayable(check: Run) -> Run:
    """A check that compares episodes is skipped if the environment says that these cannot be replayed."""

    @wraps(check)
    def run(trial: Trial) -> str | None:
        if not getattr(trial.factory, "replayable", True):
            raise Skipped("the environment says that it cannot be replayed (replayable = False)")
        return check(trial)

    return run


# ---- the checks


def _can_begin(trial: Trial) -> None:
    next(trial.play_stepwise(trial.make(), SEED))


def _can_be_played(trial: Trial) -> None:
    env = trial.make()
    try:
        trial.play(env, SEED)
    except Fault as fault:
        space = getattr(env, "action_space", None)
        takes_texts = space is None or isinstance(env, TextAdapter) or isinstance(space, Text)
        if fault.__cause__ is None or trial.config.action_lookup or takes_texts:
            raise
        raise Fault(
            f"played with texts, as the manager plays it, {str(fault).rstrip('.')}: {refusal(space)} Or name its actions by"
            " number in action_lookup."
        ) from fault


def _understands_texts(trial: Trial) -> None:
    """Play an episode by the rules of the manager, which drops what names no action."""
    actions = trial.actions()
    for number, (_, turn) in enumerate(trial.turns(actions)):
        if turn.dropped:
            raise Fault(
                f"the action {short(actions[number - 1])}, number {number} of an episode, names no action, so the manager"
                " dropped it: list in info['available_actions'] only actions that there are."
            )


def _leaves_global_random_state_alone(trial: Trial) -> str | None:
    with new_global_states() as before:
        env = trial.make(is_alone=False)
        changed = ["making it"] * bool(changed_streams(before))
        for shown in () if changed else trial.play_stepwise(env, SEED, is_alone=False):
            changed += [shown.call] * bool(changed_streams(before))
        if not changed:
            return None
        return Note(
            f"{changed[0]} changed the state of {' and '.join(changed_streams(before))}, which the whole process shares:"
            " draw from self.np_random instead. Meanwhile, abreast gives each environment generators of its own, which takes"
            " 0.2 ms a turn."
        )


@_if_replayable
def _depends_on_its_seed(trial: Trial) -> str | None:
    env = trial.make()
    draw = "call super().reset(seed=seed) and draw all random numbers from self.np_random."
    old = _inside(env)
    if isinstance(old, FourTuple):
        draw = "draw all random numbers from a stream that is made from the seed."
        if not old.takes_seed:
            raise Fault(f"its reset takes no seed, and it has no method seed(seed): add one of them, and {draw}")
    first = trial.play(env, SEED)
    _compare(first, trial.play(trial.make(), SEED), f"two episodes with the same seed and actions differ PLACE: {draw}")
    others = [trial.play(env, seed) for seed in OTHER_SEEDS]
    is_whole = trial.steps == STEPS  # what is left of an episode may look alike by chance
    look_alike = is_whole and all(first_difference(trace_of(first), trace_of(other)) is None for other in others)
    if look_alike and not _draws(trial, env):
        raise Fault(f"{len(others) + 1} different seeds gave the same episode, so the seed changes nothing: {draw}")
    _compare(
        first,
        trial.play(env, SEED),
        f"reset(seed={SEED}) after another episode gives a different episode than in a new instance, PLACE: something is"
        " left over from the episode before; set all state in reset.",
    )
    if not is_whole:
        return "the same seed gives the same episode, up to the action that raised"
    if look_alike:
        return (
            "the same seed gives the same episode. Different seeds look alike, though it draws from its np_random: that is"
            " right if the random part is hidden from the player, else use what is drawn"
        )
    return None


@_if_replayable
def _shares_nothing(trial: Trial) -> None:
    alone = [trial.play(trial.make(), seed) for seed in (SEED, SEED + 1)]
    both = [trial.play_stepwise(trial.make(), seed) for seed in (SEED, SEED + 1)]
    for mine, theirs in zip(alone, zip(*zip_longest(*both), strict=True), strict=True):
        _compare(
            mine,
            [shown for shown in theirs if shown is not None],
            "two instances that are stepped alternately give other results than each one alone, PLACE: they share state,"
            " such as a random stream or a list of the module or the class; keep all state in self.",
        )


def _draws(trial: Trial, env: Any) -> bool:
    """Whether it draws from a random stream of its own that depends on its seed, even if nothing that is shown does."""
    states = []
    for seed in OTHER_SEEDS:
        trial.play(env, seed)
        stream = getattr(getattr(env, "unwrapped", env), "_np_random", None)
        if not isinstance(stream, np.random.Generator):
            return False
        fresh, _ = gymnasium.utils.seeding.np_random(seed)
        states.append((str(stream.bit_generator.state), str(fresh.bit_generator.state)))
    return len({state for state, _ in states}) == len(states) and all(state != fresh for state, fresh in states)


@_if_replayable
def _is_a_gymnasium_environment(trial: Trial) -> str | None:
    env = _inside(trial.make())
    if isinstance(env, FourTuple):
        raise Skipped(
            "its reset has not Gymnasium's form, which is reset(*, seed=None, options=None), so it is adapted"
        )
    if hasattr(env, "action_space"):
        env.action_space.seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_env(Alone(env) if isinstance(env, gymnasium.Env) else env, skip_render_check=True)
        except Exception as error:  # an assertion, usually; a rollout does not need what it asks for
            is_text = isinstance(getattr(env, "observation_space", None), Text) and "observation space" in str(error)
            hint = " A space of texts holds letters and digits only, unless charset= says otherwise." if is_text else ""
            says = f"says: {str(error).rstrip('.')}" if isinstance(error, AssertionError) else raised(error)
            return Note(f"Gymnasium's own check {says}.{hint}")
    return None


def _has_info_keys(trial: Trial) -> str | None:
    if not trial.steps:
        raise Skipped("no step could be taken")
    env = trial.make()
    first = trial.play(env, SEED)
    for shown in first[1:]:
        missing = [key for key in INFO_KEYS if key not in shown.info]
        wrong = [key for key in INFO_KEYS if not isinstance(shown.info.get(key, True), bool | np.bool_)]
        if wrong:
            raise Fault(
                f"info[{wrong[0]!r}] is {short(shown.info[wrong[0]])}: put it in, as True or False, at every step."
            )
        if missing:
            return Note(f"the info of step has no {', '.join(missing)}: put it in, as True or False, at every step.")
    again = zip(first, trial.play(trial.make(), SEED), strict=False)
    if other := sorted({str(key) for one, two in again for key in one.told if one.told[key] != two.told.get(key)}):
        return Note(
            f"the values of {short(other[0])} in info differ between two episodes with the same seed and actions, so the"
            " records of a rollout differ from run to run: leave out what depends on the time, say."
        )
    filled = [key for key in INFO_KEYS if key in getattr(env, "filled", ())]
    if not filled:
        return None
    rule = " (success: the episode has ended with a high enough reward)" if "success" in filled else ""
    return f"has no {', '.join(filled)}, so abreast fills it in{rule}; put it in if you know better"


def _renders_text_or_images(trial: Trial) -> None:
    for shown in trial.play(trial.make(), SEED):
        seen = shown.observation if shown.render is None else shown.render
        pictures = seen if isinstance(seen, list | tuple) else [seen]
        if (
            isinstance(seen, str)
            or (seen is None and shown.done)
            or (pictures and all(is_picture(picture) for picture in pictures))
        ):
            continue
        what = "render returned None and the observation" if shown.render is None else "what render returned"
        raise Fault(
            f"{what} is {short(seen)}: let render return a text, or arrays of height x width x 3 in uint8, and set"
            " render_mode to something else than None."
        )


def _accepts_junk(trial: Trial) -> None:
    """Play odd texts by the rules of the manager: what names no action never reaches the environment."""
    for junk in JUNK_TEXTS:
        episode = Episode(trial.make, trial.config)
        turn = episode.start(SEED)
        trial.doing((f"the action {short(junk)}", None, LIMIT_S))
        if turn.failure is None:
            turn = episode.take([junk], 1)
        if turn.failure is not None:
            raise Fault(
                f"the action {short(junk)} raised {turn.failure}: change nothing for an unknown action, and set"
                " info['action_is_valid'] to False."
            )


def _can_be_sent(trial: Trial) -> str | None:
    try:
        pickle.loads(pickle.dumps((trial.factory, trial.config)))
    except Exception as error:
        return Note(
            f"it cannot be pickled ({type(error).__name__}: {error}), so it is only played in the main process: give a"
            " class or a function that a module has under its own name, not a lambda or a local one."
        )
    for shown in trial.play(trial.make(), SEED):
        try:
            encode_message(shown.info)
        except StateError as error:
            return Note(
                f"the info of {shown.call} cannot be sent to another process ({error}), so it is only played in the main"
                " process: put in numbers, texts, lists, dicts and arrays; of an enumeration, its value."
            )
    return None


@_if_replayable
def _replays(trial: Trial) -> None:
    *_, (episode, _) = trial.turns(trial.actions())
    again = Episode(trial.make, trial.config)
    again.rebuild(SEED, episode.executed, None)
    if again.take_digest()[1] != episode.take_digest()[1]:
        raise Fault(
            "replayed with the same seed and actions, but without render after each step, it comes to another state, so it"
            " cannot be rebuilt after a crash: render must not change the state."
        )


@_if_replayable
def _is_the_same_in_another_process(trial: Trial) -> None:
    actions = trial.actions()
    trial.doing(("an episode in another process", None, 2 * TIMEOUT_S))
    plays_alike_elsewhere(digests_of, trial.target, trial.custom, actions)


START, PLAY, GLOBAL, SEEDED = "start", "episode", "global random state", "seed"
RENDER, REPLAY = "render", "replay"
SOUND = (START, SEEDED)
CHECKS: tuple[Check[Trial], ...] = (
    Check(START, "can be made, reset and rendered", _can_begin),
    Check(PLAY, "can be stepped", _can_be_played, [START]),
    Check(GLOBAL, "is not changed", _leaves_global_random_state_alone, [START]),
    Check(SEEDED, "the same seed gives the same episode, other seeds give others", _depends_on_its_seed, [START]),
    Check("instances", "share no state", _shares_nothing, SOUND),
    Check("gymnasium", "passes Gymnasium's own check", _is_a_gymnasium_environment, [PLAY, *SOUND]),
    Check("info", f"has {', '.join(INFO_KEYS)}", _has_info_keys, [START]),
    Check(RENDER, "returns text or RGB arrays", _renders_text_or_images, [START]),
    Check("texts", "are understood as the manager sends them", _understands_texts, [START, PLAY, RENDER]),
    Check("junk actions", "do not raise", _accepts_junk, [START, PLAY]),
    Check("pickling", "can be sent to a worker process", _can_be_sent, [START]),
    Check(REPLAY, "a replay comes to the same state", _replays, [*SOUND, RENDER]),
    Check("other processes", "lead to the same states", _is_the_same_in_another_process, [*SOUND, RENDER, REPLAY]),
)


# ---- inside


def _inside(env: Any) -> Any:
    """What is inside the adapter for texts: the environment itself, or that of the old form."""
    return env.inner if isinstance(env, TextAdapter) else env


def _compare(one: Sequence[Shown], two: Sequence[Shown], says: str) -> None:
    """Refuse episodes that differ, with the PLACE where they do first."""
    where = first_difference(trace_of(one), trace_of(two))
    if where is not None:
        raise Fault(says.replace("PLACE", where))
