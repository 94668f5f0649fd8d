"""`abreast compare`: figures worked out by hand, files that others read, evaluations that are played once."""

import csv
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import own_game
from abreast import evaluations
from abreast.cli import run
from abreast.comparison import Compared, compare, find_runs, write_outputs
from abreast.comparison.compare import Evaluated
from abreast.comparison.outputs import as_latex, as_marl_eval
from abreast.comparison.picture import draw
from abreast.errors import ConfigError
from abreast.evaluations import Point
from abreast.files import locked
from abreast.training.statistics import stratified_interval


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def evaluated(task, algorithm, seed, rewards, curve=()):
    """A run whose best agents got these rewards, by episode and agent."""
    points = [Point(epochs, 10 * epochs, [[value, 0.0]]) for epochs, value in curve] or [Point(5, 50, rewards)]
    return Evaluated(Compared(Path(f"{algorithm}-{seed}"), task, algorithm, seed), ["a", "b"], points, 5, rewards)


def rows(found, **wanted):
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


def test_figures_are_those_worked_out_by_hand():
    good = [
        evaluated("g", "good", seed, [[score, 1.0], [score + 2, 1.0]]) for seed, score in enumerate([3.0, 4.0, 8.0])
    ]
    poor = [evaluated("g", "poor", seed, [[score, 2.0]]) for seed, score in enumerate([1.0, 2.0, 4.0])]
    found = compare([*good, *poor])
    assert [row["score"] for row in found.runs] == [5.0, 6.0, 10.0, 3.0, 4.0, 6.0]
    (first,) = rows(found.summary, who="sum", algorithm="good")
    # Of three values a quarter is 0.75, so the weights are 0.25, 1 and 0.25.
    assert first["interquartile_mean"] == pytest.approx((0.25 * 5 + 6 + 0.25 * 10) / 1.5)
    assert (first["mean"], first["runs"]) == (7.0, 3)
    assert (first["low"], first["high"]) == stratified_interval([[5.0, 6.0, 10.0]])
    assert rows(found.summary, who="b", algorithm="poor")[0]["mean"] == 2.0
    (better,) = rows(found.improvement, who="sum", algorithm="good")
    assert better["probability"] == pytest.approx((2 + 2.5 + 3) / 9)
    profile = rows(found.profiles, who="sum", algorithm="good")
    assert (profile[0]["score"], profile[-1]["score"]) == (3.0, 10.0)
    assert (profile[0]["share"], profile[-1]["share"]) == (1.0, 0.0)
    assert found.notes == []


def test_agents_with_sides_are_compared_by_side_in_tables_and_in_the_picture():
    pairs = [("dqn", 1.0), ("ppo", 3.0)]
    found = [evaluated("g", name, seed, [[gain, -gain], [-1.0, 1.0]]) for name, gain in pairs for seed in range(3)]
    result = compare(found)
    assert result.about["headline"] == result.about["who"] == ["a", "b"]
    assert [(row["who"], row["algorithm"], row["mean"]) for row in result.summary] == [
        ("a", "ppo", 1.0), ("a", "dqn", 0.0), ("b", "dqn", 0.0), ("b", "ppo", -1.0),
    ]  # fmt: skip
    assert "the agents have sides" in result.notes[0] and "score" not in result.runs[0]
    pytest.importorskip("matplotlib", reason="which draws the picture")
    assert draw(result).startswith(b"\x89PNG")


def test_the_best_checkpoint_of_agents_with_sides_is_the_newest(tmp_path, monkeypatch):
    kept = evaluations.RunEvaluations(tmp_path, lambda: None)
    newest = SimpleNamespace(epochs=9)
    monkeypatch.setattr(evaluations, "evaluated_checkpoints", lambda run: [SimpleNamespace(epochs=5), newest])
    monkeypatch.setattr(kept, "rewards", lambda checkpoint, *given: checkpoint)
    monkeypatch.setattr(kept, "mode", lambda checkpoint: "greedy")
    curve = [Point(5, 50, [[3.0, -3.0 + 1e-9]]), Point(9, 90, [[-2.0, 2.0]])]
    assert kept.absolute(curve) == (9, newest, "greedy", None)


def test_curves_have_the_evaluations_that_all_runs_have_and_too_few_runs_are_said():
    one = [evaluated("g", "x", seed, [[1.0, 0.0]], [(5, 1.0), (10, 3.0)]) for seed in range(2)]
    two = [evaluated("g", "x", 2, [[1.0, 0.0]], [(4, 9.0), (10, 6.0)])]
    found = compare(one + two)
    assert [(row["x"], row["interquartile_mean"]) for row in rows(found.curves, who="sum")] == [
        (10, pytest.approx((0.25 * 3 + 3 + 0.25 * 6) / 1.5))
    ]
    assert "checkpoints after different epochs" in found.notes[0]
    few = compare(one)
    assert few.notes == ["no interval, because it takes 3 runs: x in g has 2."]
    assert {row["low"] for row in few.summary} == {None}


