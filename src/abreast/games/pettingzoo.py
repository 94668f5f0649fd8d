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
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

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
        "a game as a PettingZoo environment needs that package: pip install 'abreast[pettingzoo]'."
    ) from None

SETTINGS = {"experiment": ("num_agents", "max_turns", "seed"), "model": ("agent_vision_radius",)}
"""Settings beside those of the game's world that an environment has: what trains is somebody else's."""
RENDER_MODES = ["human", "ansi", "rgb_array"]


class GameCopy:
    """One copy of a game whose agents are told what to do: what each sees, what came of an action, when it is over."""

    def __init__(self, game: Game, settings: Mapping[str, Any]) -> None:
        self.env: Environment = game.build(game.configure(_sections(game, settings)))
        for number, agent in enumerate(self.env.agents):
            if acts_itself(agent):
                raise GameError(
                    f"agent {number} of {self.env.name} ({type(agent).__name__}) takes its turn by itself, so it cannot be"
                    " told what to do by a PettingZoo trainer: leave transition, get_action, perform and add_memory as"
                    " Agent has them."
                )
        self.names = [f"agent_{number}" for number in range(len(self.env.agents))]
        self.number = {name: number for number, name in enumerate(self.names)}
        self.observation_spaces = {name: _observation_space(self.env, i) for name, i in self.number.items()}
        self.action_spaces = {
            name: spaces.Discrete(agent.action_spec.n_actions)
            for name, agent in zip(self.names, self.env.agents, strict=True)
        }
        self._seed, self._parts = np.random.SeedSequence(self.env.config.experiment.seed), 0

    def _drawing(self) -> AbstractContextManager[None]:
        """Inside, a user's game may draw from generators that the process shares: they follow from the seed too."""
        self._parts += 1
        return seeded_globals(self._seed, self._parts)

    def reset(self, seed: int | None) -> None:
        """A new episode; without a seed, the next one of the same stream."""
        if seed is not None:
            self._seed, self._parts = np.random.SeedSequence(seed), 0
            self.env.world.reseed(self._seed)
            self.env.world.times_laid_out = 0  # an episode follows from its seed, and leaves nothing behind
        with self._drawing():
            self.env.reset()
        self.begin_turn()

    def begin_turn(self) -> None:
        """The world changes by itself."""
        self.env.turn += 1
        with self._drawing():
            self.env.world.transition()

    def see(self, name: str) -> NDArray[Any]:
        """What an agent sees now."""
        agent = self.env.agents[self.number[name]]
        return np.asarray(agent.pov(self.env.world))

    def act(self, name: str, action: Any) -> float:
        """Let an agent do something; returns its reward."""
        if not self.action_spaces[name].contains(action):
            raise WorldError(
                f"{name} of {self.env.name} was given the action {short(action)}: expected a whole number from 0 to"
                f" {self.action_spaces[name].n - 1}."
            )
        with self._drawing():
            reward: float = self.env.agents[self.number[name]].act_for_reward(self.env.world, int(action))
        return reward

    def end_turn(self) -> list[float]:
        """All have acted: what each gets for the turn as a whole, and, if it was the last, what it was given since."""
        with self._drawing():
            payoff = self.env.after_turn()
        rewards = [0.0] * len(self.names) if payoff is None else [as_reward(each) for each in payoff]
        if not self.env.is_playing:
            rewards = [reward + agent.take_given() for reward, agent in zip(rewards, self.env.agents, strict=True)]
        return rewards

    def info(self, name: str) -> dict[str, Any]:
        """Which actions of an agent are legal, if not all are."""
        agent = self.env.agents[self.number[name]]
        return {"action_mask": agent.mask(self.env.world).astype(np.int8)} if agent.observation_spec.is_masked else {}

    @property
    def is_cut(self) -> bool:
        """Whether the turns are used up."""
        return self.env.turn >= self.env.config.experiment.max_turns

    def is_done(self, name: str) -> bool:
        """Whether the episode has ended for good, for an agent."""
        return bool(self.env.agents[self.number[name]].is_done(self.env.world) or self.env.world.is_done)

    def picture(self) -> NDArray[np.uint8]:
        return np.asarray(self.env.game.picture().convert("RGB"))

    def text(self) -> str:
        world = self.env.world
        view = AsciiObservationSpec(env_dims=(world.height, world.width))
        return view.to_text(view.observe(world, (0, 0, 0))) + "\n"


