"""Resume: a run that was stopped, however, ends byte for byte as one that was not."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from abreast.errors import AbreastError, CheckpointError, ConfigError, RunFolderError
from abreast.training.checkpoints.folder import open_checkpoint
from fakes import small_game, timeless

SMALL = ("experiment.epochs=12", "experiment.max_turns=6", "model.hidden_size=8", "model.buffer_capacity=64")
SMALL += ("model.batch_size=8", "model.gradient_steps=1", "model.n_frames=1", "experiment.checkpoint_interval=3")


class Stop(Exception):
    """What ends a run in the middle."""


class StopsAt:
    """A logger that ends the run when an epoch is recorded."""

    def __init__(self, epoch):
        self._epoch = epoch

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        if epoch == self._epoch:
            raise Stop


class Silent:
    def record_epoch(self, *_, **__):
        pass


def run(folder, *overrides, parallel=False, stop_at=None, resume=None, animate=False, game="treasurehunt"):
    env = small_game(*SMALL, *overrides, game=game)
    logger = Silent() if stop_at is None else StopsAt(stop_at)
    where = {"output_dir": folder} if resume is None else {"resume": resume}
    return (env.run_experiment_mp if parallel else env.run_experiment)(animate=animate, logger=logger, **where)


def left_behind(folder):
    """All that has to be identical: metrics without the clock, the agents at the end, all of the last checkpoint."""
    lines = timeless(json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    return lines, {name: parts_of(folder / "checkpoints" / name) for name in ("epoch_000012", "final")}


def parts_of(folder):
    checkpoint = open_checkpoint(folder)
    parts = {name: checkpoint.part(name) for name in checkpoint.parts}
    found = {}
    for name, (facts, arrays, _) in parts.items():
        # What depends on the clock, and on where the workers were: seconds.
        kept = {key: value for key, value in facts.items() if key not in ("record.seconds", "record.elapsed_s")}
        for each in kept.get("loop.unfinished", []):
            del each["collect_s"]
        digests = {key: hashlib.sha256(array.tobytes()).hexdigest() for key, array in sorted(arrays.items())}
        found[name] = (kept, digests)
    return found


PARALLEL = ("multiprocessing.num_workers=2",)
WAYS = {
    "sequential": (False, ()),
    "sequential, lanes and actors": (False, ("multiprocessing.num_envs=2", "multiprocessing.num_actors=2")),
    "lockstep": (True, ("multiprocessing.schedule=lockstep",)),
    "pipelined": (True, ("multiprocessing.num_envs=2",)),
    "pipelined, 2 actors": (True, ("multiprocessing.num_actors=2",)),
    "pipelined, inline": (True, ("multiprocessing.workers=inline", "multiprocessing.num_envs=2")),
    "pipelined, threads": (True, ("multiprocessing.workers=threads", "multiprocessing.num_actors=2")),
}
CASES = [(way, "iqn") for way in WAYS] + [(way, name) for way in ("sequential", "pipelined, 2 actors") for name in ("dqn", "ppo")]


@pytest.mark.parametrize(("way", "algorithm"), CASES)
def test_a_run_that_goes_on_ends_as_one_that_was_never_stopped(way, algorithm, tmp_path):
    parallel, settings = WAYS[way]
    settings = (f"model.algorithm={algorithm}", *settings)
    run(tmp_path / "whole", *settings, parallel=parallel)
    with pytest.raises(Stop):
        run(tmp_path / "stopped", *settings, parallel=parallel, stop_at=7)
    result = run(None, *settings, parallel=parallel, resume=tmp_path / "stopped")
    assert list(explain(left_behind(tmp_path / "stopped"), left_behind(tmp_path / "whole"))) == []
    assert [record["epoch"] for record in result.epochs] == list(range(12))


def explain(one, two, path=""):
    """Where two of these differ."""
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        for key in one:
            yield from explain(one[key], two[key], f"{path}.{key}")
    elif isinstance(one, list | tuple) and isinstance(two, list | tuple) and len(one) == len(two):
        for key, (a, b) in enumerate(zip(one, two, strict=True)):
            yield from explain(a, b, f"{path}[{key}]")
    elif one != two:
        yield f"{path}: {one!r} != {two!r}"
