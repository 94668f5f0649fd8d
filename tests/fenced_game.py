"""A game of a user's in which not every action is legal: nobody may walk off the map."""

from abreast import ActionSpec, OneHotObservationSpec
from own_game import KINDS, Garden, Gatherer


class Careful(Gatherer):
    """Knows where the map ends."""

    kind = "Gatherer"

    def legal_actions(self, world):
        return [world.valid_location(self.ahead(name)) for name in self.action_spec.actions]

    def ahead(self, name):
        (rows, columns), (row, column, layer) = self.DIRECTIONS[name], self.location
        return row + rows, column + columns, layer

    def act(self, world, action):
        assert world.valid_location(self.ahead(self.action_spec.get_readable_action(action)))
        return super().act(world, action)


class FencedGarden(Garden):
    """Agents gather berries on a small map."""

    def setup_agents(self):
        view, actions = OneHotObservationSpec(KINDS, vision_radius=1), ActionSpec(["up", "down", "left", "right"])
        view.is_masked = True
        for number in range(self.config.experiment.num_agents):
            self.agents.append(Careful(view, actions, self.make_model(view, actions.n_actions, number)))
