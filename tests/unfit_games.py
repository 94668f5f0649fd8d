"""Games that break the contract of training, each in one way; and one that keeps it."""

import os
import random
import threading
import weakref
from typing import ClassVar

import numpy as np

from abreast import DQN, ActionSpec, EmptyEntity, Entity, Environment, Gridworld, MovingAgent, OneHotObservationSpec

WALK = ActionSpec(["up", "down", "left", "right"])


class Apple(Entity):
    passable, value = True, 1.0


class Body(MovingAgent):
    """Walks."""


class Fit(Environment):
    """Keeps the contract: two agents among apples."""

    defaults: ClassVar = {
        "experiment": {"max_turns": 20, "num_agents": 2},
        "model": {"algorithm": "dqn", "n_frames": 1},
        "world": {"height": 6, "width": 6},
    }
    body = Body

    def setup_agents(self):
        view = OneHotObservationSpec(["EmptyEntity", "Apple", self.body.kind, "Wall"], vision_radius=1)
        self.agents = [self.body(view, WALK, self.make_model(view, 4, number)) for number in range(2)]

    def populate_environment(self):
        self.world.scatter([Apple() for _ in range(8)], onto="EmptyEntity")
        self.world.scatter(self.agents, onto="EmptyEntity")

    def metrics(self):
        return {"apples": len(self.world.get_entities_of_kind("Apple"))}


class NothingRandom(Fit):
    """All stands where it always stands."""

    def populate_environment(self):
        for number, thing in enumerate([*self.agents, Apple(), Apple()]):
            self.world.add((number, number, 0), thing)


# ---- episode


class NaNBody(Body):
    def act(self, world, action):
        return float("nan")


class RewardsWithNaN(Fit):
    body = NaNBody


class HalfBody(Body):
    """Its later observations are no bytes any more."""

    def pov(self, world):
        seen = super().pov(world)
        self.looks = getattr(self, "looks", 0) + 1
        return seen + 0.5 if self.looks > 3 else seen


class ObservesHalves(Fit):
    body = HalfBody


class InfiniteView(OneHotObservationSpec):
    dtype = np.float32

    def observe(self, world, location):
        return np.where(super().observe(world, location) > 0, np.inf, 0.0)


class ObservesInfinity(Fit):
    def setup_agents(self):
        super().setup_agents()
        for agent in self.agents:
            agent.observation_spec = InfiniteView(["EmptyEntity", "Apple", "Body", "Wall"], vision_radius=1)


class RaisingBody(Body):
    def act(self, world, action):
        raise ZeroDivisionError("a villain divides by zero")


class RaisesInAct(Fit):
    body = RaisingBody


class HasNoAgents(Fit):
    def setup_agents(self):
        self.agents = []


class HasAModelForThreeActions(Fit):
    def make_model(self, observation, n_actions, agent):
        return super().make_model(observation, 3, agent)


class UnmadeBody(Body):
    def __init__(self, *parts):
        self.visited = []


class HasUnmadeAgents(Fit):
    body = UnmadeBody


class UnmadeWorld(Gridworld):
    def __init__(self, config):
        self.height = self.width = 6


class HasAnUnmadeWorld(Fit):
    @classmethod
    def make_world(cls, config):
        return UnmadeWorld(config)


class NeverEmptied(Gridworld):
    def create_world(self):
        self.berries = 0


class HasAWorldThatIsNeverEmptied(Fit):
    @classmethod
    def make_world(cls, config):
        return NeverEmptied(6, 6, 1, EmptyEntity())


class IsNotMade(Fit):
    def __init__(self, world, config):
        self.world, self.config = world, config


class ScatteredTooManyKinds(Fit):
    def populate_environment(self):
        self.world.scatter([Apple() for _ in range(40)] + self.agents, onto="EmptyEntity")


# ---- global random state


class DiceBody(Body):
    def act(self, world, action):
        return super().act(world, action) + random.random()


class DrawsInAct(Fit):
    body = DiceBody


class DrawsInPopulate(Fit):
    def populate_environment(self):
        super().populate_environment()
        self.luck = np.random.rand()  # noqa: NPY002


