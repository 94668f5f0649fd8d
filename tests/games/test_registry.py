"""Games are found by name, wherever they come from, and keep the contract of a game."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import yaml

import own_game as own
from abreast import plugins
from abreast.cli import run
from abreast.errors import ConfigError, GameError
from abreast.games import Game, find_game, find_game_of_run, list_games, registry
from abreast.settings import merge

FILES = ["README.md", "__init__.py", "agents.py", "config.yaml", "entities.py", "env.py", "world.py"]


@pytest.mark.parametrize("name", ["cleanup", "staghunt", "tag", "treasurehunt"])
def test_own_games_are_found_and_complete(name):
    game = find_game(name)
    assert game.name == name and game.summary.endswith(".")
    expected = [*FILES, f"{name}_v0.py", *(["batched.py"] if "batched_world" in vars(game.environment) else [])]
    assert sorted(path.name for path in game.folder.iterdir() if path.suffix) == sorted(expected)
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


# ---- games without a package


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, the current one; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def own_game(path, more=""):
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(Path(own.__file__).read_text() + more)


@pytest.mark.parametrize(
    "target",
    [
        "own_folder/garden_file.py",
        "./own_folder/garden_file.py",
        "own_folder/garden_file.py:Garden",
        "own_folder.garden_file:Garden",
    ],
)
def test_a_game_is_found_in_a_file_or_a_module(target, folder):
    own_game(folder / "own_folder" / "garden_file.py")
    game = find_game(target)
    assert (game.name, game.summary, game.folder) == ("garden", "Agents gather berries.", None)
    config = game.configure(None, ["world.width=7"])
    assert config.game == target.removeprefix("./")
    env = game.build(config)
    assert (env.world.height, env.world.width, env.world.layers) == (5, 7, 1)
    assert len(env.agents) == 2 and config.world.bushes == 8 and len(env.bushes) == 8


def test_a_path_inside_the_current_folder_is_written_down_relative_to_it(folder):
    own_game(folder / "absolute_garden.py")
    assert find_game(str(folder / "absolute_garden.py:Garden")).configure().game == "absolute_garden.py:Garden"


def test_settings_of_a_file_are_over_those_of_the_class(folder):
    (folder / "mine.yaml").write_text("experiment: {epochs: 9}\nworld: {height: 8}")
    config = Game(own.Garden).configure(folder / "mine.yaml", ["world.height=9"])
    assert (config.experiment.epochs, config.experiment.max_turns, config.world.height) == (9, 6, 9)
    assert config.game is None


MODELS = """
from abreast.models import DQN
from torch import nn

class Mine(DQN):
    pass

class Front(nn.Flatten):
    def __init__(self, input_shape):
        super().__init__()
"""
BESIDE = """
class Beside(Garden):
    model = {"algorithm": "%s.py:Mine", "network": "%s.py:Front", "per_agent": {1: {"algorithm": "ppo"}}}
    defaults = {**Garden.defaults, "model": {**Garden.defaults["model"], **model}}
