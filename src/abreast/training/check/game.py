"""The checks of a game: each verifies one part of the contract of `Environment`, and says how to repair what is wrong.

    for verdict in check_game(find_game("my_module:MyGame")):
        print(*verdict)

Those in PLAYED ask for a `Playable` alone: environments of other libraries are checked by them, too.

Agents act at random, each from a stream of its lane, so that a lane is given the same actions whatever is played beside it.
What is compared are the rows of their memories: what each agent saw, did and got. Only the last check trains.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abreast.checking import (
    SEED,
    Check,
    Fault,
    Note,
    Trace,
    Verdict,
    compare_states,
    first_difference,
    follows_from_seed,
    judge,
    new_global_states,
    plays_alike_elsewhere,
)
from abreast.codec import digest
from abreast.errors import short
from abreast.models import RandomModel
from abreast.streams import seeded_globals, shared_streams
from abreast.training.actors.base import models_of
from abreast.training.actors.process import why_not_built
from abreast.training.check.telling import SMALL, describe_error, trains_alike
from abreast.training.collect import PLAYING, check_observation, collect_pass
from abreast.training.config import Config
from abreast.training.devices import compute_threads
from abreast.training.environment import BUILDING, Environment
from abreast.training.experiment import Experiment
from abreast.worlds.playable import Played

TURNS = 12
"""Turns of an epoch that is played for a check, at most; late rewards are looked for in epochs of MOST_TURNS too."""
MOST_TURNS = 100
ONE_LANE = ("multiprocessing.num_envs=1", "multiprocessing.num_actors=1")
TWO_LANES = "multiprocessing.num_envs=2"
DRAW = "draw from self.world.rng instead (in an agent or entity, from world.rng)."
WHY = " A run seeds these generators, so it can be repeated; but lanes that draw from them influence each other."


def check_game(game: Any, overrides: Sequence[str] = ()) -> Iterator[Verdict]:
    """Check an `abreast.games.AnyGame`, with settings of the user's over its own."""
    return check_played(GameTrial(game, settings=overrides), CHECKS)


def check_played(trial: "GameTrial", checks: Sequence[Check[Any]]) -> Iterator[Verdict]:
    """Check whatever can be played and trained."""
    with compute_threads(1):  # as in a run
        yield from judge(checks, trial, describe_error)


# ---- playing


class ScriptedModel(RandomModel):
    """Acts at random, from a stream for each lane and epoch, and looks at every observation."""

    number = 0
    """Of its agent."""

    def start_epoch_action(self, *, epoch: int) -> None:
        super().start_epoch_action(epoch=epoch)
        self._streams = [np.random.default_rng([self.number, lane, epoch]) for lane in range(self.memory.lanes)]

    def take_action(self, state: NDArray[Any], lane: int = 0) -> Any:
        check_observation(self.number, self, state)
        if self.action_box is not None:
            return self._streams[lane].uniform(-1.0, 1.0, self.n_actions)
        return self.drawn_action(self._streams[lane].random(), lane)


class Record(NamedTuple):
    """An epoch in one lane."""

    played: Played
    earned: Sequence[float]
    """Per agent, the rewards of its steps, added up."""
    trace: Trace
    """What each agent saw and got in each of its steps, and the result."""


@dataclass
class GameTrial:
    """A game, as its checks build and play it."""

    game: Any
    """An `abreast.games.AnyGame`. (Its module stands on this one.)"""
    draw: str = "draw all random numbers from self.world.rng"
    """Where its random numbers have to come from, in words."""
    settings: Sequence[str] = ()
    """It is checked with these."""

    def configure(self, *overrides: str) -> Config[Any, Any]:
        """Settings for an epoch that takes little time."""
        own = self.game.configure(None, self.settings)
        usual = [*self.settings, f"experiment.max_turns={min(TURNS, own.experiment.max_turns)}", *ONE_LANE, *SMALL]
        if getattr(own.world, "batched", False) is True:
            usual.append("world.batched=false")  # objects are looked at
        return self.game.configure(None, [*usual, *overrides])  # type: ignore[no-any-return]

    def build(self, *overrides: str) -> Experiment:
        """An experiment whose agents act at random."""
        return scripted(self.game.build(self.configure(*overrides)))

    def close(self) -> None:
        """There is nothing to close."""


def scripted(env: Experiment) -> Experiment:
    """The experiment, with other models."""
    lanes = env.config.multiprocessing.lanes
    rows = lanes * (2 * env.config.experiment.max_turns + 4)
    config = env.config.model.model_copy(update={"n_frames": 1, "buffer_capacity": rows})
    players: Sequence[Any] = env.game.players
    for number, player in enumerate(players):
        own = player.model
        player.model = ScriptedModel(own.observation, own.chooses_from, config, env.agent_seed(number), lanes)
        player.model.number = number
    return env


