"""What games share whose agents walk about as small figures and see a square of one-hot cells around them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from abreast.agents import MovingAgent
from abreast.games.art import figures
from abreast.models import BaseModel
from abreast.settings import Section
from abreast.training import Config, Environment, parse_config
from abreast.worlds import ActionSpec, EmptyEntity, Gridworld, Location, ObservationSpec, OneHotObservationSpec, Wall

GROUND, TOP = 0, 1
"""The layers of a `TwoLayerWorld`."""


class Walker(MovingAgent):
    """A small person in a coat of its own colour, who knows its number, and the settings of its world."""

    symbol = "@"

    def __init__(
        self,
        observation: ObservationSpec,
        actions: ActionSpec,
        model: BaseModel,
        number: int,
        settings: Section | None = None,
    ) -> None:
        """`settings`: those of its world; needed where its rules depend on them."""
        super().__init__(observation, actions, model)
        self.number, self.settings = number, settings
        self.direction_sprites = figures(number)
        self.reset()


class TwoLayerWorld(Gridworld):
    """A world as high and wide as its settings say, with two layers: the ground, and what stands on it."""

    section: ClassVar[type[Section]]
    """Its settings."""

    def __init__(self, config: Mapping[str, Any] | Config[Any, Any]) -> None:
        self.settings: Any = parse_config(config, self.section).world
        super().__init__(self.settings.height, self.settings.width, layers=2, default_entity=EmptyEntity())


class WalkersEnv(Environment):
    """A game of walkers: it says which world, which agents, what they do and what they see."""

    world_kind: ClassVar[type[Gridworld]]
    """Made from the configuration."""
    agent_kind: ClassVar[type[Walker]] = Walker
    actions: ClassVar[Sequence[str]] = ("up", "down", "left", "right", "stay")
    seen_kinds: ClassVar[Sequence[str]]
    """The kinds that an agent sees, each in a plane of its own."""
    blank_kinds: ClassVar[Sequence[str]] = (EmptyEntity.kind,)
    """The kinds that show nothing."""
    outside_kind: ClassVar[str] = Wall.kind
    """What is seen beyond the edge."""

    @classmethod
    def make_world(cls, config: Config[Any, Any]) -> Gridworld:
        return cls.world_kind(config)  # type: ignore[arg-type, call-arg]

    def setup_agents(self) -> None:
        actions = ActionSpec(self.actions)
        for number in range(self.config.experiment.num_agents):
            radius = self.config.model_of(number).agent_vision_radius
            view = OneHotObservationSpec(
                self.seen_kinds, vision_radius=radius, outside=self.outside_kind, blank=self.blank_kinds
            )
            model = self.make_model(view, actions.n_actions, number)
            self.agents.append(self.agent_kind(view, actions, model, number, self.config.world))

    def populate_environment(self) -> None:
        """Lay out the world, and put each agent on an empty cell; where they start otherwise, a game says."""
        self.world.lay_out()
        self.world.scatter(self.agents, onto=EmptyEntity.kind)


def action_towards(agent: MovingAgent, world: Gridworld, is_wanted: Callable[[Location], bool]) -> int | None:
    """The first action of a shortest way to a cell of the agent's layer that is wanted, which need not let it pass itself;
    None: there is no way. For scripted agents.
    """
    layer = agent.location[2]
    names = [name for name in agent.action_spec.actions if name in agent.DIRECTIONS]
    seen, reached = {agent.location}, [(agent.location, "")]
    for place, first in reached:  # which grows meanwhile
        for name in names:
            rows, columns = agent.DIRECTIONS[name]
            cell = (place[0] + rows, place[1] + columns, layer)
            if cell in seen or not world.valid_location(cell):
                continue
            seen.add(cell)
            if is_wanted(cell):
                return agent.action_spec.actions.index(first or name)
            if world.observe(cell).passable:
                reached.append((cell, first or name))
    return None


def walk_towards(
    agent: MovingAgent, world: Gridworld, is_wanted: Callable[[Location], bool], otherwise: str = "stay"
) -> int:
    """`action_towards`, or the action called `otherwise` where there is no way."""
    action = action_towards(agent, world, is_wanted)
    return agent.action_spec.actions.index(otherwise) if action is None else action
