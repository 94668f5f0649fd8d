"""Which process each environment lives in, and the team of workers."""

import logging
import pickle
from collections.abc import Container, Sequence

from abreast.errors import WorkerError
from abreast.processes.backend import ChildSpec
from abreast.processes.process import ProcessBackend, comes_from_main
from abreast.processes.team import RestartPolicy, Team
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.episodes.guard import Guard
from abreast.rollouts.episodes.local import LocalEpisodes
from abreast.rollouts.episodes.slot import HERE, Slot
from abreast.rollouts.registry import Tag, find_kind
from abreast.rollouts.workers.placement import Placement, PlacementRules, Use
from abreast.rollouts.workers.worker import RolloutWork

log = logging.getLogger("abreast")

IDLE_DEATHS = 5
"""How often in a row a worker may die without an answer, at no environment, before it is lost."""


class Places:
    """Moves slots between the main process and workers. `team` is None until a worker is needed."""

    def __init__(
        self, slots: Sequence[Slot], config: ManagerConfig, workers: int, rules: PlacementRules, guard: Guard
    ) -> None:
        self._slots, self._config, self._guard = slots, config, guard
        self.local = LocalEpisodes(config.step_timeout)
        self.team: Team | None = None
        self.placement = Placement(slots, workers, rules)
        self.recipes = {slot.tag.name: _recipe(slot.tag) for slot in slots}
        """By tag: what makes its environment in a worker, pickled; empty if that is not possible."""
        sequential = {find_kind(name).name for name in config.sequential_env_types}
        self._local_tags = {slot.tag.name for slot in slots if slot.tag.kind.name in sequential}
        self._local_tags |= {name for name, recipe in self.recipes.items() if not recipe}
        self._settled: Use | None = None
        """The `use_multiprocessing` that slots were last moved for; None: some could not be."""
        self._cannot_start = False

    def settle(self, use: Use, pending: Container[int]) -> None:
        """Have a change of `use_multiprocessing` take effect in the middle of episodes, pending turns aside.

        True and False move environments, which are replayed with their next turn. "auto" moves them at resets only.
        """
        if use == self._settled:
            return
        if use == "auto":
            self._settled = use
            return
        self.placement.epoch.is_spoiled = True
        workers = self._living[: self.placement.count or None]
        places = self.placement.spread(self._movable, workers, keep=True) if use else {}
        self._settled = use if self._move(places, use, pending) else None

    def place(self, use: Use) -> None:
        """Before a reset: move every environment to where it should live for the next episodes."""
        self.placement.observe()
        self.placement.epoch.has_moved = not self._slots[0].serial
        may_leave = use and not (use == "auto" and self._cannot_start)
        self._move(self.placement.choose(self._movable if may_leave else [], self._living, use), use, ())
        self._settled = use

    def stay_here(self, slot: Slot) -> None:
        """The environment of this slot cannot live in a worker; others of its tag follow with the next reset."""
        self._local_tags.add(slot.tag.name)
        slot.move(HERE)

    def leave(self, worker: int) -> None:
        """A worker is lost: its slots go to the workers with the least to do, or to the main process if none is left."""
        self.placement.epoch.is_spoiled = True
        away = [slot for slot in self._slots if slot.worker != HERE]
        places = self.placement.spread(away, self._living, keep=True)
        for slot in away:
            if slot.worker == worker:
                slot.move(places.get(slot.env_id, HERE))

    def close(self) -> None:
        """End the workers and close the environments."""
        team, self.team = self.team, None
        if team is not None:
            if self._guard.is_broken:
                team.kill()  # its state is unknown too
            else:
                team.stop()
        self.local.close()

    def start_over(self) -> None:
        """An interrupt has left an unknown state: forget everything but measurements."""
        self.close()
        for slot in self._slots:
            slot.move(HERE)

    @property
    def _movable(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.tag.name not in self._local_tags]

    @property
    def _living(self) -> list[int]:
        lost = self.team.lost if self.team is not None else ()
        return [worker for worker in range(self.placement.workers) if worker not in lost]

    def _move(self, workers: dict[int, int], use: Use, pending: Container[int]) -> bool:
        """Let slots live in these workers, and all others here; whether all of them could be moved, none being pending.

        Under `auto`, all stay here if workers cannot start.
        """
        if workers and self.team is None:
            try:
                self._start_team()
            except (WorkerError, OSError) as error:
                if use != "auto":
                    raise
                log.warning("environments stay in the main process, because workers cannot start: %s", error)
                self._cannot_start, self.placement.count, workers = True, 0, {}
        moving = [slot for slot in self._slots if slot.worker != workers.get(slot.env_id, HERE)]
        free = [slot for slot in moving if slot.env_id not in pending]
        with self._guard:
            for slot in free:
                self.placement.epoch.has_moved = True
                if slot.worker == HERE:
                    self.local.release(slot)
                slot.move(workers.get(slot.env_id, HERE))
        return len(free) == len(moving)

    def _start_team(self) -> None:
        config = self._config
        needs_main = any(comes_from_main(slot.tag.kind.env, slot.tag.config) for slot in self._slots)

        def spec(number: int) -> ChildSpec:
            return ChildSpec(f"rollout worker {number}", RolloutWork, (config.worker_memory_mb,), needs_main)

        backend = ProcessBackend(config.start_method, preload=[RolloutWork.__module__])
        policy = RestartPolicy(IDLE_DEATHS, config.step_timeout or float("inf"))
        team = Team(backend, spec, self.placement.workers, policy)
        team.start()
        self.team = team


def _recipe(tag: Tag) -> bytes:
    try:
        return pickle.dumps((tag.kind.env, tag.config))
    except Exception as error:
        log.warning("environments of type %s stay in the main process: %s", tag.kind.name, error)
        return b""
