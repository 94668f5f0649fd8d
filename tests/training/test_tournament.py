"""Tournaments: who meets whom on which seat, what comes of it, and that nothing is played twice."""

import json
import shutil
from pathlib import Path

import pytest

import own_game
from abreast.cli import run as abreast
from abreast.errors import ConfigError
from abreast.games import find_game
from abreast.models import PPO
from abreast.training import tournament as module
from abreast.training.tournament import Standings, Tournament, common_settings, find_entrants, seatings, step_of
from fakes import small_game

FILES = ["matches.jsonl", "payoffs.csv", "ratings.csv", "tournament.json", "tournament.png"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run against its own past, and one of another algorithm."""
    folder = tmp_path_factory.mktemp("runs")
    for name, *settings in (
        ("selves", "experiment.opponents.pool=self", "experiment.opponents.every=2", "experiment.epochs=4"),
        ("ppo", "model.algorithm=ppo"),
        ("three", "experiment.num_agents=3"),
    ):
        small_game(*settings).run_experiment(animate=False, output_dir=folder / name)
    return folder


@pytest.fixture
def here(runs, tmp_path, monkeypatch):
    shutil.copytree(runs, tmp_path / "runs")
    monkeypatch.chdir(tmp_path)


def between(*runs, which="last", **options):
    game = find_game("treasurehunt")
    entrants = [each for run in runs for each in find_entrants(run, which)]
    return Tournament(entrants, common_settings(runs), lambda values: game.build(game.configure(values)), **options)


# ---- who meets whom


def test_every_two_meet_on_every_seat():
    assert seatings(2, 2) == [(0, 1), (1, 0)]
    assert sorted(seatings(3, 2)) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]
    assert sorted(seatings(2, 3)) == [(0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0)]


@pytest.mark.usefixtures("here")
def test_entrants_are_checkpoints_and_earlier_selves_on_the_seats_they_were_trained_on():
    assert [each.name for each in find_entrants("runs/selves", "all")] == [
        f"runs/selves@{epochs}" for epochs in (0, 2, 4)
    ]
    assert [each.name for each in find_entrants("runs/selves/", "every:4")] == ["runs/selves@0", "runs/selves@4"]
    (last,) = find_entrants("runs/selves", "last")
    assert [each.path.stem for each in last.seats] == ["agent_0", "agent_0"]  # agent 1 was drawn from the pool
    (ppo,) = find_entrants("runs/ppo", "last")
    assert [(each.path.stem, each.settings["algorithm"]) for each in ppo.seats] == [
        ("agent_0", "ppo"),
        ("agent_1", "ppo"),
    ]
    assert [each.path.stem for each in find_entrants("runs/ppo:1", "last")[0].seats] == ["agent_1"] * 2
    assert (step_of("last"), step_of("all"), step_of("every:50")) == (None, 1, 50)
    for wrong in ("best", "every:0", "every:", "every:x", ""):
        with pytest.raises(ConfigError, match="expected last, all, or every:K"):
            step_of(wrong)


# ---- what comes of it


def test_standings_are_those_computed_by_hand():
    standings = Standings(
        ["a", "b", "c"], {(0, 1): [(1.0, 0.0), (3.0, 3.0)], (0, 2): [(2.0, 1.0)], (1, 2): [(0.0, 4.0)]}
    )
    assert standings.payoffs.tolist() == [[0, 2, 2], [1.5, 0, 0], [1, 4, 0]]
    assert standings.won.tolist() == [[0, 1.5, 1], [0.5, 0, 0], [0, 1, 0]]
    assert standings.games.tolist() == [[0, 2, 1], [2, 0, 1], [1, 1, 0]]
    assert standings.intervals[0, 1] == (1.0, 3.0) and standings.intervals[2, 0] is None
    assert [(row["entrant"], row["win_rate"], row["mean_reward"]) for row in standings.ratings] == [
        ("a", 2.5 / 3, 2.0), ("c", 0.5, 2.5), ("b", 0.5 / 3, 0.75),
    ]  # fmt: skip
    assert standings.meetings()[0] == {
        "entrant": "a", "opponent": "b", "reward": 2.0, "low": 1.0, "high": 3.0, "won": 1.5, "games": 2,
    }  # fmt: skip


@pytest.mark.usefixtures("here")
def test_a_tournament_that_was_interrupted_goes_on_and_ends_as_one_that_was_not(tmp_path, monkeypatch):
    runs = ("runs/selves", "runs/ppo")
    whole = between(*runs, which="all", episodes=2)
    (tmp_path / "whole").mkdir()
    assert len(list(whole.play(tmp_path / "whole"))) == 12  # of four entrants, two matches for each two
    (tmp_path / "cut").mkdir()
    first = between(*runs, which="all", episodes=2).play(tmp_path / "cut")
    for _ in range(5):
        next(first)
    first.close()
    with (tmp_path / "cut" / "matches.jsonl").open("ab") as file:
        file.write(b'{"key": "of a line that was cut o')
    played = []
    original = module.play_episodes
    monkeypatch.setattr(module, "play_episodes", lambda *args, **more: played.append(1) or original(*args, **more))
    again = between(*runs, which="all", episodes=2)
    assert sorted(again.play(tmp_path / "cut")) == sorted(whole.matches) and len(played) == 7
    assert again.results == whole.results and again.standings().ratings == whole.standings().ratings
    other = between(*runs, episodes=2, seed=1)
    assert len(list(other.play(tmp_path / "cut"))) == 2 and len(played) == 9  # other seeds are other matches
    assert other.modes == {
        "runs/selves": "greedy",
        "runs/ppo": "explore",
    }  # IQN and PPO, each as it is meant to be used
    greedy = between(*runs, episodes=2, seed=1, greedy=True)
    assert len(list(greedy.play(tmp_path / "cut"))) == 2 and len(played) == 11  # and so are other modes
    assert greedy.modes["runs/ppo"] == "greedy" and greedy.results != other.results
    monkeypatch.setattr(PPO, "EVALUATION", "greedy")
    declared = between(*runs, episodes=2, seed=1)
    assert len(list(declared.play(tmp_path / "cut"))) == 2 and len(played) == 13  # also if a class declares another one
    assert declared.results == greedy.results
    assert {match: other.results[match] for match in other.matches} != {
        (0, 1): whole.results[2, 3],
        (1, 0): whole.results[3, 2],
    }


@pytest.mark.usefixtures("here")
def test_an_entrant_gets_what_its_own_agents_get_in_an_evaluation(tmp_path):
    """Against itself under another name, it is the same game as that of `abreast eval`."""
    assert abreast(["eval", "runs/ppo", "--episodes", "3", "-q"]) == 0
    evaluated = json.loads(Path("runs/ppo/evaluation.json").read_text())["checkpoints"][0]["agents"]
    shutil.copytree("runs/ppo", "runs/twin")
    twins = between("runs/ppo", "runs/twin", episodes=3)
    list(twins.play(tmp_path))
    assert (
        twins.results[0, 1]
        == twins.results[1, 0]
        == [list(each) for each in zip(*(a["rewards"] for a in evaluated), strict=True)]
    )


# ---- the command


def test_a_users_own_game_has_a_tournament(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(own_game.__file__, "garden_of_a_tournament.py")
    for name, more in (("a", "experiment.opponents.pool=self"), ("b", "experiment.seed=1")):
        assert (
            abreast(
                [
                    "train",
                    "garden_of_a_tournament.py",
                    "-q",
                    "--output",
                    f"runs/{name}",
                    "experiment.num_agents=3",
                    more,
                ]
            )
            == 0
        )
    command = ["tournament", "runs/a", "runs/b", "--episodes", "2", "--output", "t"]
    assert abreast(command) == 0
    shown = capsys.readouterr().out
    pytest.importorskip("matplotlib", reason="which draws tournament.png")
    assert sorted(path.name for path in Path("t").glob("[!.]*")) == FILES
    files = {name: Path("t", name).read_bytes() for name in FILES[:-1]}
    assert len(json.loads(files["tournament.json"])["payoffs"]) == 2
    assert json.loads(files["tournament.json"])["payoffs"][0]["games"] == 2 * 6  # six seatings on three seats
    shutil.rmtree("t")
    assert abreast([*command, "-q"]) == 0
    assert {name: Path("t", name).read_bytes() for name in FILES[:-1]} == files
    assert capsys.readouterr().out == shown[shown.index(" entrant") :]


@pytest.mark.usefixtures("here")
def test_what_cannot_be_a_tournament_is_refused(capsys):
    for arguments, said in (
        (["runs/ppo"], "a tournament needs two entrants or more, and runs/ppo takes part"),
        (["runs/ppo", "runs/ppo"], "runs/ppo is given twice"),
        (
            ["runs/ppo", "runs/three"],
            "runs/three has experiment.num_agents 3, but runs/ppo has 2: entrants have to be of",
        ),
        (["runs/ppo", "nowhere"], "nowhere is not a run folder"),
        (
            ["runs/ppo", "runs/selves", "--checkpoints", "some"],
            "--checkpoints is 'some': expected last, all, or every:K",
        ),
    ):
        assert abreast(["tournament", *arguments]) == 2
        assert said in (told := capsys.readouterr().err) and len(told.strip().splitlines()) == 1
    assert not Path("tournament").exists()


def test_a_pettingzoo_game_is_played_against_earlier_selves_and_in_a_tournament(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pettingzoo.classic.tictactoe_v3", reason="the game")
    monkeypatch.chdir(tmp_path)
    small = ["model.hidden_size=8", "model.batch_size=8", "experiment.epochs=6"]
    selves = ["experiment.opponents.pool=self", "experiment.opponents.every=3"]
    game = "pettingzoo:classic/tictactoe-v3"
    assert abreast(["train", game, "-q", "--output", "runs/a", *small, *selves]) == 0
    assert abreast(["tournament", "runs/a", "--checkpoints", "all", "--episodes", "3", "--greedy"]) == 0
    told = capsys.readouterr()
    assert all(f"runs/a@{epochs} " in told.out for epochs in (0, 3, 6))
    assert "Give --explore to let them explore as in training" in told.err  # greedy, in a game without chance
