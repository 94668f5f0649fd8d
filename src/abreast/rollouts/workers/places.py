"""Which process or thread each environment lives in, and the team of workers.

    HERE                     the thread that calls the manager
    0 … processes - 1        worker processes
    processes …              threads of this process, one for each environment that has one

An episode stays where it began. One exception: under `auto`, an environment in the main process whose turns turn out to wait
is lent to a thread of its own. It is the same object, so nothing is rebuilt.
"""

import logging
import pickle
from collections.abc import Callable, Collection, Sequence

from abreast.errors import WorkerError
from abreast.processes.backend import Child, ChildSpec
from abreast.processes.process import ProcessBackend, comes_from_main
from abreast.processes.team import RestartPolicy, Team
from abreast.processes.threads import ThreadBackend
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.episode import Episode
from abreast.rollouts.episodes.guard import Guard
from abreast.rollouts.episodes.local import LocalEpisodes
from abreast.rollouts.episodes.slot import HERE, Slot
from abreast.rollouts.registry import Tag, find_kind
from abreast.rollouts.workers.meter import Meter
from abreast.rollouts.workers.placement import Placement, PlacementRules, Use
from abreast.rollouts.workers.worker import RolloutWork, rollout_process

log = logging.getLogger("abreast")

IDLE_DEATHS = 5
"""How often in a row a worker may die without an answer, at no environment, before it is lost."""
COMPUTES_S = 1e-3
"""A single episode begins in a worker process, under `auto`, if turns of its tag compute for longer than this and there are
others meanwhile."""