def play(
    env: Experiment, epoch: int = 0, lanes: int = 1, first: int = 0, on_turn: Callable[[], None] | None = None
) -> list[Record]:
    """Play an epoch in each lane, from the first on."""
    models = models_of(env.game)
    before = [model.memory.written.tolist() for model in models]
    records = []
    played = collect_pass(env.game, epoch, lanes, env.config.experiment.seed, on_turn=on_turn)
    for lane, result in enumerate(played, first):
        trace: list[tuple[str, Any]] = []
        lived = [each.memory.trajectory(lane, start[lane]) for each, start in zip(models, before, strict=True)]
        for step in range(max(len(each.rewards) for each in lived)):
            for agent, each in enumerate(lived):
                what = {"observation": each.states, "reward": each.rewards, "end of the episode": each.dones}
                trace += [
                    (f"in the {name} of agent {agent} at its step {step + 1}", rows[step : step + 1].tobytes())
                    for name, rows in what.items()
                ]
        trace.append((f"in their length ({result.turns} turns)", result.turns))
        trace.append((f"in the scores ({short(result.reward_per_agent)})", result.reward_per_agent))
        trace.append((f"in the metrics ({short(result.metrics)})", repr(result.metrics)))  # NaN is not equal to itself
        records.append(Record(result, [float(each.rewards.sum(dtype=np.float64)) for each in lived], trace))
    return records


def traced(records: Sequence[Record]) -> Trace:
    """Epochs, one after the other."""
    return [each for record in records for each in record.trace]


# ---- the checks


def _can_be_played(trial: GameTrial) -> None:
    play(trial.build())


def _leaves_global_random_state_alone(trial: GameTrial) -> None:
    kind, config = trial.game.environment, trial.configure()
    with new_global_states() as before:
        world = kind.make_world(config)
        compare_states(before, "make_world", "let the world draw from its own rng, in create_world or later." + WHY)
        env = kind.__new__(kind)
        building = _states_in(np.random.SeedSequence(SEED, spawn_key=(BUILDING,)))

        def populate() -> None:  # the last that __init__ calls
            kind.populate_environment(env)
            compare_states(building, "building it (create_world, setup_agents, populate_environment)", DRAW + WHY)

        vars(env)["populate_environment"] = populate
        env.__init__(world, config)
        compare_states(before, "__init__", DRAW + WHY)
    del vars(env)["populate_environment"]
    playing = _states_in(np.random.SeedSequence(SEED), PLAYING, 0)
    play(scripted(env), on_turn=lambda: compare_states(playing, "playing it (reset, turns)", DRAW + WHY))


def _states_in(seed: np.random.SeedSequence, *path: int) -> dict[str, bytes]:
    """The global random states that a run sets for something."""
    with seeded_globals(seed, *path):
        return shared_streams()


def _depends_on_its_seed(trial: GameTrial) -> str | None:
    def two_epochs(seed: int) -> Trace:
        env = trial.build(f"experiment.seed={seed}")
        return [*traced(play(env, 0)), *traced(play(env, 1))]

    return follows_from_seed(
        two_epochs,
        lambda place: (
            f"two environments with the same seed and the same actions differ {place}: {trial.draw}, and keep what changes"
            f" in attributes of self, not of a class or a module.{_suspects(trial)}"
        ),
    )


def _has_true_lanes(trial: GameTrial) -> str | None:
    for lane, record in enumerate(play(trial.build(TWO_LANES), lanes=2)):
        env = trial.build(TWO_LANES)
        if lane:
            env.game.become_actor(lane)
        if (place := first_difference(traced(play(env, first=lane)), record.trace)) is not None:
            raise Fault(
                f"lane {lane} played beside another gives other results than played alone, {place}: the lanes share"
                " something that changes, such as a list of a class or a module; make it an attribute, in __init__ or"
                f" populate_environment.{_suspects(trial)}"
            )
    changes = _suspects(trial)
    told = f"played side by side give the same as alone.{changes} Let nothing in the game depend on it"
    return Note(told) if changes else None


def _suspects(trial: GameTrial) -> str:
    """Attributes of classes and modules that change while the game is played."""
    env = trial.build()
    if not isinstance(env, Environment):
        return ""
    before = _shared_values(env)
    play(env)
    changed = [name for name, value in _shared_values(env).items() if before.get(name) != value]
    return f" While it is played, {', '.join(sorted(changed))} changes." if changed else ""


