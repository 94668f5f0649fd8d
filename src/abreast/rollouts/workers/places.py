"""Which process or thread each environment lives in, and the team of workers.

    HERE                     the thread that calls the manager
    0 … processes - 1        worker processes
    processes …              threads of this process, one for each environment that has one

An episode stays where it began. One exception: under `auto`, an environment in the main process whose turns turn out to wait
is lent to a thread of its own. It is the same object, so nothing is rebuilt; one that says `thread_bound = True` stays.
"""

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Literal

from abreast.cluster.backend import RayBackend
from abreast.cluster.connection import connect
from abreast.codec import encode_message
from abreast.errors import StateError, WorkerError, log
from abreast.processes.backend import Backend, Child, ChildSpec
from abreast.processes.cores import cores
from abreast.processes.process import ProcessBackend, comes_from_main
from abreast.processes.team import RestartPolicy, Team
from abreast.processes.threads import ThreadBackend
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.episode import Episode
from abreast.rollouts.episodes.guard import Guard
from abreast.rollouts.episodes.slot import HERE, Slot
from abreast.rollouts.registry import Tag, find_kind
from abreast.rollouts.workers.timing import PlacementRules, Timing, best_count, deal_out, is_cheap
from abreast.rollouts.workers.worker import RolloutWork, rollout_process
from abreast.streams import Draws

Use = bool | Literal["auto", "threads"]
MOST_PROCESSES = 8
"""Worker processes, unless es_manager.max_workers says otherwise."""
RAY_ORDER_S = 2e-3
"""What one order to one worker on a node costs. (On one machine; between machines the network comes on top.)"""
IDLE_DEATHS = 5
"""How often in a row a worker may die without an answer, at no environment, before it is lost."""
COMPUTES_S = 1e-3
"""A single episode begins in a worker process, under `auto`, if turns of its tag compute for longer than this and there are
others meanwhile."""


