"""The timeline of a training run: complete, whatever happens to workers, and without any effect on results."""

import json
from pathlib import Path

import pytest

from abreast.training.learners.process import Train
from fakes import learned, small_game, timeless
from promises.strikes import strike
from trace_events import checked, spans, totals

SETTINGS = (
    "model.algorithm=dqn",
    "experiment.epochs=8",
    "multiprocessing.num_workers=2",
    "experiment.checkpoint_interval=3",
)


class Reader:
    """A logger that reads the timeline whenever an epoch is recorded: it is what a run that is killed then would leave."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.found = folder, {}

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        if (self.folder / "timeline.json").exists():
            self.found[epoch] = checked(self.folder / "timeline.json")


def run(folder, *overrides):
    env = small_game(*SETTINGS, *overrides)
    logger = Reader(folder)
    call = env.run_experiment if "multiprocessing.workers=inline" in overrides else env.run_experiment_mp
    result = call(animate=False, logger=logger, output_dir=folder)
    return (timeless(result.epochs), learned(env)), logger.found


def test_a_parallel_run_with_a_killed_learner_has_all_of_its_timeline_and_the_same_result(tmp_path):
    with strike(Train, at={6}) as struck:
        parallel, during = run(tmp_path / "on", "multiprocessing.schedule=lockstep", "multiprocessing.max_restarts=9")
    off, _ = run(tmp_path / "off", "multiprocessing.workers=inline", "experiment.timeline=false")
    assert parallel == off and struck
    assert not (tmp_path / "off" / "timeline.json").exists()

    found = checked(tmp_path / "on" / "timeline.json")
    actor = totals(found, "actor")
    assert (
        actor["play"]["count"] == 8 and actor["wait for learners"]["count"] == 8 and actor["checkpoint"]["count"] == 3
    )
    details = [actor[name] for name in ("see", "choose", "act", "remember")]
    assert all(each["is_sampled"] and each["count"] for each in details)
    assert sum(each["seconds"] for each in details) <= 1.001 * actor["play"]["seconds"]
    learners = [each["name"] for each in found["abreast"]["processes"][1:]]
    assert learners == ["learner 0 of agent 0", "learner 1 of agent 1"]
    restarted = [name for name in learners if "restart" in totals(found, name)]
    assert len(restarted) == 1
    its_spans = spans(found, restarted[0])
    died = next(start for name, start, _ in its_spans if name == "restart")
    assert {name for name, _, end in its_spans if end <= died} >= {
        "start",
        "wait",
        "train",
        "update",
        "sample",
        "publish",
    }
    assert {name for name, start, _ in its_spans if start > died} >= {"wait", "train", "publish"}
    for process in found["abreast"]["processes"]:
        recorded = sum(each["own_seconds"] for each in process["totals"].values())
        assert recorded <= 1.1 * (process["ended"] - process["started"]), process["name"]

    assert sorted(during) == [3, 4, 5, 6, 7], "with every checkpoint"
    assert totals(during[5], "actor")["play"]["count"] == 3 and totals(during[6], "actor")["play"]["count"] == 6


def test_a_run_that_is_ended_early_has_its_timeline(tmp_path):
    class Raises(Reader):
        def record_epoch(self, epoch, *given, **more):
            if epoch == 4:
                raise KeyboardInterrupt

    env = small_game(*SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        env.run_experiment(logger=Raises(tmp_path), output_dir=tmp_path / "run")
    found = checked(tmp_path / "run" / "timeline.json")
    assert totals(found, "actor")["play"]["count"] == 5 and totals(found, "actor")["update"]["count"] == 10
    assert totals(found, "actor")["film"]["count"] == 5 + 1 + 1, "of each pass, with the checkpoint, at the end"
    assert json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])["epoch"] == 4
