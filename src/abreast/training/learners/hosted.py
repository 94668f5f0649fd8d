"""What learners in workers have in common: shared memory, the team of workers, agents that are given up."""

import heapq
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

from abreast.cluster.backend import RayBackend
from abreast.cluster.connection import connect
from abreast.errors import AbreastError, ConfigError, ModelError, WorkerError, log
from abreast.models import BaseModel
from abreast.models.model_state import Recipe
from abreast.models.stacked import stacks_of
from abreast.processes.backend import Backend, ChildSpec
from abreast.processes.memory import SharedBlock
from abreast.processes.process import ProcessBackend, comes_from_main
from abreast.processes.ring import Ring
from abreast.processes.shares import RowsShare
from abreast.processes.team import START_S, Died, Lost, RestartPolicy, Team
from abreast.processes.threads import ThreadBackend
from abreast.replay import Buffer, SharedReplayBuffer
from abreast.state import State, part_of
from abreast.training.config import Config, MPConfig
from abreast.training.learners.base import RoundResult, tell_who_learns_alone
from abreast.training.learners.process import Job, learner_process
from abreast.training.published import create_shared_models, publish_model, restore_published

MOST_TOLD = 6
"""Agents in the name of a learner."""


class HostedLearners:
    """Learners in worker processes or threads. Subclasses say when they train.

    The replay of each agent is moved into shared memory, and back in the end; so is what its learner knows, published.
    """

    trains_freely = False
    """Whether learners also look at rows written after their order, which may then not be taken back."""

    def __init__(
        self,
        models: Sequence[BaseModel],
        config: Config[Any, Any],
        slack: int,
        rounds: int = 0,
        own_rings: Sequence[Ring] = (),
    ) -> None:
        """`rounds`: how many the models have behind them, in a run that goes on. `own_rings`: to where rows are moved back
        in the end; left out: to where they are now.
        """
        self.rounds = rounds
        parallel: MPConfig = config.multiprocessing
        self._models, self._config, self._experiment = models, parallel, config.experiment
        self._recipes = [recipe_of(index, model) for index, model in enumerate(models)]
        self.given_up: dict[int, WorkerError] = {}
        self._frozen = frozenset(config.experiment.freeze)
        learning = [agent for agent in range(len(models)) if agent not in self._frozen]
        self._slack = slack
        self.published = create_shared_models(models, parallel.mode, readers=parallel.actors)
        layout: dict[str, Any] = {}
        for index, (model, place) in enumerate(zip(models, self.published, strict=True)):
            layout |= place.layout()
            layout |= {f"replay{index}.{name}": what for name, what in model.memory.layout(slack).items()}
        self.block = SharedBlock(layout)
        tell_who_learns_alone(models)
        self._results = [RoundResult({}, model.updates) for model in models]
        self._lags = [0] * len(models)
        self._deaths = [0] * len(models)
        first = sorted(learning, key=parallel.weight, reverse=True)
        bound = [[agent] for agent in first] if self.trains_freely else bound_together(models, first)
        workers = min(parallel.num_workers or 1, len(bound))  # where all are frozen, there is none
        self._agents_of = assign_agents(bound, workers, parallel.weight if self.trains_freely else lambda agent: 1.0)
        self._own_rings = list(own_rings) or [model.memory.ring for model in models]
        try:
            for index, (model, place) in enumerate(zip(models, self.published, strict=True)):
                place.attach(self.block)
                model.own_attributes.guard()
                publish_model(model, place, rounds, updates=model.updates, results=[])
                model.memory.move_rows(Ring(self.block.part(f"replay{index}.")))
            policy = RestartPolicy(parallel.max_restarts, parallel.learner_timeout, start_s(parallel))
            backend = make_backend(parallel, "learner", parallel.cluster.workers_here or 0)
            self.team = Team(backend, self._spec, workers, policy)
            # Threads share random generators with the pass that would be played beside their start.
            self.team.start(wait=parallel.workers == "threads")
        except BaseException:
            self._restore_rings()
            raise

    def acting_states(self) -> dict[int, State]:
        """Of users' models: what choosing has changed by now."""
        states = {}
        for agent, model in enumerate(self._models):
            if not model.is_ours and agent not in self._frozen:
                with named(agent, model):
                    states[agent] = model.acting_state()
        return states

    # ---- workers

    def _spec(self, worker: int) -> ChildSpec:
        agents = self._agents_of[worker]
        jobs = []
        for agent in agents:
            memory = SharedReplayBuffer.like(self._models[agent].memory, self._slack, self.block, f"replay{agent}.")
            published = self.published[agent].for_reader(0)
            recipe = self._recipes[agent]
            if self._config.cluster.learner_gpus and worker >= (self._config.cluster.workers_here or 0):
                recipe = replace(recipe, device=("cuda",))  # the first of those that its node gives it
            jobs.append(Job(agent, recipe, memory, published, self._experiment.seed))
        needs_main = any(comes_from_main(job.recipe.kind) for job in jobs)
        arguments = (jobs, self._experiment.compute_threads, self.trains_freely)
        rows = tuple(RowsShare(f"replay{agent}.", range(self._models[agent].memory.lanes)) for agent in agents)
        learned = tuple(self.published[agent].share(whole=True) for agent in agents)
        return ChildSpec(name_of_learner(worker, agents), learner_process, arguments, needs_main, rows, learned)

    def _handle_death(self, died: Died) -> bool:
        """Give up the agent that has cost too many deaths, or all of a lost worker; returns whether any is left there."""
        agents, restarts = self._agents_of[died.worker], self._config.max_restarts
        gone: list[int] = []
        if isinstance(died, Lost):
            gone = list(agents)
        elif died.at in agents:
            self._deaths[died.at] += 1
            restarts = 0 if died.has_raised and self._models[died.at].runs_users_code else restarts
            gone = [died.at] if self._deaths[died.at] > restarts else []
        for agent in gone:
            error = self.given_up[agent] = died.given_up(restarts)
            log.error("agent %d is not trained any more: %s", agent, error)
            log.info("its stack:", exc_info=error)
            agents.remove(agent)
        if not agents:
            self.team.retire(died.worker)
        for agent in agents:
            _, known = self.published[agent].read(whole=True)
            log.info("learner of agent %d goes on from update %s", agent, f"{known.facts['learner.updates']:,}")
        return bool(agents)

    def learning_states(self) -> list[State]:
        self.team.wait_started()  # of a run that cannot begin, no checkpoint is left
        return [
            part_of(place.read(version, whole=True)[1], "model")
            for place, version in zip(self.published, self.acting_versions(), strict=True)
        ]

    def acting_versions(self) -> list[int | None]:
        """Which published version of each agent a pass that begins now plays with; None: the newest."""
        return [None] * len(self._models)

    def renew(self, agent: int) -> None:
        """An agent that does not learn has other weights, with which actors elsewhere choose from the next pass on."""
        model, place = self._models[agent], self.published[agent]
        publish_model(model, place, place.version + 1, updates=model.updates, results=[])
        self._results[agent] = RoundResult({}, model.updates)

    def _check_any_left(self) -> None:
        if self.given_up and not any(self._agents_of):
            first = next(iter(self.given_up.values()))
            raise WorkerError(f"every learner has been given up; the first: {first}") from first

    def _untrained(self, agent: int) -> RoundResult:
        """The result of a round for an agent that was given up."""
        return RoundResult({}, self._results[agent].updates)

    def health(self) -> dict[str, Any]:
        """Restarts of workers so far, and by how many versions each agent's play was behind."""
        return {"restarts": self.team.restarts, "lag_per_agent": list(self._lags)}

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return list(self.team.pids.values())

    def pause(self, is_paused: bool) -> None:
        """Workers train what they are ordered, and wait."""

    # ---- the end

    def close(self) -> None:
        """End the workers; the models take over what was learned and remembered."""
        try:
            self.team.stop(min(3.0, self._config.learner_timeout))
        finally:
            for model, place in zip(self._models, self.published, strict=True):
                restore_published(model, place)
            self._restore_rings()

    def _restore_rings(self) -> None:
        for model, ring in zip(self._models, self._own_rings, strict=True):
            if model.memory.ring is not ring:
                model.memory.move_rows(ring)