class Places:
    """Moves slots between the main process, worker processes and threads. `team` is None until a worker is needed."""

    def __init__(self, tags: Mapping[str, Tag], config: ManagerConfig, most: int, rules: PlacementRules | None) -> None:
        """`most`: workers at most, unless the configuration says how many."""
        self._cluster = connect(config.cluster) if config.backend == "ray" else None
        if self._cluster is None:
            count, usual = min(MOST_PROCESSES, cores()), PlacementRules()
        else:
            cluster, usual = config.cluster, PlacementRules(order_s=RAY_ORDER_S)
            self._cluster.check_room(cluster.worker_cpus, cluster.worker_gpus)
            count = max(1, self._cluster.room_for(cluster.worker_cpus, cluster.worker_gpus))
        self._tags, self._config, self._rules = tags, config, rules or usual
        self._processes = min(config.max_workers or count, most)
        self.guard = Guard()
        """Around everything that changes slots or the team: interrupted there, only `reset` and `close` work."""
        self.slots: dict[int, Slot] = {}
        """All that have an environment, of the batch and of single episodes, by number."""
        self.team: Team | None = None
        self.timings = {name: Timing(self._rules.enough_s) for name in tags}
        self.draws = {name: Draws() for name in tags}
        self._drawing: set[str] = set()
        """Tags whose environments draw from generators of the whole process, which its threads share."""
        self._recipes = {name: _recipe(tag) for name, tag in tags.items()}
        """By tag: what makes its environment in a worker process, pickled; empty if that is not possible."""
        sequential = {find_kind(name).name for name in config.sequential_env_types}
        self._sequential = {name for name, tag in tags.items() if tag.kind.name in sequential}
        self._unsendable = {name for name, recipe in self._recipes.items() if not recipe}
        self._use: Use = "auto"
        self._cannot_start = False

    # ---- when episodes begin

    def place(self, slots: Collection[Slot], use: Use, is_batch: bool) -> None:
        """Before episodes begin in these slots: move each to where it should live. `is_batch`: they are all of the batch."""
        failed: BaseException | None = None
        with self.guard:  # from any thread
            try:
                self._use = use
                self._place(slots, use, is_batch)
            except BaseException as error:  # workers cannot start, or Ctrl-C while they do: none were moved
                failed = error
        if failed is not None:
            raise failed

    def _place(self, slots: Collection[Slot], use: Use, is_batch: bool) -> None:
        homes = {slot.env_id: self._thread(slot) for slot in slots if self._is_for_threads(slot, use)}
        away = [slot for slot in slots if slot.env_id not in homes and self._is_for_processes(slot, use, is_batch)]
        if away:
            places = self._spread(away, use, is_batch)
            homes |= self._with_processes(places, use, wait=is_batch or use != "auto")
        for slot in slots:
            worker = homes.get(slot.env_id, HERE)
            if worker >= self._processes:
                self._get_team().add(worker)
            if slot.worker != worker:
                self.release(slot)
                slot.move(worker)

    def _spread(self, slots: Collection[Slot], use: Use, is_batch: bool) -> dict[int, int]:
        """A worker process for each of these."""
        if not is_batch:
            return self._beside_others(slots)
        costs = [self.timings[slot.tag.name].cost for slot in slots]
        workers = self._living[: best_count(costs, len(self._living), self._rules, use == "auto")]
        if not workers:
            return {}
        each = zip(slots, costs, strict=True)
        return deal_out({slot.env_id: 1.0 if cost is None else cost.slot_s for slot, cost in each}, workers)

    def _beside_others(self, slots: Collection[Slot]) -> dict[int, int]:
        """The process that each of these lives in, else that with the fewest environments; none if all are lost."""
        living, places = self._living, dict[int, int]()
        counts = Counter(slot.worker for slot in self.slots.values())
        for slot in slots:
            if slot.worker in living:
                places[slot.env_id] = slot.worker
            elif living:
                worker = places[slot.env_id] = min(living, key=counts.__getitem__)
                counts[worker] += 1
        return places

    def _is_for_threads(self, slot: Slot, use: Use) -> bool:
        is_wanted = use == "threads" or (use == "auto" and self.timings[slot.tag.name].waits)
        if not is_wanted or slot.tag.name in self._sequential | self._drawing:
            return False
        return self.team is None or self._thread(slot) not in self.team.lost

    def _is_for_processes(self, slot: Slot, use: Use, is_batch: bool) -> bool:
        name = slot.tag.name
        if use in (False, "threads") or name in self._sequential or name in self._unsendable or not self._living:
            return False
        return use is True or (not self._cannot_start and self._pays(slot, is_batch) and self._can_send(slot))

    def _pays(self, slot: Slot, is_batch: bool) -> bool:
        """Whether a process may be the place for it under `auto`."""
        if not is_batch and not slot.is_single:  # some of a batch begin anew
            return 0 <= slot.worker < self._processes
        timing = self.timings[slot.tag.name]
        if timing.cost is None or timing.waits:
            return False
        if is_batch:
            return not is_cheap(timing.cost, self._rules)
        others = (other for other in self.slots.values() if other is not slot)
        return timing.cost.turn_s > COMPUTES_S and any(other.is_live for other in others)

    def _can_send(self, slot: Slot) -> bool:
        """Whether what it has returned until now can be sent; asked under `auto`, before it leaves for the first time."""
        if slot.worker == HERE and slot.history:
            try:
                infos = [slot.cache.get("info"), *(entry.get("info") for entry in slot.history)]
                encode_message(infos)
            except StateError as error:
                self._bar(slot.tag.name, f"what it returns cannot be sent: {error}")
                return False
        return True

    # ---- in the middle of episodes

    def lend(self, slot: Slot) -> bool:
        """Have a thread take the next turns of an environment in the main process; whether that may be. Inside the guard."""
        is_live = slot.here is not None and slot.started == slot.serial
        if not self._is_for_threads(slot, self._use) or (is_live and slot.here.is_thread_bound):  # type: ignore[union-attr]
            return False
        if not is_live:
            self.release(slot)
        slot.worker, slot.built_in = self._thread(slot), 0  # `started` stays: a live one is in step
        self._get_team().add(slot.worker)
        return True

    def recipe(self, slot: Slot) -> bytes | Episode:
        """What a worker needs to have this environment. One that is lent is at the newest state of its episode."""
        if slot.worker >= self._processes and slot.here is not None:
            live, slot.here = slot.here, None
            return live
        slot.started = 0
        if slot.worker < self._processes:
            return self._recipes[slot.tag.name]
        return Episode(slot.tag.kind.env, slot.tag.config, self.draws[slot.tag.name])

    def release(self, slot: Slot) -> None:
        """Close its environment in the main process, if it has one there."""
        episode, slot.here = slot.here, None
        if episode is not None:
            episode.close()

    def note_draws(self, tag: str, generators: str) -> None:
        """Log once that environments of a tag draw from generators of the whole process."""
        if tag not in self._drawing:
            self._drawing.add(tag)
            log.warning(
                "environments of the tag %s draw from random generators that the whole process shares (%s): each has its"
                " own from now on, seeded from its episode, which takes 0.2 ms a turn, and takes its turns alone. To save"
                " that, draw from self.np_random.",
                tag, generators,
            )  # fmt: skip

    def stay_here(self, slot: Slot, why: str) -> None:
        """The environment of this slot cannot live in a worker process; others of its tag follow when they begin anew."""
        self._bar(slot.tag.name, why)
        slot.move(HERE)

    def leave(self, worker: int) -> None:
        """A worker is lost: its slots go to the processes with the fewest, or to the main process if none is left."""
        slots = [slot for slot in self.slots.values() if slot.worker == worker]
        places = self._beside_others(slots)
        for slot in slots:
            slot.move(places.get(slot.env_id, HERE))

    # ---- the end

    def close(self) -> None:
        """End the workers and close the environments."""
        team, self.team = self.team, None
        if team is not None:
            if self.guard.is_broken:
                team.kill()  # its state is unknown too
            else:
                team.stop()
        for slot in list(self.slots.values()):
            self.release(slot)

    def start_over(self) -> None:
        """An interrupt has left an unknown state: forget everything but measurements."""
        self.close()
        for slot in self.slots.values():
            slot.move(HERE)

    # ---- inside

    @property
    def _living(self) -> list[int]:
        lost = self.team.lost if self.team is not None else ()
        return [worker for worker in range(self._processes) if worker not in lost]

    def _thread(self, slot: Slot) -> int:
        most = self._config.max_workers if self._use == "threads" else None  # auto: one for each that waits
        return self._processes + (slot.env_id % most if most else slot.env_id)

    def _bar(self, tag: str, why: str) -> None:
        if tag not in self._unsendable:
            log.warning("environments of the tag %s cannot live in worker processes: %s", tag, why)
            self._unsendable.add(tag)

    def _with_processes(self, places: dict[int, int], use: Use, wait: bool) -> dict[int, int]:
        """These places, once the worker processes are started; none under `auto` if they cannot start."""
        team = self._get_team()
        try:
            if wait and places:
                team.start(range(self._processes))
            for number in set(places.values()):
                team.add(number)
        except (WorkerError, OSError) as error:
            if use != "auto":
                raise
            log.warning("environments stay in the main process, because workers cannot start: %s", error)
            self._cannot_start = True
            return {}
        return places

    def _get_team(self) -> Team:
        if self.team is None:
            config = self._config
            processes: Backend = ProcessBackend(config.start_method, preload=[RolloutWork.__module__])
            if self._cluster is not None:
                shares = config.cluster.worker_cpus, config.cluster.worker_gpus
                processes = RayBackend(self._cluster, *shares, config.cluster.start_timeout, processes)
            policy = RestartPolicy(IDLE_DEATHS, config.step_timeout or float("inf"))
            self.team = Team(_Backends(processes, self._processes), self._spec, 0, policy)
        return self.team

    def _spec(self, number: int) -> ChildSpec:
        if number >= self._processes:
            return ChildSpec(f"rollout thread {number - self._processes}", RolloutWork)
        needs_main = any(comes_from_main(tag.kind.env, tag.config) for tag in self._tags.values())
        return ChildSpec(f"rollout worker {number}", rollout_process, (self._config.worker_memory_mb,), needs_main)


class _Backends:
    """Processes for the lower numbers, threads for the others."""

    def __init__(self, processes: Backend, first_thread: int) -> None:
        self._processes, self._threads, self._first_thread = processes, ThreadBackend(), first_thread

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> Child:
        return (self._threads if number >= self._first_thread else self._processes).start(number, spec, wake)


def _recipe(tag: Tag) -> bytes:
    try:
        return pickle.dumps((tag.kind.env, tag.config))
    except Exception as error:
        log.warning("environments of type %s cannot live in worker processes: %s", tag.kind.name, error)
        return b""
