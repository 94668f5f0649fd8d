"""The actor–learner system: the actor plays here, learners train in workers, shared memory lies between.

     this process                       one block of shared memory                 learner processes
    ┌───────────────────────┐ rows   ┌────────────────────────────┐ batches  ┌──────────────────────────────┐
    │ actor: worlds, bodies │───────▶│ agent 0: replay, published │─────────▶│ worker 0: models of agents 0,2│
    │ and, per agent, the   │        │ agent 1: replay, published │          │ worker 1: models of agents 1,3│
    │ model that chooses    │◀───────│ …                          │◀─────────│ …                            │
    └───────┬───────────────┘ weights└────────────────────────────┘ learned  └──────────────▲───────────────┘
            └───────────── orders and answers (a Team, processes/team.py), by pipe ─────────┘

Worlds and agents stay here and need never be pickled. A learner has a model of its own, built from the same configuration,
and owns everything that learning changes; the actor owns everything that choosing changes. What a learner knows is
published whole after every round, so one that dies is replaced by another that goes on from there, with the same result.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

from abreast.errors import ConfigError, WorkerError
from abreast.models.own import note_shared
from abreast.state import State
from abreast.training.actors.base import Actors, actor_state, models_of, set_actor_state
from abreast.training.actors.dealt import DealtActors, deal
from abreast.training.actors.process import ProcessActors
from abreast.training.adapting import adapted
from abreast.training.config import MPConfig
from abreast.training.learners.base import Learners
from abreast.training.learners.free import FreeLearners
from abreast.training.learners.hosted import HostedLearners, recipe_of
from abreast.training.learners.inline import InlineLearners
from abreast.training.learners.rounds import RoundLearners
from abreast.training.planning.plan import make_plan
from abreast.training.run.metrics import EpochRecord
from abreast.training.run.record import RunRecord
from abreast.training.run.session import Session

if TYPE_CHECKING:
    from abreast.training.experiment import Experiment


class MARLMultiprocessingSystem:
    """Runs an environment's experiment with learners in workers. `start`, `run`, `stop`; or use it as a context."""

    learners: Learners | None = None
    actors: Actors | None = None

    def __init__(self, env: Any, agents: Sequence[Any], config: object) -> None:
        """`env`: an environment or another experiment; or an environment of another framework (`adapting.py`)."""
        if not hasattr(env, "game"):
            env = adapted(env, config)
            config = env.config.multiprocessing
        self.env: Experiment = env
        self.agents = agents
        given = MPConfig.from_experiment_config(config)
        env.check_parallel(given)
        self._models = models_of(env.game)
        if given.workers != "inline":
            for index, model in enumerate(self._models):
                recipe_of(index, model)  # refused before anything starts
        note_shared(self._models)
        given.check_agents(len(agents))
        workers = given.num_workers
        if workers is not None and workers > len(agents):
            raise ConfigError(
                f"multiprocessing.num_workers is {workers}, but there are {len(agents)} agents: each learner lives in one"
                f" worker, so the others would idle. Lower num_workers to {len(agents)} or less."
            )
        own = env.config.multiprocessing
        if (given.num_envs, given.num_actors) != (own.num_envs, own.num_actors):
            raise ConfigError(
                f"the system is given {given.actors} actors with {given.num_envs} lanes each, but the environment was made"
                f" for {own.actors} with {own.num_envs}: give both the same configuration."
            )
        self._given = given
        self.plan = make_plan(env, given)
        self.config = self.plan.applied(given)
        self._deals = given.num_actors is None and self.plan.num_actors > 1

    def start(self, session: Session | None = None) -> None:
        """Make the shared memory and start learners and actors, without waiting for processes: their orders do, and what
        keeps one from starting is raised by the first round or pass that needs it.

        `session` says where they go on, if the run does.
        """
        rounds, states = (0, ()) if session is None else (session.rounds, list(session.actor_states))
        experiment, others = self.env.config.experiment, states[1:]
        if self._deals:  # an actor that begins anew has the lanes it needs; one that goes on is told where they are
            whole = states or ([actor_state(self.env.game)] if self.env.epochs_played else [])
            dealt = [deal(each, self.config.actors, self.config.num_envs, len(self._models)) for each in whole]
            states, others = [each[0] for each in dealt if states], [other for each in dealt for other in each[1:]]
        self.learners = self.actors = None
        self.env.planned = self.config
        slack = 2 * experiment.max_turns  # rows of the passes played while a round looks at its window
        try:
            if self.config.workers == "inline":
                for model in self._models:
                    model.own_attributes.guard()
                self.learners = InlineLearners(self._models, experiment.seed, slack, rounds, experiment.freeze)
                self.actors = self.env.inline_actors(states)
                return
            kind: type[HostedLearners] = FreeLearners if self.config.schedule == "free" else RoundLearners
            learners = kind(self._models, self.config, slack, experiment, rounds)
            self.learners = learners  # type: ignore[assignment]
            self.actors = self._hosted_actors(learners, states, others)
        except BaseException:
            self.stop()
            self.learners = None
            raise

    def _hosted_actors(self, learners: HostedLearners, states: Sequence[State], others: Sequence[State]) -> Actors:
        if self.config.actors == 1:
            return self.env.inline_actors(states)
        actors = ProcessActors(self.env, learners, others)
        if states:
            set_actor_state(self.env.game, states[0])
        return DealtActors(actors, self.config.num_envs, len(self._models)) if self._deals else actors

    def run(self, session: Session | None = None) -> list[EpochRecord]:
        """Play and learn for `experiment.epochs` epochs; returns the record of each. Without a `session`, writes nothing."""
        if session is None:
            with RunRecord(self.env, animate=False, logging=False) as record:
                record.begin()
                return self.run(Session(self.env, self.config.schedule, record))
        assert self.learners is not None and self.actors is not None, "start comes before run"
        session.play(self.actors, self.learners)
        return session.record.epochs

    def stop(self) -> None:
        """End actors and learners in order; the agents hold what was learned."""
        try:
            if self.actors is not None:
                self.actors.close()
        finally:
            if self.learners is not None:
                self.learners.close()
            for model in self._models:
                model.own_attributes.release()
            self._return_lanes()

    def _return_lanes(self) -> None:
        """From now on all lanes are here again, where other actors have left them."""
        self.env.planned = None
        if isinstance(self.actors, DealtActors):
            self.env.game.set_lanes(self.actors.elsewhere)  # type: ignore[attr-defined]

    @property
    def given_up(self) -> Mapping[int, WorkerError]:
        """Agents whose learner failed once too often, and why."""
        return self.learners.given_up if self.learners is not None else MappingProxyType({})

    @contextmanager
    def started(self, session: Session) -> "Iterator[None]":
        """Inside, learners and actors are there, and go on where the session does."""
        self.start(session)
        try:
            yield
        finally:
            self.stop()

    def __enter__(self) -> "MARLMultiprocessingSystem":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