def recipe_of(agent: int, model: BaseModel) -> Recipe:
    """How a worker gets this model."""
    with named(agent, model):
        check_memory(model)
        check_lanes(model)
        recipe = model.recipe()
        if not model.is_ours:
            recipe.build(model.memory.empty_copy())  # what fails there is named here, before anything starts
        return recipe


def check_memory(model: BaseModel) -> None:
    """Refuse a memory that cannot lie in shared memory."""
    kind = type(model.memory)
    if kind not in (Buffer, SharedReplayBuffer):
        raise ModelError(
            f"its memory is a {kind.__module__}.{kind.__qualname__}, but a learner reads rows from the shared memory of an"
            " abreast.Buffer: leave self.memory as BaseModel makes it, and say what differs in memory_options"
        )


def check_lanes(model: BaseModel) -> None:
    """Refuse a user's model that cannot be told in which of several lanes it plays."""
    if model.is_ours or model.memory.lanes == 1:
        return
    calls: dict[str, tuple[object, ...]] = {"take_action": (None, 1), "remember": (None, 0, 0.0, False, 1)}
    if type(model).take_actions is not BaseModel.take_actions:  # it chooses for all lanes at once
        del calls["take_action"]
    for name, arguments in calls.items():
        try:
            inspect.signature(getattr(model, name)).bind(*arguments)
        except TypeError:
            given = "state" if name == "take_action" else "state, action, reward, done"
            raise ModelError(
                f"its {name} does not take the lane, but there are {model.memory.lanes}: define"
                f" {name}(self, {given}, lane=0), and keep what belongs to an episode by lane"
            ) from None


