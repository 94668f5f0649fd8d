"""Games with models of their own, and what they think of others."""

from abreast import BaseModel
from abreast.errors import ConfigError
from abreast.models import RandomModel
from own_game import Garden


class AlwaysLeft(BaseModel):
    """Learns nothing."""

    def take_action(self, state, lane=0):
        return 2

    def train_step(self):
        return None

    def save(self, path):
        """Nothing to keep."""


class Stubborn(Garden):
    """Takes no notice of `model.algorithm`."""

    def setup_agents(self):
        super().setup_agents()
        for number, agent in enumerate(self.agents):
            lanes = self.config.multiprocessing.lanes
            agent.model = AlwaysLeft(agent.observation_spec, 4, self.config.model, self.agent_seed(number), lanes)


class Jealous(Garden):
    """Agents that act at random have no place in it."""

    def populate_environment(self):
        if any(isinstance(agent.model, RandomModel) for agent in self.agents):
            raise ConfigError("I like no other models.")
        super().populate_environment()
