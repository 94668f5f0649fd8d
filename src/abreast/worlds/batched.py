"""Gridworlds whose state is tensors over all lanes, for games that are played on a GPU (docs/how-to/gpu.md).

    world.reset(draws)
    for turn in range(max_turns):
        world.transition(draws)                      what the world does by itself
        for agent in range(world.agents):
            seen = world.view(agent)                 in every lane
            rewards = world.act(agent, actions)

A batched world is a second implementation of a game's rules, beside its object world (`Gridworld` and entities), and is
held equal to it by tests. A turn of it is recorded as a CUDA graph, so a subclass
  - makes all state in `__init__`, on `device`, and changes it in place;
  - asks nothing of a tensor on the host: no `item`, `tolist`, `if tensor`, `nonzero`, no index that is a mask;
  - makes constant tensors in `__init__`: a number that is copied to the device cannot be recorded;
  - draws nothing: random numbers are handed in, as many as `reset_draws` and `turn_draws` say.
Each call of torch is a kernel of about 2 µs, whatever the number of lanes: rules are tables over kinds, looked up.

Sizes: L lanes, N agents, H rows, W columns. A place is the position of a cell in `flat`, which holds
the kinds of all lanes one after the other, each with a margin around it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from abreast.errors import WorldError
from abreast.worlds.basics import EmptyEntity
from abreast.worlds.entity import Entity
from abreast.worlds.gridworld import OUTSIDE, Gridworld
from abreast.worlds.observations import OneHotObservationSpec

Shapes = dict[str, tuple[int, ...]]
Draws = Mapping[str, Tensor]

LEAST_MARGIN = 2
"""Cells: `nowhere` and the cells beside it lie in the margin."""
OF_AGENTS = "kind", "value", "passable", "DIRECTIONS"
"""What tables say of agents, as their class does."""


class Chance:
    """Something that happens with a chance, in one of some ways that are equally likely.

    Two numbers decide: it happens if both are below the root of the chance, and the second says in which way. (One of 32
    bits has steps of 6e-8, so a small chance would not be what it is in the object world.)
    """

    def __init__(self, name: str, chance: float, ways: int, device: str) -> None:
        self.ways, self._names, self._root = ways, (name, f"{name}_way"), math.sqrt(chance)
        edges = [self._root * (way + 1) / ways for way in range(ways)]
        self._edges = torch.tensor(edges, dtype=torch.float32, device=device)

    def draws(self, *shape: int) -> Shapes:
        """What is drawn for as many things as the shape has."""
        return dict.fromkeys(self._names, shape)

    def __call__(self, draws: Draws) -> Tensor:
        """The number of the way (32 bits) in which it happens to each thing, `ways` where it does not: (L, *shape)."""
        first, second = (draws[name] for name in self._names)
        ways = torch.bucketize(second, self._edges, out_int32=True, right=True)
        return ways.masked_fill_(first >= self._root, self.ways)


class _View(NamedTuple):
    """How an agent sees: which cells, counted from where, and the planes of each kind number."""

    from_L: Tensor
    steps: Tensor
    planes: Tensor
    shape: tuple[int, ...]


class BatchedWorld(ABC):
    """A game in many lanes at once: what stands on the top layer, where the agents are, what they were given.

    All lanes begin together and are played for the same number of turns. What is below the top layer never changes, and
    is the same in all cells (`GROUND`).
    """

    WORLD: ClassVar[type[Gridworld]]
    """The object world with the same rules; exactly this class, as a subclass may have others."""
    AGENT: ClassVar[Any]
    """Its agents: a subclass of MovingAgent, and exactly this one."""
    ACTIONS: ClassVar[tuple[str, ...]]
    """What their actions are called, by number."""
    GROUND: ClassVar[tuple[str, ...]] = ()
    """The kinds of the layers below the top one, bottom first."""

    def __init__(self, lanes: int, views: Sequence[OneHotObservationSpec], settings: Any, device: str) -> None:
        """`views`: one for each agent. `settings`: the section `world`, which has a height and a width."""
        self.lanes, self.agents, self.settings, self.device = lanes, len(views), settings, device
        self.height: int = settings.height
        self.width: int = settings.width
        self.prototypes = {entity.kind: entity for entity in self.make_prototypes()}
        self.kinds = (*self.prototypes, self.AGENT.kind)
        """By number, less one: number 0 is OUTSIDE."""
        self.empty_kind, self.agent_kind = self.number(EmptyEntity), self.number(self.AGENT)
        self.given_LN = torch.zeros((self.agents, lanes), device=device).T
        """Rewards that arose in another agent's turn; they stay until the caller takes them and sets them to 0."""
        self._make_cells(max([LEAST_MARGIN, *(view.vision_radius or 0 for view in views)]))
        entities = [self.prototypes.get(kind, self.AGENT) for kind in self.kinds]
        self.values = self.table([0.0, *(entity.value for entity in entities)], torch.float32)
        """By number of kind."""
        self.passable = self.table([False, *(entity.passable for entity in entities)], torch.bool)
        """By number of kind."""
        self._steps = self.steps([self.AGENT.DIRECTIONS.get(action, (0, 0)) for action in self.ACTIONS])
        self._views = [self._make_view(agent, view) for agent, view in enumerate(views)]

    def _make_cells(self, margin: int) -> None:
        """The cells of all lanes, with a margin as wide as the widest view, so that a view never leaves its lane."""
        rows, self._stride = self.height + 2 * margin, self.width + 2 * margin
        self.flat = torch.full((self.lanes * rows * self._stride,), OUTSIDE, dtype=torch.int32, device=self.device)
        padded = self.flat.view(self.lanes, rows, self._stride)
        self.cells_LHW = padded[:, margin : margin + self.height, margin : margin + self.width]
        """Numbers of the kinds on the top layer: a part of `flat`."""
        starts_L = torch.arange(self.lanes, device=self.device) * (rows * self._stride)
        self.corners_L = starts_L + margin * (self._stride + 1)
        """The place of row 0, column 0."""
        self.nowhere_L = starts_L + self._stride + 1
        """A place off the map, and so are those beside it: for what is gone. Leave OUTSIDE there."""
        self.places_NL = self.corners_L.repeat(self.agents, 1)
        """Where the agents are."""

    # ---- what a game says

    @abstractmethod
    def make_prototypes(self) -> Sequence[Entity]:
        """An entity of every kind that can stand on the top layer, agents aside; `settings` are known already.

        Their values, and whether they let agents pass, count in `act`; copies of them are shown in pictures.
        """

    def reset_draws(self) -> Shapes:
        """Return the random numbers that `reset` needs, by name: shapes without the lanes. Unless a game says otherwise,
        there is one for each cell, for `draw_places`.
        """
        return {"places": (self.height, self.width)}

    @abstractmethod
    def turn_draws(self) -> Shapes:
        """Return those that `transition` needs."""

    @abstractmethod
    def reset(self, draws: Draws) -> None:
        """Begin a new epoch. Each of the draws is (L, *shape), of 32 bits, uniform from 0 up to but not including 1."""

    @abstractmethod
    def transition(self, draws: Draws) -> None:
        """What the world does by itself at the beginning of a turn."""

    def act(self, agent: int, actions_L: Tensor) -> Tensor:
        """Let an agent act in every lane; returns what it earns by that (L), without what others give it.

        As in MovingAgent: the reward is the value of what stands in the cell, whether or not it lets the agent pass.
        """
        place_L = self.places_NL[agent]
        self.put(place_L, self.empty_kind)  # `move` puts it into a cell again, perhaps the same
        target_L = place_L + self._steps.index_select(0, actions_L)
        kinds_L = self.at(target_L)
        self.move(agent, target_L, self.passable.index_select(0, kinds_L))
        return self.values.index_select(0, kinds_L)

    def metrics(self) -> Mapping[str, Tensor]:
        """Figures of the game's own, at the end of an epoch, each (L); usually none."""
        return {}

    # ---- what is seen

    @property
    def rows_LN(self) -> Tensor:
        """Where the agents are."""
        return ((self.places_NL - self.corners_L) // self._stride).T

    @property
    def columns_LN(self) -> Tensor:
        """Where the agents are."""
        return ((self.places_NL - self.corners_L) % self._stride).T

    def view(self, agent: int) -> Tensor:
        """What an agent sees in every lane: (L, *input_size) bytes, the same as its view's `observe`."""
        view = self._views[agent]
        kinds = self.flat.index_select(0, (view.from_L.unsqueeze(1) + view.steps).view(-1))
        return view.planes.index_select(0, kinds).view(view.shape)

    def _make_view(self, agent: int, spec: OneHotObservationSpec) -> "_View":
        rows, columns = (torch.arange(size, device=self.device) for size in spec.view)
        steps, from_L = rows.unsqueeze(1) * self._stride + columns, self.corners_L
        if spec.vision_radius is not None:
            steps, from_L = steps - spec.vision_radius * (self._stride + 1), self.places_NL[agent]
        elif spec.view != (self.height, self.width):
            raise WorldError(f"the full view is of {spec.view}, but the world is {(self.height, self.width)}.")
        bottom, above = spec.planes((*self.kinds, *self.GROUND))
        top = len(self.kinds) + 1  # the numbers from here on are the ground's
        planes = above[:top] + bottom[top] + above[top + 1 :].sum(axis=0) if self.GROUND else bottom[:top].copy()
        planes[OUTSIDE] = bottom[OUTSIDE]
        return _View(from_L, steps.reshape(-1), self.table(planes, torch.uint8), (self.lanes, *spec.input_size))

    def show(self, lane: int, world: Gridworld, agents: Sequence[Any]) -> None:
        """Put one lane onto an object world, whose ground is laid already, for pictures.

        An agent looks where it has gone since the last time, or down if that was not the next cell.
        """
        self.show_seen(self.seen(lane), world, agents)

    def seen(self, lane: int) -> tuple[Tensor, ...]:
        """What is in a lane now, for `show_seen`. The device is not waited for."""
        return self.cells_LHW[lane].clone(), self.rows_LN[lane].clone(), self.columns_LN[lane].clone()

    def show_seen(self, seen: Sequence[Tensor], world: Gridworld, agents: Sequence[Any]) -> None:
        """As `show`, what was there when it was `seen`."""
        numbers, rows, columns = (tensor.tolist() for tensor in seen)
        places = list(zip(rows, columns, strict=True))
        top, facing = world.layers - 1, {step: name for name, step in self.AGENT.DIRECTIONS.items()}
        for agent, (row, column) in zip(agents, places, strict=True):
            step = (row - agent.location[0], column - agent.location[1])
            if step != (0, 0):
                agent.face(facing.get(step, "down"))
            if world.observe(agent.location) is agent:
                world.remove(agent.location)
        for row in range(self.height):
            for column in range(self.width):
                kind, location = self.kinds[numbers[row][column] - 1], (row, column, top)
                if kind in self.prototypes and world.observe(location).kind != kind:
                    world.add(location, self.prototypes[kind].clone())
        for agent, (row, column) in zip(agents, places, strict=True):
            world.add((row, column, top), agent)

    # ---- for which games

    @classmethod
    def why_not(cls, env: Any) -> str | None:
        """Why this does not stand for an environment (an `Environment`), or None: it may have rules of its own."""
        if vars(type(env)).get("batched_world") is not cls:
            return f"{type(env).__name__} does not itself say that {cls.__name__} has its rules"
        parts = [(env, type(env)), (env.world, cls.WORLD)]
        for agent in env.agents:
            parts += [(agent, cls.AGENT), (agent.observation_spec, OneHotObservationSpec)]
        for part, expected in parts:
            if type(part) is not expected:
                return f"{type(part).__name__} is not {expected.__name__}, whose rules {cls.__name__} was written for"
        if getattr(env.world, "settings", env.config.world) != env.config.world:
            return f"the {cls.WORLD.__name__} has other settings than the environment"
        if env.world.default_entity.kind != EmptyEntity.kind:
            return f"what is left in a cell is {env.world.default_entity.kind}, not {EmptyEntity.kind}"
        for number, agent in enumerate(env.agents):
            if agent.action_spec.actions != cls.ACTIONS:
                return f"the actions of agent {number} are not {', '.join(cls.ACTIONS)}"
            own = [name for name in OF_AGENTS if getattr(agent, name) != getattr(cls.AGENT, name)]
            if own:
                return f"agent {number} has a {own[0]} of its own, which {cls.__name__} does not have"
            settings = getattr(agent, "settings", None)
            if type(settings) is type(env.config.world) and settings != env.config.world:
                return f"agent {number} has other settings than the environment"
            if agent.observation_spec.is_masked:
                return f"not all actions of agent {number} are legal at any time, which no batched world knows"
        return None

    # ---- what a game can use

    def number(self, kind: type[Entity]) -> int:
        """The number of a kind in `flat`."""
        return self.kinds.index(kind.kind) + 1

    def table(self, values: Any, dtype: torch.dtype) -> Tensor:
        """A constant on the device."""
        return torch.tensor(values, dtype=dtype, device=self.device)

    def steps(self, cells: Sequence[tuple[int, int]]) -> Tensor:
        """From a place to the one that is so many rows and columns away."""
        return self.table([row * self._stride + column for row, column in cells], torch.int64)

    def at(self, places: Tensor) -> Tensor:
        """The kinds at some places, of any shape."""
        return self.flat.index_select(0, places.reshape(-1)).view(places.shape)

    def put(self, places: Tensor, kinds: int | Tensor) -> None:
        """Put a kind, or one for each, at some places."""
        if isinstance(kinds, Tensor):
            self.flat.scatter_(0, places.reshape(-1), kinds.reshape(-1))
        else:
            self.flat.scatter_(0, places.reshape(-1), kinds)

    def move(self, agent: int, targets_L: Tensor, passes_L: Tensor) -> None:
        """Let an agent, whose cell is empty already, go to its target in the lanes where it passes, or stay."""
        place_L = self.places_NL[agent]
        torch.where(passes_L, targets_L, place_L, out=place_L)
        self.put(place_L, self.agent_kind)

    def clear(self) -> None:
        """All cells are empty, and nothing is given."""
        self.cells_LHW.fill_(self.empty_kind)
        self.given_LN.zero_()

    def enclose(self, kind: type[Entity]) -> None:
        """Put a kind into every cell at the edge."""
        rows, columns = self.cells_LHW, self.cells_LHW.transpose(1, 2)
        for edge in (rows[:, 0], rows[:, -1], columns[:, 0], columns[:, -1]):
            edge.fill_(self.number(kind))

    def draw_places(self, scores_LHW: Tensor, count: int) -> Tensor:
        """Places of `count` different empty cells in every lane, in random order: those with the highest of the numbers.

        Shape (count, L). Where there are fewer empty cells, the last ones are of cells that are not empty.
        """
        free_first = torch.add(scores_LHW, self.cells_LHW != self.empty_kind, alpha=-1)
        cells_CL = free_first.view(self.lanes, -1).topk(count).indices.T
        rows_CL = cells_CL // self.width
        return torch.add(cells_CL + self.corners_L, rows_CL, alpha=self._stride - self.width)

    def place_agents(self, places_NL: Tensor) -> None:
        """Put the agents somewhere."""
        self.places_NL.copy_(places_NL)
        self.put(self.places_NL, self.agent_kind)

    def check_room(self, count: int, free: int) -> None:
        """Refuse a map on which not everything has a cell of its own."""
        if count > free:
            raise WorldError(
                f"{count} agents and other things need {count} free cells, but the {self.height}x{self.width} world has"
                f" {free}: enlarge world.height or world.width, or lower their number (experiment.num_agents for agents)."
            )
