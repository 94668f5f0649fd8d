"""What `abreast play` shows."""

from rich.console import Console

from abreast.games import Game, find_game
from abreast.games.view import SIGNS, TerminalView
from abreast.worlds.painting import colour_of
from own_game import Bush, Garden, Gatherer


def drawn(env, **options):
    console = Console(width=5000, **options)
    with console.capture() as shown:
        console.print(TerminalView(env).draw())
    return shown.get()


def test_a_world_of_one_layer_shows_agents_things_and_empty_cells():
    env = Game(Garden).build(Game(Garden).configure())
    env.agents[1].score = 2.5
    lines = drawn(env).splitlines()
    assert lines[0] == "turn 0"
    picture = [line.split() for line in lines[1:6]]
    for number, agent in enumerate(env.agents):
        assert picture[agent.location[0]][agent.location[1]] == str(number)
    assert [symbol for row in picture for symbol in row].count("B") == 8
    assert [symbol for row in picture for symbol in row].count("·") == 5 * 10 - 8 - 2
    assert "0 Gatherer 0   1 Gatherer 2.5" in lines[-2] and lines[-1].split() == ["B", "Bush"]


def test_the_ground_is_a_colour_and_where_there_are_none_a_symbol():
    game = find_game("treasurehunt")
    env = game.build(game.configure(None, ["model.algorithm=random"]))
    plain = drawn(env)
    assert "\x1b" not in plain and ". . ." in plain and "Sand" in plain and "# # #" in plain
    assert "\x1b[" in drawn(env, force_terminal=True, color_system="truecolor")


def test_kinds_without_sprites_have_the_colours_they_have_in_films():
    env = Game(Garden).build(Game(Garden).configure())
    red, green, blue = bytes.fromhex(colour_of(env.world.kind_names.index("Bush"))[1:])
    assert f"38;2;{red};{green};{blue}" in drawn(env, force_terminal=True, color_system="truecolor")


def test_a_colour_of_its_own_is_that_of_the_text(monkeypatch):
    monkeypatch.setattr(Gatherer, "colour", "#1d4ed8")
    monkeypatch.setattr(Bush, "colour", "#b91c1c")
    env = Game(Garden).build(Game(Garden).configure())
    text = drawn(env, force_terminal=True, color_system="truecolor")
    assert "38;2;29;78;216" in text and "38;2;185;28;28" in text


def test_more_agents_than_signs_have_the_symbol_of_their_kind():
    game = Game(Garden)
    env = game.build(game.configure(None, ["experiment.num_agents=70", "world.height=12", "model.algorithm=random"]))
    text = drawn(env)
    assert all(f"{sign} Gatherer" in text for sign in SIGNS) and text.count("G Gatherer") == 1 + 70 - len(SIGNS)
