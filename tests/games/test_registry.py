"""Games are found by name, wherever they come from, and keep the contract of a game."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
import yaml

from abreast import plugins
from abreast.cli import run
from abreast.errors import GameError
from abreast.games import Game, find_game, list_games, registry
from abreast.games.registry import merge

FILES = ["README.md", "__init__.py", "agents.py", "config.yaml", "entities.py", "env.py", "world.py"]


@pytest.mark.parametrize("name", ["cleanup", "staghunt", "tag", "treasurehunt"])
def test_own_games_are_found_and_complete(name):
    game = find_game(name)
    assert game.name == name and game.summary.endswith(".")
    assert sorted(path.name for path in game.folder.iterdir() if path.suffix) == FILES
    listed = yaml.safe_load((game.folder / "config.yaml").read_text())["world"]
    assert set(listed) == set(game.environment.world_section.model_fields), (
        "config.yaml shows every setting of the world"
    )


@pytest.mark.parametrize("name", list_games())
def test_every_kind_in_a_game_has_a_sprite_and_a_symbol(name):
    game = find_game(name)
    env = game.build(game.configure(None, ["model.algorithm=random"]))
    for _ in range(30):
        env.take_turn()
    for entity in env.world.map.flat:
        assert entity.sprite is not None and len(entity.symbol) == 1


@pytest.mark.parametrize("name", list_games())
def test_random_play_keeps_world_and_grid_in_step(name):
    game = find_game(name)
    env = game.build(game.configure(None, ["model.algorithm=random", "experiment.num_agents=3"]))
    for _ in range(3):
        env.reset()
        for _ in range(60):
            env.take_turn()
        names = dict(enumerate(env.world.kind_names, start=1))
        for location in np.ndindex(env.world.map.shape):
            assert names[env.world.kinds[location]] == env.world.map[location].kind
        assert [env.world.observe(agent.location) for agent in env.agents] == env.agents


def test_installed_packages_add_games(monkeypatch):
    points = [
        EntryPoint("mine", "abreast.games.treasurehunt:GAME", registry.GAMES.group),
        EntryPoint("broken", "no_such_module:GAME", registry.GAMES.group),
        EntryPoint("wrong", "abreast.games.treasurehunt:TreasurehuntWorld", registry.GAMES.group),
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == registry.GAMES.group else [])
    assert {"mine", "broken", "treasurehunt"} <= set(list_games())
    assert isinstance(find_game("mine"), Game)
    with pytest.raises(GameError, match=r"the game 'broken' \(no_such_module:GAME\) does not load"):
        find_game("broken")
    with pytest.raises(GameError, match=r"expected a subclass of Environment or an abreast\.games\.Game"):
        find_game("wrong")


def test_a_broken_game_does_not_hide_the_others(monkeypatch, capsys):
    points = [EntryPoint("broken", "no_such_module:GAME", registry.GAMES.group)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    assert run(["games"]) == 0
    printed = capsys.readouterr().out
    assert "does not load" in printed and "treasurehunt" in printed


def test_merging_goes_section_by_section():
    assert merge({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}, "c": 6}) == {"a": {"x": 1, "y": 5}, "b": 3, "c": 6}
