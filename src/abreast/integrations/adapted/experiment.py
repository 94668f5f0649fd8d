"""An environment of another library as an experiment, and where it comes from."""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from abreast.checking import Verdict
from abreast.errors import ConfigError, GameError, log, short
from abreast.files import seen_from_here, target_of
from abreast.integrations.adapted.base import Adapted
from abreast.integrations.adapted.lanes import AdaptedLanes, AdaptedPlayer
from abreast.integrations.adapted.making import parameters
from abreast.integrations.adapted.seeding import Seeding, try_out
from abreast.models.observation import PlainObservation
from abreast.plugins import import_target, split_target
from abreast.settings import OpenSection, Section, apply_overrides, merge, read_yaml
from abreast.training import Config, Experiment, ExperimentConfig, MPConfig, parse_config
from abreast.training.devices import enough_memory
from abreast.training.experiment import check_models

DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "experiment": {"max_turns": 1000},
        "model": {"algorithm": "ppo", "n_frames": 1, "epsilon": 1.0, "epsilon_min": 0.05, "hidden_size": 128},
    }
)
"""Settings of environments of other libraries, beside those that every game has."""
VALUES = {
    **{
        "train_freq": 4,
        "gradient_steps": 4,
        "learning_starts": 1000,
        "exploration_fraction": 0.2,
        "learning_rate": 0.0005,
    },
    **{"n_step": 3, "target_rate": 0.005, "target_interval": None, "anneal": ["learning_rate"]},
}
OF_ALGORITHM: Mapping[str, Any] = MappingProxyType(
    {
        "ppo": {"n_steps": 512, "gae_lambda": 0.95, "learning_rate": 0.0007, "gradient_steps": 8},
        "dqn": VALUES,
        "iqn": VALUES,
        "sac": {"train_freq": 1, "gradient_steps": 1, "learning_starts": 100},
    }
)
"""And those that go with the algorithm (benchmarks/README.md has what they learn)."""
COUNTED = ("n_steps", "train_freq", "learning_starts")
"""Settings by which updates are counted in rows; left out where they are counted in epochs."""
MOST_ROWS, FEWEST_ROWS, REPLAY_BYTES = 20_000, 1000, 2**28
"""The replay of an agent has so many rows, and fewer where these would take more than so many bytes."""
MOST_TURNS = 10_000
"""Turns of an episode at most, unless more are asked for: parallel runs keep room for two episodes beside the replay."""
OWN_LIMITS = {"max_cycles": "a cycle", "max_steps": "a step"}
"""What environments that cut their episodes usually call the limit, and what it counts."""
DECIDED = (
    ("experiment", "turn_order", "who acts when"),
    ("model", "agent_vision_radius", "how much agents see"),
)
"""Settings of gridworlds that mean nothing here."""
PICTURE_MODES = ("rgb_array", "ansi")
"""Render modes that can be kept in a film, or shown in a terminal, best first."""


@dataclass(frozen=True)
class ForeignGame(ABC):
    """An environment of another library, found by a text. It is sent to other processes by that, not by what was found."""

    text: str
    own: Callable[..., Any] | None = None
    """A function of the user's that makes one, if it was given as an object, not by its name."""
    library: ClassVar[str]
    """What comes before the first colon of a target."""

    @classmethod
    def find(cls, what: str | Callable[..., Any]) -> Self:
        """The game that a text names, or whose environments a function makes."""
        if isinstance(what, str):
            game = cls(what)
        else:
            game = cls(target_of(what) or str(getattr(what, "__name__", type(what).__name__)), what)
        assert game.function is not None  # found now, so that what is not there is told at once
        return game

    def __reduce__(self) -> Any:
        return type(self), (self.text, self.own)  # what was found by the text may be impossible to pickle

    @property
    def target(self) -> str | None:
        """What `find_game` finds it by, if anything."""
        if self.own is not None and target_of(self.own) is None:
            return None
        place, colon, name = split_target(self.text)
        return f"{self.library}:{seen_from_here(place) if place.endswith('.py') else place}{colon}{name}"

    @cached_property
    def function(self) -> Callable[..., Any]:
        """What makes one."""
        return self.own or self.registered() or self.imported()

    def registered(self) -> Callable[..., Any] | None:
        """What makes the environment that the library has by this name; None: it is made by a function of a module."""
        return None

    def imported(self) -> Callable[..., Any]:
        """The function of a module, or the class in it, that the text names."""
        found = import_target(self.text, "environment", GameError)
        if not callable(found):
            raise GameError(
                f"{self.library}:{self.text} is {short(found)}: expected a function that makes an environment, or a class,"
                f" as in {self.library}:{split_target(self.text)[0]}:FUNCTION."
            )
        return found  # type: ignore[no-any-return]

    @property
    @abstractmethod
    def name(self) -> str:
        """What the environment is called."""

    @property
    @abstractmethod
    def summary(self) -> str: ...


