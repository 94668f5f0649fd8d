"""A game in a file of its own, as users write them: no package, a world of one layer, settings in `defaults`."""

from typing import ClassVar

from abreast import ActionSpec, Entity, Environment, MovingAgent, OneHotObservationSpec

KINDS = ["EmptyEntity", "Bush", "Gatherer", "Wall"]


class Bush(Entity):
    """Berries."""

    value = 1.0
    passable = True


class Gatherer(MovingAgent):
    """Eats berries."""


class Garden(Environment):
    """Agents gather berries.

    More of them is better.
    """

    defaults: ClassVar = {
        "experiment": {"epochs": 3, "max_turns": 6, "num_agents": 2},
        "model": {"algorithm": "dqn", "n_frames": 1, "hidden_size": 16, "batch_size": 8},
        "world": {"height": 5, "bushes": 8},
    }

    def setup_agents(self):
        view, actions = OneHotObservationSpec(KINDS, vision_radius=2), ActionSpec(["up", "down", "left", "right"])
        for number in range(self.config.experiment.num_agents):
            self.agents.append(Gatherer(view, actions, self.make_model(view, actions.n_actions, number)))

    def populate_environment(self):
        self.bushes = [Bush() for _ in range(self.config.world.bushes)]
        self.world.scatter(self.bushes, onto="EmptyEntity")
        self.world.scatter(self.agents, onto="EmptyEntity")

    def metrics(self):
        return {"eaten": sum(agent.score for agent in self.agents), "turns": self.turn}