@pytest.mark.parametrize("number", [1, 9])
def test_few_algorithms_and_many_are_drawn(number):
    pytest.importorskip("matplotlib", reason="which draws the picture")
    found = [evaluated("g", f"$x_{at}", seed, [[at + seed, 1.0]]) for at in range(number) for seed in range(3)]
    assert draw(compare(found)).startswith(b"\x89PNG")


def test_marl_eval_is_given_the_same_evaluations_and_runs_everywhere():
    """It looks up the names of the first run of the first algorithm in all others."""
    found = [
        evaluated("Own:Game", "a x=[1, 2]", 0, [[1.0, 0.0]], [(5, 1.0), (8, 2.0), (10, 3.0)]),
        evaluated("Own:Game", "b", 7, [[1.0, 0.0]], [(5, 4.0), (10, 5.0)]),
    ]
    told = as_marl_eval(found)["abreast"]
    assert list(told) == ["own:game"] and list(told["own:game"]) == ["a x=[1; 2]", "b"]
    one, two = (runs["run_0"] for runs in told["own:game"].values())
    assert list(one) == list(two) == ["step_0", "step_1", "absolute_metrics"]
    assert [one[step]["return"] for step in ("step_0", "step_1")] == [[1.0], [3.0]]


@pytest.mark.parametrize(("how", "scores"), [("range", [0.0, 1.0]), ("random", [0.5, 1.0]), (None, [0.0, 1.0])])
def test_scores_of_several_games_are_normalised_in_each(how, scores):
    found = [
        evaluated(task, name, seed, [[unit * score, 0.0]])
        for task, unit in (("small", 1.0), ("large", 100.0))
        for name, score in (("worse", 4.0), ("better", 6.0))
        for seed in range(3)
    ]
    result = compare(found, how, {"small": [[2.0, 0.0]], "large": [[200.0, 0.0]]})
    by_name = {row["algorithm"]: row["interquartile_mean"] for row in rows(result.summary, who="sum")}
    assert [by_name["worse"], by_name["better"]] == pytest.approx(scores)
    assert by_name["random"] == pytest.approx(2 * scores[0] - scores[1])  # 2, where the others get 4 and 6
    assert list(by_name) == ["better", "worse", "random"]  # the best is first
    with pytest.raises(ConfigError, match="different units"):
        compare(found, "none")


def test_names_are_escaped_for_latex_and_every_file_can_be_read(tmp_path):
    found = [evaluated("g", "a_b 100% {x}", seed, [[1.0 + seed, 0.0]]) for seed in range(3)]
    result = compare(found)
    names = write_outputs(tmp_path / "out", result, found)
    text = as_latex(result)
    assert r"a\_b 100\% \{x\} & 2.00 [1.17, 2.83] & 2.00" in re.sub(r"\[[\d., ]+\]", "[1.17, 2.83]", text)
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert {line.count("&") for line in text.splitlines() if "&" in line} == {3}
    for name in (name for name in names if name.endswith(".csv")):
        with (tmp_path / "out" / name).open() as file:
            table = list(csv.DictReader(file))
        assert [*(table or [{}])[0]] == [*(getattr(result, name[:-4]) or [{}])[0]]
    told = json.loads((tmp_path / "out" / "marl_eval.json").read_text())
    run_0 = told["abreast"]["g"]["a_b 100% {x}"]["run_0"]
    assert run_0["step_0"] == {
        "step_count": 50,
        "return": [1.0],
        "return_agent_0": [1.0],
        "return_agent_1": [0.0],
    }
    assert run_0["absolute_metrics"]["return"] == [1.0]
    if "comparison.png" in names:
        assert (tmp_path / "out" / "comparison.png").read_bytes()[:4] == b"\x89PNG"


# ---- the command


@pytest.fixture
def swept(tmp_path):
    """A sweep of six runs of two algorithms."""
    shutil.copy(own_game.__file__, tmp_path / "garden_of_a_comparison.py")
    words = [
        "garden_of_a_comparison.py",
        "model.algorithm=dqn,random",
        "--seeds",
        "3",
        "experiment.epochs=2",
        "--evaluations",
        "2",
    ]
    assert run(["sweep", *words, "experiment.max_turns=4", "--output", "s", "-q"]) == 0
    return Path("s")