@dataclass(frozen=True)
class AdaptedGame(ForeignGame):
    """One that can be trained by name: it makes copies of the environment."""

    _spare: list[tuple[dict[str, Any], Adapted]] = field(default_factory=list, repr=False, compare=False)
    """A copy that was made to see what it is like, and its arguments."""
    _tried: list[tuple[dict[str, Any], Seeding]] = field(default_factory=list, repr=False, compare=False)
    """How episodes of the newest that was tried out follow from their seeds, and its arguments."""

    def __reduce__(self) -> Any:
        return type(self), (self.text, self.own, [], self._tried)  # actors need not try again

    @abstractmethod
    def make(self, arguments: Mapping[str, Any]) -> Adapted:
        """A new copy, with arguments for the function that makes it."""

    @abstractmethod
    def own_check(self, arguments: Mapping[str, Any]) -> str:
        """Let the checks of its own library look at a new copy; returns what they are called, raises what they found."""

    # ---- for all libraries

    def configure(
        self, given: Path | Mapping[str, Any] | None = None, overrides: Iterable[str] = ()
    ) -> Config[Any, Any]:
        """The usual settings of such games, then those given (a file, or what is in one), then each `section.key=value`.

        How many agents there are, the environment says; so it is made for a look.
        """
        sections = read_yaml(given) if isinstance(given, Path) else given or {}
        texts = list(overrides)
        world = apply_overrides(
            {"world": sections.get("world") or {}}, [each for each in texts if each.startswith("world")]
        )
        copy = self.look(_arguments(OpenSection.parse(world["world"], "world")))
        usual = merge(DEFAULTS, _of_copy(copy))
        telling = ("model.", "experiment.", "multiprocessing.")
        chosen = apply_overrides(merge(usual, sections), [each for each in texts if each.startswith(telling)])
        values = merge(merge(usual, _of_algorithm(chosen, usual["model"]["buffer_capacity"])), sections)
        changed = apply_overrides(values, texts, lambda: type(parse_config(values, OpenSection)))
        return parse_config({**changed, "game": self.target or changed.get("game")}, OpenSection)

    def defaults(self, config: Config[Any, Any]) -> dict[str, Any]:
        """Arguments that could be given in `world` too, with their defaults: those of the function; if it takes any, also
        those of the class of what it makes.
        """
        given, known = _arguments(config.world), parameters(self.function)
        registered: Mapping[str, Any] = {}
        if any(each.kind is each.VAR_KEYWORD for each in known):
            env = self.look(given).env
            known = [*known, *parameters(type(getattr(env, "unwrapped", env)))]
            registered = getattr(getattr(env, "spec", None), "kwargs", {})
        found = {each.name: registered.get(each.name, each.default) for each in known if each.name not in given}
        return {name: value for name, value in found.items() if value is not inspect.Parameter.empty}

    def check(self, overrides: Sequence[str] = ()) -> Iterator[Verdict]:
        """Look whether it keeps the contract of its library, and whether runs of it can be repeated."""
        from abreast.integrations.adapted.check import check_adapted

        return check_adapted(self, overrides)

    def look(self, arguments: dict[str, Any]) -> Adapted:
        """A copy to look at; the next experiment plays with it."""
        if not self._spare or self._spare[0][0] != arguments:
            self._spare[:] = [(arguments, self.make(arguments))]
        return self._spare[0][1]

    def seeding(self, arguments: dict[str, Any], unused: list[Adapted]) -> Seeding:
        """Return how episodes follow from their seeds, tried out once, with one of these unused copies."""
        if not self._tried or self._tried[0][0] != arguments:
            found = try_out(unused.pop(), lambda: self.make(arguments))
            self._tried[:] = [(arguments, found)]
            if found.leak is not None:
                log.warning(found.leak)
        return self._tried[0][1]

    def build(self, config: Config[Any, Any]) -> "AdaptedExperiment":
        """A fresh experiment."""
        self.look(_arguments(config.world))
        with enough_memory("multiprocessing.num_envs, the size of what agents observe, or the number of actions"):
            return AdaptedExperiment(self, config, self._spare.pop()[1])


