"""Sweeps: every run once and as alone, whatever is killed; what fails is named; one sentence for every mistake."""

import json
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

import fragile_game
import own_game
from abreast import runs
from abreast.cli import run
from abreast.errors import ConfigError
from abreast.files import is_locked
from abreast.runs import run_many
from abreast.sweeps import Asked, begin_sweep, open_sweep, read_index
from abreast.sweeps.sweep import SweepDisplay
from abreast.training.checkpoints.folder import Checkpoint, list_checkpoints
from forked_commands import Command
from test_runs import left_by, one_after_the_other

GAME = "fragile_game:Fragile"
SHORT = ["experiment.epochs=4", "experiment.max_turns=4"]


@pytest.fixture
def without_a_picture(monkeypatch):
    """comparison/test_compare.py draws."""
    monkeypatch.setattr("abreast.comparison.outputs.draw", lambda found: None)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in (fragile_game, own_game):  # a command in a process of its own finds them here
        shutil.copy(module.__file__, tmp_path)


def kill_in_the_middle(arguments, number, lines):
    """Begin a command, and kill it when a run has so many lines of metrics."""
    command = Command(["sweep", *arguments])
    while not any(Path("s/runs").glob(f"{number:04d}-*/metrics.jsonl")):
        assert command.is_alive, Path("stderr").read_text()
        time.sleep(0.005)
    command.wait_for_lines(next(Path("s/runs").glob(f"{number:04d}-*/metrics.jsonl")), lines)
    code, *_ = command.end(signal.SIGKILL)
    assert code == -signal.SIGKILL


@pytest.mark.xdist_group("forked commands")
@pytest.mark.parametrize(
    ("seeds", "kills"),
    [
        pytest.param(2, [(2, 1)], id="4 runs"),
        pytest.param(15, [(4, 7), (12, 1), (25, 9)], id="30 runs", marks=pytest.mark.chaos),
    ],
)
def test_a_sweep_that_is_killed_goes_on_and_every_run_is_there_once_and_as_alone(tmp_path, seeds, kills):
    begun = [GAME, "--seeds", str(seeds), "model.algorithm=dqn,ppo", "experiment.epochs=12", "--evaluations", "4"]
    for place, (number, lines) in enumerate(kills):
        kill_in_the_middle([*begun, "--output", "s"] if place == 0 else ["--resume", "s"], number, lines)
    before = {path: path.stat().st_mtime_ns for path in Path("s/runs").glob("*/checkpoints/final")}
    assert run(["sweep", "--resume", "s", "-q"]) == 0
    sweep = open_sweep(Path("s"))
    assert [row["state"] for row in read_index(Path("s"))] == ["finished"] * 2 * seeds
    assert len(list(Path("s/runs").iterdir())) == 2 * seeds
    for folder in Path(
        "s/runs"
    ).iterdir():  # never twice; one that was killed after its last checkpoint has not said it
        assert (folder / "log.txt").read_text().count("finished after") <= 1
    assert before == {path: path.stat().st_mtime_ns for path in before}
    configs = [each.config(Path("s")) for each in sweep.runs]
    assert [left_by(Path(config.output)) for config in configs] == one_after_the_other(configs, tmp_path)


def test_of_a_finished_run_agents_are_kept_at_equal_distances_and_the_rest_once():
    assert (
        run(["sweep", GAME, "experiment.max_turns=4", "--epochs", "4", "--evaluations", "2", "--output", "s", "-q"])
        == 0
    )
    (folder,) = Path("s/runs").iterdir()
    found = [each for each in list_checkpoints(folder) if isinstance(each, Checkpoint)]
    assert [(each.epochs, each.kind, each.facts.resumable) for each in found] == [
        (2, "agents", False),
        (4, "run", True),
        (4, "agents", False),
    ]
    again = Asked.read(
        {"games": GAME, "settings": {"experiment.epochs": 4, "experiment.max_turns": 4}, "evaluations": 2}
    )
    assert again == open_sweep(Path("s")).asked


def test_a_run_that_fails_is_named_and_others_go_on(capsys):
    assert run(["sweep", GAME, "experiment.epochs=7", "world.fate=refuses,none", "--output", "s"]) == 1
    printed = capsys.readouterr()
    assert "1 run failed; to try again: abreast sweep --resume s" in printed.err
    assert "runs/0000-fragile-game-fragile-refuses-seed-0: there are no berries in winter." in printed.err
    assert "runs 2/2" in printed.err
    assert "1 run finished: s/index.jsonl" in printed.out
    assert [row["state"] for row in read_index(Path("s"))] == ["failed", "finished"]
    assert "berries in winter" in Path("s/log.txt").read_text()