def _shared_values(env: Environment) -> dict[str, bytes | None]:
    """What all environments of a process share: attributes of the user's classes and of their modules."""
    things = [env, env.world, *env.agents, *env.world.map.flat]
    classes = {base for thing in things for base in type(thing).__mro__}
    own = {each for each in classes if not each.__module__.startswith(("abreast.", "builtins"))}
    modules = {sys.modules[each.__module__] for each in own if each.__module__ in sys.modules}
    holders: set[Any] = own | modules
    return {
        f"{holder.__name__}.{name}": digest(value, {})
        for holder in holders
        for name, value in vars(holder).items()
        if not name.startswith("__") and not callable(value) and not isinstance(value, ModuleType | property)
    }


def _outlives_reset(trial: GameTrial) -> None:
    env = trial.build(TWO_LANES)
    play(env, 0, lanes=2)
    state = env.game.state()
    for name, unkept in state.facts.items():
        if name.endswith("unkept") and unkept:
            reason = str(next(iter(unkept.values()))).rstrip(".")
            raise Fault(f"{reason}: a run of it cannot be resumed. Make it anew in populate_environment.")
    expected = traced(play(env, 1, lanes=2))
    other = trial.build(TWO_LANES)
    other.game.set_state(state)
    if (place := first_difference(expected, traced(play(other, 1, lanes=2)))) is not None:
        raise Fault(
            f"an actor that takes over from another, after an epoch, plays on differently, {place}: what outlives an epoch"
            " is in something that state() does not have. Keep it in an attribute of the environment, the world or an"
            " agent, or make it anew when an epoch begins (populate_environment, reset)."
        )


def _is_the_same_in_another_process(trial: GameTrial) -> None:
    env = trial.build(TWO_LANES, "multiprocessing.num_actors=2")
    if (reason := why_not_built(env, in_processes=True)) is not None:
        raise Fault(f"{reason}.")
    plays_alike_elsewhere(_as_actor, env.factory)


def _as_actor(factory: Callable[[], Experiment]) -> Trace:
    """What an actor plays that builds its environment anew."""
    env = scripted(factory())
    env.game.become_actor(1)
    return traced(play(env, first=1))


def _remembers_every_reward(trial: GameTrial) -> None:
    own = min(MOST_TURNS, trial.game.configure().experiment.max_turns)
    for order in ("sequential", "simultaneous"):
        for turns in sorted({1, 2, own}):
            env = trial.build(f"experiment.max_turns={turns}", f"experiment.turn_order={order}")
            for record in play(env):
                for agent, (score, earned) in enumerate(
                    zip(record.played.reward_per_agent, record.earned, strict=True)
                ):
                    if abs(score - earned) > 1e-4 * (1 + abs(score)):
                        raise Fault(
                            f"after {record.played.turns} turn(s) in the turn order {order}, agent {agent} has a score of"
                            f" {score:g}, but the rewards in its memory add up to {earned:g}: let `act` return its"
                            " reward, `give` an agent what arises in another's turn, and leave `score` alone."
                        )


def _trains_alike(trial: GameTrial) -> str | None:
    remedy = f"{trial.draw}; and `abreast check` its model, as MODULE:MODEL."
    return trains_alike(lambda: trial.game.build(trial.configure(TWO_LANES)), remedy)


PLAY, GLOBAL, SEEDED, LANES, STATE = "episode", "global random state", "seed", "lanes", "state"
SOUND = (PLAY, GLOBAL, SEEDED)
CAN_PLAY = Check(PLAY, "can be built and played; observations fit their spec, rewards are finite", _can_be_played)
PLAYED: tuple[Check[GameTrial], ...] = (
    Check(SEEDED, "the same seed gives the same epochs, other seeds give others", _depends_on_its_seed, [PLAY, GLOBAL]),
    Check(LANES, "played side by side give the same as alone", _has_true_lanes, SOUND),
    Check(STATE, "an actor that takes over plays on alike", _outlives_reset, [*SOUND, LANES]),
    Check(
        "several actors", "one in another process plays alike", _is_the_same_in_another_process, [*SOUND, LANES, STATE]
    ),
    Check("training", "learners in processes learn what the sequential run does", _trains_alike, [*SOUND, LANES]),
)
CHECKS: tuple[Check[GameTrial], ...] = (
    CAN_PLAY,
    Check(GLOBAL, "is not changed by building and playing", _leaves_global_random_state_alone, [PLAY]),
    Check("late rewards", "every reward of a score is in the agent's memory", _remembers_every_reward, SOUND),
    *PLAYED,
)
