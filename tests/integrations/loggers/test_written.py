"""What the loggers of ours write: files that others read, and calls of packages that are not installed here."""

import csv
import json
import shutil
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import own_game
from abreast.cli import run as command
from abreast.games import Game


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def garden(*overrides):
    later = ["experiment.checkpoint_interval=2", "experiment.record_period=3", "experiment.train_interval=3"]
    return Game(own_game.Garden).build(Game(own_game.Garden).configure(None, [*later, *overrides]))


class StopsAt:
    """A logger that ends the run when an epoch is recorded, and notes what the others have on the disk then."""

    def record_epoch(self, epoch, *rest, **more):
        if epoch == 5:
            self.on_disk = [len(in_csv("run")), len(in_tensorboard("run")[0]["reward/total"])]
            raise KeyboardInterrupt


def in_csv(folder):
    with Path(folder, "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def in_tensorboard(folder):
    """Scalars and pictures by step, and other tags, by TensorBoard's own reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(Path(folder, "tensorboard")), {"scalars": 0, "images": 0, "tensors": 0})
    read.Reload()
    scalars = {tag: [(each.step, each.value) for each in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    return scalars, {each.step: each.encoded_image_string for each in read.Images("film")}, read.Tags()["tensors"]


def test_a_run_that_goes_on_has_every_epoch_once_and_an_export_is_the_same(capsys):
    pytest.importorskip("tensorboard")
    names = ["csv", "tensorboard"]
    stops = StopsAt()
    with pytest.raises(KeyboardInterrupt):
        garden("experiment.epochs=9").run_experiment(logger=[*names, stops], output_dir="run")
    assert stops.on_disk == [6, 6]
    epochs = garden("experiment.epochs=9").run_experiment(logger=names, resume="run").epochs
    rewards = [record["reward_per_agent"][1] for record in epochs]
    for folder in ("run", "again"):
        if folder == "again":
            shutil.copytree("run", "again", ignore=lambda *_: ["metrics.csv", "tensorboard"])
            for name in names:
                assert command(["export", "again", "--to", name]) == 0
            assert capsys.readouterr().out.endswith("9 epochs of again were written: tensorboard.\n")
        rows = in_csv(folder)
        assert [(int(row["epoch"]), float(row["reward/agent_1"])) for row in rows] == list(enumerate(rewards))
        assert [bool(row["loss/agent_0"]) for row in rows] == [bool(record["learning"][0]) for record in epochs]
        assert {row["loss/agent_0"] for row in rows} > {""}  # the column was not there from the beginning
        scalars, films, others = in_tensorboard(folder)
        assert scalars["reward/agent_1"] == pytest.approx(list(enumerate(rewards)))
        assert scalars.keys() == rows[0].keys() - {"epoch"}
        assert films == {epoch: Path(f"run/replays/epoch_{epoch:06d}.gif").read_bytes() for epoch in (0, 3, 6)}
        assert others == ["_hparams_/session_start_info"]
    assert Path("run/metrics.csv").read_bytes() == Path("again/metrics.csv").read_bytes()


class Package(SimpleNamespace):
    """Stands in for wandb and trackio, and notes how it is called."""

    def __init__(self, is_known):
        self.calls, self.logged, self._is_known = {}, [], is_known

    def login(self, **asked):
        assert asked["prompt"] is False
        return self._is_known

    def init(self, **given):
        self.calls |= given
        return self

    def log(self, values, step):
        self.logged.append((step, values))

    def finish(self):
        self.calls["finished"] = True

    def Settings(self, **settings):
        return settings

    def Video(self, path, format):
        return Path(path), format


@pytest.mark.parametrize(
    ("name", "is_known", "mode", "expected"),
    [
        ("wandb", False, None, "offline"),
        ("wandb", True, None, None),
        ("wandb", True, "offline", "offline"),
        ("trackio", False, None, None),
    ],
)
def test_trackers_get_settings_scalars_and_films_and_never_ask(name, is_known, mode, expected, monkeypatch):
    package = Package(is_known)
    monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.delitem(sys.modules, f"abreast.integrations.loggers.{name}", raising=False)
    monkeypatch.setenv("WANDB_MODE", mode) if mode else monkeypatch.delenv("WANDB_MODE", raising=False)
    garden().run_experiment(logger=name, output_dir="run")
    monkeypatch.delattr(import_module("abreast.integrations.loggers"), name)
    assert package.calls["finished"] and package.calls.get("mode") == expected
    assert package.calls["name"] == "run" and package.calls["config"]["experiment.epochs"] == 3
    assert [step for step, _ in package.logged] == [0, 1, 2] and "reward/agent_0" in package.logged[2][1]
    assert package.logged[0][1]["film"] == (Path("run/replays/epoch_000000.gif"), "gif")


def test_a_run_that_goes_on_is_not_exported_and_cut_lines_are_left_out(capsys):
    garden().run_experiment(animate=False, output_dir="run")
    with Path("run/metrics.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": 3, "reward": 1.0})[:-4])
    held = import_module("abreast.files").locked(Path("run"))
    with held:
        assert command(["export", "run", "--to", "csv"]) == 2
        assert "another run of this process is writing to run" in capsys.readouterr().err
    assert not Path("run/metrics.csv").exists()
    assert command(["export", "run", "--to", "csv"]) == 0
    assert capsys.readouterr().err == "abreast: line 4 of run/metrics.jsonl is cut off or damaged, and left out.\n"
    assert len(in_csv("run")) == 3


MINE = """
class Mine:
    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        assert epoch < {most}, "too many"

    def close(self):
        open("closed", "w").close()
"""


def test_an_export_to_a_class_of_ones_own(capsys):
    garden().run_experiment(animate=False, output_dir="run")
    Path("mine_all.py").write_text(MINE.format(most=3))
    assert command(["export", "run", "--to", "mine_all.py:Mine"]) == 0 and Path("closed").exists()
    Path("mine_two.py").write_text(MINE.format(most=2))
    capsys.readouterr()
    assert command(["export", "run", "--to", "mine_two.py:Mine"]) == 2
    printed = capsys.readouterr()
    says = "the logger mine_two.py:Mine raised AssertionError: too many (mine_two.py, line 4).\n"
    assert printed.err == f"abreast: {says}" and not printed.out
