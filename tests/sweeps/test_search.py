"""Searches: seeded, pruned by evaluation, the same choices whether killed or not."""

import json
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

import own_game
from abreast.cli import run
from abreast.errors import ConfigError
from abreast.runs import run_many
from abreast.sweeps import Asked, begin_sweep, open_sweep, read_index
from abreast.sweeps import search as searches
from abreast.sweeps.sweep import SweepDisplay
from promises.cover import IS_FULL

pytest.importorskip("optuna", reason="searches")

from sqlalchemy import event
from sqlalchemy.engine import Engine

VALUES = {
    "games": "own_game:Garden",
    "seeds": 1,
    "evaluations": 2,
    "settings": {
        "experiment.epochs": 2,
        "experiment.max_turns": 3,
        "model.algorithm": ["random"],
        "world.bushes": {"low": 0, "high": 16},
        "world.height": [5, 6],
    },
    "search": "optuna",
    "trials": 4,
    "trials_at_once": 2,
}

HERE = partial(run_many, resume=True)


@pytest.fixture(autouse=True)
def quickly(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(searches, "STARTUP", 1)
    event.listen(Engine, "connect", wait_for_no_disk)
    yield
    event.remove(Engine, "connect", wait_for_no_disk)


def wait_for_no_disk(connection, _):
    connection.execute("PRAGMA synchronous = OFF")


def search(folder, execute=HERE, **changes):
    path = Path(folder)
    known = path.exists()
    sweep = open_sweep(path) if known else begin_sweep(path, Asked.read({**VALUES, **changes}))
    told = searches.run_search(sweep, execute, SweepDisplay(sweep, sweep.asked.trials))
    return told, [{key: row.get(key) for key in ("settings", "state", "reward")} for row in read_index(path)], sweep


class Killed(BaseException):
    """As if the program ended here."""


def killed_after(number):
    """Carries out runs, until the program ends with so many done."""
    done = []

    def execute(configs, *, on_done, **more):
        def count(result):
            on_done(result)
            done.append(result)
            if len(done) == number:
                raise Killed

        return run_many(configs, resume=True, on_done=count, **more)

    return execute


def test_a_search_that_is_killed_makes_the_same_choices_and_finds_the_same_best():
    whole = search("whole")
    states = [row["state"] for row in whole[2].index]
    assert len(states) == 4
    assert "finished" in states
    study = searches.optuna_module().load_study(study_name="sweep", storage="sqlite:///whole/study.db")
    assert "PRUNED" in [trial.state.name for trial in study.trials]
    for _ in range(2 if IS_FULL else 1):
        with pytest.raises(Killed):
            search("killed", killed_after(1))
    told, rows, _ = search("killed")
    assert (told, rows) == whole[:2]
    assert (told, rows) == search("killed")[:2]


def test_a_search_in_a_game_whose_agents_have_sides_is_refused(monkeypatch):
    monkeypatch.setattr(searches.RunEvaluations, "rewards", lambda *given: [[1.0, -1.0], [-2.0, 2.0]])
    with pytest.raises(ConfigError, match=r"a search needs one value for each trial, .* \(agent 0, agent 1\)"):
        search("sides", trials=1)


def test_a_range_is_kept_to_and_lists_are_choices():
    _, rows, sweep = search("s", trials=3)
    for row in rows:
        assert 0 <= row["settings"]["world.bushes"] <= 16
        assert row["settings"]["world.height"] in (5, 6)
    assert len({json.dumps(row["settings"]) for row in rows}) > 1
    assert sweep.asked.trials == 3


def test_the_command_says_which_trial_is_the_best(tmp_path, capsys):
    shutil.copy(own_game.__file__, tmp_path)
    Path("s.yaml").write_text(json.dumps({**VALUES, "trials": 2}))
    assert run(["sweep", "--config", "s.yaml", "--output", "s", "--trials", "1", "--explore", "-q"]) == 0
    assert re.search(r"The best of 1 trials is trial 0, with a reward of .* \(explore\): ", capsys.readouterr().out)
    (kept,) = (json.loads(path.read_text())["played"] for path in Path("s/runs").glob("*/evaluations.json"))
    assert {key.rpartition("-")[2] for key in kept} == {"explore"} and open_sweep(Path("s")).asked.greedy is False
    assert run(["sweep", "own_game.py", "--greedy", "--output", "b"]) == 2
    assert "--greedy/--explore is True, but nothing is searched" in capsys.readouterr().err
    Path("bad.yaml").write_text(
        json.dumps({**VALUES, "settings": {"world.bushs": {"low": 0, "high": 1}, "model.x": 1}})
    )
    assert run(["sweep", "--config", "bad.yaml", "--output", "b"]) == 2
    assert not Path("b").exists()


def test_a_search_whose_folder_was_changed_does_not_go_on(capsys):
    shutil.copy(own_game.__file__, ".")
    search("s", trials=2)
    text, study = Path("s/sweep.yaml").read_text(), Path("s/study.db").read_bytes()
    Path("s/sweep.yaml").write_text(text.replace("- 6\n", "- 7\n").replace("trials: 2", "trials: 3"))
    assert run(["sweep", "--resume", "s", "-q"]) == 2
    assert "world.height is searched otherwise than in s/study.db" in capsys.readouterr().err
    Path("s/sweep.yaml").write_text(text)
    Path("s/study.db").write_bytes(b"no database" + study)
    assert run(["sweep", "--resume", "s", "-q"]) == 2
    assert "s/study.db cannot be opened" in capsys.readouterr().err
    Path("s/study.db").unlink()
    assert run(["sweep", "--resume", "s", "-q"]) == 0  # the same choices, whose runs are there


def test_without_the_package_there_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ConfigError, match=r'pip install "abreast\[optuna\]"'):
        searches.optuna_module()
