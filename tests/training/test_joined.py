"""Runs that learn together end as they would alone; one that fails or ends does not harm the others."""

import json
import threading

import pytest

from abreast.errors import ConfigError
from abreast.games import find_game
from abreast.models.stacked import learning
from abreast.training import joined
from abreast.training.checkpoints.folder import newest_agents
from abreast.training.joined import run_joined

SETTINGS = ["experiment.num_agents=2", "experiment.max_turns=12", "experiment.epochs=8", "model.batch_size=8"]
SETTINGS += ["model.hidden_size=16", "model.buffer_capacity=64", "multiprocessing.num_envs=2", "world.batched=false"]


def build(seed, *more):
    game = find_game("treasurehunt")
    return game.build(game.configure(None, [*SETTINGS, f"experiment.seed={seed}", *more]))


def run(folder, seed, *more, **options):
    def start(trainer=None):
        experiment = build(seed, *more)
        if trainer is not None:
            experiment.trainer = trainer
        where = options or {"output_dir": folder}
        return experiment.run_experiment(animate=False, **where)

    return start


def left_by(folder):
    """What does not depend on the clock: every epoch, and the checksum of what each agent has learned."""
    epochs = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for epoch in epochs:
        del epoch["time"]
    return epochs, {name: file.sha256 for name, file in newest_agents(folder).files.items() if "agent" in name}


@pytest.fixture
def widths(monkeypatch):
    """How many models each stack was made of."""
    made = []

    def make_stack(models):
        made.append(len(models))
        return learning_stack(models)

    learning_stack = joined.make_stack
    monkeypatch.setattr(joined, "make_stack", make_stack)
    monkeypatch.setattr(learning, "FEWEST_ON_CPU", 2)
    return made


@pytest.mark.parametrize(
    "more", [["model.algorithm=dqn"], ["model.algorithm=ppo"], ["model.per_agent.1.algorithm=ppo"]]
)
def test_each_ends_as_it_would_alone(tmp_path, widths, more):
    for seed in range(3):
        run(tmp_path / f"alone {seed}", seed, *more, f"model.learning_rate={0.001 * (seed + 1)}")()
    starts = [
        run(tmp_path / f"joined {seed}", seed, *more, f"model.learning_rate={0.001 * (seed + 1)}") for seed in range(3)
    ]
    results = run_joined(starts)
    assert [len(result.epochs) for result in results] == [8] * 3
    for seed in range(3):
        assert left_by(tmp_path / f"joined {seed}") == left_by(tmp_path / f"alone {seed}")
    if "per_agent" not in more[0]:
        assert widths == [6]
    logs = [(tmp_path / f"joined {seed}" / "log.txt").read_text() for seed in range(3)]
    assert [log.count("agents") for log in logs] == [1] * 3, "each has a log of its own"


def test_one_that_fails_or_ends_earlier_leaves_the_others_as_they_were(tmp_path, widths):
    class Fails:
        def record_epoch(self, epoch, *told, **more):
            if epoch == 3:
                raise KeyboardInterrupt

    run(tmp_path / "alone", 0, "model.algorithm=dqn")()
    starts = [
        run(tmp_path / "first", 0, "model.algorithm=dqn"),
        run(tmp_path / "fails", 1, "model.algorithm=dqn", logger=Fails(), output_dir=tmp_path / "fails"),
        run(tmp_path / "short", 2, "model.algorithm=dqn", "experiment.epochs=4"),
        lambda trainer: build(3, "model.nonsense=1"),
    ]
    first, fails, short, wrong = run_joined(starts)
    assert isinstance(fails, KeyboardInterrupt) and isinstance(wrong, ConfigError)
    assert len(first.epochs) == 8 and len(short.epochs) == 4
    assert left_by(tmp_path / "first") == left_by(tmp_path / "alone")
    assert widths[0] == 6 and widths[-1] == 2, "made anew of those that are left"


def test_one_that_was_stopped_goes_on_beside_others(tmp_path, widths):
    run(tmp_path / "alone", 0, "model.algorithm=dqn", "experiment.epochs=16")()
    half = build(0, "model.algorithm=dqn", "experiment.epochs=16", "experiment.checkpoint_interval=4")

    class Stops:
        def record_epoch(self, epoch, *told, **more):
            if epoch == 9:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half.run_experiment(animate=False, logger=Stops(), output_dir=tmp_path / "goes on")
    more = ["model.algorithm=dqn", "experiment.epochs=16", "experiment.checkpoint_interval=4"]
    on, beside = run_joined([run(None, 0, *more, resume=tmp_path / "goes on"), run(tmp_path / "beside", 5, *more)])
    assert len(on.epochs) == len(beside.epochs) == 16
    assert left_by(tmp_path / "goes on") == left_by(tmp_path / "alone")


def test_one_thread_works_at_a_time():
    meeting, at_work, most = joined.Meeting(3), [], []

    class Model:
        learning_key = "alike"

    class Stack:
        def train(self, updates, beat):
            return [{"loss": float(updates)}] * 3

    def work(number):
        meeting.join(number)
        for _ in range(20):
            at_work.append(number)
            most.append(len(at_work))
            at_work.remove(number)
            assert meeting.train(number, [Model()], 2) == [{"loss": 2.0}]
        meeting.leave(number)

    real, joined.make_stack = joined.make_stack, lambda models: Stack()
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    finally:
        joined.make_stack = real
    assert most == [1] * 60
