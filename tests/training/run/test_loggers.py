"""Loggers: found by name, told of every epoch beside the display, and harmless when they fail."""

import re
import sys
from typing import ClassVar

import pytest

import own_game
from abreast.errors import ConfigError
from abreast.games import Game
from abreast.training.run.loggers import LOGGERS
from fakes import timeless

HERE = "training.run.test_loggers"


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def garden(*overrides):
    return Game(own_game.Garden).build(Game(own_game.Garden).configure(None, overrides))


class Listens:
    """Keeps what it is told."""

    all: ClassVar = []

    def __init__(self, where="nowhere"):
        self.where, self.epochs, self.films, self.closed = where, [], {}, 0
        self.all.append(self)

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        self.epochs.append({"epoch": epoch, "loss": loss, "reward": reward, "epsilon": epsilon, **more})
        if "film" in more:
            self.films[epoch] = more["film"]

    def close(self):
        self.closed += 1


class Follows(Listens):
    """Wants to know where the run is."""

    def __init__(self, run, more=None):
        super().__init__(run)


class Raises(Listens):
    """Cannot bear the second epoch, nor the end."""

    def record_epoch(self, epoch, *rest, **more):
        if epoch == 1:
            raise ZeroDivisionError("no way")
        super().record_epoch(epoch, *rest, **more)

    def close(self):
        super().close()
        raise ZeroDivisionError("nor that")


class CannotClose(Listens):
    def close(self):
        raise OSError("still open")


class CannotBegin(Listens):
    def __init__(self, run):
        raise RuntimeError("no account")


class Mute:
    """Is no logger."""


MUTE = f"{HERE}:Mute"


@pytest.mark.parametrize("way", ["run_experiment", "run_experiment_mp"])
def test_loggers_are_told_what_the_metrics_say_beside_the_display(way, capsys):
    one, two = Listens(), Listens()
    env = garden("multiprocessing.workers=threads", "experiment.record_period=2")
    result = getattr(env, way)(logger=[one, two], output_dir="run")
    assert "epoch 3/3" in capsys.readouterr().err
    told = [{key: value for key, value in epoch.items() if key != "film"} for epoch in one.epochs]
    assert told == [{**record, "loss": record["loss"] or 0.0} for record in result.epochs]
    assert two.epochs == one.epochs and (one.closed, two.closed) == (1, 1)
    assert sorted(one.films) == [0, 2] and all(film.read_bytes()[:3] == b"GIF" for film in one.films.values())


def test_a_class_is_constructed_with_the_run_folder_if_it_needs_a_value():
    Listens.all.clear()
    names = [f"{HERE}:Listens", f"{HERE}:Follows", Follows, f"{HERE}:Follows"]
    result = garden().run_experiment(animate=False, logger=names, output_dir="run")
    assert [each.where for each in Listens.all] == ["nowhere", result.folder, result.folder]  # a name counts once
    assert all(len(each.epochs) == 3 for each in Listens.all)


def test_a_logger_that_raises_is_left_out_and_the_run_goes_on_with_the_same_result(capsys, tmp_path):
    calm = timeless(garden().run_experiment(animate=False, logging=False).epochs)
    raises, listens, cannot_close = Raises(), Listens(), CannotClose()
    loggers = [raises, cannot_close, listens]
    epochs = garden().run_experiment(animate=False, logger=loggers, output_dir="run").epochs
    assert timeless(epochs) == calm
    assert len(listens.epochs) == 3 and len(raises.epochs) == 1 and raises.closed == 1
    printed, log = capsys.readouterr().err, (tmp_path / "run" / "log.txt").read_text()
    says = (
        "the logger Raises is left out from epoch 1 on, the run goes on: it raised ZeroDivisionError: no way (test_log"
    )
    closing = "the logger CannotClose could not be closed: it raised OSError: still open"
    for text in (printed, log):
        assert text.count(says) == 1 and text.count(closing) == 1
    assert "Traceback" in log and "Traceback" not in printed


REFUSED = [
    ("tensorbord", "there is no logger 'tensorbord': did you mean 'tensorboard'?"),
    (["csv", "mlflow"], "there is no logger 'mlflow': known are: csv, tensorboard, trackio, wandb."),
    (MUTE, f"the logger {MUTE} has no method record_epoch(epoch, loss, reward, epsilon, **more)."),
    (3, "the logger int has no method record_epoch"),
    (f"{HERE}:Listen", f"{HERE} has no 'Listen': did you mean 'Listens'?"),
    ("nowhere.py:Mine", "there is no file nowhere.py."),
    (CannotBegin, "the logger CannotBegin cannot begin: it raised RuntimeError: no account (test_loggers.py, line "),
]


@pytest.mark.parametrize(("logger", "says"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_what_is_no_logger_is_refused_before_anything_is_written(logger, says, tmp_path):
    with pytest.raises(ConfigError, match=re.escape(says)):
        garden().run_experiment(logger=logger, output_dir="run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted(LOGGERS.keys() - {"csv"}))
def test_a_package_that_is_not_installed_is_named_with_its_extra(name, tmp_path, monkeypatch):
    for module in [name, *(each for each in sys.modules if each.startswith(f"{name}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"abreast.integrations.loggers.{name}", raising=False)
    with pytest.raises(
        ConfigError, match=rf"""the logger '{name}' needs the package {name}: pip install "abreast\[{name}\]" """
    ):
        garden().run_experiment(logger=name, output_dir="run")
    assert not list(tmp_path.iterdir())


class Stops:
    def record_epoch(self, epoch, *rest, **more):
        if epoch == 2:
            raise KeyboardInterrupt


def test_a_logger_that_cannot_begin_cuts_nothing_of_a_run_that_was_to_go_on(tmp_path):
    often = "experiment.checkpoint_interval=2"
    with pytest.raises(KeyboardInterrupt):
        garden(often).run_experiment(animate=False, logger=Stops(), output_dir="run")
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    with pytest.raises(ConfigError, match="cannot begin"):
        garden(often).run_experiment(animate=False, logger=CannotBegin, resume="run")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before and before.count(b"\n") == 3


def test_without_a_record_a_class_that_needs_the_run_folder_is_refused():
    with pytest.raises(ConfigError, match="the logger csv needs a run folder, but with logging=False there is none"):
        garden().run_experiment(animate=False, logging=False, logger="csv")


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError


class Rude(Listens):
    """Takes away what it is told, then raises what cannot be said, or wants to end the program."""

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        for value in more.values():
            getattr(value, "clear", int)()
        raise SystemExit if epoch else Unspeakable

    def close(self):
        raise SystemExit


def test_a_rude_logger_changes_nothing_for_others_and_ends_nothing():
    calm, listens = garden().run_experiment(animate=False, logging=False), Listens()
    told = garden().run_experiment(animate=False, logging=False, logger=[Rude(), Rude(), listens])
    assert timeless(told.epochs) == timeless(calm.epochs)
    assert [each["reward_per_agent"] for each in listens.epochs] == [each["reward_per_agent"] for each in calm.epochs]


def test_ctrl_c_while_films_are_written_leaves_loggers_closed_and_the_end_in_the_log(tmp_path, monkeypatch):
    def interrupted(films):
        raise KeyboardInterrupt

    monkeypatch.setattr("abreast.training.run.films.Films.close", interrupted)
    listens = Listens()
    with pytest.raises(KeyboardInterrupt):
        garden().run_experiment(logger=listens, output_dir=tmp_path / "run")
    assert listens.closed == 1 and "finished after" in (tmp_path / "run" / "log.txt").read_text()