def test_runs_are_evaluated_once_and_an_interrupted_comparison_goes_on(swept, monkeypatch, capsys):
    played, really = [], evaluations.play_episodes

    def play(env, episodes, *more):
        if len(played) == 4:
            raise KeyboardInterrupt
        played.append(episodes)
        return really(env, episodes, *more)

    monkeypatch.setattr(evaluations, "play_episodes", play)
    assert run(["compare", "s", "--episodes", "2", "-q"]) == 130
    assert run(["compare", "s", "--episodes", "9"]) == 130
    assert "of each run x 90 (--episodes 8 is quicker); what" in capsys.readouterr().out
    assert not Path("s/comparison").exists()
    del played[:]
    monkeypatch.setattr(evaluations, "play_episodes", lambda *given: played.append(given[1]) or really(*given))
    assert run(["compare", "s", "--episodes", "2", "-q"]) == 0
    # Agents that have learned nothing are the same at both checkpoints: 9 and 6 in all, of which 3 and 1 were played.
    assert sorted(played) == [2] * 6 + [20] * 5
    first = Path("s/comparison/comparison.json").read_bytes()
    del played[:]
    assert run(["compare", "s", "--episodes", "2"]) == 0
    announced = "checkpoints x 2 episodes, then the best of each run x 20; what evaluations.json"
    printed = capsys.readouterr().out
    assert announced in printed
    assert played == []
    assert Path("s/comparison/comparison.json").read_bytes() == first
    told = json.loads(first)
    assert told["about"]["algorithms"] == ["dqn", "random"]
    assert told["about"]["who"] == ["sum", "agent 0", "agent 1"]
    assert "interquartile mean" in printed
    page = Path("s/comparison/report.html").read_text()
    assert '"improvement"' in page
    Path("elsewhere").mkdir()
    Path("s").rename("elsewhere/s")
    assert run(["report", "elsewhere/s/comparison", "--output", "page.html"]) == 0  # moved with its runs
    assert '"improvement"' in Path("page.html").read_text()
    Path("elsewhere/s").rename("s")
    assert run(["compare", *map(str, Path("s/runs").iterdir()), "--episodes", "2", "--output", "other", "-q"]) == 0
    again = json.loads(Path("other/comparison.json").read_text())
    assert sorted(map(str, again["summary"])) == sorted(map(str, told["summary"]))


FORESEEN = """
import gymnasium
import numpy as np


class Foreseen(gymnasium.Env):
    '''Doing what was done most often so far loses, the other thing wins; to pass, in either way, loses.'''

    observation_space, action_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32), gymnasium.spaces.Discrete(4)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.done = [0, 0, 0, 0]
        return np.ones(1, np.float32), {}

    def step(self, action):
        wins = action == (self.done[0] >= self.done[1])
        self.done[action] += 1
        return np.ones(1, np.float32), 1.0 if wins else -1.0, False, False, {}
"""


def test_an_algorithm_that_is_better_as_it_acts_is_ranked_first(monkeypatch, capsys):
    """Who does the same again and again loses every turn, so PPO must not be judged by its likeliest action."""
    Path("foreseen.py").write_text(FORESEEN)
    monkeypatch.setattr("abreast.comparison.outputs.draw", lambda comparison: None)
    small = ["experiment.max_turns=20", "experiment.epochs=48", "multiprocessing.num_envs=4", "model.hidden_size=16"]
    small += [
        "model.n_frames=1",
        "model.batch_size=64",
        "model.learning_rate=0.01",
        "experiment.train_interval=1",
        "-q",
    ]
    small += ["--no-animate"]
    for name in ("dqn", "ppo"):
        game = "gymnasium:foreseen.py:Foreseen"
        assert run(["train", game, f"model.algorithm={name}", *small, "--output", name]) == 0

    def compared(*options):
        assert run(["compare", "dqn", "ppo", "--episodes", "4", "--output", "c", "-q", *options]) == 0
        for name in ("summary", "other_modes"):
            with Path(f"c/{name}.csv").open() as file:
                told = rows(csv.DictReader(file), who="sum")
            yield {(row["algorithm"], row["mode"]): float(row["mean"]) for row in told}

    summary, others = compared()
    assert list(summary) == [("ppo", "explore"), ("random", ""), ("dqn", "greedy")]
    assert summary["ppo", "explore"] > -6 > summary["random", ""] > -14 > summary["dqn", "greedy"]
    assert list(others) == [("ppo", "greedy")] and others["ppo", "greedy"] < -14
    assert re.search(r"ppo +explore .*\n(.*\n){2} +ppo +greedy +1 +-", capsys.readouterr().out)
    assert "ppo, explore &" in Path("c/summary.tex").read_text()
    greedy, others = compared("--greedy")
    assert greedy.keys() == {("random", ""), ("dqn", "greedy"), ("ppo", "greedy")} and [*others] == [("ppo", "explore")]
    assert ("dqn", "explore") in next(compared("--explore"))
    # An earlier version has played greedily, and has not said so: its values are shown as greedy ones alone.
    kept = json.loads(Path("ppo/evaluations.json").read_text())
    played = {key.rpartition("-")[0]: [[99.0]] * len(value) for key, value in kept["played"].items() if "greedy" in key}
    Path("ppo/evaluations.json").write_text(json.dumps({**kept, "played": played}))
    assert next(compared())["ppo", "explore"] == summary["ppo", "explore"]
    assert next(compared("--greedy"))["ppo", "greedy"] == 99.0

    def refuse(*given):
        raise ValueError("I like no other models")

    monkeypatch.setattr("abreast.cli.compare.at_random", refuse)
    assert ("random", "") not in next(compared("--seed", "1"))
    assert "random agents are left out, because they cannot play gymnasium:foreseen.py" in capsys.readouterr().err
    assert run(["compare", "dqn", "ppo", "--normalise", "random", "--seed", "1", "--episodes", "4", "-q"]) == 2
    told = (
        "--normalise is random, but random agents are left out, because they cannot play gymnasium:foreseen.py:Foreseen"
    )
    assert f"{told} (ValueError: I like no other models). Use none (one game) or range." in capsys.readouterr().err