def test_a_run_whose_losses_are_not_finite_has_failed(capsys):
    settings = ["model.algorithm=unfit_models:LosesNaN,dqn", "model.batch_size=8", *SHORT]
    for words in ([GAME, *settings, "--output", "s"], ["--resume", "s"]):
        assert run(["sweep", *words, "-q"]) == 1
        assert "seed-0: the loss is not a finite number (agent 0 since epoch 1, " in capsys.readouterr().err
        assert [row["state"] for row in read_index(Path("s"))] == ["failed", "finished"]


@pytest.mark.xdist_group("forked commands")
def test_an_interrupt_says_how_to_go_on(tmp_path):
    marker = tmp_path / "marker"
    command = Command(
        ["sweep", GAME, "experiment.epochs=7", "world.fate=hangs", f"world.marker={marker}", "--output", "s"]
    )
    while not marker.exists():
        assert command.is_alive, Path("stderr").read_text()
        time.sleep(0.01)
    code, printed, _ = command.end(signal.SIGINT)
    assert code == 130
    assert "0 runs finished. To go on: abreast sweep --resume s" in printed
    assert not is_locked(next(Path("s/runs").iterdir()))
    assert run(["sweep", "--resume", "s", "-q"]) == 0


def test_whatever_carries_out_runs_can_be_given():
    sweep, seen = (
        begin_sweep(Path("s"), Asked.read({"games": GAME, "seeds": 2, "settings": {"experiment.epochs": 2}})),
        [],
    )

    def execute(configs, **tells):
        seen.append(configs)
        return run_many(configs, resume=True, **tells)

    sweep.run(execute, SweepDisplay(sweep, 2))
    assert [len(configs) for configs in seen] == [2]
    assert sweep.count("finished") == 2


def test_a_users_own_game_and_model_files(tmp_path, without_a_picture):
    shutil.copy(own_game.__file__, tmp_path / "garden_of_a_sweep.py")
    (tmp_path / "model_of_a_sweep.py").write_text("from abreast import DQN\n\nclass Mine(DQN):\n    pass\n")
    words = [
        "garden_of_a_sweep.py",
        "model.algorithm=dqn,model_of_a_sweep.py:Mine",
        "experiment.epochs=2",
        "--output",
        "s",
        "-q",
    ]
    assert run(["sweep", *words]) == 0
    configs = [each.config(Path("s")) for each in open_sweep(Path("s")).runs]
    assert [left_by(Path(config.output)) for config in configs] == one_after_the_other(configs, tmp_path)
    assert run(["compare", "s", "--episodes", "1", "-q"]) == 0


def test_a_game_of_pettingzoo(tmp_path, without_a_picture):
    pytest.importorskip("mpe2", reason="PettingZoo's particle games")
    game = "pettingzoo:mpe2.simple_spread_v3"
    words = [game, "experiment.epochs=2", "experiment.max_turns=4", "model.hidden_size=8", "--output", "s", "-q"]
    assert run(["sweep", *words]) == 0
    configs = [each.config(Path("s")) for each in open_sweep(Path("s")).runs]
    assert [left_by(Path(config.output)) for config in configs] == one_after_the_other(configs, tmp_path)
    assert run(["compare", "s", "--episodes", "1", "-q"]) == 0
    who = json.loads(Path("s/comparison/comparison.json").read_text())["about"]["who"]
    assert who[:2] == ["sum", "agent_0"]


# ---- a folder that was changed


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """A sweep that has finished."""
    folder = tmp_path_factory.mktemp("sweeps") / "s"
    assert run(["sweep", GAME, *SHORT, "model.hidden_size=8", "--seeds", "2", "--output", str(folder), "-q"]) == 0
    return folder


def rewrite(folder, old, new):
    text = (folder / "sweep.yaml").read_text()
    assert old in text
    (folder / "sweep.yaml").write_text(text.replace(old, new, 1))


def cut(folder):
    path = sorted((folder / "runs").iterdir())[1] / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])