@contextmanager
def named(agent: int, model: BaseModel) -> Iterator[None]:
    """Say whose model it is that cannot be trained."""
    try:
        yield
    except Exception as error:
        reason = str(error).rstrip(".") if isinstance(error, AbreastError) else f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"the model of agent {agent} ({type(model).__name__}) cannot be used here: {reason}."
        ) from error


def name_of_learner(worker: int, agents: Sequence[int]) -> str:
    """As displays, logs and timelines have it: the first agents of many."""
    told = ", ".join(map(str, agents[:MOST_TOLD])) + (f" … ({len(agents)} in all)" if len(agents) > MOST_TOLD else "")
    return f"learner {worker} of agent{'s' if len(agents) > 1 else ''} {told}"


def make_backend(config: MPConfig, role: Literal["learner", "actor"], here: int = 0) -> Backend:
    """Where workers live; of those of a cluster, so many are here."""
    if config.workers == "threads":
        return ThreadBackend()
    if config.workers != "ray":
        return process_backend()
    cluster, connection = config.cluster, connect(config.cluster)
    shares = (cluster.learner_cpus, cluster.learner_gpus) if role == "learner" else (cluster.actor_cpus, 0.0)
    return RayBackend(connection, *shares, cluster.start_timeout, process_backend(), here)


def start_s(config: MPConfig) -> float:
    """Seconds within which a worker has to be ready; on a cluster, it has to be placed before."""
    return START_S + (config.cluster.start_timeout if config.workers == "ray" else 0.0)


def process_backend() -> ProcessBackend:
    """Processes that find imported what they need."""
    return ProcessBackend(preload=["abreast.training"])


def bound_together(models: Sequence[BaseModel], agents: Sequence[int]) -> list[list[int]]:
    """The agents, in their order, in groups that have to be in one worker: those that learn in one stacked update on a GPU,
    where it depends on their number how each is rounded.
    """
    on_gpus = {agent: models[agent] for agent in agents if models[agent].device != "cpu"}
    group_of = {agent: group for group in stacks_of(on_gpus) for agent in group}
    return [list(group) for group in dict.fromkeys(tuple(group_of.get(agent, [agent])) for agent in agents)]


def assign_agents(groups: Sequence[Sequence[int]], workers: int, load: Callable[[int], float]) -> list[list[int]]:
    """The agents of each worker: one group after the other goes to the worker with the least to do so far."""
    assigned: list[list[int]] = [[] for _ in range(workers)]
    loads = [(0.0, worker) for worker in range(workers)]
    for group in groups:
        least, worker = loads[0]
        assigned[worker] += group
        heapq.heapreplace(loads, (least + sum(map(load, group)), worker))
    return assigned
