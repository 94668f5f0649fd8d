"""Games as PettingZoo environments, for whoever trains with another library.

    from abreast.games.treasurehunt import treasurehunt_v0       like a module of PettingZoo: env, raw_env, parallel_env
    env = treasurehunt_v0.parallel_env(num_agents=3, gem_value=5, render_mode="rgb_array")

    from abreast.games.pettingzoo import env, parallel_env        any game, a user's too, by what `find_game` takes
    env = parallel_env("my_game.py", num_agents=3)

    import abreast.games.pettingzoo                               registers them: abreast/treasurehunt-v0 …
    env = pettingzoo.make("parallel", "abreast/treasurehunt-v0", num_agents=3)

`env` (PettingZoo calls it AEC) is `turn_order: sequential`: each agent sees what those before it did in the same turn.
`parallel_env` is `simultaneous`: all see and choose, then act in order.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from abreast.agents import Agent
from abreast.errors import ConfigError, GameError, WorldError, nearest, short
from abreast.games.registry import Game, find_game, list_games
from abreast.streams import seeded_globals
from abreast.training import Environment
from abreast.training.lanes import acts_itself
from abreast.worlds import AsciiObservationSpec
from abreast.worlds.playable import as_reward

try:
    import pettingzoo
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils import wrappers
except ModuleNotFoundError:
    raise GameError(
        'a game as a PettingZoo environment needs that package: pip install "abreast[pettingzoo]".'
    ) from None

SETTINGS = {"experiment": ("num_agents", "max_turns", "seed"), "model": ("agent_vision_radius",)}
"""Settings beside those of the game's world that an environment has: what trains is somebody else's."""
RENDER_MODES = ["human", "ansi", "rgb_array"]


class _GameEnv:
    """What both kinds of environments have in common: one copy of a game whose agents are told what to do."""

    metadata: dict[str, Any]
    possible_agents: list[str]
    agents: list[str]

    def __init__(self, game: Game, render_mode: str | None, settings: Mapping[str, Any]) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ConfigError(f"render_mode is {short(render_mode)}: {nearest(str(render_mode), RENDER_MODES)}")
        self._env: Environment = game.build(game.configure(_sections(game, settings)))
        for number, agent in enumerate(self._env.agents):
            if acts_itself(agent):
                raise GameError(
                    f"agent {number} of {self._env.name} ({type(agent).__name__}) takes its turn by itself, so it cannot be"
                    " told what to do by a PettingZoo trainer: leave transition, get_action, perform and add_memory as"
                    " Agent has them."
                )
        self._numbers = {f"agent_{number}": number for number in range(len(self._env.agents))}
        self._views = {name: _observation_space(self._env, number) for name, number in self._numbers.items()}
        self._actions = {name: spaces.Discrete(self._agent(name).action_spec.n_actions) for name in self._numbers}
        self._seed, self._parts = np.random.SeedSequence(self._env.config.experiment.seed), 0
        self.render_mode = render_mode
        self.metadata = {
            "name": f"{game.name}_v0",
            "render_modes": RENDER_MODES,
            "render_fps": 6,
            "is_parallelizable": True,
        }
        self.possible_agents, self.agents = list(self._numbers), []

    def observation_space(self, agent: str) -> "spaces.Space[Any]":
        return self._views[agent]

    def action_space(self, agent: str) -> "spaces.Space[Any]":
        return self._actions[agent]

    def render(self) -> NDArray[np.uint8] | str | None:
        """rgb_array: pixels; ansi: a character for each cell; human: the same, written to the terminal."""
        if self.render_mode == "rgb_array":
            return np.asarray(self._env.game.picture().convert("RGB"))
        world = self._env.world
        view = AsciiObservationSpec(env_dims=(world.height, world.width))
        text = view.to_text(view.observe(world, (0, 0, 0))) + "\n"
        if self.render_mode == "human":
            sys.stdout.write(text)
        return text if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Nothing is open."""

    # ---- playing

    def _agent(self, name: str) -> Agent:
        return self._env.agents[self._numbers[name]]  # type: ignore[no-any-return]

    def _drawing(self) -> AbstractContextManager[None]:
        """Inside, a user's game may draw from generators that the process shares: they follow from the seed too."""
        self._parts += 1
        return seeded_globals(self._seed, self._parts)

    def _begin(self, seed: int | None) -> None:
        """A new episode; without a seed, the next one of the same stream."""
        if seed is not None:
            self._seed, self._parts = np.random.SeedSequence(seed), 0
            self._env.world.reseed(self._seed)
            self._env.world.times_laid_out = 0  # an episode follows from its seed, and leaves nothing behind
        with self._drawing():
            self._env.reset()
        self.agents = list(self.possible_agents)
        self._begin_turn()

    def _begin_turn(self) -> None:
        """The world changes by itself."""
        self._env.turn += 1
        with self._drawing():
            self._env.world.transition()

    def observe(self, agent: str) -> NDArray[Any]:
        """What an agent sees now."""
        return np.asarray(self._agent(agent).pov(self._env.world))

    def _act(self, name: str, action: Any) -> float:
        """Let an agent do something; returns its reward."""
        if not self._actions[name].contains(action):
            raise WorldError(
                f"{name} of {self._env.name} was given the action {short(action)}: expected a whole number from 0 to"
                f" {self._actions[name].n - 1}."
            )
        with self._drawing():
            return self._agent(name).act_for_reward(self._env.world, int(action))

    def _end_turn(self, acting: Sequence[str]) -> tuple[dict[str, float], dict[str, bool], dict[str, bool]]:
        """All have acted: what each gets for the turn as a whole and, if it was the last, was given since; whose episode has
        ended for good; whose was cut. If any play on, the next turn begins.
        """
        env = self._env
        with self._drawing():
            payoff = env.after_turn()
        rewards = [0.0] * len(env.agents) if payoff is None else [as_reward(each) for each in payoff]
        if not env.is_playing:
            rewards = [reward + agent.take_given() for reward, agent in zip(rewards, env.agents, strict=True)]
        done = {name: bool(self._agent(name).is_done(env.world) or env.world.is_done) for name in acting}
        cut = {name: env.turn >= env.config.experiment.max_turns and not done[name] for name in acting}
        if not all(done[name] or cut[name] for name in acting):
            self._begin_turn()
        return dict(zip(self.possible_agents, rewards, strict=True)), done, cut

    def _info(self, name: str) -> dict[str, Any]:
        """Which actions of an agent are legal, if not all are."""
        agent = self._agent(name)
        return {"action_mask": agent.mask(self._env.world).astype(np.int8)} if agent.observation_spec.is_masked else {}


