"""`abreast check` of environments of other libraries: each fault is found by its own check."""

import pytest

from abreast import checking
from abreast.cli.check import SOURCES as KNOWN
from abreast.games import find_game
from abreast.games.registry import SOURCES
from abreast.integrations.adapted.lanes import AdaptedLanes
from abreast.training import Experiment


@pytest.fixture
def at_home(monkeypatch):
    """Other processes are not the point, and take their time."""
    monkeypatch.setattr(checking, "elsewhere", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(Experiment, "run_experiment_mp", Experiment.run_experiment)
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


GOOD = [
    "pettingzoo:mpe2.simple_spread_v3",
    "pettingzoo:pettingzoo.classic.connect_four_v3",
    "gymnasium:CartPole-v1",
    "gymnasium:MiniGrid-Empty-5x5-v0",
]


@pytest.mark.parametrize("target", GOOD)
def test_environments_of_others_keep_their_contract(target, at_home):
    verdicts = list(find_game(target).check())
    assert {verdict.outcome for verdict in verdicts} == {"ok"}, verdicts


@pytest.mark.chaos
def test_one_passes_in_other_processes_too():
    verdicts = list(find_game("pettingzoo:pettingzoo.classic.tictactoe_v3").check())
    assert {verdict.outcome for verdict in verdicts} == {"ok"}, verdicts


BAD = [
    ("LacksAReward", "episode", "the rewards lack agent 'host'"),
    ("Grows", "episode", "but its space says (2,)"),
    ("Continuous", "episode", "the actions are continuous without bounds"),
    ("NeverLeaves", "episode", "stays in `agents`"),
    ("Lingers", "own test", "its library's own test says"),
    ("Unseeded", "seed", "differ in the observation of agent 0 at its step 1"),
    ("SharesAList", "lanes", "the lanes share something that changes"),
    ("OutOfBounds", "spaces", "observes values outside the bounds of its space, for example 2.0"),
]


@pytest.mark.parametrize(("name", "where", "told"), BAD)
def test_each_fault_is_found_by_its_own_check(name, where, told, at_home):
    verdicts = find_game(f"pettingzoo:zoo_envs:{name}").check()
    found = next(verdict for verdict in verdicts if verdict.check == where)
    assert found.outcome == "wrong" and told in found.remark
    if where == "episode":
        assert {verdict.outcome for verdict in verdicts} == {"skipped"}


def test_one_that_leaks_into_reset_is_noted_and_played_in_new_copies(at_home, caplog):
    verdicts = {each.check: each for each in find_game("pettingzoo:zoo_envs:AvoidsOldPlaces").check()}
    reset, film, _ = (
        verdicts.pop(name) for name in ("reset", "film", "own test")
    )  # which has never met an agent's return
    assert reset.outcome == "note" and "a new one is made for each episode" in reset.remark and not caplog.text
    assert {each.outcome for each in verdicts.values()} == {"ok"}, verdicts
    assert film.outcome == "skipped" and "no render mode rgb_array or ansi" in film.remark


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("NeedsADisplay", "it cannot be rendered: OSError: no display"),
        ("DrawsNothing", "it returned None, expected pixels"),
    ],
)
def test_why_there_are_no_films_is_said(name, told, at_home, caplog):
    film = next(each for each in find_game(f"gymnasium:zoo_envs:{name}").check() if each.check == "film")
    assert film.outcome == "wrong" and told in film.remark and not caplog.text


def test_the_command_line_knows_all_sources():
    assert set(KNOWN) == set(SOURCES)


def test_one_is_made_as_the_settings_say():
    wrong = next(find_game("pettingzoo:mpe2.simple_spread_v3").check(["world.colour=red", "model.algorithm=dqn"]))
    assert wrong.outcome == "wrong" and "colour" in wrong.remark


@pytest.mark.parametrize(
    ("is_ours", "blamed"), [(True, "a bug of abreast, not of what is checked"), (False, "draw from")]
)
def test_a_difference_is_blamed_on_the_environment_only_if_a_made_up_game_does_not_show_it(
    is_ours, blamed, at_home, monkeypatch
):
    sequential = Experiment.run_experiment

    def wrong(experiment, **how):
        """As if what was learned in workers were rounded otherwise."""
        result = sequential(experiment, **how)
        if is_ours or isinstance(experiment.game, AdaptedLanes):
            result.epochs[-1]["loss"] += 1e-9
        return result

    monkeypatch.setattr(Experiment, "run_experiment_mp", wrong)
    settings = ["model.algorithm=sac", "world.continuous=true", "experiment.train_interval=1"]
    verdicts = {each.check: each for each in find_game("pettingzoo:shape_envs:AnyShape").check(settings)}
    assert verdicts["training"].outcome == "wrong" and blamed in verdicts["training"].remark
