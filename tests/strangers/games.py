"""Games as users write them, without thinking of lanes, processes or reproducibility."""

import random
from dataclasses import dataclass, field

import gymnasium
import numpy as np

from abreast import ActionSpec, Agent, EmptyEntity, Entity, Environment, Gridworld, MovingAgent, OneHotObservationSpec

WALK = ActionSpec(["up", "down", "left", "right"])


class Apple(Entity):
    passable, value = True, 1.0


class Walkers(Environment):
    """Two agents among apples; the games below change one thing each."""

    count = 2
    things = ("EmptyEntity", "Apple", "MovingAgent", "Wall")
    body = MovingAgent

    def setup_agents(self):
        view = OneHotObservationSpec(self.things, vision_radius=1)
        self.agents = [self.body(view, WALK, self.make_model(view, 4, number)) for number in range(self.count)]

    def populate_environment(self):
        self.world.scatter([Apple() for _ in range(8)], onto="EmptyEntity")
        self.world.scatter(self.agents, onto="EmptyEntity")


# ---- mutable attributes of the world, which outlive an epoch


class DirtyWorld(Gridworld):
    """Dirt gathers where agents walk, in an array, a dict and a list of its own."""

    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        self.dirt, self.visits, self.log = np.zeros((6, 6)), {}, []


class DirtyBody(MovingAgent):
    kind = "MovingAgent"

    def act(self, world, action):
        reward = super().act(world, action)
        row, column, _ = self.location
        world.dirt[row, column] += 1
        world.visits[row, column] = world.visits.get((row, column), 0) + 1
        world.log.append(row)
        return reward - 0.1 * world.dirt[row, column] - 0.01 * len(world.visits)


class Dirty(Walkers):
    body = DirtyBody


# ---- class attributes and closures


class CountsOnTheClass(Gridworld):
    """Counts in a list of the class, which all lanes share."""

    steps: list = []

    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())

    def transition(self):
        super().transition()
        self.steps.append(1)


class EnclosesAList(Gridworld):
    """Its rule is a function that encloses a list."""

    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        seen = []
        self.rule = lambda: seen.append(1) or len(seen)


# ---- random numbers of the whole process


class DiceBody(MovingAgent):
    kind = "MovingAgent"

    def act(self, world, action):
        return super().act(world, action) + random.random() + np.random.rand()  # noqa: NPY002


class Dice(Walkers):
    """Rewards with noise from the generators that the whole process shares."""

    body = DiceBody


class ManyDice(Dice):
    """With enough agents for a stacked update."""

    count = 3


# ---- generators and state of agents, environments


class MoodyBody(MovingAgent):
    """Has a generator and a mood that outlives epochs, and knows its neighbour."""

    kind = "MovingAgent"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.dice, self.mood, self.neighbour = np.random.default_rng(5), 0.0, None

    def act(self, world, action):
        self.mood += self.dice.normal()
        if self.neighbour is not None:
            self.neighbour.mood *= 0.9
        return super().act(world, action) + self.mood


class Moody(Walkers):
    body = MoodyBody

    def setup_agents(self):
        super().setup_agents()
        self.agents[0].neighbour = self.agents[1]
        self.days = 0

    def populate_environment(self):
        super().populate_environment()
        self.days += 1

    def metrics(self):
        return {"days": self.days, "mood": self.agents[1].mood}


# ---- dataclass entities


@dataclass(eq=False)
class Pot(Entity):
    """Fills up by itself; holds a list."""

    level: int = 0
    history: list = field(default_factory=list)
    has_transitions = True
    passable = True

    def transition(self, world):
        self.level += int(world.rng.integers(2))
        self.history.append(self.level)
        self.value = 0.1 * len(self.history)


class Pots(Walkers):
    things = ("Pot", "Apple", "MovingAgent", "Wall")

    def populate_environment(self):
        self.world.scatter(self.agents, onto="Pot")


# ---- a world around somebody else's environment


class Pole(Gridworld):
    """One cell and a Gymnasium environment."""

    def __init__(self):
        super().__init__(1, 1, 1, EmptyEntity())
        self.env = gymnasium.make("CartPole-v1")

    def create_world(self):
        super().create_world()
        if hasattr(self, "env"):
            self.seen, _ = self.env.reset(seed=int(self.rng.integers(2**31)))


class PoleView:
    dtype, scale, input_size = np.float32, 1.0, (4,)


class Balancer(Agent):
    def pov(self, world):
        return world.seen

    def act(self, world, action):
        world.seen, reward, terminated, _, _ = world.env.step(action)
        world.is_done = terminated
        return reward


class Poles(Environment):
    def setup_agents(self):
        view = PoleView()
        self.agents = [Balancer(view, ActionSpec(["left", "right"]), self.make_model(view, 2, 0))]

    def populate_environment(self):
        self.world.add((0, 0, 0), self.agents[0])


# ---- payoffs that depend on both


class Prisoner(Agent):
    """Chooses; the second player pays both, or the environment does."""

    last = 0

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.other = None

    def pov(self, world):
        return np.array([self.last, self.other.last], np.uint8)

    def act(self, world, action):
        self.last = action
        if self.pays:
            mine, others = PAYOFF[action, self.other.last]
            self.other.give(others)
            return mine
        return 0.0

    pays = False


PAYOFF = {(0, 0): (3, 3), (0, 1): (0, 5), (1, 0): (5, 0), (1, 1): (1, 1)}


class PairView:
    dtype, scale, input_size = np.uint8, 1.0, (2,)


class Prisoners(Environment):
    """The second player resolves the turn: the first is always paid late."""

    def setup_agents(self):
        view, actions = PairView(), ActionSpec(["cooperate", "defect"])
        self.agents = [Prisoner(view, actions, self.make_model(view, 2, number)) for number in range(2)]
        self.agents[0].other, self.agents[1].other = self.agents[1], self.agents[0]
        self.agents[1].pays = True

    def populate_environment(self):
        self.world.scatter(self.agents, onto="EmptyEntity")


class JointPrisoners(Prisoners):
    """The environment resolves the turn, when both have acted."""

    def setup_agents(self):
        super().setup_agents()
        self.agents[1].pays = False

    def after_turn(self):
        return PAYOFF[self.agents[0].last, self.agents[1].last]


# ---- what outlives a reset


class SlottedBody(MovingAgent):
    kind, __slots__ = "MovingAgent", ("mood",)


class Slotted(Walkers):
    """Its agents keep what outlives an epoch in a slot."""

    body = SlottedBody

    def after_turn(self):
        for agent in self.agents:
            agent.mood = getattr(agent, "mood", 0.0) + 0.5

    def metrics(self):
        return {"mood": self.agents[0].mood}


class Leaves(Walkers):
    """Its reset leaves the scores, the places and the directions of the agents as they were, and the world grows."""

    def reset(self):
        self.turn = 0
        if self.epochs_played == 4:
            self.world.height += 1
            for agent in self.agents:
                agent.action_spec = ActionSpec(["down", "up", "right", "left"])
        total = self.world.total_reward
        self.world.create_world()
        self.world.total_reward = total
        self.populate_environment()

    def populate_environment(self):
        if not hasattr(self.agents[0], "location"):
            super().populate_environment()
            return
        for agent in self.agents:
            self.world.add(agent.location, agent)
        self.world.scatter([Apple() for _ in range(8)], onto="EmptyEntity")

    def metrics(self):
        looks = [["up", "down", "left", "right"].index(agent.facing) for agent in self.agents]
        return {"total": self.world.total_reward, "looks": sum(looks)}