class ParallelGame(_GameEnv, ParallelEnv[str, NDArray[Any], int]):
    """A game whose agents all see and choose at once."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, Any]]]:
        self._begin(seed)
        return {name: self.observe(name) for name in self.agents}, {name: self._info(name) for name in self.agents}

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        acting = self.agents
        if not acting:
            raise WorldError("step was called, but no agent is in the game: call reset.")
        if missing := [name for name in acting if name not in actions]:
            raise WorldError(f"step was given no action of {', '.join(missing)}: give one for each of env.agents.")
        rewards = {name: self._act(name, actions[name]) for name in acting}
        more, done, cut = self._end_turn(acting)
        rewards = {name: reward + more[name] for name, reward in rewards.items()}
        self.agents = [name for name in acting if not done[name] and not cut[name]]
        seen, infos = ({name: about(name) for name in acting} for about in (self.observe, self._info))
        return seen, rewards, done, cut, infos


class TurnGame(_GameEnv, AECEnv[str, NDArray[Any], int | None]):
    """A game whose agents see, choose and act one after the other."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._begin(seed)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {name: self._info(name) for name in self.agents}
        self._to_act = list(self.agents)
        self._skip_agent_selection: str | None = None
        self.agent_selection = self._to_act.pop(0)

    def step(self, action: int | None) -> None:
        name = self.agent_selection
        if self.terminations[name] or self.truncations[name]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[name] = 0.0
        self._clear_rewards()
        self.rewards[name] = self._act(name, action)
        if not self._to_act:
            more, self.terminations, self.truncations = self._end_turn(self.agents)
            for name in self.rewards:
                self.rewards[name] += more[name]
            playing = [name for name in self.agents if not self.terminations[name] and not self.truncations[name]]
            self._to_act = playing or list(self.agents)
        self.agent_selection = self._to_act.pop(0)
        self.infos[self.agent_selection] = self._info(self.agent_selection)  # as the others have left the world
        self._accumulate_rewards()
        self._deads_step_first()


Maker = Callable[..., Any]


def makers(game: str) -> tuple[Maker, Maker, Maker]:
    """What a module of PettingZoo has: `env`, `raw_env`, `parallel_env`, which take a render_mode and settings."""
    return partial(env, game), partial(raw_env, game), partial(parallel_env, game)


def env(game: str, render_mode: str | None = None, **settings: Any) -> Any:
    """A game whose agents act in turn. `settings`: those of its world, num_agents, max_turns, seed, agent_vision_radius."""
    return wrappers.OrderEnforcingWrapper(raw_env(game, render_mode, **settings))


def raw_env(game: str, render_mode: str | None = None, **settings: Any) -> TurnGame:
    """The same, without a wrapper that tells misuse."""
    return TurnGame(_of_ours(game), render_mode, settings)


def parallel_env(game: str, render_mode: str | None = None, **settings: Any) -> ParallelGame:
    """A game whose agents act at once; settings as for `env`."""
    return ParallelGame(_of_ours(game), render_mode, settings)


def _of_ours(game: str) -> Game:
    found = find_game(game)
    if not isinstance(found, Game):
        raise GameError(
            f"{game} is an environment of another library already: give it to a PettingZoo trainer as it is."
        )
    return found


def _register() -> None:
    """Let `pettingzoo.make` find the games, where PettingZoo has a registry (from 1.27 on)."""
    for game in list_games() if hasattr(pettingzoo, "register") else ():
        for kind, function in (("aec", env), ("parallel", parallel_env)):
            if f"abreast/{game}-v0" not in getattr(pettingzoo, f"{kind}_registry"):
                pettingzoo.register(kind, f"abreast/{game}-v0", function, kwargs={"game": game})


def _sections(game: Game, settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings by section."""
    of_world = game.environment.world_section
    known: dict[str, str] = dict.fromkeys(of_world.model_fields, "world")
    known |= {name: section for section, names in SETTINGS.items() for name in names}
    found: dict[str, dict[str, Any]] = {"multiprocessing": {"num_envs": 1, "device": "cpu"}}
    for name, value in settings.items():
        section = known.get(name, "world" if of_world.model_config.get("extra") == "allow" else None)
        if section is None:
            raise ConfigError(f"the game {game.name} has no setting {name!r}: {nearest(name, known)}")
        found.setdefault(section, {})[name] = value
    return found


def _observation_space(env: Environment, number: int) -> "spaces.Box":
    spec = env.agents[number].observation_spec
    dtype = np.dtype(spec.dtype)
    if dtype.kind not in "uif":
        raise GameError(
            f"agent {number} of {env.name} sees {dtype}, but PettingZoo's trainers need numbers: use another view."
        )
    whole = np.iinfo(dtype) if dtype.kind in "ui" else None
    low, high = (whole.min, whole.max) if whole else (-np.inf, np.inf)
    return spaces.Box(low, high, tuple(spec.input_size), dtype.type)


_register()