CHANGED = {
    "a setting": (
        lambda s: rewrite(s, "- 8\n", "- 16\n"),
        "sweep.yaml was changed after the sweep was begun, and runs/0000-",
    ),
    "a seed less": (
        lambda s: rewrite(s, "- 1\n", ""),
        "and runs/0001-fragile-game-fragile-seed-1 is no longer a run of it",
    ),
    "cut": (lambda s: (s / "sweep.yaml").write_bytes((s / "sweep.yaml").read_bytes()[:60]), "s/sweep.yaml"),
    "empty": (lambda s: (s / "sweep.yaml").write_text(""), "games is missing"),
    "metrics that were cut": (cut, "-seed-1 has finished, but its metrics.jsonl cannot be read"),
}


@pytest.mark.parametrize(("change", "sentence"), CHANGED.values(), ids=CHANGED)
def test_a_sweep_whose_folder_was_changed_does_not_go_on(two_runs, capsys, change, sentence):
    shutil.copytree(two_runs, "s")
    change(Path("s"))
    before = {path: path.read_bytes() for path in Path("s").rglob("*") if path.is_file()}
    assert run(["sweep", "--resume", "s", "-q"]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert sentence in told[0]
    assert {path: path.read_bytes() for path in Path("s").rglob("*") if path.is_file()} == before


def test_a_sweep_goes_on_without_its_index_and_with_more_seeds_at_the_end(two_runs):
    shutil.copytree(two_runs, "s")
    whole = Path("s/index.jsonl").read_bytes()
    for harm in (lambda path: path.unlink(), lambda path: path.write_text("[1]\n")):
        harm(Path("s/index.jsonl"))
        assert run(["sweep", "--resume", "s", "-q"]) == 0
        assert Path("s/index.jsonl").read_bytes() == whole
    rewrite(Path("s"), "- 1\n", "- 1\n- 5\n")
    assert run(["sweep", "--resume", "s", "-q"]) == 0
    assert Path("s/index.jsonl").read_bytes().startswith(whole)
    assert [row["seed"] for row in read_index(Path("s"))] == [0, 1, 5]


BAD = {
    "no game": ([], "Missing argument 'GAME'"),
    "unknown setting": ([GAME, "model.learning_rat=1,2"], "unknown key model.learning_rat"),
    "no values": ([GAME, "model.algorithm="], "model.algorithm has no value: give at least one"),
    "no sweep": (["--resume", "."], ". is not a sweep folder: it has no sweep.yaml"),
    "other arguments": (
        ["--resume", "there", GAME, "--seeds", "3", "--epochs", "9"],
        "leave out GAME, --epochs, --seeds.",
    ),
    "there already": ([GAME, "--output", "there"], "there already holds a sweep: go on with it by --resume"),
    "a run is there": ([GAME, "--output", "run"], "run already holds a run"),
    "backend": ([GAME, "--backend", "rays"], "did you mean 'ray'?"),
    "none at once": ([GAME, "--at-once", "0"], "1 run at once or more"),
    "trials without a search": ([GAME, "--trials", "3"], "nothing is searched"),
    "search": ([GAME, "--search", "optun"], "search is 'optun'"),
    "file": (["--config", "none.yaml"], "cannot read the configuration file none.yaml"),
    "workers": ([GAME, "multiprocessing.enabled=true"], "multiprocessing.enabled is true"),
    "device": ([GAME, "multiprocessing.device=cpu,cuda:99"], "run 1: multiprocessing.device is 'cuda:99', but of GPUs"),
    "device of trials": (["--config", "search.yaml"], "multiprocessing.device is 'cuda:99'"),
    "cluster": ([GAME, "--backend", "ray"], "no cluster is here"),
}


@pytest.mark.parametrize(("words", "sentence"), BAD.values(), ids=BAD)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(tmp_path, capsys, monkeypatch, words, sentence):
    def connect(config):
        raise ConfigError("no cluster is here.")

    monkeypatch.setattr(runs, "connect", connect)
    settings = {"multiprocessing.device": ["cuda:99"], "model.gamma": {"low": 0.5, "high": 0.9}}
    (tmp_path / "search.yaml").write_text(json.dumps({"games": [GAME], "search": "optuna", "settings": settings}))
    for folder, file in (("there", "sweep.yaml"), ("run", "config.yaml")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("games: [treasurehunt]\n")
    assert run(["sweep", *words]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert sentence in told[0]
    assert sorted(path.name for path in tmp_path.rglob("*")) == sorted(
        ["config.yaml", "fragile_game.py", "own_game.py", "run", "search.yaml", "sweep.yaml", "there"]
    )