class _GameEnv:
    """What both kinds of environments have in common."""

    metadata: dict[str, Any]
    possible_agents: list[str]
    agents: list[str]

    def __init__(self, game: Game, render_mode: str | None, settings: Mapping[str, Any]) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ConfigError(f"render_mode is {short(render_mode)}: {nearest(str(render_mode), RENDER_MODES)}")
        self._copy = GameCopy(game, settings)
        self.render_mode = render_mode
        self.metadata = {
            "name": f"{game.name}_v0",
            "render_modes": RENDER_MODES,
            "render_fps": 6,
            "is_parallelizable": True,
        }
        self.possible_agents = list(self._copy.names)
        self.agents = []

    def observation_space(self, agent: str) -> "spaces.Space[Any]":
        return self._copy.observation_spaces[agent]

    def action_space(self, agent: str) -> "spaces.Space[Any]":
        return self._copy.action_spaces[agent]

    def render(self) -> NDArray[np.uint8] | str | None:
        """rgb_array: pixels; ansi: a character for each cell; human: the same, written to the terminal."""
        if self.render_mode == "rgb_array":
            return self._copy.picture()
        if self.render_mode == "human":
            sys.stdout.write(self._copy.text())
        return self._copy.text() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Nothing is open."""


class ParallelGame(_GameEnv, ParallelEnv[str, NDArray[Any], int]):
    """A game whose agents all see and choose at once."""

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, Any]]]:
        self._copy.reset(seed)
        self.agents = list(self.possible_agents)
        return {name: self._copy.see(name) for name in self.agents}, {
            name: self._copy.info(name) for name in self.agents
        }

    def step(self, actions: dict[str, int]) -> tuple[dict[str, Any], ...]:
        copy, acting = self._copy, self.agents
        if not acting:
            raise WorldError("step was called, but no agent is in the game: call reset.")
        if missing := [name for name in acting if name not in actions]:
            raise WorldError(f"step was given no action of {', '.join(missing)}: give one for each of env.agents.")
        rewards = {name: copy.act(name, actions[name]) for name in acting}
        for name, more in zip(copy.names, copy.end_turn(), strict=True):
            if name in rewards:
                rewards[name] += more
        done = {name: copy.is_done(name) for name in acting}
        cut = {name: copy.is_cut and not done[name] for name in acting}
        self.agents = [name for name in acting if not done[name] and not cut[name]]
        if self.agents:
            copy.begin_turn()
        seen, infos = ({name: about(name) for name in acting} for about in (copy.see, copy.info))
        return seen, rewards, done, cut, infos


class TurnGame(_GameEnv, AECEnv[str, NDArray[Any], int | None]):
    """A game whose agents see, choose and act one after the other."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self._copy.reset(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {name: self._copy.info(name) for name in self.agents}
        self._to_act = list(self.agents)
        self._skip_agent_selection: str | None = None
        self.agent_selection = self._to_act.pop(0)

    def observe(self, agent: str) -> NDArray[Any]:
        return self._copy.see(agent)

    def step(self, action: int | None) -> None:
        name = self.agent_selection
        if self.terminations[name] or self.truncations[name]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[name] = 0.0
        self._clear_rewards()
        self.rewards[name] = self._copy.act(name, action)
        if not self._to_act:
            self._end_turn()
        self.agent_selection = self._to_act.pop(0)
        self.infos[self.agent_selection] = self._copy.info(self.agent_selection)  # as the others have left the world
        self._accumulate_rewards()
        self._deads_step_first()

    def _end_turn(self) -> None:
        copy = self._copy
        for name, more in zip(copy.names, copy.end_turn(), strict=True):
            if name in self.rewards:
                self.rewards[name] += more
        for name in self.agents:
            self.terminations[name] = copy.is_done(name)
            self.truncations[name] = copy.is_cut and not self.terminations[name]
        playing = [name for name in self.agents if not self.terminations[name] and not self.truncations[name]]
        if playing:
            copy.begin_turn()
        self._to_act = playing or list(self.agents)


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
