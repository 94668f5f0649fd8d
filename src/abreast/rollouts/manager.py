"""Hundreds of environments, stepped side by side, with the results of stepping them one after the other.

┌─────────────────┐ turns ┌───────┐ orders, one list a worker and batch ┌────────┐ step ┌──────────────┐
│ EnvStateManager │──────▶│ Fleet │────────────────────────────────────▶│ worker │─────▶│ its own envs │
└─────────────────┘◀──────└───────┘◀──── states, rewards, digests ──────└────────┘      └──────────────┘
  what a turn means        where it is taken                              or here, if that is faster
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np

from abreast.errors import ConfigError, RolloutError, short
from abreast.rollouts.config import RolloutConfig
from abreast.rollouts.episodes.slot import Cache, EnvState
from abreast.rollouts.episodes.summary import Ended, pass_at_k, summary_of_tag
from abreast.rollouts.episodes.turns import Fleet
from abreast.rollouts.episodes.waiters import Awaiting
from abreast.rollouts.registry import Tag, find_tag
from abreast.rollouts.workers.placement import Use
from abreast.settings import read_yaml


class EnvStateManager:
    """Steps environments, in worker processes or here; `use_multiprocessing` may be changed at any time.

        with EnvStateManager(config) as manager:
            outputs = manager.reset()
            while outputs:
                outputs = manager.step([{"env_id": cache["env_id"], "actions": answer(cache)} for cache in outputs])
            print(manager.get_rollout_states())

    The configuration is a mapping, or the name of a YAML file. `verify` keeps a copy of every environment here, steps it
    too, and raises if a worker ever says anything else.
    """

    def __init__(self, config: object = None, mode: Literal["train", "val"] = "train", verify: bool = False) -> None:
        if mode not in ("train", "val"):
            raise ConfigError(f"mode is {mode!r}: expected train or val.")
        given = read_yaml(Path(config)) if isinstance(config, str | Path) else config
        self.config = RolloutConfig.parse({} if given is None else given)
        self.mode: Literal["train", "val"] = mode
        self.use_multiprocessing: Use = self.config.es_manager.use_multiprocessing
        self.envs = self._make_envs()
        """All that is known of each environment, by number; to look at, not to change."""
        self._fleet = Fleet(self.envs, self.config.es_manager, verify)
        self._penalty = abs(self.config.es_manager.format_penalty)
        self._next_seed = self.config.seed.train
        self._begun: dict[int, EnvState] = {}
        self._taken: set[int] = set()
        self._awaited: set[int] = set()
        self._was_sent = False
        self._is_closed = False
        self._turn_s: defaultdict[str, list[float]] = defaultdict(list)
        self._start_s: defaultdict[str, list[float]] = defaultdict(list)
        self._awaiting = Awaiting(lambda: self._hear(0.0))
        self._episodes = 0
        """How often episodes were begun or abandoned: tells who awaits a turn whether it can still come."""

    # ---- episodes

    def reset(self, seed: int | None = None) -> list[Cache]:
        """Begin an episode in every environment; returns the caches of those that could. A group has one seed."""
        self._check_open()
        first = self._first_seed(seed)
        if self._fleet.whole.is_torn:
            self._awaiting.wake_all()
            self._fleet.start_over()
        self._abandon()
        with self._fleet.whole:
            for env in self.envs:
                env.begin(first + env.group_id)
            self._fleet.placement.begin_episodes()
        self._fleet.settle(self.use_multiprocessing)
        started = time.perf_counter()
        try:
            with self._fleet.whole:
                self._begin(self.envs, together=True)
            self._wait_for(len(self.envs), None)
            wall_s = time.perf_counter() - started if self.use_multiprocessing == "auto" else None
            self._fleet.placement.note_starts(self._start_s, wall_s)
        finally:  # if this failed, those without a first state have no episode
            self._abandon()
            for env in self.envs:
                env.is_waiting = bool(env.history) and not env.terminated
        begun = [env.cache for env in self.envs if env.is_waiting]
        if not begun:
            reason = self.envs[0].history[-1]["info"]["error"].rstrip(".")
            raise RolloutError(
                f"no environment could begin, environment 0 ({self.envs[0].tag.name}) because of: {reason}."
            )
        return begun

    def step(self, all_env_inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """Take a turn in some environments; returns the caches of those not yet done, in the order of the inputs."""
        if self._begun:
            raise RolloutError(f"step called while {len(self._begun)} turns are under way: recv or await them first.")
        started = time.perf_counter()
        envs = self._send(all_env_inputs, together=True)
        self._wait_for(len(envs), None)
        return self._handed_out(envs, time.perf_counter() - started)

    def send(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        """Begin a turn in some environments; `recv` tells what it came to. Those that live here take theirs then."""
        self._send(inputs, together=False)

    def _send(self, inputs: Sequence[Mapping[str, Any]], together: bool) -> list[EnvState]:
        self._check_open()
        self._check_whole()
        checked = self._check(inputs)
        self._fleet.settle(self.use_multiprocessing)
        envs = [self.envs[env_id] for env_id in checked]
        with self._fleet.whole:
            for env, asked in zip(envs, checked.values(), strict=True):
                env.asked, env.blamed, env.is_waiting = asked, [], False
            self._begin(envs, together)
            self._was_sent = True
        return envs

    def recv(self, min_ready: int = 1, timeout: float | None = None) -> list[Cache]:
        """Wait until at least `min_ready` of the turns begun are taken, or all, or `timeout` seconds have passed.

        Returns the caches of those not yet done, in the order they were begun; `pending` tells what is still under way.
        """
        self._check_open()
        self._check_whole()
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
        self._wait_for(min_ready, timeout)
        ready = self._taken - self._awaited
        return self._handed_out([env for env_id, env in self._begun.items() if env_id in ready], None)

    async def step_async(self, inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """As `step`, but awaitable; any number may be under way at once, for different environments."""
        mine = {env.env_id: env for env in self._send(inputs, together=False)}
        episodes = self._episodes
        self._awaited.update(mine)
        try:
            self._hear(0.0)
            await self._awaiting.until_taken(mine.keys() - self._taken, self._fleet.pool)
            self._check_open()
            if episodes != self._episodes:
                raise RolloutError("the turn that was awaited belongs to an episode that a reset has ended.")
        finally:  # if this was cancelled, `recv` can still ask for these turns
            if episodes == self._episodes:
                self._awaited.difference_update(mine)
        return self._handed_out(mine.values(), None)

    @property
    def pending(self) -> list[int]:
        """Environments whose turn is begun and not yet received."""
        return list(self._begun)

    # ---- what they came to

    def get_rollout_states(self) -> dict[str, Any]:
        """What the episodes came to so far: means per tag (`tags`), pass@k per group (`groups`)."""
        tags: dict[str, list[Ended]] = {}
        groups: dict[int, list[EnvState]] = {}
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
        """How many turns and starts of workers were taken here too, and came to the same (`verify`)."""
        return self._fleet.verified_turns

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers, if there are any."""
        return self._fleet.pool.pids if self._fleet.pool is not None else []

    def __len__(self) -> int:
        return len(self.envs)

    # ---- the end

    def close(self) -> None:
        """End the workers and close the environments. Nothing can be asked of the manager afterwards."""
        self._is_closed = True
        try:
            self._awaiting.wake_all()
        finally:
            self._fleet.close()

    def __enter__(self) -> "EnvStateManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside

    def _make_envs(self) -> list[EnvState]:
        settings = getattr(self.config.es_manager, self.mode)
        envs: list[EnvState] = []
        for name, groups in zip(settings.env_configs.tags, settings.env_configs.n_groups, strict=True):
            tag = find_tag(name, self.config.custom_envs)
            for _ in range(groups * settings.group_size):
                envs.append(EnvState(len(envs), len(envs) // settings.group_size, tag))
        return envs

    def _first_seed(self, seed: Any) -> int:
        """The seed of the first group. In training, what was used once is never counted on to again."""
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

    def _check_whole(self) -> None:
        if self._fleet.whole.is_torn:
            raise RolloutError("the last call was interrupted while it wrote down what came of some turns: call reset.")

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
            env = self.envs[env_id]
            if not env.is_waiting:
                raise RolloutError(self._why_not(env))
            checked[env_id] = asked
            for action in actions if type(actions) is list else (None,):
                if type(action) is not str:
                    checked[env_id] = _plain(asked)
                    break
        return checked

    def _why_not(self, env: EnvState) -> str:
        """Why an environment cannot be asked for a turn."""
        if env.env_id in self._begun:
            return f"the turn of environment {env.env_id} is already under way: recv or await it first."
        if not env.history:
            return f"environment {env.env_id} has no episode yet: call reset first."
        return f"the episode of environment {env.env_id} is over: leave it out, or call reset."

    def _wait_for(self, count: int, timeout: float | None) -> None:
        """Wait until so many turns are taken, or all that are begun; those that somebody awaits aside."""
        end = None if timeout is None else time.monotonic() + timeout
        count = min(count, len(self._begun.keys() - self._awaited))
        while len(self._taken - self._awaited) < count:
            left = 3600.0 if end is None else end - time.monotonic()
            self._hear(max(left, 0.0))
            if left <= 0:
                return

    def _begin(self, envs: Sequence[EnvState], together: bool) -> None:
        for env in envs:
            self._begun[env.env_id] = env
        self._fleet.begin(envs, together)

    def _abandon(self) -> None:
        """Turns that are under way are none any more; who awaits one will hear of it."""
        with self._fleet.whole:
            self._fleet.abandon()
            self._begun, self._taken, self._awaited, self._was_sent = {}, set(), set(), False
            self._start_s.clear()
            self._episodes += 1
        self._awaiting.wake_all()

    def _hear(self, wait_s: float) -> None:
        """Write down what came of the turns that are taken."""
        self._fleet.hear(wait_s)
        if not self._fleet.finished:
            return
        with self._fleet.whole:
            for env, turn in self._fleet.finished:
                self._taken.add(env.env_id)
                if env.asked is None:
                    env.started(turn)
                    self._start_s[env.tag.name].append(turn.seconds)
                else:
                    env.stepped(turn, self._penalty)
                    if turn.failure is None:
                        self._turn_s[env.tag.name].append(turn.seconds)
                if self._awaiting:
                    self._awaiting.taken(env.env_id)
            self._fleet.finished.clear()

    def _handed_out(self, envs: Iterable[EnvState], wall_s: float | None) -> list[Cache]:
        """Close the books on the turns of these environments; what they cost tells where such should live."""
        outputs, turns_so_far = [], 0
        with self._fleet.whole:
            for env in envs:
                del self._begun[env.env_id]
                self._taken.discard(env.env_id)
                turns_so_far = max(turns_so_far, len(env.executed))
                env.is_waiting = not env.terminated
                if env.is_waiting:
                    outputs.append(env.cache)
        turns, self._turn_s = self._turn_s, defaultdict(list)
        self._fleet.placement.note_turns(turns)
        if self.use_multiprocessing == "auto" and turns:
            self._fleet.placement.note_batch(turns, wall_s, turns_so_far)
        return outputs


def _plain(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """The input with plain texts for actions, not of some class that a worker may not know."""
    actions = asked["actions"]
    if not isinstance(actions, (list, tuple)) or not all(isinstance(action, str) for action in actions):
        raise RolloutError(f"actions of environment {asked['env_id']} are {short(actions)}: expected a list of texts.")
    return {**asked, "actions": [str.__str__(action) for action in actions]}