def test_runs_that_cannot_be_compared_are_one_sentence(tmp_path, capsys):
    for name, game, algorithm in (("a", "one", "dqn"), ("b", "two", "ppo")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(f"game: {game}\nmodel: {{algorithm: {algorithm}}}\n")
    (tmp_path / "none").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "sweep.yaml").touch()
    (tmp_path / "empty" / "index.jsonl").touch()
    shutil.copytree("a", "twin")
    shutil.copytree("empty", "damaged")
    Path("damaged/index.jsonl").write_text('{"run": "runs/x"}\n')
    for words, sentence in (
        (["a", "b"], "the runs are of different games (one, two), and dqn has none in two"),
        (["none"], "none is neither a sweep folder nor a run folder"),
        (["missing"], "missing is neither a sweep folder nor a run folder"),
        (["empty"], "there is no finished run in empty"),
        (["a"], "a has no checkpoint to evaluate"),
        (["a", "--normalise", "rang"], "did you mean 'range'?"),
        (["a", "twin"], "a and twin are the same run, dqn in one with seed 0, and would count as two: leave one out."),
        (["damaged"], "damaged/index.jsonl cannot be read (a line does not say what became of a run): `abreast sweep"),
    ):
        assert run(["compare", *words]) == 2
        told = capsys.readouterr().err.strip().splitlines()
        assert len(told) == 1
        assert sentence in told[0]


def test_runs_are_told_apart_by_what_one_sweep_was_asked_for_and_another_was_not(tmp_path):
    for name, asked in (("plain", {}), ("wide", {"model.hidden_size": 64})):
        (tmp_path / name / "runs" / "r").mkdir(parents=True)
        (tmp_path / name / "sweep.yaml").touch()
        row = {"run": "runs/r", "game": "g", "settings": asked, "seed": 0, "state": "finished"}
        (tmp_path / name / "index.jsonl").write_text(json.dumps(row))
        size, decay = (64, 0.9) if asked else (32, 0.8)
        text = f"game: g\nmodel: {{algorithm: dqn, hidden_size: {size}, epsilon_decay: {decay}}}\n"
        (tmp_path / name / "runs" / "r" / "config.yaml").write_text(text)
    runs, _ = find_runs([tmp_path / "plain", tmp_path / "wide"])
    assert [each.algorithm for each in runs] == ["dqn hidden_size=32", "dqn hidden_size=64"]
    for agent in range(2):  # of a sweep of one agent's setting, and with more settings than a label has room for
        own, more = f"per_agent: {{{agent}: {{learning_rate: 0.01}}}}", "".join(f", s_{n}: {agent}" for n in range(40))
        for name, text in (("agent", own), ("hand", f"{own}{more}")):
            (tmp_path / f"{name}{agent}").mkdir()
            (tmp_path / f"{name}{agent}" / "config.yaml").write_text(f"game: g\nmodel: {{algorithm: dqn, {text}}}\n")
    runs, _ = find_runs([tmp_path / "agent0", tmp_path / "agent1"])
    assert [each.algorithm[:11] for each in runs] == ["dqn agent 0", "dqn agent 1"]
    runs, _ = find_runs([tmp_path / "hand0", tmp_path / "hand1"])
    assert len({each.algorithm for each in runs}) == 2 and max(len(each.algorithm) for each in runs) <= 40
    assert all("model.s_39=" in each.settings for each in runs)


def test_a_run_that_still_trains_is_not_compared(tmp_path, capsys):
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "config.yaml").write_text("game: g\n")
    with locked(tmp_path / "live"):
        assert run(["compare", "live"]) == 2
    assert "live is still training" in capsys.readouterr().err
