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

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from abreast.cluster.connection import connect
from abreast.errors import ConfigError, WorkerError, short
from abreast.models.own import note_shared
from abreast.plugins import refuse_while_importing
from abreast.processes.fork_server import FORK_SERVER
from abreast.processes.ring import Ring
from abreast.state import copied
from abreast.training.actors.base import Actors, group_lanes, models_of, set_actor_state
from abreast.training.actors.inline import InlineActors
from abreast.training.actors.process import ProcessActors
from abreast.training.config import MPConfig
from abreast.training.debug import Checks
from abreast.training.learners.base import Learners
from abreast.training.learners.free import FreeLearners
from abreast.training.learners.hosted import HostedLearners, process_backend, recipe_of
from abreast.training.learners.inline import InlineLearners
from abreast.training.learners.rounds import RoundLearners
from abreast.training.loop import LAGS, Loop
from abreast.training.moved import load_agents
from abreast.training.plan import FORK_SERVER_S, ROUNDS_TIMED, Planner, Timing
from abreast.training.run.metrics import EpochRecord
from abreast.training.run.record import RunOptions
from abreast.training.run.session import Session
from abreast.training.run.session import session as open_session


class MARLMultiprocessingSystem:
    """Runs an environment's experiment with learners in workers, as `run_experiment_mp` does. `start`, `run`, `stop`; or
    use it as a context.

    `plan` is how it is run now; with `workers: auto` the run decides by itself, once it has measured its first passes.
    """

    learners: Learners | None = None
    actors: Actors | None = None

    def __init__(self, env: Any, agents: Sequence[Any], config: object) -> None:
        """`env`: an environment or another experiment."""
        if not hasattr(env, "game"):
            raise ConfigError(
                f"the environment is {short(env)}: expected an abreast.Environment or another experiment; one of sorrel's"
                " runs sequentially, with SorrelExperiment(env).run_experiment (docs/how-to/sorrel.md)."
            )
        self.env: Any = env  # a `Runnable`
        self.agents = agents
        given = MPConfig.from_experiment_config(config)
        env.check_parallel(given)
        self._models = models_of(env.game)
        if given.workers != "inline":
            for index, model in enumerate(self._models):
                recipe_of(index, model)  # what cannot travel is refused before anything starts
        note_shared(self._models)
        self._config = env.config.with_derived(multiprocessing=given)
        self._config.check_agents(len(agents))
        workers = given.num_workers
        if workers is not None and workers > len(agents):
            raise ConfigError(
                f"multiprocessing.num_workers is {workers}, but there are {len(agents)} agents: each learner lives in one"
                f" worker, so the others would idle. Lower num_workers to {len(agents)} or less."
            )
        own = env.config.multiprocessing
        if (given.num_envs, given.num_actors) != (own.num_envs, own.num_actors):
            raise ConfigError(
                f"the system is given {given.num_envs} lanes and {given.actors} actors, but the environment was made for"
                f" {own.num_envs} and {own.actors}: give both the same configuration."
            )
        env.make_lanes()
        group_lanes(env.game, given)
        self._cluster = connect(given.cluster) if given.workers == "ray" else None
        share = given.cluster.learner_cpus, given.cluster.learner_gpus
        self._planner = Planner(
            env, given, 0 if self._cluster is None else self._cluster.room_for(*share, elsewhere=True)
        )
        self.plan = self._planner.begin()
        self._fork_server_at = 0.0
        """When the process that others are forked from was asked for."""

    def start(self, session: Session | None = None) -> None:
        """Make the shared memory and start learners and actors, without waiting for processes: their orders do, and what
        keeps one from starting is raised by the first round or pass that needs it.

        `session` says where they go on, if the run does. Without it, agents of other runs are loaded here
        (`experiment.load_agents`), because learners start with what the agents know.
        """
        if session is None:
            refuse_while_importing("MARLMultiprocessingSystem.start")
            load_agents(self.env)
        elif session.resumed is not None:
            set_actor_state(self.env.game, session.resumed.actor)
        rounds = 0 if session is None else session.rounds
        self.learners = self.actors = None
        try:
            if self.plan.workers == "inline":
                self._start_inline(rounds, None if session is None else session.record.checks)
            else:
                self._start_workers(rounds)
        except BaseException:
            self.stop()
            self.learners = None
            raise

    def _start_inline(self, rounds: int, checks: Checks | None) -> None:
        if self.plan.is_open and not self._planner.is_short and FORK_SERVER.pid is None:
            self._fork_server_at = time.monotonic()
            process_backend().warm_up()  # it imports while the first passes are played
        for model in self._models:
            model.own_attributes.guard()
        slack = self._slack if LAGS[self._config.multiprocessing.schedule] > 1 else 0
        settings = self._config.experiment
        self.learners = InlineLearners(self._models, settings.seed, slack, rounds, settings.freeze, checks)
        self.actors = InlineActors(self.env.game)

    def _start_workers(self, rounds: int, own_rings: Sequence[Ring] = ()) -> None:
        parallel = self.plan.applied(self._config.multiprocessing)
        config = self._config.with_derived(multiprocessing=parallel)
        kind: type[HostedLearners] = FreeLearners if parallel.schedule == "free" else RoundLearners
        learners = kind(self._models, config, self._slack, rounds, own_rings)
        self.learners = learners  # type: ignore[assignment]
        self.actors = InlineActors(self.env.game)
        if parallel.actors > 1:
            factory = self.env.factory
            assert factory is not None, "the plan has looked"
            self.actors = ProcessActors(self.env.game, factory, learners, config)

    @property
    def _slack(self) -> int:
        """Rows of the passes played while a round looks at its window."""
        return 2 * int(self._config.experiment.max_turns)

    def run(self, session: Session | None = None, output_dir: Path | str | None = None) -> list[EpochRecord]:
        """Play and learn for `experiment.epochs` epochs; returns the record of each.

        Args:
            session: where the run belongs; by default, a session of its own.
            output_dir: the run folder of that session; by default, nothing is shown or written.
        """
        if session is None:
            options = RunOptions(
                self._config.multiprocessing.schedule,
                is_parallel=True,
                animate=False,
                logging=output_dir is not None,
                output_dir=output_dir,
            )
            with open_session(self.env, options, has_loaded=True) as own:
                return self.run(own)
        assert self.learners is not None and self.actors is not None, "start comes before run"
        if not self.plan.is_open:
            session.record.keep_plan(self.plan)
        session.loop(self.actors, self.learners, lambda loop: self._decide(loop, session)).run(session.until)
        if self.plan.is_open:
            session.record.keep_plan(self.plan)
        return session.record.epochs

    def _decide(self, loop: Loop, session: Session) -> None:
        """Between two passes, once enough was measured: stay inline, or move learners and lanes."""
        learners, actors = self.learners, self.actors
        if not self.plan.is_open or not isinstance(learners, InlineLearners) or not isinstance(actors, InlineActors):
            return
        if learners.rounds_learned < ROUNDS_TIMED:
            return
        self.plan = self._planner.decide(self._timing(learners, actors, loop.epochs_left()))
        session.record.keep_plan(self.plan)
        if self.plan.workers != "inline":
            self._start_workers(learners.rounds, learners.own_rings)
            assert self.learners is not None and self.actors is not None
            loop.go_on_with(self.actors, self.learners)

    def _timing(self, learners: InlineLearners, actors: InlineActors, epochs: int) -> Timing:
        publish_s = []
        for model in self._models:
            started = time.thread_time()
            copied(copied(model.learning_state()))  # as when it is published, and read again
            publish_s.append(time.thread_time() - started)
        groups, waited = self._planner.groups, time.monotonic() - self._fork_server_at
        parallel, link = self._config.multiprocessing, None
        sent: tuple[int, ...] = ()
        if self._cluster is not None:
            sent = tuple(sum(self._sent_bytes(agent) for agent in group) for group in groups)
            link = self._cluster.measure(parallel.cluster.start_timeout)
        return Timing(
            actors.pass_s,
            actors.computing_s,
            tuple(sum(learners.round_s.get(agent, 0.0) for agent in group) for group in groups),
            tuple(sum(publish_s[agent] for agent in group) for group in groups),
            self._planner.cores,
            -(-epochs // self._config.multiprocessing.lanes),
            max(0.0, FORK_SERVER_S - waited) if FORK_SERVER.pid is not None else FORK_SERVER_S,
            parallel.schedule == "lockstep",
            link,
            sent,
        )

    def _sent_bytes(self, agent: int) -> int:
        """What a learner on a node is sent and sends back in a pass: its rows, and what it has learned."""
        model = self._models[agent]
        row = sum(field.nbytes for field in model.memory.ring.fields.values()) // model.memory.ring.rows
        learned = sum(array.nbytes for array in model.learning_state().arrays.values())
        return int(row * self._config.experiment.max_turns + learned)

    def stop(self) -> None:
        """End actors and learners in order; the agents hold what was learned."""
        try:
            if self.actors is not None:
                self.actors.close()
        finally:
            for model in self._models:
                model.own_attributes.release()
            if self.learners is not None:
                self.learners.close()

    @property
    def given_up(self) -> Mapping[int, WorkerError]:
        """Agents whose learner failed once too often, and why."""
        return self.learners.given_up if self.learners is not None else MappingProxyType({})

    def __enter__(self) -> "MARLMultiprocessingSystem":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