class Places:
    """Moves slots between the main process, worker processes and threads. `team` is None until a worker is needed."""

    def __init__(
        self, slots: Sequence[Slot], config: ManagerConfig, processes: int, rules: PlacementRules, guard: Guard
    ) -> None:
        self._slots, self._config, self._guard = slots, config, guard
        self.local = LocalEpisodes(config.step_timeout)
        self.team: Team | None = None
        self.placement = Placement(slots, processes, rules)
        self.meters = {slot.tag.name: Meter() for slot in slots}
        self._processes = processes
        self._recipes = {slot.tag.name: _recipe(slot.tag) for slot in slots}
        """By tag: what makes its environment in a worker process, pickled; empty if that is not possible."""
        sequential = {find_kind(name).name for name in config.sequential_env_types}
        self._sequential = {slot.tag.name for slot in slots if slot.tag.kind.name in sequential}
        self._unsendable = {name for name, recipe in self._recipes.items() if not recipe}
        self._bound: set[str] = set()
        """Tags whose environments belong to the thread that made them: they are not lent."""
        self._lent: dict[int, Episode] = {}
        """Live environments that go to a thread with their next order."""
        self._use: Use = "auto"
        self._cannot_start = False

    # ---- when episodes begin

    def place_all(self, use: Use) -> None:
        """Before a reset of all environments: move each to where it should live for the next episodes."""
        self._use = use
        self.placement.observe()
        self.placement.epoch.has_moved = not self._slots[0].serial
        sendable = [slot for slot in self._slots if self._is_sendable(slot, use)]
        places = self.placement.choose(sendable, self._living, use)
        if places:
            places = self._with_processes(places, use, wait=True)
        places |= {slot.env_id: self._thread(slot) for slot in self._slots if self._is_for_threads(slot, use)}
        self._move(self._slots, places)

    def place_some(self, slots: Collection[Slot], use: Use) -> None:
        """Before episodes begin in some slots, while others may be in the middle of theirs."""
        failed: BaseException | None = None
        with self._guard:  # from any thread
            try:
                self._place_some(slots, use)
            except BaseException as error:  # workers cannot start, or Ctrl-C while they do: none were moved
                failed = error
        if failed is not None:
            raise failed

    def _place_some(self, slots: Collection[Slot], use: Use) -> None:
        self._use = use
        places = {slot.env_id: self._thread(slot) for slot in slots if self._is_for_threads(slot, use)}
        worthy = [slot for slot in slots if slot.env_id not in places and self._is_for_processes(slot, use)]
        if worthy:
            away = {slot.env_id: slot for slot in self._slots if 0 <= slot.worker < self._processes}
            away |= {slot.env_id: slot for slot in worthy}
            chosen = self.placement.spread(list(away.values()), self._living, keep=True)
            chosen = {slot.env_id: chosen[slot.env_id] for slot in worthy if slot.env_id in chosen}
            places |= self._with_processes(chosen, use, wait=use != "auto")
        self._move(slots, places)

    def _is_sendable(self, slot: Slot, use: Use) -> bool:
        """Whether it may live in a worker process."""
        tag = slot.tag.name
        if use in (False, "threads") or tag in self._sequential or tag in self._unsendable:
            return False
        return use != "auto" or not (self._cannot_start or self.meters[tag].waits or not self._can_send(slot))

    def _can_send(self, slot: Slot) -> bool:
        """Whether what it has returned until now can be pickled; asked under `auto`, before it leaves for the first time."""
        if slot.worker != HERE or not slot.history:
            return True
        try:
            pickle.dumps([slot.cache.get("info"), *(entry.get("info") for entry in slot.history)])
        except Exception as error:
            self._bar(slot.tag.name, f"what it returns cannot be pickled ({type(error).__name__}: {error})")
            return False
        return True

    def _is_for_threads(self, slot: Slot, use: Use) -> bool:
        is_wanted = use == "threads" or (use == "auto" and self.meters[slot.tag.name].waits)
        if not is_wanted or slot.tag.name in self._sequential:
            return False
        return self.team is None or not self.team.is_lost(self._thread(slot))

    def _is_for_processes(self, slot: Slot, use: Use) -> bool:
        """Whether a single episode should begin in a worker process."""
        if use == "auto":
            computes = self.meters[slot.tag.name].compute_s > COMPUTES_S
            lives_there = 0 <= slot.worker < self._processes and slot.lease <= 0
            if not lives_there and not (computes and any(other.is_live for other in self._slots if other is not slot)):
                return False
        return self._is_sendable(slot, use) and bool(self._living)

    # ---- in the middle of episodes

    def lend(self, slot: Slot) -> bool:
        """Have a thread take the next turns of an environment in the main process; whether that may be. Inside the guard."""
        if not self._is_for_threads(slot, self._use) or slot.tag.name in self._bound:
            return False
        number = self._thread(slot)
        self._get_team().add(number)
        live = self.local.release(slot)
        if live is not None:
            live.is_lent = True
            self._lent[slot.env_id] = live
        slot.worker, slot.built_in = number, 0  # `started` stays: a live one is in step
        return True

    def take_back(self, slot: Slot, live: Episode) -> None:
        """An environment that was lent belongs to the thread that made it: it goes on there, and others of its tag stay."""
        tag = slot.tag.name
        log.warning(
            "environments of the tag %s stay in the thread that makes them: they cannot be used in another", tag
        )
        self._bound.add(tag)
        live.is_lent = False
        self.local.put(slot, live)
        slot.worker, slot.started = HERE, slot.serial

    def recipe(self, slot: Slot) -> tuple[bytes | Episode, bool]:
        """What a worker needs to have this environment; whether it is a live one, at the newest state of its episode."""
        if slot.worker < self._processes:
            return self._recipes[slot.tag.name], False
        live = self._lent.pop(slot.env_id, None)
        return live or Episode(slot.tag.kind.env, slot.tag.config), live is not None

    def stay_here(self, slot: Slot, why: str) -> None:
        """The environment of this slot cannot live in a worker process; others of its tag follow when they begin anew."""
        self._bar(slot.tag.name, why)
        slot.move(HERE)

    def leave(self, worker: int) -> None:
        """A worker is lost: its slots go to the processes with the least to do, or to the main process if none is left."""
        self.placement.epoch.is_spoiled = True
        away = [slot for slot in self._slots if 0 <= slot.worker < self._processes]
        places = self.placement.spread(away, self._living, keep=True)
        for slot in self._slots:
            if slot.worker == worker:
                slot.move(places.get(slot.env_id, HERE))

    # ---- the end

    def close(self) -> None:
        """End the workers and close the environments."""
        team, self.team = self.team, None
        lent, self._lent = self._lent, {}
        if team is not None:
            if self._guard.is_broken:
                team.kill()  # its state is unknown too
            else:
                team.stop()
        for episode in lent.values():
            episode.close()
        self.local.close()

    def start_over(self) -> None:
        """An interrupt has left an unknown state: forget everything but measurements."""
        self.close()
        for slot in self._slots:
            slot.move(HERE)

    # ---- inside

    @property
    def _living(self) -> list[int]:
        lost = self.team.lost if self.team is not None else ()
        return [worker for worker in range(self._processes) if worker not in lost]

    def _thread(self, slot: Slot) -> int:
        most = self._config.max_workers if self._use == "threads" else None  # auto: one for each that waits
        return self._processes + slot.env_id % (most or len(self._slots))

    def _bar(self, tag: str, why: str) -> None:
        if tag not in self._unsendable:
            log.warning("environments of the tag %s cannot live in worker processes: %s", tag, why)
            self._unsendable.add(tag)

    def _move(self, slots: Collection[Slot], places: dict[int, int]) -> None:
        """Let slots whose episodes begin live in these workers, and the others here."""
        with self._guard:
            for slot in slots:
                worker = places.get(slot.env_id, HERE)
                if worker >= self._processes:
                    self._get_team().add(worker)
                if slot.worker != worker:
                    self.placement.epoch.has_moved = True
                    if slot.worker == HERE:
                        slot.started = 0
                        self.local.release(slot)
                    slot.move(worker)

    def _with_processes(self, places: dict[int, int], use: Use, wait: bool) -> dict[int, int]:
        """These places, once the worker processes are started; none under `auto` if they cannot start."""
        team = self._get_team()
        try:
            if wait:
                team.start(range(self._processes))
            else:
                for number in set(places.values()):
                    team.add(number)
        except (WorkerError, OSError) as error:
            if use != "auto":
                raise
            log.warning("environments stay in the main process, because workers cannot start: %s", error)
            self._cannot_start, self.placement.count = True, 0
            return {}
        return places

    def _get_team(self) -> Team:
        if self.team is None:
            config = self._config
            processes = ProcessBackend(config.start_method, preload=[RolloutWork.__module__])
            policy = RestartPolicy(IDLE_DEATHS, config.step_timeout or float("inf"))
            self.team = Team(_Backends(processes, self._processes), self._spec, 0, policy)
        return self.team

    def _spec(self, number: int) -> ChildSpec:
        if number >= self._processes:
            return ChildSpec(f"rollout thread {number - self._processes}", RolloutWork, (float("inf"),))
        needs_main = any(comes_from_main(slot.tag.kind.env, slot.tag.config) for slot in self._slots)
        memory_mb = self._config.worker_memory_mb
        return ChildSpec(f"rollout worker {number}", rollout_process, (memory_mb,), needs_main)


class _Backends:
    """Processes for the lower numbers, threads for the others."""

    def __init__(self, processes: ProcessBackend, first_thread: int) -> None:
        self._processes, self._threads, self._first_thread = processes, ThreadBackend(), first_thread

    def start(self, number: int, spec: ChildSpec, wake: Callable[[], None]) -> Child:
        backend = self._threads if number >= self._first_thread else self._processes
        return backend.start(number, spec, wake)


def _recipe(tag: Tag) -> bytes:
    try:
        return pickle.dumps((tag.kind.env, tag.config))
    except Exception as error:
        log.warning("environments of type %s cannot live in worker processes: %s", tag.kind.name, error)
        return b""
