"""The environments of a manager as a `gymnasium.vector.VectorEnv`: for training code that is written against Gymnasium.

    envs = make_vec("FrozenLake-v1", num_envs=64)
    observations, infos = envs.reset(seed=1)
    observations, rewards, terminations, truncations, infos = envs.step(envs.action_space.sample())

Observations, rewards and infos are those of the environments themselves, as `gymnasium.vector.SyncVectorEnv` returns them;
workers that die are replaced meanwhile, and `auto` places environments, as in every other use of the manager.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from abreast.errors import ConfigError, RolloutError, nearest, short
from abreast.rollouts.adapters.actions import Actions
from abreast.rollouts.adapters.adapt import Adapted
from abreast.rollouts.adapters.observations import text_of
from abreast.rollouts.adapters.report import REPORT, read_report
from abreast.rollouts.adapters.text import SILENT_MODES
from abreast.rollouts.config import ManagerConfig
from abreast.rollouts.manager import EnvStateManager
from abreast.rollouts.registry import Tag, is_gymnasium_id, tag_settings

Stepped = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]
UNLIMITED = 10**9
"""Actions an episode may take, if only the environment itself ends it."""


class RolloutVectorEnv(VectorEnv[Any, Any, NDArray[Any]]):
    """All environments of a configuration (as for `EnvStateManager`) as one vector environment.

    All must have the same observation space and the same action space: Discrete, MultiDiscrete or Text. `manager` is the
    manager in which they live.

    Seeds: `reset(seed=7)` gives environment i the seed 7 + i, a list gives each its own. Every later episode of an
    environment, after an automatic reset or a `reset()` without a seed, has the seed of the one before + `num_envs`.
    (Environments of a `SyncVectorEnv` keep their random stream there; here an episode must depend on its seed alone, or it
    could not be rebuilt in another process.) Without any seed, the first is seed.train or seed.val of the configuration.

    An episode also ends, truncated, when the budget of its tag (max_actions_per_traj) is used up, and when the environment
    raises: `infos["error"]` then says what.
    """

    def __init__(
        self,
        config: object = None,
        mode: Literal["train", "val"] = "train",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ) -> None:
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.manager = _ReportingManager(config, mode)
        try:
            self._take_spaces()
        except BaseException:
            self.manager.close()
            raise
        self.num_envs = len(self.manager)
        self.metadata = {**self.metadata, "autoreset_mode": self.autoreset_mode}
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._seen: list[Any] = [None] * self.num_envs
        self._batch: Any = create_empty_array(self.single_observation_space, n=self.num_envs, fn=np.zeros)
        self._is_over = np.zeros(self.num_envs, dtype=np.bool_)
        self._seeds: list[int] = []
        """Of the newest episode of each environment; empty before the first reset."""

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in all environments, or in those that `options["reset_mask"]` says."""
        chosen = self._masked(options)
        self._seeds = self._new_seeds(seed, chosen)
        infos: dict[str, Any] = {}
        for env_id, info in self._begin(chosen).items():
            infos = self._add_info(infos, info, env_id)
        return self._observations(), infos

    def step(self, actions: Any) -> Stepped:
        """Take a step in each environment. Where the last one ended the episode, NEXT_STEP begins the next one instead."""
        if not self._seeds:
            raise RolloutError("step called before reset: call reset first.")
        begins = np.flatnonzero(self._is_over).tolist()
        if begins and self.autoreset_mode == AutoresetMode.DISABLED:
            raise RolloutError(
                f"the episode of environment {begins[0]} is over, and autoreset_mode is disabled: reset it, with"
                " options={'reset_mask': ...}."
            )
        texts = self._texts(actions)
        going = [env_id for env_id in range(self.num_envs) if not self._is_over[env_id]]
        self.manager.step([{"env_id": env_id, "actions": [texts[env_id]]} for env_id in going])
        rewards = np.zeros(self.num_envs, dtype=np.float64)
        terminations, truncations = (np.zeros(self.num_envs, dtype=np.bool_) for _ in range(2))
        told: dict[int, dict[str, Any]] = {}
        for env_id in going:
            self._seen[env_id], rewards[env_id], terminations[env_id], truncations[env_id], told[env_id] = self._result(
                env_id
            )
        self._is_over = terminations | truncations
        final: dict[int, dict[str, Any]] = {}
        if self.autoreset_mode == AutoresetMode.SAME_STEP:
            begins = np.flatnonzero(self._is_over).tolist()
            final = {env_id: {"final_obs": self._seen[env_id], "final_info": told[env_id]} for env_id in begins}
        if begins:
            for env_id in begins:
                self._seeds[env_id] += self.num_envs
            told.update(self._begin(begins))
        infos: dict[str, Any] = {}
        for env_id in range(self.num_envs):  # in this order, as SyncVectorEnv: it decides the types of arrays
            infos = self._add_info(infos, final.get(env_id, {}) | told[env_id], env_id)
        return self._observations(), rewards, terminations, truncations, infos

    def render(self) -> tuple[Any, ...]:
        """What each environment draws, a text or a list of pictures; its observation as a text, if it draws nothing."""
        return tuple(self.manager.render()) if self._draws else tuple(text_of(seen) for seen in self._seen)

    def close_extras(self, **kwargs: Any) -> None:
        """End the workers and close the environments."""
        self.manager.close()

    # ---- inside

    def _take_spaces(self) -> None:
        """Make one environment of each tag, and take from them what they are like."""
        self._actions: dict[str, Actions] = {}
        for tag in self.manager.tags.values():
            env = tag.kind.env(tag.config)
            try:
                seen, acted = getattr(env, "observation_space", None), getattr(env, "action_space", None)
                self.metadata, self.render_mode = env.metadata, getattr(env.inner, "render_mode", None)
                self._draws = self.render_mode not in SILENT_MODES
            finally:
                env.close()
            if not isinstance(seen, gymnasium.Space) or not isinstance(acted, gymnasium.Space):
                raise RolloutError(
                    f"{tag.name} has the observation space {seen!r} and the action space {acted!r}: both must be spaces of"
                    " Gymnasium."
                )
            if not self._actions:
                self.single_observation_space, self.single_action_space = seen, acted
            if (seen, acted) != (self.single_observation_space, self.single_action_space):
                raise RolloutError(
                    f"{tag.name} has other spaces ({short(seen)}, {short(acted)}) than the tag before it"
                    f" ({short(self.single_observation_space)}, {short(self.single_action_space)}): make one vector"
                    " environment for each."
                )
            self._actions[tag.name] = Actions(acted, tag.config.action_lookup)

    def _masked(self, options: dict[str, Any] | None) -> list[int]:
        """The environments to reset."""
        known = {"reset_mask": np.ones(self.num_envs, np.bool_), **(options or {})}
        mask = np.asarray(known.pop("reset_mask"))
        is_fitting = mask.dtype == np.bool_ and mask.shape == (self.num_envs,) and mask.any()
        if known or not is_fitting or not (self._seeds or mask.all()):
            raise RolloutError(
                f"options are {short(options)}: only reset_mask is known, an array of {self.num_envs} booleans, some of them"
                " True; the first reset must begin all of them. Settings of an environment go into its env_config."
            )
        return [env_id for env_id, is_chosen in enumerate(mask) if is_chosen]

    def _new_seeds(self, seed: int | Sequence[int | None] | None, chosen: Sequence[int]) -> list[int]:
        """The seeds of all environments, new ones for those that begin."""
        count = self.num_envs
        if isinstance(seed, int | np.integer):
            seed = [int(seed) + env_id for env_id in range(count)]
        given: Sequence[int | None] = [None] * count if seed is None else seed
        if len(given) != count:
            raise RolloutError(f"there are {len(given)} seeds for {count} environments: give one for each.")
        fresh = [getattr(self.manager.config.seed, self.manager.mode) + env_id for env_id in range(count)]
        if self._seeds and self.manager.mode == "train":
            fresh = [before + count for before in self._seeds]
        now = [each if each is not None else other for each, other in zip(given, fresh, strict=True)]
        return [now[env_id] if env_id in set(chosen) else self._seeds[env_id] for env_id in range(count)]

    def _begin(self, env_ids: list[int]) -> dict[int, dict[str, Any]]:
        """Begin episodes; returns their first infos."""
        seeds = [self._seeds[env_id] for env_id in env_ids]
        self.manager.reset(env_ids=None if len(env_ids) == self.num_envs else env_ids, seeds=seeds)
        infos = {}
        for env_id in env_ids:
            slot = self.manager.envs[env_id]
            if slot.terminated:
                raise RolloutError(
                    f"environment {env_id} ({slot.tag.name}) could not begin: {str(slot.error).rstrip('.')}."
                )
            self._seen[env_id], infos[env_id] = read_report(slot.cache["info"].pop(REPORT))
            self._is_over[env_id] = False
        return infos

    def _texts(self, actions: Any) -> list[str]:
        """The texts that the manager is given for actions."""
        are_known = actions in self.action_space  # of all at once, which is cheaper
        texts = []
        for slot, action in zip(self.manager.envs, iterate(self.action_space, actions), strict=True):
            lookup = slot.tag.config.action_lookup
            if not (are_known or action in self.single_action_space) or (lookup and int(action) not in lookup):
                known = lookup or self.single_action_space
                raise RolloutError(
                    f"the action of environment {slot.env_id} is {short(action)}: expected one of {known}."
                )
            texts.append(self._actions[slot.tag.name].write(action))
        return texts

    def _result(self, env_id: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """What the environment has returned from its step, or how it has failed."""
        slot = self.manager.envs[env_id]
        report = slot.history[-2]["info"].pop(REPORT, None)
        if report is None:
            return self._seen[env_id], 0.0, False, True, {"error": str(slot.error).rstrip(".")}
        observation, reward, terminated, truncated, info = read_report(report)
        return observation, reward, terminated, truncated or (slot.terminated and not terminated), info

    def _observations(self) -> Any:
        self._batch = concatenate(self.single_observation_space, self._seen, self._batch)
        return deepcopy(self._batch)


def make_vec(
    name: str,
    num_envs: int = 1,
    env_config: Mapping[str, Any] | None = None,
    max_steps: int | None = None,
    autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    **es_manager: Any,
) -> RolloutVectorEnv:
    """A vector environment of one type, tag or MODULE:ENV, or of an id of Gymnasium.

    `env_config` are settings of the environment; of an id of Gymnasium, `env_config={"kwargs": {...}}` are arguments for
    `gymnasium.make`, and `env_config={"render_mode": "rgb_array"}` says what `render` returns. `max_steps` limits episodes;
    other arguments are settings of the manager: `make_vec("CartPole-v1", 64, use_multiprocessing=False)`.
    """
    if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
        raise RolloutError(f"num_envs is {short(num_envs)}: expected 1 or more.")
    named = tag_settings(name, {})
    shown = {"render_mode": "observation"} if named.env_type == "gymnasium" and is_gymnasium_id(name) else {}
    tag = {
        "env_type": named.env_type,
        "max_actions_per_traj": max_steps or UNLIMITED,
        "env_config": {**shown, **named.env_config, **(env_config or {})},
    }
    groups = {"env_groups": num_envs, "group_size": 1, "env_configs": {"tags": ["vector"], "n_groups": [num_envs]}}
    config = {"es_manager": {**es_manager, "train": groups}, "custom_envs": {"vector": tag}}
    for key in es_manager.keys() - ManagerConfig.model_fields.keys():
        raise ConfigError(
            f"make_vec has no argument {key!r}: what a type takes goes into env_config, as in env_config={{{key!r}: ...}};"
            f" of the settings of the manager, {nearest(key, ManagerConfig.model_fields)}"
        )
    return RolloutVectorEnv(config, autoreset_mode=autoreset_mode)


class _ReportingManager(EnvStateManager):
    """A manager whose environments say what they have returned."""

    def _adapt(self, tags: Mapping[str, Tag]) -> Mapping[str, Tag]:
        return {
            name: tag._replace(kind=replace(tag.kind, env=Adapted(tag.kind.env, reports=True)))
            for name, tag in tags.items()
        }
