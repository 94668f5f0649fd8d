"""Lanes shared out by number: the first ones are played here, the others by actors in processes or threads of their own.

An actor keeps nothing that it cannot get again: a pass starts with fresh worlds, from the states of its lanes that it told
after the pass before. One that dies is replaced, its half pass is forgotten, and its successor plays the pass again.
"""

import io
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from abreast.errors import ConfigError, WorldError, log
from abreast.models import ALGORITHMS, BaseModel
from abreast.processes.backend import ChildContext, ChildSpec, Work
from abreast.processes.memory import SharedBlock
from abreast.processes.pickling import Pickler
from abreast.processes.process import comes_from_main
from abreast.processes.ring import Ring
from abreast.processes.shares import RowsShare
from abreast.processes.spans import span
from abreast.processes.team import Answered, Died, Lost, RestartPolicy, Team
from abreast.state import State, copied
from abreast.training.actors.base import Play, actor_state, cut_episodes, models_of
from abreast.training.actors.inline import InlineActors
from abreast.training.collect import collect_pass
from abreast.training.config import Config, MPConfig
from abreast.training.learners.hosted import HostedLearners, make_backend, start_s
from abreast.training.published import Published, adopt_published
from abreast.training.runnable import Factory, Runnable
from abreast.worlds.playable import Playable, Played

DRAWS = (
    "the game draws from generators that a process shares (random, numpy.random or torch; let it draw from world.rng)"
)
"""Why one actor plays all lanes: these generators are others in every process."""
OF_LEARNING = frozenset(
    {"Config", "acting", "setup", "initialise", "memory_options", "train_step", "loss", "loss_of", "learn", "new_rows"}
    | {"draws", "descend"}
)
"""What a subclass of one of our algorithms may have of its own without choosing otherwise."""


class Passed(NamedTuple):
    """An answer: a pass is played and remembered."""

    played: list[Played]
    lanes: dict[int, State]
    """Where that leaves the actor's lanes."""
    why_alone: str | None
    """What was seen by which lanes have to be played by one actor, if anything was."""


class ActorProcess(Work):
    """The work of an actor in a process (or thread) of its own."""

    def __init__(
        self,
        context: ChildContext,
        factory: Factory,
        block: SharedBlock,
        published: Sequence[Published],
        compute_threads: int,
        lanes: range,
        states: Mapping[int, State],
        kinds: Sequence[str],
        acting: Sequence[State],
    ) -> None:
        """`states` says where its lanes are; `kinds` are those of the models, `acting` is where their choosing is."""
        torch.set_num_threads(compute_threads)
        self._context, self._published, self._lanes = context, published, lanes
        experiment = factory()
        experiment.factory = factory  # its lanes are built by it too
        self._game: Playable = experiment.game
        self._models = models_of(self._game)
        if len(self._models) != len(published):
            raise ConfigError(f"the environment's factory made {len(self._models)} agents, expected {len(published)}.")
        made = [type(model).__qualname__ for model in self._models]
        if made != list(kinds):  # with the weights of which they are to choose
            raise ConfigError(
                f"the environment's factory made models {', '.join(made)}, but those of the first actor are"
                f" {', '.join(kinds)}: make them in setup_agents, or set env.factory to a function that builds all of it."
            )
        self._game.become_actor(lanes.start)
        for agent, model in enumerate(self._models):
            model.memory.use(Ring(block.part(f"replay{agent}.")))
            model.own_attributes.guard()
            model.set_acting_state(acting[agent])
        self._game.set_lane_states(states)

    def obey(self, key: Hashable, order: Play) -> None:
        """Play a pass."""
        for agent, model in enumerate(self._models):
            adopt_published(model, self._published[agent], order.versions[agent])
            model.epsilon = order.epsilons[agent]
        self._context.answer(key, _play_lanes(self._game, order, self._lanes, beat=self._context.beat))


def _play_lanes(game: Playable, order: Play, lanes: range, **calls: Callable[[], None] | None) -> Passed:
    """Play some lanes of a pass."""
    drawn: list[str] = []
    played = collect_pass(
        game, order.epoch, order.lanes, order.seed, on_shared_draws=lambda: drawn.append(DRAWS), **calls
    )
    states = _lane_states(game, lanes)
    return Passed(played, states, drawn[0] if drawn else _why_not_sent(states))


