"""The record of a run: what it keeps, and what it takes back."""

import json
import logging
import math
import threading
import time
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
import yaml

import own_game
import villains
from abreast.display import NORMAL, VERBOSE, set_volume
from abreast.errors import GameError, ModelError, WorkerError
from abreast.games import Game
from abreast.models import DQN
from abreast.training.run.display import ProgressDisplay
from abreast.training.run.films import Films
from abreast.training.run.record import RunOptions, RunRecord
from abreast.training.social import OUTCOMES
from fakes import small_game, timeless
from promises.cover import rows


def garden(*overrides, kind=own_game.Garden):
    return Game(kind).build(Game(kind).configure(None, overrides))


def metrics_in(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def own_figures(metrics):
    """Without those of every game."""
    return {name: value for name, value in metrics.items() if name not in OUTCOMES}


# ---- figures of the game's own

RUNS = [
    "run_experiment", "lockstep inline", "lockstep threads", "pipelined threads", "pipelined processes", "free threads",
]  # fmt: skip


@pytest.mark.parametrize(("how", "actors"), rows({"how": RUNS, "actors": [1, 2]}, together=1))
def test_a_games_own_figures_are_kept_in_every_schedule_and_by_every_actor(how, actors, tmp_path):
    settings = [f"multiprocessing.num_actors={actors}", "multiprocessing.num_envs=4", "experiment.epochs=8"]
    if " " in how:
        schedule, workers = how.split()
        settings += [f"multiprocessing.schedule={schedule}", f"multiprocessing.workers={workers}"]
    env = garden(*settings)
    run = env.run_experiment_mp if " " in how else env.run_experiment
    result = run(animate=False, output_dir=tmp_path / "run")
    for record, kept in zip(result.epochs, metrics_in(tmp_path / "run"), strict=True):
        assert record["metrics"] == kept["metrics"]
        assert own_figures(kept["metrics"]) == {"eaten": record["reward"], "turns": 6.0}
        assert kept["metrics"]["efficiency"] == record["reward"] / 6


class Figures(own_game.Garden):
    """Tells what it is told to tell."""

    told: ClassVar = {}

    def metrics(self):
        return self.told


def test_numbers_of_any_kind_are_figures_and_what_is_not_finite_is_null(tmp_path, monkeypatch):
    told = {"a": np.float32(0.5), "b": True, "c": Fraction(1, 4), "d": math.nan, "e": -math.inf, "f": np.int64(3)}
    monkeypatch.setattr(Figures, "told", told)
    garden(kind=Figures).run_experiment(animate=False, output_dir=tmp_path / "run")
    kept = metrics_in(tmp_path / "run")[0]["metrics"]
    assert own_figures(kept) == {"a": 0.5, "b": 1.0, "c": 0.25, "d": None, "e": None, "f": 3.0}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"gini": "low"}, "the metric 'gini' of Figures is 'low': expected a name with a number"),
        ({"gini": None}, "the metric 'gini' of Figures is None"),
        ({"gini": [1.0]}, "the metric 'gini' of Figures is \\[1.0\\]"),
        ({3: 1.0}, "the metric 3 of Figures is 1.0"),
        (None, "the metrics of Figures are None: expected names with numbers"),
    ],
)
def test_what_is_no_number_stops_the_run(told, says, tmp_path, monkeypatch):
    monkeypatch.setattr(Figures, "told", told)
    with pytest.raises(GameError, match=says):
        garden(kind=Figures).run_experiment(animate=False, output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


class Counts(own_game.Garden):
    """Goes on counting in the mapping that it has told."""

    def __init__(self, *arguments):
        self.counted = {"resets": 0}
        super().__init__(*arguments)

    def reset(self):
        self.counted["resets"] += 1
        super().reset()

    def metrics(self):
        return self.counted


def test_figures_are_those_of_their_epoch_though_it_is_recorded_later():
    env = garden("multiprocessing.workers=threads", "multiprocessing.schedule=pipelined", kind=Counts)
    result = env.run_experiment_mp(animate=False, logging=False)
    assert [own_figures(record["metrics"])["resets"] for record in result.epochs] == [1.0, 2.0, 3.0]


def test_a_logger_is_told_of_figures_and_a_game_without_any_has_the_social_ones():
    told = []

    class Listens:
        def record_epoch(self, epoch, loss, reward, epsilon, **more):
            told.append(more)

    garden().run_experiment(animate=False, logger=Listens(), output_dir="run")
    assert [set(more["metrics"]) for more in told] == [{"eaten", "turns", *OUTCOMES}] * 3
    assert set(small_game().run_experiment(animate=False, logging=False).epochs[0]["metrics"]) == set(OUTCOMES)


def test_the_end_of_a_run_is_under_way_while_its_last_films_are_written(monkeypatch):
    told = []
    monkeypatch.setattr(ProgressDisplay, "now", lambda self, text, *parts: told.append(text))
    monkeypatch.setattr(Films, "close", lambda self: told.append("films"))
    garden().run_experiment(output_dir="run")
    assert told[-2:] == ["the last films and curves are written", "films"]


# ---- figures of learning


class Counting(DQN):
    """Reports figures of its own."""

    def train_step(self):
        figures = super().train_step()
        return None if figures is None else {**figures, "round": self.updates, "undefined": math.nan}


COUNTING = ["model.algorithm=dqn", "model.per_agent={1: {algorithm: 'training.run.test_record:Counting'}}"]
OF_DQN = ["loss", "mean_value", "gradient_norm"]


@pytest.mark.parametrize("how", RUNS)
def test_figures_of_learning_are_kept_in_every_schedule_without_being_named_anywhere(how, tmp_path):
    epochs = 100 if "free" in how else 8  # a free learner may get a core only after some epochs
    settings = [*COUNTING, f"experiment.epochs={epochs}", "multiprocessing.publish_interval=1"]
    if " " in how:
        schedule, workers = how.split()
        settings += [f"multiprocessing.schedule={schedule}", f"multiprocessing.workers={workers}"]
    told = []

    class Listens:
        def record_epoch(self, epoch, loss, reward, epsilon, **more):
            told.append(more["learning"])

    env = small_game(*settings)
    run = env.run_experiment_mp if " " in how else env.run_experiment
    result = run(animate=False, logger=Listens(), output_dir=tmp_path / "run")
    learning = [record["learning"] for record in result.epochs]
    assert learning == [kept["learning"] for kept in metrics_in(tmp_path / "run")] == told
    ours, users = learning[-1]
    assert list(ours) == OF_DQN and list(users) == [*OF_DQN, "round", "undefined"]
    assert users["round"] >= 1 and users["undefined"] is None
    for record in result.epochs:
        assert [each.get("loss") for each in record["learning"]] == record["loss_per_agent"]


def test_figures_of_learning_are_the_same_sequential_parallel_and_after_a_resume(tmp_path):
    settings = (*COUNTING, "experiment.epochs=6", "experiment.num_agents=3", "multiprocessing.schedule=lockstep")
    expected = timeless(small_game(*settings).run_experiment(animate=False, logging=False).epochs)
    threads = small_game(*settings, "multiprocessing.workers=threads")
    assert timeless(threads.run_experiment_mp(animate=False, logging=False).epochs) == expected

    class Stops:
        def record_epoch(self, epoch, *rest, **more):
            if epoch == 3:
                raise KeyboardInterrupt

    stopped = small_game(*settings, "experiment.checkpoint_interval=2")
    with pytest.raises(KeyboardInterrupt):
        stopped.run_experiment(animate=False, logger=Stops(), output_dir="run")
    resumed = small_game(*settings, "experiment.checkpoint_interval=2")
    assert timeless(resumed.run_experiment(animate=False, resume="run").epochs) == expected


class SaysMuch(DQN):
    def train_step(self):
        return {"loss": 1.0, "mood": "good"}


def test_a_figure_that_is_no_number_stops_the_run_by_name():
    env = small_game("model.algorithm=training.run.test_record:SaysMuch")
    with pytest.raises(ModelError, match="the figure 'mood' of SaysMuch is 'good': expected a name with a number"):
        env.run_experiment(animate=False, logging=False)


def test_a_logger_is_told_of_every_epoch_also_where_nothing_is_kept(capsys):
    told = []

    class Listens:
        def record_epoch(self, epoch, *rest, **more):
            told.append(epoch)

    garden().run_experiment(animate=False, logging=False, logger=Listens())
    garden("multiprocessing.workers=threads").run_experiment_mp(animate=False, logging=False, logger=Listens())
    assert told == [0, 1, 2, 0, 1, 2] and not capsys.readouterr().err


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# ---- which game it is of


def test_a_run_from_python_writes_down_the_class_of_its_environment(tmp_path):
    def recorded(kind, name):
        env = kind(kind.make_world(Game(kind).configure()), Game(kind).configure())
        env.run_experiment(animate=False, output_dir=tmp_path / name)
        return yaml.safe_load((tmp_path / name / "config.yaml").read_text())["game"]

    class Local(own_game.Garden):
        """No other program can import it."""

    assert recorded(own_game.Garden, "one") == "own_game:Garden"
    assert recorded(Local, "two") is None


# ---- runs that fail


class Fails(own_game.Garden):
    """Fails at the end of its first epoch, or of a later one."""

    after = 1

    def metrics(self):
        self.ended = getattr(self, "ended", 0) + 1
        if self.ended == self.after:
            raise ZeroDivisionError("no way")
        return {}


class FailsLater(Fails):
    """Two epochs are recorded."""

    after = 3


@pytest.mark.parametrize("run", ["run_experiment", "run_experiment_mp"])
def test_a_run_that_fails_before_its_first_epoch_leaves_nothing(run, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes").write_text("mine")
    for folder in ("runs/one", "there"):
        with pytest.raises(ZeroDivisionError) as caught:
            getattr(garden("multiprocessing.workers=threads", kind=Fails), run)(output_dir=folder)
        assert caught.value.__notes__ == ["Stopped after 0 epochs; nothing was kept."]
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["there", "there/notes"]


def test_a_run_that_fails_later_keeps_what_it_has_with_the_stack_in_its_log(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        garden(kind=FailsLater).run_experiment(output_dir="run")
    assert caught.value.__notes__ == ["Stopped after 2 epochs; what was learned until then is in run."]
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "stopped after 2 epochs by ZeroDivisionError" in log and "in metrics" in log
    assert len(metrics_in(tmp_path / "run")) == 2 and (tmp_path / "run" / "checkpoints" / "final").is_dir()


class Hopeless(own_game.Garden):
    """No agent of it can learn for long."""

    defaults: ClassVar = {
        **own_game.Garden.defaults,
        "model": {**own_game.Garden.defaults["model"], "algorithm": "villains:RaisesInTraining"},
    }


@pytest.mark.parametrize(
    ("kind", "run", "error"),
    [(Fails, "run_experiment", ZeroDivisionError), (Hopeless, "run_experiment_mp", WorkerError)],
)
def test_the_caller_gets_an_error_and_no_stack_is_logged_for_a_screen_before(kind, run, error, caplog):
    overrides = ["experiment.epochs=8", "multiprocessing.workers=threads", "multiprocessing.max_restarts=0"]
    with pytest.raises(error):
        getattr(garden(*overrides, kind=kind), run)(animate=False, logging=False)
    shown = [record for record in caplog.records if record.levelno >= logging.WARNING]  # without handlers, on stderr
    assert not any(record.exc_info for record in shown)


class Falls(villains.RaisesInTraining):
    """Tells when it raises."""

    fallen = threading.Event()

    def train_step(self):
        if self.updates == 2:
            self.fallen.set()
        return super().train_step()


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined", "free"])
def test_an_agent_that_is_given_up_has_no_loss_any_more_and_is_named_at_once(schedule, tmp_path, capsys):
    env = garden(
        f"multiprocessing.schedule={schedule}", "multiprocessing.workers=threads", "multiprocessing.max_restarts=0",
        "multiprocessing.publish_interval=1", f"experiment.epochs={40 if schedule == 'free' else 12}",
    )  # fmt: skip
    agent = env.agents[1]
    agent.model = Falls(agent.observation_spec, 4, env.config.model, env.agent_seed(1))
    Falls.fallen.clear()

    def wait():
        if schedule == "free" and env.epochs_played > 10:
            assert Falls.fallen.wait(60)
            time.sleep(0.005)  # until this is heard of

    env.world.transition = wait
    result = env.run_experiment_mp(animate=False, output_dir="run")
    assert list(result.given_up) == [1]
    losses = [record["loss_per_agent"] for record in result.epochs]
    assert losses[-1][0] is not None and losses[-1][1] is None
    since = [loss for _, loss in losses].index(None, 8 if schedule != "free" else 0)
    assert schedule == "free" or all(loss is None for _, loss in losses[since:])
    assert result.epochs[-1]["updates"] > 0
    printed = capsys.readouterr().err
    named = [line for line in printed.splitlines() if line.startswith("error: agent 1 is not trained any more: ")]
    assert len(named) == 1 and "a villain divides by zero" in named[0] and "Traceback" not in printed
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "Traceback" in log and "in train_step" in log
    assert not [handler for handler in logging.getLogger("abreast").handlers if handler.level == logging.WARNING]


def test_figures_change_no_result():
    class Silent(own_game.Garden):
        def metrics(self):
            return {}

    with_figures, without = (
        timeless(garden(kind=kind).run_experiment(animate=False, logging=False).epochs)
        for kind in (own_game.Garden, Silent)
    )
    assert [{**record, "metrics": 0} for record in with_figures] == [{**record, "metrics": 0} for record in without]


def test_the_time_of_a_pause_is_not_counted(tmp_path, monkeypatch):
    clock = "abreast.training.run.record.time.perf_counter"
    monkeypatch.setattr(clock, lambda: 10.0)
    with RunRecord(small_game(), RunOptions(animate=False, output_dir=tmp_path / "run")) as record:
        record.begin()
        monkeypatch.setattr(clock, lambda: 12.0)
        with record.paused():
            monkeypatch.setattr(clock, lambda: 1000.0)
            assert record.counts()["elapsed_s"] == 2.0
        monkeypatch.setattr(clock, lambda: 1001.0)
        assert record.counts()["elapsed_s"] == 3.0


def test_verbose_prints_every_line_of_the_log_from_the_first_on(tmp_path, capsys, request):
    request.addfinalizer(lambda: set_volume(NORMAL))
    set_volume(VERBOSE)
    garden("experiment.epochs=2").run_experiment(animate=False, output_dir=tmp_path / "run")
    kept, printed = (tmp_path / "run" / "log.txt").read_text().splitlines(), capsys.readouterr().err.splitlines()
    assert "Garden: 2 agents" in kept[0] and set(kept[:-1]) <= set(printed)  # the last comes when the display is over
