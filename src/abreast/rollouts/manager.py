"""Hundreds of environments, stepped in parallel, with the results of stepping them one after the other.

┌─────────────────┐ inputs ┌───────┐ orders, one per worker and batch ┌─────────────┐ step ┌──────────────┐
│ EnvStateManager │───────▶│ Turns │─────────────────────────────────▶│ RolloutWork │─────▶│ environments │
└─────────────────┘◀───────└───────┘◀─── states, rewards, digests ────└─────────────┘      └──────────────┘
  checks inputs,            routes turns,                               or in the main process, if that is faster
  numbers seeds             handles deaths
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from abreast.errors import ConfigError, RolloutError, nearest, short
from abreast.processes.team import Team
from abreast.rollouts.context.context import Context
from abreast.rollouts.episodes.inputs import Mode, Seeds, check_env_ids, check_inputs, check_whole
from abreast.rollouts.episodes.pool import Pool
from abreast.rollouts.episodes.single import NewEpisode, SingleEpisode
from abreast.rollouts.episodes.slot import Cache, Slot
from abreast.rollouts.episodes.summary import measurements_of, states_of
from abreast.rollouts.episodes.turns import Turns
from abreast.rollouts.episodes.verifier import Verifier
from abreast.rollouts.loading import load_config
from abreast.rollouts.registry import Tag
from abreast.rollouts.workers.places import Places, Use
from abreast.rollouts.workers.timing import PlacementRules
from abreast.settings import merge

MOST_WORKERS = 1024
"""For single episodes, whose number is not known."""


class EnvStateManager:
    """Steps environments, in worker processes or in the main process; `use_multiprocessing` may be changed at any time.

        with EnvStateManager(config) as manager:
            outputs = manager.reset()
            while outputs:
                outputs = manager.step([{"env_id": cache["env_id"], "actions": answer(cache)} for cache in outputs])
            print(manager.get_rollout_states())

    The configuration is a mapping, an OmegaConf object, or the name of a YAML file. `verify` keeps a copy of every
    environment in the main process, steps it too, and raises if a worker's result ever differs. `rules` are the constants
    by which `auto` decides. With `tags`, there is no batch, only single episodes of these (`for_tag`). `debug` takes every
    turn in the main process, twice, and raises if the results differ. Other arguments are settings of the section
    es_manager, over those of the configuration: `EnvStateManager(config, use_multiprocessing=True)`.
    """

    def __init__(
        self,
        config: object = None,
        mode: Mode = "train",
        verify: bool = False,
        rules: PlacementRules | None = None,
        tags: Sequence[str] = (),
        debug: bool = False,
        **es_manager: Any,
    ) -> None:
        if mode not in ("train", "val"):
            raise ConfigError(f"mode is {mode!r}: expected train or val.")
        self.config, found = load_config(config, mode, tags)
        if es_manager:
            given = merge(self.config.model_dump(exclude_unset=True), {"es_manager": es_manager})
            self.config, found = load_config(given, mode, tags)
        self.mode: Mode = mode
        self.tags: Mapping[str, Tag] = self._adapt(found)
        """By name: type, configuration, budget and instruction."""
        live = [name for name, tag in self.tags.items() if not getattr(tag.kind.env, "replayable", True)]
        if (verify or debug) and live:
            what = "debug" if debug else "verify"
            raise RolloutError(
                f"{what} takes every turn twice, but environments of the tag {live[0]} say that they cannot be replayed"
                f" (replayable = False): leave {what} out."
            )
        manager = self.config.es_manager
        self.use_multiprocessing: Use = False if debug else manager.use_multiprocessing
        self.envs = [] if tags else self._make_slots()
        """All that is known of each environment of the batch, by number; to look at, not to change."""
        self._places = Places(self.tags, manager, len(self.envs) or MOST_WORKERS, rules)
        self._places.slots.update({slot.env_id: slot for slot in self.envs})
        self._turns = Turns(manager, self._places, Verifier(debug) if verify or debug else None)
        self._seeds = Seeds(self.config.seed, mode)
        self._pool = Pool(self._turns, manager.episodes, self.tags, len(self.envs), self._seeds)
        self._contexts = {name: Context(tag) for name, tag in self.tags.items()}
        self._was_sent = False
        self._is_closed = False

    @classmethod
    def for_tag(
        cls, tag: str, concurrency: int = 256, config: object = None, mode: Mode = "train", **es_manager: Any
    ) -> Self:
        """A manager for single episodes of one tag, at most `concurrency` at a time; it needs no groups, and has no batch.

        Other arguments are settings of the manager: `EnvStateManager.for_tag("FrozenLake", use_multiprocessing=False)`.
        """
        concurrency = check_whole("concurrency", concurrency, 1)
        es_manager["episodes"] = {**es_manager.get("episodes", {}), "max": concurrency}
        return cls(config, mode, tags=[tag], **es_manager)

    # ---- episodes

    def reset(
        self, seed: int | None = None, env_ids: Sequence[int] | None = None, seeds: Sequence[int] | None = None
    ) -> list[Cache]:
        """Begin an episode in every environment, or in some; returns the caches of those that could, in this order.

        A group has one seed: `seed` plus its number. Without one, train counts on, and val begins at its first. `seeds`
        gives each environment its own.
        """
        self._check_open()
        if not self.envs:
            raise RolloutError("this manager has no batch, since it was made for single episodes: use `episode`.")
        chosen = range(len(self.envs)) if env_ids is None else check_env_ids(env_ids, len(self.envs))
        slots, turns = [self.envs[env_id] for env_id in chosen], self._turns
        if turns.guard.is_broken:
            turns.start_over()
            self._pool.end_all()
        each_seed = self._seeds.of_batch(slots, seed, seeds)
        turns.abandon(slots)
        self._places.place(slots, self.use_multiprocessing, is_batch=env_ids is None)
        self._was_sent &= env_ids is not None
        try:
            self._begin_all(slots, each_seed)
            turns.wait(turns.begin(dict.fromkeys(slots), together=True))
        except RolloutError:  # `verify` has found a difference: there is no episode
            self._begin_all(slots, each_seed)
            raise
        finally:
            turns.abandon(slots)  # if this was interrupted, environments without a first state have no episode
        begun = [slot.cache for slot in slots if not slot.terminated]
        if not begun:
            first = slots[0]
            raise RolloutError(
                f"no environment could begin, environment {first.env_id} ({first.tag.name}) because of:"
                f" {str(first.error).rstrip('.')}."
            )
        return begun

    def _begin_all(self, slots: Sequence[Slot], seeds: Sequence[int]) -> None:
        with self._turns.guard:
            for slot, seed in zip(slots, seeds, strict=True):
                slot.begin(seed)

    def step(self, all_env_inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """Take a turn in some environments; returns the caches of those not yet done, in the order of the inputs."""
        turns = self._turns
        if turns.pending and (under_way := turns.receivable):
            raise RolloutError(f"step called while {len(under_way)} turns are under way: recv or await them first.")
        job = turns.begin(self._checked(all_env_inputs), together=True)
        turns.wait(job)
        return turns.hand_out(job.slots)

    def send(self, inputs: Sequence[Mapping[str, Any]]) -> None:
        """Begin a turn in some environments; `recv` returns the results. The main process takes its turns in `recv`."""
        self._turns.begin(self._checked(inputs), together=False)

    def recv(self, min_ready: int = 1, timeout: float | None = None) -> list[Cache]:
        """Wait until at least `min_ready` of the turns begun are taken, or all, or `timeout` seconds have passed.

        Returns the caches of those not yet done, in the order they were begun; `pending` tells which are under way.
        """
        self._check_open()
        self._turns.guard.check()
        if not self._was_sent:
            raise RolloutError("recv called before send: there is nothing to wait for.")
        check_whole("min_ready", min_ready, 1)
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise RolloutError(
                f"timeout is {short(timeout)}: expected seconds, 0 or more, or None to wait for any time."
            )
        received = self._turns.receive(min_ready, None if timeout is None else time.monotonic() + timeout)
        return self._turns.hand_out(received)

    async def step_async(self, inputs: Sequence[Mapping[str, Any]]) -> list[Cache]:
        """As `step`, but awaitable; any number may be under way at once, for different environments."""
        job = self._turns.begin(self._checked(inputs), together=False)
        await self._turns.wait_async(job)
        return self._turns.hand_out(job.slots)

    def _checked(self, inputs: Sequence[Mapping[str, Any]]) -> dict[Slot, Mapping[str, Any] | None]:
        self._check_open()
        self._turns.guard.check()
        checked = check_inputs(inputs, self.envs)
        self._was_sent = True
        return checked

    # ---- single episodes

    def episode(self, tag: str | None = None, seed: int | None = None, group_id: int | None = None) -> NewEpisode:
        """A single episode, in an environment of its own, beside those of batches; from any thread or task.

            async with manager.episode("SimpleSokoban", seed=7) as episode:
                while not episode.done:
                    await episode.step(await answer(episode.messages))

        The same with `with`, and `episode.step` without `await`. If no environment of the tag is free, it waits for one, or
        raises, as es_manager.episodes says.
        """
        self._check_open()
        names = list(self.tags)
        if tag is None and len(names) > 1:
            raise RolloutError(f"there are the tags {', '.join(names)}: say which, as in episode({names[0]!r}).")
        if tag is not None and tag not in names:
            raise RolloutError(f"there is no tag {short(tag)} in this manager: {nearest(str(tag), names)}")
        group_id = None if group_id is None else check_whole("group_id", group_id)
        seed = None if seed is None else check_whole("the seed", seed, 0)
        return NewEpisode(self._pool, self._contexts[tag or names[0]], seed, group_id, self.use_multiprocessing)

    @property
    def episodes_under_way(self) -> int:
        """How many environments belong to single episodes."""
        return self._pool.count()

    def messages_of(self, cache: Cache) -> list[dict[str, Any]]:
        """The chat messages that ask for the next turn of an episode."""
        return self._contexts[cache["tag"]].messages(cache)

    def context(self, env_id: int) -> Context:
        """Prompts and answers of an environment's tag: from its cache to chat messages, from an answer to an input."""
        return self._contexts[self.tag_of(env_id).name]

    @property
    def pending(self) -> list[int]:
        """Environments whose turn is begun and not yet received."""
        return [slot.env_id for slot in list(self._turns.pending.values()) if not slot.is_single]

    # ---- reports

    def get_rollout_states(self, episodes: Iterable[SingleEpisode] | None = None) -> dict[str, Any]:
        """Figures of the batch, or of these single episodes: means per tag (`tags`), pass@k per group (`groups`).

        Means are over the episodes that have ended (`episodes`), the `failed` ones among them, which count as no success;
        `unfinished` and `never_begun` count the others. A cache then has `metrics` too, with the same definitions
        (episodes/summary.py); see `rollout_cache`. What was measured is in `get_measurements`.
        """
        return states_of(self.envs if episodes is None else [episode.slot for episode in episodes])

    def get_measurements(self, episodes: Iterable[SingleEpisode] | None = None) -> dict[str, dict[str, float]]:
        """Return what was measured of the batch, or of these single episodes, per tag: `latency_p50_ms` and
        `latency_p95_ms` of turns, and how many `timeouts` there were. Equal episodes may differ here, and nowhere else.
        """
        return measurements_of(self.envs if episodes is None else [episode.slot for episode in episodes])

    def statuses(self) -> list[dict[str, Any]]:
        """Seed, actions taken, reward, and how it ended, of every environment."""
        return [
            {
                "env_id": env.env_id,
                "seed": env.seed,
                "num_actions": env.tally.executed,
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
        return self._places.slots[env_id].tag

    @property
    def verified_turns(self) -> int:
        """How many turns and starts of workers were taken in the main process too, with equal results (`verify`)."""
        return self._turns.verifier.turns if self._turns.verifier is not None else 0

    @property
    def team(self) -> Team | None:
        """The workers, if there are any; to look at."""
        return self._places.team

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers, if there are any."""
        return list(self.team.pids.values()) if self.team is not None else []

    def __len__(self) -> int:
        return len(self.envs)

    # ---- the end

    def close(self) -> None:
        """End the workers and close the environments. Nothing can be asked of the manager afterwards."""
        self._is_closed = True
        self._pool.end_all(RolloutError("the manager is closed: make a new one."))
        self._turns.close()

    def __enter__(self) -> "EnvStateManager":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- inside

    def _adapt(self, tags: Mapping[str, Tag]) -> Mapping[str, Tag]:
        """The tags as this manager uses them."""
        return tags

    def _make_slots(self) -> list[Slot]:
        settings = getattr(self.config.es_manager, self.mode)
        counts = zip(settings.env_configs.tags, settings.env_configs.n_groups, strict=True)
        names = [name for name, groups in counts for _ in range(groups * settings.group_size)]
        return [Slot(number, number // settings.group_size, self.tags[name]) for number, name in enumerate(names)]

    def _check_open(self) -> None:
        if self._is_closed:
            raise RolloutError("the manager is closed: make a new one.")
        if self.use_multiprocessing not in (True, False, "auto", "threads"):
            raise RolloutError(
                f"use_multiprocessing is {self.use_multiprocessing!r}: expected True, False, 'threads' or 'auto'."
            )