def _lane_states(game: Playable, lanes: Iterable[int]) -> dict[int, State]:
    """Where lanes are: states that stay as they are, whatever is played then."""
    return {lane: copied(state) for lane, state in game.lane_states(lanes).items()}


def _why_not_sent(states: Mapping[int, State]) -> str | None:
    """Why lanes cannot be played on by another actor from these states."""
    for lane, state in states.items():
        for reason in state.facts.get("own.unkept", {}).values():
            return f"of lane {lane}, {reason.rstrip('.')}"
    return None


class ProcessActors:
    """Plays the first lanes in this thread while others play theirs elsewhere.

    A world that draws from generators that its process shares would draw others in each process; one that holds what cannot
    be sent could not be played on elsewhere. When that is seen, the pass is forgotten and played again by one actor with
    all lanes, which plays from then on.
    """

    def __init__(self, game: Playable, factory: Factory, learners: HostedLearners, whole: Config[Any, Any]) -> None:
        """The actors share the `multiprocessing.num_envs` lanes in equal parts. They go on from where the lanes are."""
        self._game, self._factory, self._learners = game, factory, learners
        config: MPConfig = whole.multiprocessing
        self._config, self._compute_threads = config, whole.experiment.compute_threads
        self._models = models_of(game)
        self._acting = [copied(model.acting_state()) for model in self._models]
        self._here = self._share(0)
        self._elsewhere = [self._share(number) for number in range(1, config.actors)]
        """The lanes of each worker."""
        self._states = _lane_states(game, range(config.lanes))
        """Where each lane was after its last pass."""
        self._orders: dict[int, Play] = {}
        """Passes under way, by worker."""
        self._deaths = [0] * len(self._elsewhere)
        self._written_before: list[list[int]] = []
        self._waited_s = 0.0
        self._alone: InlineActors | None = None
        """Plays all lanes, once it was seen that one has to."""
        policy = RestartPolicy(config.max_restarts, config.actor_timeout, start_s(config))
        self.team = Team(make_backend(config, "actor"), self._spec, len(self._elsewhere), policy)
        self.team.start(wait=config.workers == "threads")

    def _share(self, actor: int) -> range:
        lanes = self._config.lanes_per_actor
        return range(actor * lanes, (actor + 1) * lanes)

    def _spec(self, worker: int) -> ChildSpec:
        lanes = self._elsewhere[worker]
        published = [place.for_reader(worker + 1) for place in self._learners.published]
        states = {lane: self._states[lane] for lane in lanes}
        kinds = [type(model).__qualname__ for model in self._models]
        arguments = (
            self._factory,
            self._learners.block,
            published,
            self._compute_threads,
            lanes,
            states,
            kinds,
            self._acting,
        )
        made_of = (
            self._factory,
            getattr(self._factory, "kind", None),
            getattr(self._factory, "world", None),
        )  # a Blueprint
        weights = tuple(place.share(whole=False) for place in published)
        rows = tuple(RowsShare(f"replay{agent}.", lanes) for agent in range(len(published)))
        return ChildSpec(f"actor {worker + 1}", ActorProcess, arguments, comes_from_main(*made_of), weights, rows)

    def play(self, order: Play, on_turn: Callable[[], None] | None) -> list[Played]:
        if self._alone is not None:
            return self._alone.play(order, on_turn)
        self._written_before = [model.memory.written.tolist() for model in self._models]
        before = dict(self._states)
        for worker, lanes in enumerate(self._elsewhere):
            if lanes.start < order.lanes:
                theirs = order._replace(lanes=min(len(lanes), order.lanes - lanes.start))
                self._orders[worker] = theirs
                self.team.submit(worker, order.number, theirs)
        ours = order._replace(lanes=min(len(self._here), order.lanes))
        try:
            passed = [_play_lanes(self._game, ours, self._here, on_turn=on_turn)]
            with span("wait for actors"):
                passed += self._wait_for_others()
        except BaseException:
            cut_episodes(self._game)
            raise
        why_alone = next((each.why_alone for each in passed if each.why_alone is not None), None)
        if why_alone is not None:
            log.warning(
                "%s: pass %d is played again, by one actor, which plays all lanes from now on", why_alone, order.number
            )
            self._forget_rows(range(self._config.lanes))
            self._game.set_lane_states(before)
            self.team.stop()
            self._alone = InlineActors(self._game)
            return self._alone.play(order, on_turn)
        self._states |= passed[0].lanes
        return [played for each in passed for played in each.played]

    def _wait_for_others(self) -> list[Passed]:
        started = time.perf_counter()
        answers: dict[int, Passed] = {}
        while self._orders:
            self.team.wait()
            for event in self.team.events():
                if isinstance(event, Answered):
                    answers[event.worker] = event.value
                    self._states |= event.value.lanes  # from which a successor would play on
                    del self._orders[event.worker]
                    self._deaths[event.worker] = 0
                else:
                    self._handle_death(event)
        self._waited_s = time.perf_counter() - started
        return [answers[worker] for worker in sorted(answers)]

    def _handle_death(self, died: Died) -> None:
        """Have the pass played again, from rows as they were before it."""
        self._deaths[died.worker] += 1
        restarts = 0 if died.has_raised else self._config.max_restarts
        if isinstance(died, Lost) or self._deaths[died.worker] > restarts:
            raise died.given_up(restarts)
        if died.worker in self._orders:
            self._forget_rows(self._elsewhere[died.worker])
            self.team.submit(died.worker, self._orders[died.worker].number, self._orders[died.worker])

    def _forget_rows(self, lanes: Iterable[int]) -> None:
        """Forget what the pass under way has written in these lanes."""
        for model, before in zip(self._models, self._written_before, strict=True):
            for lane in lanes:
                if self._learners.trains_freely:  # learners may be looking at these rows
                    model.memory.cut(lane)
                else:
                    model.memory.rewind(lane, before[lane])

    def _return_lanes(self) -> None:
        """Let the game here have all lanes where they are now."""
        self._game.set_lane_states({lane: self._states[lane] for lanes in self._elsewhere for lane in lanes})

    def state(self) -> State:
        if self._alone is None:
            self._return_lanes()
        return actor_state(self._game)

    def health(self) -> dict[str, Any]:
        """Restarts of actors so far, and how long the first waited for the others."""
        return {"actor_restarts": self.team.restarts, "waited_for_actors_s": self._waited_s}

    @property
    def pids(self) -> list[int]:
        """Process ids of the other actors."""
        return list(self.team.pids.values())

    def close(self) -> None:
        if self._alone is not None:
            return
        if self._orders:
            self.team.kill()
            for worker in self._orders:
                self._forget_rows(self._elsewhere[worker])
        else:
            self.team.stop()
        self._return_lanes()