class DrawsInSetup(Fit):
    def setup_agents(self):
        super().setup_agents()
        import torch

        self.luck = torch.rand(()).item()


class DrawingWorld(Gridworld):
    def create_world(self):
        super().create_world()
        self.luck = random.random()


class DrawsInCreateWorld(Fit):
    @classmethod
    def make_world(cls, config):
        world = Gridworld(6, 6, 1, EmptyEntity())
        world.__class__ = DrawingWorld  # so that make_world itself draws nothing
        return world


class DrawsInMakeWorld(Fit):
    @classmethod
    def make_world(cls, config):
        random.random()
        return super().make_world(config)


class DrawsInInit(Fit):
    def __init__(self, world, config):
        super().__init__(world, config)
        self.luck = random.random()


# ---- seed


class UsesTheClock(Fit):
    def populate_environment(self):
        self.world.rng = np.random.default_rng()
        super().populate_environment()


TURNS_EVER = [0]


class CountsInTheModule(Fit):
    """Pays by a count that all environments share and that nothing resets."""

    def after_turn(self):
        TURNS_EVER[0] += 1
        return [0.01 * TURNS_EVER[0]] * 2


# ---- lanes


class LockedWorld(Gridworld):
    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        self.lock = threading.Lock()


class CannotBeCopied(Fit):
    @classmethod
    def make_world(cls, config):
        return LockedWorld()


class SharesAListOfTheClass(Fit):
    taken: ClassVar = []

    def populate_environment(self):
        super().populate_environment()
        self.taken.clear()

    def after_turn(self):
        self.taken.append(1)
        return [0.1 * len(self.taken)] * 2


TAKEN = []


class SharesAListOfTheModule(Fit):
    def populate_environment(self):
        super().populate_environment()
        TAKEN.clear()

    def after_turn(self):
        TAKEN.append(1)
        return [0.1 * len(TAKEN)] * 2


class SharesANumberOfTheClass(Fit):
    """A number, which is no list that could be refused as such."""

    steps = 0

    def populate_environment(self):
        super().populate_environment()
        type(self).steps = 0

    def after_turn(self):
        type(self).steps += 1
        return [0.1 * self.steps] * 2


class CountingBody(Body):
    """Keeps in the class where all of them were, and looks at it no more."""

    visited: ClassVar = []

    def act(self, world, action):
        self.visited.append(self.location)
        return super().act(world, action)


class CountsInTheClassOfItsAgents(Fit):
    body = CountingBody


# ---- state


LEVELS = weakref.WeakKeyDictionary()


class KeepsItsLevelElsewhere(Fit):
    """The level outlives epochs, but is no attribute."""

    def populate_environment(self):
        super().populate_environment()
        LEVELS[self] = LEVELS.get(self, 0) + 1

    def after_turn(self):
        return [0.1 * LEVELS[self]] * 2


class HoldsALock(Fit):
    def setup_agents(self):
        super().setup_agents()
        self.lock = threading.Lock()


# ---- several actors


class CannotBeSent(Fit):
    def __init__(self, world, config):
        super().__init__(world, config)
        lock = threading.Lock()

        def factory():
            with lock:
                return CannotBeSent(self.make_world(config), config)

        self.factory = factory


class UsesHash(Fit):
    def after_turn(self):
        return [hash("a text") % 1000] * 2


# ---- late rewards


class ScoringBody(Body):
    def act(self, world, action):
        self.score += 1
        return 0.0


class ScoresByItself(Fit):
    body = ScoringBody


class OwnTurnBody(Body):
    """Takes its turn by itself, and forgets what others gave."""

    def transition(self, world):
        state = self.pov(world)
        action = self.get_action(state)
        reward = self.act(world, action)
        self.earn(world, reward + 1)
        self.add_memory(state, action, reward, False)


class ForgetsPartOfItsReward(Fit):
    body = OwnTurnBody


# ---- training


class LearnsByProcess(DQN):
    def train_step(self):
        self.pid = os.getpid()
        return super().train_step()


class HasAModelThatKnowsItsProcess(Fit):
    def make_model(self, observation, n_actions, agent):
        return super().make_model(observation, n_actions, agent, LearnsByProcess)
