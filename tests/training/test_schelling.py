"""Schelling diagrams: of a stranger's game by hand, and of ours by what they are for."""

import csv

import pytest

from abreast import EmptyEntity, Environment, Gridworld, MovingAgent
from abreast.errors import GameError
from abreast.games import find_game
from abreast.training.schelling import schelling_diagram
from abreast.worlds import ActionSpec, OneHotObservationSpec

KEEP, SHARE = 0, 1


class Giver(MovingAgent):
    """Keeps 1, or gives 2 to each of the others; the last turn's gifts come after its last step."""

    def act(self, world, action):
        if action == KEEP:
            return 1.0
        for other in world.everybody:
            if other is not self:
                other.give(2.0)
        return 0.0


class Gifts(Environment):
    defaults = {"experiment": {"num_agents": 3, "max_turns": 4}, "model": {"algorithm": "random"}}
    scripted = {"cooperate": lambda agent, world: SHARE, "defect": lambda agent, world: KEEP}

    @classmethod
    def make_world(cls, config):
        return Gridworld(3, 3, 1, EmptyEntity())

    def setup_agents(self):
        for number in range(self.config.experiment.num_agents):
            view, actions = OneHotObservationSpec(["Giver"], vision_radius=1), ActionSpec(["keep", "share"])
            self.agents.append(Giver(view, actions, self.make_model(view, 2, number)))

    def populate_environment(self):
        self.world.everybody = tuple(self.agents)
        self.world.scatter(self.agents, onto=EmptyEntity.kind)


class Silent(Gifts):
    scripted = {"cooperate": lambda agent, world: SHARE}


class Odd(Gifts):
    scripted = {"cooperate": lambda agent, world: SHARE, "defect": lambda agent, world: 7}


class Stubborn(Giver):
    kind = "Giver"

    def transition(self, world):
        self.perform(world, self.pov(world), KEEP)


class StubbornGifts(Gifts):
    def setup_agents(self):
        super().setup_agents()
        last = self.agents.pop()
        self.agents.append(Stubborn(last.observation_spec, last.action_spec, last.model))


def test_a_strangers_game_by_hand():
    diagram = schelling_diagram(Gifts.make(), "gifts", episodes=2)
    assert [(each.role, each.others, each.mean) for each in diagram.payoffs] == [
        *(("cooperate", others, 8.0 * others) for others in range(3)),
        *(("defect", others, 4.0 + 8.0 * others) for others in range(3)),
    ]
    assert all(each.interval == (each.mean, each.mean) for each in diagram.payoffs)
    assert diagram.verdict.endswith("a social dilemma, by fear and greed.")


def test_what_is_no_dilemma_is_not_called_one():
    env = Gifts.make()
    env.scripted = {"cooperate": Gifts.scripted["defect"], "defect": Gifts.scripted["cooperate"]}
    assert schelling_diagram(env, "gifts", episodes=1).verdict.endswith("no social dilemma.")


def test_files(tmp_path):
    pytest.importorskip("matplotlib", reason="draws the picture")
    png, table = schelling_diagram(Gifts.make(), "gifts", episodes=1).write(tmp_path / "new")
    assert png.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(table.open()))
    assert [(row["other_cooperators"], row["role"], float(row["payoff"])) for row in rows][:2] == [
        ("0", "cooperate", 0.0),
        ("1", "cooperate", 8.0),
    ]
    assert rows[0]["low"] == ""  # a single epoch says nothing of its spread


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (Silent, "gifts does not say what it means to defect: let its environment have scripted = "),
        (Odd, "Odd.scripted['defect'] returned 7: expected the number of an action, from 0 to 1."),
        (StubbornGifts, "agent 2 of StubbornGifts takes its turn without get_action"),
    ],
)
def test_refused_by_name(env, told):
    with pytest.raises(GameError) as error:
        schelling_diagram(env.make(), "gifts", episodes=1)
    assert str(error.value).startswith(told)


def test_one_agent_is_no_group():
    with pytest.raises(GameError, match=r"raise experiment[.]num_agents"):
        schelling_diagram(Gifts.make({"experiment": {"num_agents": 1}}), "gifts", episodes=1)


@pytest.mark.parametrize("name", ["coins", "prisoners", "harvest", "cleanup"])
def test_games_are_the_dilemmas_they_say(name):
    game = find_game(name)
    env = game.build(game.configure(None, ["model.algorithm=random"]))
    found = schelling_diagram(env, name, episodes=2)
    assert "a social dilemma, by fear" in found.verdict
    again = game.build(game.configure(None, ["model.algorithm=random"]))
    if name == "coins":
        assert schelling_diagram(again, name, episodes=2) == found
        assert schelling_diagram(again, name, episodes=2, seed=1) != found
