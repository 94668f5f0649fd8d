"""What is asked of a run from outside: it changes when the run does something, and never what comes out of it."""

import threading
import time

import pytest

from abreast import control
from abreast.control import ask, condition_of
from abreast.errors import StoppedError
from fakes import learned, small_game, timeless

SMALL = ("experiment.epochs=8", "model.gradient_steps=1", "model.batch_size=8", "experiment.max_turns=6")


class Asks:
    """A logger that pauses the run, has a checkpoint written meanwhile, and lets it go on; later, it stops the run."""

    def __init__(self, folder):
        self._folder, self._watcher = folder, threading.Thread(target=self._watch)

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        if epoch == 2:
            ask(self._folder, "pause")
            self._watcher.start()
        if epoch == 5:
            self._watcher.join()
            ask(self._folder, "stop")

    def _watch(self):
        until(lambda: condition_of(self._folder) == "paused")
        ask(self._folder, "checkpoint")
        until(lambda: list((self._folder / "checkpoints").glob("epoch_*")))
        ask(self._folder, "go_on")


class Silent:
    def record_epoch(self, *_, **__):
        pass


def until(is_so):
    while not is_so():
        time.sleep(0.001)


def train(way, logger, **where):
    env = small_game(*SMALL, *way)
    run = env.run_experiment_mp if way else env.run_experiment
    return timeless(run(animate=False, logger=logger, **where).epochs), learned(env)


@pytest.mark.parametrize("way", [(), ("multiprocessing.num_workers=2",)], ids=["sequential", "pipelined, processes"])
def test_a_run_that_was_paused_stopped_and_resumed_ends_as_one_that_was_not(way, tmp_path, monkeypatch):
    monkeypatch.setattr(control, "LOOK_S", 0.0)
    folder = tmp_path / "run"
    with pytest.raises(StoppedError, match="asked to stop") as stop:
        train(way, Asks(folder), output_dir=folder)
    log = (folder / "log.txt").read_text()
    said = [
        "Paused after",
        f"abreast watch {folder} --ask go_on",
        "checkpoint epoch_",
        "The pause is over",
        "by request",
    ]
    places = [log.index(text) for text in said]
    assert places == sorted(places) and "Traceback" not in log
    assert f"is in {folder}. To go on: abreast train --resume {folder}" in stop.value.__notes__[0]
    assert not (folder / ".control").exists()
    assert train(way, Silent(), resume=folder) == train(way, Silent(), output_dir=tmp_path / "whole")


def test_a_run_that_is_asked_to_stop_before_its_first_epoch_leaves_nothing(tmp_path, monkeypatch):
    def ask_at_once(requests):
        requests.is_stopped = True
        return False

    monkeypatch.setattr("abreast.control.Requests.look", ask_at_once)
    with pytest.raises(StoppedError) as stop:
        train((), Silent(), output_dir=tmp_path / "run")
    assert stop.value.__notes__ == ["Stopped after 0 epochs; nothing was kept."]
    assert not (tmp_path / "run").exists()
