"""A stranger's game with a batched world of its own. Nothing in it is random, so both worlds play alike, step by step.

An agent gets 1 for a step onto grass, which is eaten then, and with `stay` gives 0.5 to the agent before it.
"""

from pydantic import Field

from abreast.agents import MovingAgent
from abreast.training import Environment
from abreast.training.config import BatchedSection
from abreast.worlds import ActionSpec, EmptyEntity, Entity, Gridworld, OneHotObservationSpec
from abreast.worlds.batched import BatchedWorld

ACTIONS = ("up", "down", "left", "right", "stay")


class Grass(Entity):
    value = 1.0
    passable = True


class Meadow(Gridworld):
    pass


class MeadowConfig(BatchedSection):
    height: int = Field(5, ge=1)
    width: int = Field(6, ge=1)


class Grazer(MovingAgent):
    KNOWN = MovingAgent.KNOWN | {"friend"}

    def act(self, world, action):
        if action == ACTIONS.index("stay"):
            self.friend.give(0.5)
            world.gifts += 1
        return super().act(world, action)


class BatchedMeadow(BatchedWorld):
    WORLD, AGENT, ACTIONS = Meadow, Grazer, ACTIONS

    def __init__(self, *given):
        super().__init__(*given)
        cells = [divmod(number, self.width) for number in range(self.agents)]
        self._begin_NL = self.steps(cells)[:, None] + self.corners_L
        self._gift = self.table([0.0, 0.0, 0.0, 0.0, 0.5], self.given_LN.dtype)
        self._gifts = self._gift.new_zeros(self.lanes)

    def make_prototypes(self):
        return [EmptyEntity(), Grass()]

    def reset_draws(self):
        return {}

    def turn_draws(self):
        return {"unused": (2,)}

    def reset(self, draws):
        self.clear()
        self.cells_LHW.fill_(self.number(Grass))
        self.place_agents(self._begin_NL)
        self._gifts.zero_()

    def transition(self, draws):
        pass

    def act(self, agent, actions):
        gift = self._gift.index_select(0, actions)
        self.given_LN[:, agent - 1] += gift
        self._gifts += gift * 2
        return super().act(agent, actions)

    def metrics(self):
        return {"gifts": self._gifts}


class MeadowEnv(Environment):
    """Agents graze."""

    world_section = MeadowConfig
    batched_world = BatchedMeadow

    @classmethod
    def make_world(cls, config):
        return Meadow(config.world.height, config.world.width, layers=1, default_entity=EmptyEntity())

    def setup_agents(self):
        actions = ActionSpec(list(ACTIONS))
        for number in range(self.config.experiment.num_agents):
            view = OneHotObservationSpec(["Grass", "Grazer"], vision_radius=1, outside="Grazer")
            model = self.make_model(view, actions.n_actions, number)
            self.agents.append(Grazer(view, actions, model))
        for agent, friend in zip(self.agents, [self.agents[-1], *self.agents[:-1]], strict=True):
            agent.friend = friend

    def populate_environment(self):
        self.world.gifts = 0
        for row in range(self.world.height):
            for column in range(self.world.width):
                self.world.add((row, column, 0), Grass())
        for number, agent in enumerate(self.agents):
            self.world.add((*divmod(number, self.world.width), 0), agent)

    def metrics(self):
        return {"gifts": float(self.world.gifts)}


class HostileMeadow(MeadowEnv):
    """The same, by a class that does not say itself that its rules are those of the batched world."""