def why_one_actor(env: Runnable, in_processes: bool = True) -> str | None:
    """Why its lanes are played by one actor; None: several can share them."""
    for agent, model in enumerate(models_of(env.game)):
        if (reason := _why_own_choosing(model)) is not None:
            return f"the model of agent {agent} ({type(model).__name__}) {reason}"
    if not env.game.plays_by_lane:
        return f"{env.name} does not say that its lanes are independent (plays_by_lane)"
    return why_not_built(env, in_processes) or _why_not_sent(env.game.lane_states([0]))


def _why_own_choosing(model: BaseModel) -> str | None:
    """What may make a model's choices in one lane depend on those in others."""
    if model.acting:
        return f"changes {', '.join(model.acting)} when it chooses"
    kinds = type(model).__mro__
    ours = next((kind for kind in kinds if kind in ALGORITHMS.values()), BaseModel)
    changed = [name for kind in kinds[: kinds.index(ours)] for name in vars(kind) if not name.startswith("__")]
    own = [name for name in changed if hasattr(ours, name) and name not in OF_LEARNING]
    return f"has its own {', '.join(own[:3])}" if own else None


def why_not_built(env: Runnable, in_processes: bool) -> str | None:
    """Why other actors cannot build the game, perhaps in processes of their own; None if they can."""
    try:
        factory = env.factory
    except WorldError as error:
        return str(error).rstrip(".")
    if factory is None:
        return f"{env.name} has no factory to build it for other actors (Experiment takes one)"
    try:
        if in_processes:
            Pickler(io.BytesIO()).dump(factory)
    except Exception as error:
        return f"{env.name} cannot be built in another process: {error} (set env.factory to a function that builds it there)"
    return None