def _of_algorithm(values: Mapping[str, Any], room: int) -> dict[str, Any]:
    """Settings that go with the algorithm that is chosen, and with those of single agents. Who counts updates in epochs
    (`train_interval`), or gives the gradient steps of an update alone, has none that count rows. `room`: the usual rows of a
    replay.
    """
    sections = (values.get(key) for key in ("model", "experiment", "multiprocessing"))
    model, run, parallel = (section if isinstance(section, Mapping) else {} for section in sections)
    settings, lanes = ExperimentConfig.parse(run, "experiment"), MPConfig.parse(parallel, "multiprocessing").lanes

    def of(section: Mapping[str, Any], name: object) -> dict[str, Any]:
        found: dict[str, Any] = OF_ALGORITHM.get(str(name), {})
        is_fixed = "gradient_steps" in section and "train_freq" in found and "train_freq" not in section
        left_out = ["exploration_fraction"] * (section.get("epsilon_decay") is not None)
        if is_fixed or "train_interval" in run or "train_interval" in parallel:
            left_out += [*COUNTED, *(["gradient_steps"] if "train_freq" in found else [])]
        found = {key: value for key, value in found.items() if key not in left_out}
        most, rows = section["buffer_capacity"], section.get("n_steps", found.get("n_steps"))
        if "learning_starts" in found and isinstance(most, int):  # less in a short run
            found = {**found, "learning_starts": min(found["learning_starts"], settings.steps // 10, most)}
        if "n_steps" in found and isinstance(rows, int):  # and an episode, in each lane
            found = {**found, "buffer_capacity": max(room, lanes * (rows + settings.max_turns))}
        return found

    agents = model.get("per_agent") or {}
    own = {
        agent: {key: value for key, value in of({**model, **section}, section["algorithm"]).items() if key not in model}
        for agent, section in (agents.items() if isinstance(agents, Mapping) else ())
        if isinstance(section, Mapping) and "algorithm" in section
    }
    return {"model": {**of(model, model.get("algorithm")), **({"per_agent": own} if own else {})}}


def _of_copy(copy: Adapted) -> dict[str, Any]:
    """Settings that follow from what an environment is like."""
    seen = [(agent.view.observation, agent.actions.number if agent.is_masked else 0) for agent in copy.agents]
    largest = max(math.prod(each.input_size) * np.dtype(each.dtype).itemsize + mask for each, mask in seen)
    capacity = max(FEWEST_ROWS, min(MOST_ROWS, REPLAY_BYTES // largest))
    turns = min(_own_limit(copy) or DEFAULTS["experiment"]["max_turns"], MOST_TURNS)
    return {
        "experiment": {"num_agents": len(copy.agents), "max_turns": turns},
        "model": {"buffer_capacity": capacity},
    }


def _own_limit(copy: Adapted) -> int | None:
    """Steps after which an environment itself cuts an episode, as far as it says so."""
    steps = getattr(getattr(copy.env, "spec", None), "max_episode_steps", None)
    if type(steps) is int and steps > 0:
        return steps
    inside = getattr(copy.env, "unwrapped", copy.env)
    for name, turns in OWN_LIMITS.items():
        count = getattr(inside, name, None)
        if type(count) is int and count > 0:
            return count * (len(copy.agents) if turns == "a cycle" and copy.is_in_turn else 1)
    return None


def _arguments(world: Section) -> dict[str, Any]:
    return dict(world.model_extra or {})


@dataclass(frozen=True)
class AdaptedFactory:
    """Builds an experiment again, in another process too."""

    maker: AdaptedGame
    config: Config[Any, Any]
    names: Sequence[str]
    """Of its agents: in another process they have to be the same, in the same order."""

    @property
    def kind(self) -> Any:
        """What it builds with; where that is in the user's main script, another process has to import the script."""
        return self.maker.own

    def __call__(self) -> "AdaptedExperiment":
        copy = self.maker.make(_arguments(self.config.world))
        _check_names(copy, self.names)
        return AdaptedExperiment(self.maker, self.config, copy)


def _check_names(copy: Adapted, names: Sequence[str]) -> None:
    found = [agent.name for agent in copy.agents]
    if found != names:
        raise GameError(
            f"{copy.name} has other agents each time it is made ({', '.join(names)}, and then {', '.join(found)}): let its"
            " arguments alone decide who they are, and list them in the same order (not in that of a set)."
        )


def counting_agents(config: Config[Any, Any], name: str, count: int) -> Config[Any, Any]:
    """A configuration that says how many agents an environment has; another number, if one was given, is refused."""
    given = config.experiment
    if "num_agents" in given.model_fields_set and given.num_agents != count:
        raise ConfigError(
            f"experiment.num_agents is {given.num_agents}, but {name} has {count} agents: leave the setting out, or let a"
            " setting of the environment's own (world.NAME=VALUE, say) make as many."
        )
    return config.with_derived(experiment=given.with_derived(num_agents=count))


class AdaptedExperiment(Experiment):
    """Trains the agents of an environment of another library. The section `world` holds the arguments of the function
    that makes it.
    """

    def __init__(self, maker: AdaptedGame, config: Config[Any, Any], spare: Adapted) -> None:
        """`spare`: a copy that was made with these settings."""
        self.maker, self.config = maker, config
        self._arguments = _arguments(config.world)
        self._spares = [spare]
        self._copies: list[Adapted] = []
        self._shown: Mapping[str, Any] | None = None
        """Arguments, beside the others, with which the first copy can be rendered, once it was made."""
        self.why_not_seen: str | None = None
        """Reason why there are no pictures of it, if that is known."""
        self._refuse_decided(spare.name)
        self.config = counting_agents(self.config, spare.name, len(spare.agents))
        self.game: AdaptedLanes = AdaptedLanes(self, self._players(spare))
        self.factory = AdaptedFactory(maker, self.config, self.game.agent_names)

    def _refuse_decided(self, name: str) -> None:
        """Refuse settings of what the environment alone decides."""
        for section, key, what in DECIDED:
            values = getattr(self.config, section)
            if (value := getattr(values, key)) != type(values).model_fields[key].default:
                raise ConfigError(
                    f"{section}.{key} is {short(value)}, but {what} is what {name} says, not a setting: leave it out."
                )

    def _players(self, copy: Adapted) -> list[AdaptedPlayer]:
        self.config.check_agents(len(copy.agents))
        players = []
        for number, agent in enumerate(copy.agents):
            shape = agent.view.observation
            seen = PlainObservation(shape.input_size, shape.dtype, shape.scale, agent.is_masked)
            players.append(
                AdaptedPlayer(agent.name, self.make_model(seen, agent.actions.box or agent.actions.number, number))
            )
        check_models([player.model for player in players])
        return players

    @property
    def name(self) -> str:
        return self.maker.name

    @property
    def target(self) -> str | None:
        return self.maker.target

    @property
    def agents(self) -> Sequence[AdaptedPlayer]:
        """Its players, as environments of our own call them."""
        return self.game.players

    def copies(self, count: int) -> Sequence[Adapted]:
        """Copies of the environment, one for each lane; the first can be filmed."""
        while len(self._copies) < count:
            if self._shown is None:
                self._copies.append(self._make_visible())
            elif self._spares and self._copies:
                self._copies.append(self._spares.pop())
            else:
                self._copies.append(self._make({} if self._copies else self._shown))
        return self._copies[:count]

    def renewed_copies(self, count: int) -> Sequence[Adapted]:
        """Return copies for the next episodes: new ones, where an episode depends on what its copy has played."""
        if self.seeding.leak is not None:
            while self._copies:
                self._copies.pop().close()
        return self.copies(count)

    @property
    def seeding(self) -> Seeding:
        """How episodes follow from their seeds."""
        return self.maker.seeding(self._arguments, self._spares)

    def _make(self, more: Mapping[str, Any] = MappingProxyType({})) -> Adapted:
        return self._alike(self.maker.make({**self._arguments, **more}))

    def _make_visible(self) -> Adapted:
        """A copy that can be rendered, if the environment knows how."""
        self._shown, plain = {}, self._spares.pop() if self._spares else self._make()
        mode, modes = getattr(plain.env, "render_mode", None), getattr(plain.env, "metadata", None) or {}
        known = [each for each in PICTURE_MODES if each in (modes.get("render_modes") or ())]
        if mode is not None or "render_mode" in self._arguments or not known:
            self.why_not_seen = None if mode in PICTURE_MODES else "it has no render mode rgb_array or ansi"
            return plain
        try:
            visible = self._make({"render_mode": known[0]})
        except GameError:
            raise
        except Exception as error:  # it takes no such argument, or lacks what it would draw with
            self.why_not_seen = str(error).rstrip(".")
            return plain
        self._shown = {"render_mode": known[0]}
        self._spares.append(plain)
        return visible

    def _alike(self, copy: Adapted) -> Adapted:
        """A copy, if it is like the first."""
        _check_names(copy, self.game.agent_names)
        for agent, player in zip(copy.agents, self.game.players, strict=True):
            seen, there = agent.view.observation, player.model.observation
            if (
                seen.input_size != there.input_size
                or (agent.actions.box or agent.actions.number) != player.model.chooses_from
            ):
                raise GameError(
                    f"{copy.name} has other spaces for agent {agent.name!r} each time it is made: let its arguments alone"
                    " decide what they are."
                )
        return copy

    def make_lanes(self) -> None:
        self.renewed_copies(self.config.multiprocessing.lanes)
