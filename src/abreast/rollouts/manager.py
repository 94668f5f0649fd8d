"""Hundreds of environments, stepped in parallel, with the results of stepping them one after the other.

┌─────────────────┐ inputs ┌───────┐ orders, one per worker and batch ┌─────────────┐ step ┌──────────────┐
│ EnvStateManager │───────▶│ Turns │─────────────────────────────────▶│ RolloutWork │─────▶│ environments │
└─────────────────┘◀───────└───────┘◀─── states, rewards, digests ────└─────────────┘      └──────────────┘
  checks inputs,            routes turns,                               or in the main process, if that is faster
  numbers seeds             handles deaths
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

from abreast.errors import ConfigError, RolloutError, short
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.episodes.pending import READY, PendingTurn
from abreast.rollouts.episodes.slot import Cache, Slot
from abreast.rollouts.episodes.summary import Ended, pass_at_k, summary_of_tag
from abreast.rollouts.episodes.turns import Turns
from abreast.rollouts.episodes.waiters import Listener, Waiter
from abreast.rollouts.registry import Tag, find_tag
from abreast.rollouts.workers.placement import PlacementRules, Use
from abreast.settings import read_yaml


class EnvStateManager:
    """Steps environments, in worker processes or in the main process; `use_multiprocessing` may be changed at any time.

        with EnvStateManager(config) as manager:
            outputs = manager.reset()
            while outputs:
                outputs = manager.step([{"env_id": cache["env_id"], "actions": answer(cache)} for cache in outputs])
            print(manager.get_rollout_states())

    The configuration is a mapping, or the name of a YAML file. `verify` keeps a copy of every environment in the main
    process, steps it too, and raises if a worker's result ever differs. `rules` are the constants by which `auto` decides.
    """

    def __init__(
        self,
        config: object = None,
        mode: Literal["train", "val"] = "train",
        verify: bool = False,
        rules: PlacementRules | None = None,
    ) -> None:
        if mode not in ("train", "val"):
            raise ConfigError(f"mode is {mode!r}: expected train or val.")
        given = read_yaml(Path(config)) if isinstance(config, str | Path) else config
        self.config = RolloutConfig.parse({} if given is None else given)
        self.mode: Literal["train", "val"] = mode
        self.use_multiprocessing: Use = self.config.es_manager.use_multiprocessing
        self.envs = self._make_slots()
        """All that is known of each environment, by number; to look at, not to change."""
        self._turns = Turns(self.envs, self.config.es_manager, verify, rules or PlacementRules())
        self._placement = self._turns.places.placement
        self._listener = Listener(lambda: self._turns.pump(0.0))
        self._next_seed = self.config.seed.train
        self._was_sent = False
        self._is_closed = False

    # ---- episodes

    def reset(self, seed: int | None = None) -> list[Cache]:
        """Begin an episode in every environment; returns the caches of those that could. A group has one seed."""
        self._check_open()
        first, turns = self._first_seed(seed), self._turns
        self._listener.abandon_all()
        if turns.guard.is_broken:
            turns.start_over()
        turns.abandon()
        turns.places.place(self.use_multiprocessing)
        with turns.guard:
            self._was_sent = False
            for slot in self.envs:
                slot.begin(first + slot.group_id)
        started = time.perf_counter()
        try:
            turns.wait_for(turns.begin(dict.fromkeys(range(len(self.envs))), together=True))
            self._placement.epoch.reset_s = time.perf_counter() - started
        except RolloutError:  # `verify` has found a difference
            with turns.guard:
                for slot in self.envs:
                    slot.begin(slot.seed)  # so that there is no episode
            raise
        finally:
            turns.abandon()  # if this was interrupted, environments without a first state have no episode
        begun = [slot.cache for slot in self.envs if not slot.terminated]
        if not begun:
            reason = self.envs[0].history[-1]["info"]["error"].rstrip(".")
            raise RolloutError(
                f"no environment could begin, environment 0 ({self.envs[0].tag.name}) because of: {reason}."
            )
        return begun

    def step(self, all_env_inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """Take a turn in some environments; returns the caches of those not yet done, in the order of the inputs."""
        if self._turns.pending:
            raise RolloutError(
                f"step called while {len(self._turns.pending)} turns are under way: recv or await them first."
            )
        with self._placement.epoch:
            turns = self._begin(all_env_inputs, together=True)
            self._turns.wait_for(turns)
            return self._turns.hand_out(turns)

    def send(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        """Begin a turn in some environments; `recv` returns the results. The main process takes its turns then."""
        with self._placement.epoch:
            self._begin(inputs, together=False)

    def recv(self, min_ready: int = 1, timeout: float | None = None) -> list[Cache]:
        """Wait until at least `min_ready` of the turns begun are taken, or all, or `timeout` seconds have passed.

        Returns the caches of those not yet done, in the order they were begun; `pending` tells which are under way.
        """
        self._check_open()
        self._check_consistent()
        if not self._was_sent:
            raise RolloutError("recv called before send: there is nothing to wait for.")
        if isinstance(min_ready, bool) or not isinstance(min_ready, int) or min_ready < 1:
            raise RolloutError(
                f"min_ready is {short(min_ready)}: expected 1 or more; timeout=0 is for a look without waiting."
            )
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise RolloutError(
                f"timeout is {short(timeout)}: expected seconds, 0 or more, or None to wait for any time."
            )
        turns, end = self._turns, None if timeout is None else time.monotonic() + timeout
        count = min(min_ready, sum(1 for turn in turns.pending.values() if not turn.is_awaited))
        with self._placement.epoch:
            while len(taken := turns.taken()) < count:
                left_s = 3600.0 if end is None else end - time.monotonic()
                turns.pump(max(left_s, 0.0))
                if left_s <= 0:
                    taken = turns.taken()
                    break
            return turns.hand_out(taken)

    async def step_async(self, inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """As `step`, but awaitable; any number may be under way at once, for different environments."""
        with self._placement.epoch:
            turns = self._begin(inputs, together=False)
            waiter = Waiter(len(turns))
            try:
                for turn in turns:
                    turn.waiter = waiter
                self._turns.pump(0.0)
                await self._listener.wait(waiter, self._turns.places.team)
                self._check_open()
                if waiter.is_abandoned:
                    raise RolloutError("the turn that was awaited belongs to an episode that a reset has ended.")
                return self._turns.hand_out(turns)
            finally:
                waiter.end()

    @property
    def pending(self) -> list[int]:
        """Environments whose turn is begun and not yet received."""
        return list(self._turns.pending)

    # ---- reports

    def get_rollout_states(self) -> dict[str, Any]:
        """Results of the episodes so far: means per tag (`tags`), pass@k per group (`groups`)."""
        tags: dict[str, list[Ended]] = {}
        groups: dict[int, list[Slot]] = {}
        for env in self.envs:
            episode = Ended(env.num_actions, env.tally, env.history)
            tags.setdefault(env.tag.name, []).append(episode)
            groups.setdefault(env.group_id, []).append(env)
        return {
            "tags": {tag: summary_of_tag(episodes) for tag, episodes in tags.items()},
            "groups": {
                group: {"tag": envs[0].tag.name, **pass_at_k(env.tally.success for env in envs)}
                for group, envs in groups.items()
            },
        }

    def statuses(self) -> list[dict[str, Any]]:
        """Seed, actions taken, reward, and how it ended, of every environment."""
        return [
            {
                "env_id": env.env_id,
                "seed": env.seed,
                "num_actions": env.num_actions,
                "reward": env.tally.reward,
                "terminated": env.terminated,
                "truncated": env.truncated,
            }
            for env in self.envs
        ]

    @property
    def caches(self) -> list[Cache]:
        """The cache of every environment, done or not, by number."""
        return [env.cache for env in self.envs]

    def render(self) -> list[Any]:
        """What every environment shows now: a text, or a list of images."""
        self._check_open()
        shown = [env.history[-1] if env.history else {"state": ""} for env in self.envs]
        return [entry.get("images", entry["state"]) for entry in shown]

    def tag_of(self, env_id: int) -> Tag:
        """The tag of an environment: its type, configuration, budget and instruction."""
        return self.envs[env_id].tag

    @property
    def verified_turns(self) -> int:
        """How many turns and starts of workers were taken in the main process too, with equal results (`verify`)."""
        return self._turns.verifier.turns if self._turns.verifier is not None else 0

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers, if there are any."""
        team = self._turns.places.team
        return list(team.pids.values()) if team is not None else []

    def __len__(self) -> int:
        return len(self.envs)

    # ---- the end

    def close(self) -> None:
        """End the workers and close the environments. Nothing can be asked of the manager afterwards."""
        self._is_closed = True
        try:
            self._listener.abandon_all()
        finally:
            self._turns.close()

    def __enter__(self) -> "EnvStateManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside

    def _make_slots(self) -> list[Slot]:
        settings = getattr(self.config.es_manager, self.mode)
        slots: list[Slot] = []
        for name, groups in zip(settings.env_configs.tags, settings.env_configs.n_groups, strict=True):
            tag = find_tag(name, self.config.custom_envs, self.mode)
            for _ in range(groups * settings.group_size):
                slots.append(Slot(len(slots), len(slots) // settings.group_size, tag))
        return slots

    def _first_seed(self, seed: Any) -> int:
        """The seed of the first group. In training, seeds count on from the highest that was used."""
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
            raise RolloutError(f"the seed is {short(seed)}: expected a whole number, 0 or more.")
        if self.mode == "val":
            return self.config.seed.val if seed is None else int(seed)
        first = self._next_seed if seed is None else int(seed)
        self._next_seed = max(self._next_seed, first + self.envs[-1].group_id + 1)
        return first

    def _check_open(self) -> None:
        if self._is_closed:
            raise RolloutError("the manager is closed: make a new one.")
        if self.use_multiprocessing not in (True, False, "auto"):
            raise RolloutError(f"use_multiprocessing is {self.use_multiprocessing!r}: expected True, False or 'auto'.")

    def _check_consistent(self) -> None:
        if self._turns.guard.is_broken:
            raise RolloutError(
                "an earlier call was interrupted while it wrote results, so they are incomplete: call reset."
            )

    def _begin(self, inputs: Sequence[Mapping[str, Any]], together: bool) -> list[PendingTurn]:
        self._check_open()
        self._check_consistent()
        checked = self._check(inputs)
        self._turns.places.settle(self.use_multiprocessing, self._turns.pending)
        self._placement.epoch.batches += 1
        self._was_sent = True
        return self._turns.begin(checked, together)

    def _check(self, inputs: Sequence[Mapping[str, Any]]) -> dict[int, Mapping[str, Any]]:
        """The inputs by environment; any mistake is an error before anything is stepped."""
        if not isinstance(inputs, (list, tuple)):
            raise RolloutError(f"inputs are {short(inputs)}: expected a list of mappings with env_id and actions.")
        checked: dict[int, Mapping[str, Any]] = {}
        for asked in inputs:
            try:
                env_id, actions = asked["env_id"], asked["actions"]
            except (TypeError, KeyError, IndexError):
                raise RolloutError(f"an input is {short(asked)}: expected a mapping with env_id and actions.") from None
            if type(env_id) is not int and isinstance(env_id, np.integer):
                env_id = int(env_id)
            if type(env_id) is not int or not 0 <= env_id < len(self.envs):
                raise RolloutError(f"env_id is {short(env_id)}: expected a number from 0 to {len(self.envs) - 1}.")
            if env_id in checked:
                raise RolloutError(f"environment {env_id} is given twice: give one input for each.")
            if self._turns.turns[env_id].phase is not READY:
                raise RolloutError(self._why_not(env_id))
            checked[env_id] = asked
            for action in actions if type(actions) is list else (None,):
                if type(action) is not str:
                    checked[env_id] = _plain(asked)
                    break
        return checked

    def _why_not(self, env_id: int) -> str:
        """Why an environment cannot be given an input."""
        if env_id in self._turns.pending:
            return f"the turn of environment {env_id} is already under way: recv or await it first."
        if not self.envs[env_id].history:
            return f"environment {env_id} has no episode yet: call reset first."
        return f"the episode of environment {env_id} is over: leave it out, or call reset."


def _plain(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The input with actions of the class str: a worker may not know subclasses of it."""
    actions = asked["actions"]
    if not isinstance(actions, (list, tuple)) or not all(isinstance(action, str) for action in actions):
        raise RolloutError(f"actions of environment {asked['env_id']} are {short(actions)}: expected a list of texts.")
    return {**asked, "actions": [str.__str__(action) for action in actions]}