"""


@pytest.mark.parametrize("derived", [False, True])
def test_a_model_that_a_games_settings_name_lies_beside_the_game(folder, derived):
    name = f"models_beside_{derived}"
    (folder / "games").mkdir()
    (folder / "games" / f"{name}.py").write_text(MODELS)
    own_game(folder / "games" / f"{name}_game.py", BESIDE % (name, name))
    target = f"games/{name}_game.py:Beside"
    if derived:  # which has its settings from a class in another folder
        find_game(target)
        (folder / f"{name}_heir.py").write_text(f"from {name}_game import Beside\n\nclass Heir(Beside):\n    pass\n")
        target = f"{name}_heir.py:Heir"
    game = find_game(target)
    config = game.configure()
    assert config.model.algorithm == f"games/{name}.py:Mine" and config.model.network == f"games/{name}.py:Front"
    env = game.build(config)
    assert [type(agent.model).__name__ for agent in env.agents] == ["Mine", "PPO"]
    assert [type(agent.model).__name__ for agent in game.environment.make().agents] == ["Mine", "PPO"]
    with pytest.raises(ConfigError, match=r"there is no file mine\.py"):  # what is given is as seen from here
        game.configure(None, ["model.algorithm=mine.py:Mine"])


def test_a_model_that_a_config_yaml_names_lies_beside_it(folder):
    (folder / "package").mkdir()
    (folder / "package" / "models_of_yaml.py").write_text(MODELS)
    (folder / "package" / "config.yaml").write_text("model: {algorithm: 'models_of_yaml.py:Mine'}")
    config = Game(own.Garden, folder=folder / "package").configure()
    assert config.model.algorithm == "package/models_of_yaml.py:Mine"


def test_a_file_with_a_game_of_its_own_name(folder):
    own_game(
        folder / "named_game.py", "\nfrom abreast.games import Game\nGAME = Game(Garden, 'berries', 'So sweet.')\n"
    )
    game = find_game("named_game.py")
    assert (game.name, game.summary) == ("berries", "So sweet.")


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("two_games.py", r"two_games.py has several games, Garden, Other: say which, for example two_games.py:Garden"),
        ("no_games.py", r"no_games.py has no game: expected a subclass of Environment, or a Game called GAME"),
        ("nowhere.py", r"there is no file nowhere.py"),
        ("two_games.py:Gardn", r"two_games.py has no 'Gardn': did you mean 'Garden'"),
        (
            "two_games:Bush",
            r"the game 'two_games:Bush' is <class 'two_games.Bush'>: expected a subclass of Environment",
        ),
        ("broken_game.py", r"importing 'broken_game' failed: it raised ZeroDivisionError: division by zero"),
        ("no_such_module:Garden", r"there is no module 'no_such_module'"),
        ("two_games.py:", r"names no game"),
        ("two_games", r"there is no game 'two_games', but a file two_games.py: for the game in it, give two_games.py"),
    ],
)
def test_a_file_that_is_no_game_gets_one_sentence(target, says, folder):
    own_game(folder / "two_games.py", "\n\nclass Other(Garden):\n    pass\n")
    (folder / "no_games.py").write_text("from own_game import Garden  # it is not defined here\n")
    (folder / "broken_game.py").write_text("1 / 0\n")
    with pytest.raises(GameError, match=says):
        find_game(target)


def test_a_game_that_breaks_the_contract_is_told_so():
    class Worldless(own.Garden):
        make_world = classmethod(lambda cls, config: None)

    class Unsettled(own.Garden):
        defaults = 3

    with pytest.raises(GameError, match=r"Worldless.make_world returned None: expected a Gridworld"):
        Game(Worldless).build(Game(Worldless).configure())
    with pytest.raises(GameError, match=r"Unsettled.defaults is 3: expected a mapping of sections"):
        Game(Unsettled).configure()
    with pytest.raises(GameError, match=r"the environment of a Game is 3: expected a subclass of Environment"):
        Game(3)


@pytest.mark.parametrize("current", ["project", "elsewhere"])
def test_a_run_knows_its_game_wherever_it_is_looked_at_from(current, folder, monkeypatch):
    own_game(folder / "project" / "games" / "moved_garden.py")
    run = folder / "project" / "runs" / "one"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("game: games/moved_garden.py")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / current)
    assert find_game_of_run(run).environment.__name__ == "Garden"


@pytest.mark.parametrize(
    ("text", "says"),
    [("experiment: {}", "does not say of which game it is"), ("game: lost.py", "'lost.py', which cannot be loaded")],
)
def test_a_run_whose_game_is_not_found_says_how_to_give_it(text, says, folder):
    (folder / "config.yaml").write_text(text)
    with pytest.raises(GameError, match=f"{says}.*give it, as in `abreast play GAME --run"):
        find_game_of_run(folder)


def test_merging_goes_section_by_section():
    assert merge({"a": {"x": 1, "y": 2}, "b": 3}, {"a": {"y": 5}, "c": 6}) == {"a": {"x": 1, "y": 5}, "b": 3, "c": 6}


@pytest.mark.parametrize("given", [None, "games/above_game.py"])
def test_the_models_of_a_run_are_found_above_it_wherever_it_is_looked_at_from(given, folder, monkeypatch):
    name = f"models_above_{given is None}"
    (folder / "games").mkdir()
    own_game(folder / "games" / "above_game.py")
    (folder / "project" / "parts").mkdir(parents=True)
    (folder / "project" / "parts" / f"{name}.py").write_text(MODELS)
    run = folder / "project" / "runs" / "one"
    run.mkdir(parents=True)
    (run / "config.yaml").write_text(f"game: treasurehunt\nmodel: {{algorithm: 'parts/{name}.py:Mine'}}")
    game = find_game_of_run(run, given=given)
    assert game.name == ("treasurehunt" if given is None else "garden")
    env = game.build(game.configure(run / "config.yaml"))
    assert {type(agent.model).__name__ for agent in env.agents} == {"Mine"}
    (run / "config.yaml").write_text("game: treasurehunt\nmodel: {network: 'lost_parts.py:Mine'}")
    with pytest.raises(GameError, match=r"one/config.yaml names lost_parts.py, which is neither in a folder above it"):
        find_game_of_run(run, given=given)
