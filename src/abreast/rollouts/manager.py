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

from abreast.errors import BeginError, ConfigError, RolloutError, nearest, short
from abreast.rollouts.context.context import Context
from abreast.rollouts.episodes.inputs import check_actions, check_env_ids, check_inputs, check_seed, check_seeds
from abreast.rollouts.episodes.leased import Lease
from abreast.rollouts.episodes.leases import Held, Leases
from abreast.rollouts.episodes.metrics import write_metrics
from abreast.rollouts.episodes.pending import OVER, QUEUED, READY, TAKEN, PendingTurn
from abreast.rollouts.episodes.slot import Cache, Slot
from abreast.rollouts.episodes.summary import Ended, pass_at_k, summary_of_tag
from abreast.rollouts.episodes.turns import ABANDONED, UNDER_WAY, Turns
from abreast.rollouts.episodes.waiters import Listener, Waiter
from abreast.rollouts.loading import load_config
from abreast.rollouts.registry import Tag
from abreast.rollouts.workers.placement import PlacementRules, Use


class EnvStateManager:
    """Steps environments, in worker processes or in the main process; `use_multiprocessing` may be changed at any time.

        with EnvStateManager(config) as manager:
            outputs = manager.reset()
            while outputs:
                outputs = manager.step([{"env_id": cache["env_id"], "actions": answer(cache)} for cache in outputs])
            print(manager.get_rollout_states())

    The configuration is a mapping, an OmegaConf object, or the name of a YAML file. `verify` keeps a copy of every
    environment in the main process, steps it too, and raises if a worker's result ever differs. `rules` are the constants
    by which `auto` decides.
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
        self.config, tags = load_config(config, mode)
        self.mode: Literal["train", "val"] = mode
        self.use_multiprocessing: Use = self.config.es_manager.use_multiprocessing
        self.envs = self._make_slots(tags)
        """All that is known of each environment, by number; to look at, not to change."""
        if verify:
            _check_replayable(self.envs)
        self._turns = Turns(self.envs, self.config.es_manager, verify, rules or PlacementRules())
        self._placement = self._turns.places.placement
        self._listener = Listener(lambda: self._turns.pump(0.0))
        self.leases = Leases(self._turns, self.config.es_manager.episodes)
        self._next_seed = self.config.seed.train
        self._singles = 0
        self._contexts: dict[str, Context] = {}
        self._was_sent = False
        self._is_closed = False

    # ---- episodes

    def reset(
        self, seed: int | None = None, env_ids: Sequence[int] | None = None, seeds: Sequence[int] | None = None
    ) -> list[Cache]:
        """Begin an episode in every environment, or in some; returns the caches of those that could, in this order.

        A group has one seed: `seed` plus its number. Without one, train counts on, and val begins at its first. `seeds`
        gives each environment its own.
        """
        self._check_open()
        turns = self._turns
        chosen = range(len(self.envs)) if env_ids is None else check_env_ids(env_ids, turns)
        slots = [self.envs[env_id] for env_id in chosen]
        each_seed = self._seeds(slots, seed, seeds)
        if turns.guard.is_broken:
            turns.start_over()
            self.leases.end_all(close=False)
        self.leases.reserve(slots)
        try:
            return self._begin_all(slots, each_seed, together=env_ids is None)
        finally:
            self.leases.unreserve(slots)

    def _begin_all(self, slots: Sequence[Slot], seeds: Sequence[int], together: bool) -> list[Cache]:
        turns, env_ids = self._turns, [slot.env_id for slot in slots]
        turns.abandon(env_ids)
        if together:
            turns.places.place_all(self.use_multiprocessing)
            self._was_sent = False
        else:
            turns.places.place_some(slots, self.use_multiprocessing)
        with turns.guard:
            for slot, seed in zip(slots, seeds, strict=True):
                slot.begin(seed)
        started = time.perf_counter()
        try:
            turns.wait_for(turns.begin(dict.fromkeys(env_ids), together=True))
            if together:
                self._placement.epoch.reset_s = time.perf_counter() - started
        except RolloutError:  # `verify` has found a difference
            with turns.guard:
                for slot in slots:
                    slot.begin(slot.seed)  # so that there is no episode
            raise
        finally:
            turns.abandon(env_ids)  # if this was interrupted, environments without a first state have no episode
        begun = [slot.cache for slot in slots if not slot.terminated]
        if not begun:
            first = slots[0]
            reason = first.history[-1]["info"]["error"].rstrip(".")
            raise RolloutError(
                f"no environment could begin, environment {first.env_id} ({first.tag.name}) because of: {reason}."
            )
        return begun

    def step(self, all_env_inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """Take a turn in some environments; returns the caches of those not yet done, in the order of the inputs."""
        if self._turns.pending and (under_way := self._turns.receivable):
            raise RolloutError(f"step called while {len(under_way)} turns are under way: recv or await them first.")
        with self._placement.epoch:
            turns = self._begin(all_env_inputs, together=True)
            self._turns.wait_for(turns)
            outputs = self._turns.hand_out(turns)
        self.leases.offer()
        return outputs

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
        with self._placement.epoch:
            while True:
                turns.take_queued(turns.receivable)
                turns.pump(0.0)
                begun = turns.receivable  # another thread may have begun some anew
                taken = [turn for turn in begun if turn.phase is TAKEN]
                left_s = 3600.0 if end is None else end - time.monotonic()
                if len(taken) >= min(min_ready, len(begun)) or left_s <= 0:
                    break
                turns.wait_for_any(begun, left_s)
            outputs = turns.hand_out(taken)
        self.leases.offer()
        return outputs

    async def step_async(self, inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """As `step`, but awaitable; any number may be under way at once, for different environments."""
        self._check_open()
        with self._placement.epoch:
            checked = check_inputs(inputs, self._turns)
            self._placement.epoch.batches += 1
            self._was_sent = True
            outputs = await self._take_async(checked)
        self.leases.offer()
        return outputs

    async def _take_async(
        self, inputs: Mapping[int, Mapping[str, Any] | None], held: Held | None = None
    ) -> list[Cache]:
        """Take turns, or begin episodes, without keeping the event loop waiting for workers."""
        self._check_consistent()
        turns, waiter = self._turns, Waiter()
        try:
            with turns.guard:
                if held is not None:
                    self.leases.touch(held)  # it may have ended since the caller has looked
                begun = turns.begin(inputs, together=False, waiter=waiter)
            return await self._await_turns(begun, waiter, held)
        finally:
            waiter.end()

    async def _await_turns(self, begun: Sequence[PendingTurn], waiter: Waiter, held: Held | None) -> list[Cache]:
        turns = self._turns
        while True:
            turns.take_queued(begun)
            turns.pump(0.0)
            if all(turn.phase is TAKEN for turn in begun):
                with turns.guard:
                    if held is not None:
                        self.leases.touch(held)  # from now on it may be idle
                    return turns.hand_out(begun)
            self._check_open()
            if any(turn.phase in (READY, OVER) for turn in begun):
                raise RolloutError(ABANDONED)
            if not any(turn.phase is QUEUED for turn in begun):
                assert turns.places.team is not None, "turns were sent"
                await self._listener.wait(waiter, turns.places.team)

    # ---- single episodes

    def episode(self, tag: str | None = None, seed: int | None = None, group_id: int | None = None) -> Lease:
        """A single episode, in an environment of its own, beside those of batches; from any thread or task.

            async with manager.episode("SimpleSokoban", seed=7) as episode:
                while not episode.done:
                    await episode.step(await answer(episode.messages))

        The same with `with`, and `episode.step` without `await`. If no environment of the tag is free, it waits for one, or
        raises, as es_manager.episodes says.
        """
        self._check_open()
        names = self.leases.tags
        if tag is None and len(names) > 1:
            raise RolloutError(f"there are the tags {', '.join(names)}: say which, as in episode({names[0]!r}).")
        if tag is not None and tag not in names:
            raise RolloutError(f"there is no tag {short(tag)} in this manager: {nearest(str(tag), names)}")
        if group_id is not None and (isinstance(group_id, bool) or not isinstance(group_id, int)):
            raise RolloutError(f"group_id is {short(group_id)}: expected a whole number.")
        return Lease(self, tag or names[0], None if seed is None else check_seed(seed), group_id)

    @property
    def leased(self) -> int:
        """How many environments belong to single episodes."""
        return self.leases.count()

    def begin_leased(self, held: Held, seed: int | None, group_id: int | None) -> None:
        """Begin an episode in a slot that the caller has leased. (For `Lease`, as the next three.)"""
        self._prepare(held, seed, group_id)
        self._take_leased(held, None)
        self._check_begun(held[0])

    async def begin_leased_async(self, held: Held, seed: int | None, group_id: int | None) -> None:
        """As `begin_leased`, awaitable."""
        self._prepare(held, seed, group_id)
        await self._take_async({held[0].env_id: None}, held)
        self._check_begun(held[0])

    def step_leased(self, held: Held, answer: str | Sequence[str]) -> None:
        """Take a turn in a leased slot."""
        self._check_consistent()
        self._take_leased(held, self._input(held[0], answer))

    async def step_leased_async(self, held: Held, answer: str | Sequence[str]) -> None:
        """As `step_leased`, awaitable. A turn whose caller was cancelled comes first: it was taken, too."""
        turn = self._turns.turns[held[0].env_id]
        if held[0].env_id in self._turns.pending and turn.waiter is not None and not turn.waiter.is_waiting:
            waiter = turn.waiter = Waiter()
            try:
                await self._await_turns([turn], waiter, held)
            finally:
                waiter.end()
            if held[0].terminated:
                raise RolloutError(f"the episode of environment {held[0].env_id} is over: its last turn has ended it.")
        await self._take_async({held[0].env_id: self._input(held[0], answer)}, held)

    def _take_leased(self, held: Held, inputs: Mapping[str, Any] | None) -> None:
        with self._turns.guard:
            self.leases.touch(held)  # it may have ended since the caller has looked
            turns = self._turns.begin({held[0].env_id: inputs}, together=True)
        self._turns.wait_for(turns)
        with self._turns.guard:
            self.leases.touch(held)  # from now on it may be idle
            self._turns.hand_out(turns)

    def _prepare(self, held: Held, seed: int | None, group_id: int | None) -> None:
        self._check_open()
        self._check_consistent()
        failed: BaseException | None = None
        with self._turns.guard:
            self.leases.touch(held)  # the manager may be closed, or the lease have ended
            try:
                self._turns.places.place_some([held[0]], self.use_multiprocessing)
            except BaseException as error:  # nothing was moved
                failed = error
            else:
                if seed is not None and self.mode == "train":
                    self._next_seed = max(self._next_seed, seed + 1)
                held[0].begin(self._single_seed() if seed is None else seed, group_id)
        if failed is not None:
            raise failed

    def _single_seed(self) -> int:
        """The seed of a single episode that was given none."""
        self._singles += 1
        if self.mode == "val":
            return self.config.seed.val + self._singles - 1
        self._next_seed += 1
        return self._next_seed - 1

    def _check_begun(self, slot: Slot) -> None:
        if slot.terminated:
            raise BeginError(f"an episode of {slot.tag.name} could not begin: {slot.history[-1]['info']['error']}")

    def messages_of(self, cache: Cache) -> list[dict[str, Any]]:
        """The chat messages that ask for the next turn of an episode."""
        return self.context(cache["env_id"]).messages(cache)

    def context(self, env_id: int) -> Context:
        """Prompts and answers of an environment's tag: from its cache to chat messages, from an answer to an input."""
        tag = self.envs[env_id].tag
        if tag.name not in self._contexts:
            self._contexts[tag.name] = Context(tag)
        return self._contexts[tag.name]

    def _input(self, slot: Slot, answer: str | Sequence[str]) -> Mapping[str, Any]:
        self._check_open()
        if self._turns.turns[slot.env_id].phase is not READY:
            raise RolloutError(UNDER_WAY)
        if isinstance(answer, str):
            return self.context(slot.env_id).input(slot.env_id, answer)
        return {"actions": check_actions(slot.env_id, answer)}

    @property
    def pending(self) -> list[int]:
        """Environments whose turn is begun and not yet received."""
        return [turn.slot.env_id for turn in self._turns.pending.values() if not turn.slot.lease]

    # ---- reports

    def get_rollout_states(self) -> dict[str, Any]:
        """Results of the episodes so far: means per tag (`tags`), pass@k per group (`groups`).

        Every cache then has `metrics` too; see `rollout_cache`.
        """
        tags: dict[str, list[Ended]] = {}
        groups: dict[int, list[Slot]] = {}
        for env in self.envs:
            episode = Ended(env.num_actions, env.tally, env.history)
            tags.setdefault(env.tag.name, []).append(episode)
            groups.setdefault(env.group_id, []).append(env)
        write_metrics(groups.values())
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

    @property
    def rollout_cache(self) -> list[Cache]:
        """All caches, each with `metrics` as of now under RAGEN's names: what its `get_rollout_states` returns."""
        self.get_rollout_states()
        return self.caches

    def render(self) -> list[Any]:
        """What every environment shows now: a text, or a list of images."""
        self._check_open()
        shown = [env.history[-1] if env.history else {"state": ""} for env in self.envs]
        return [entry.get("images", entry["state"]) for entry in shown]

    def export(self, path: str | Path, tokenizer: Any = None, per_turn: bool = False) -> int:
        """Write the episodes that are over to a file, .jsonl or .parquet, to train on; returns how many.

        With messages, raw answers, rewards and penalties per turn, groups, seeds and versions; with a tokenizer, also token
        ids, loss masks and rewards per token. `per_turn` writes a row for each turn instead of each episode.
        """
        from abreast.rollouts.drivers.export import export  # it needs this module

        return export(self, path, tokenizer, per_turn)

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
            self._listener.stop()
            self.leases.end_all(close=True)
        finally:
            self._turns.close()

    def __enter__(self) -> "EnvStateManager":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside

    def _make_slots(self, tags: Mapping[str, Tag]) -> list[Slot]:
        settings = getattr(self.config.es_manager, self.mode)
        slots: list[Slot] = []
        for name, groups in zip(settings.env_configs.tags, settings.env_configs.n_groups, strict=True):
            for _ in range(groups * settings.group_size):
                slots.append(Slot(len(slots), len(slots) // settings.group_size, tags[name]))
        return slots

    def _seeds(self, slots: Sequence[Slot], seed: int | None, seeds: Sequence[int] | None) -> list[int]:
        """A seed for each slot. In training, seeds count on from the highest that was used."""
        if seed is not None and seeds is not None:
            raise RolloutError("seed and seeds were given: give one of them.")
        if seeds is not None:
            chosen = check_seeds(seeds, [slot.env_id for slot in slots])
        elif seed is not None:
            chosen = [check_seed(seed) + slot.group_id for slot in slots]
        elif self.mode == "val":
            chosen = [self.config.seed.val + slot.group_id for slot in slots]
        else:
            rank = {group: rank for rank, group in enumerate(dict.fromkeys(slot.group_id for slot in slots))}
            with self._turns.guard:
                chosen = [self._next_seed + rank[slot.group_id] for slot in slots]
                self._next_seed = max(chosen) + 1
        if self.mode == "train":
            self._next_seed = max(self._next_seed, max(chosen) + 1)
        return chosen

    def _check_open(self) -> None:
        if self._is_closed:
            raise RolloutError("the manager is closed: make a new one.")
        if self.use_multiprocessing not in (True, False, "auto", "threads"):
            raise RolloutError(
                f"use_multiprocessing is {self.use_multiprocessing!r}: expected True, False, 'threads' or 'auto'."
            )

    def _check_consistent(self) -> None:
        if self._turns.guard.is_broken:
            raise RolloutError(
                "an earlier call was interrupted while it wrote results, so they are incomplete: call reset."
            )

    def _begin(self, inputs: Sequence[Mapping[str, Any]], together: bool) -> list[PendingTurn]:
        self._check_open()
        self._check_consistent()
        checked = check_inputs(inputs, self._turns)
        self._placement.epoch.batches += 1
        self._was_sent = True
        return self._turns.begin(checked, together)


def _check_replayable(slots: Sequence[Slot]) -> None:
    live = next((slot.tag.name for slot in slots if not getattr(slot.tag.kind.env, "replayable", True)), None)
    if live is not None:
        raise RolloutError(
            f"verify takes every turn twice, but environments of the tag {live} say that they cannot be replayed"
            " (replayable = False): leave verify out."
        )
