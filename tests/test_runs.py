"""Many runs: results as one after the other, whatever happens to workers; failures of one run are in its result."""

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

import nodes
from abreast import runs
from abreast.cluster.config import ClusterConfig
from abreast.cluster.connection import connect
from abreast.errors import ConfigError, GameError, RunFolderError
from abreast.games import find_game
from abreast.runs import RunConfig, files_of, run_many, write_files
from fakes import timeless
from promises.cover import IS_FULL

GAME, EPOCHS = "fragile_game:Fragile", 8
OFTEN, NEVER = "experiment.checkpoint_interval=2", "experiment.checkpoint_minutes=600"


def config_of(folder, name, *settings):
    """A run of a second or less."""
    return RunConfig(GAME, [f"experiment.epochs={EPOCHS}", *settings], folder / name)


def once(folder, fate):
    """Settings of a run whose first attempt ends like this."""
    return [f"world.fate={fate}", f"world.marker={folder / f'{fate}.marker'}"]


def left_by(folder):
    """What a run has recorded, times aside, and what its agents have learned."""
    records = timeless(json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines())
    agents = sorted((folder / "checkpoints" / "final").glob("*.safetensors"))
    assert agents
    return records, [path.read_bytes() for path in agents]


def one_after_the_other(configs, folder):
    """The same runs in this process; those whose fate has a marker have met it already."""
    found = []
    for number, config in enumerate(configs):
        game = find_game(config.game)
        experiment = game.build(game.configure(None, config.settings))
        experiment.run_experiment(animate=False, output_dir=folder / f"alone_{number}")
        found.append(left_by(folder / f"alone_{number}"))
    return found


def wait_for(path):
    while not path.exists():
        time.sleep(0.01)


def log_of(result):
    return (result.folder / "log.txt").read_text()


def test_results_are_those_of_runs_one_after_the_other(tmp_path):
    configs = [config_of(tmp_path, f"seed_{seed}", f"experiment.seed={seed}") for seed in range(3)]
    done = []
    results = run_many(configs, at_once=2, on_done=done.append)
    assert [result.config for result in results] == configs
    assert sorted(done, key=results.index) == results
    for result in results:
        assert (result.error, result.attempts, result.epochs) == (None, 1, EPOCHS)
        assert result.node
        last = json.loads((result.folder / "metrics.jsonl").read_text().splitlines()[-1])
        assert (result.last_epoch, result.reward) == (last, last["reward"])
    assert [left_by(result.folder) for result in results] == one_after_the_other(configs, tmp_path)


@pytest.mark.parametrize(
    ("fate", "checkpoints", "goes_on"),
    [
        ("killed", NEVER, False),
        ("hangs", OFTEN, True),
        pytest.param("killed", OFTEN, True, marks=pytest.mark.chaos),
    ],
)
def test_a_run_whose_worker_ends_is_begun_again_and_ends_equal(tmp_path, monkeypatch, fate, checkpoints, goes_on):
    monkeypatch.setattr(runs, "SILENCE_S", 2.0 if fate == "hangs" else 60.0)
    config = config_of(tmp_path, "run", checkpoints, *once(tmp_path, fate))
    (result,) = run_many([config])
    assert (result.error, result.attempts, result.epochs) == (None, 2, EPOCHS)
    assert ("goes on with 4 epochs recorded" in log_of(result)) == goes_on
    assert [left_by(result.folder)] == one_after_the_other([config], tmp_path)


def test_a_run_that_fails_is_told_in_its_result_and_others_go_on(tmp_path):
    fates = ["killed", "refuses", "raises", "none"]
    configs = [config_of(tmp_path, fate, OFTEN, f"world.fate={fate}") for fate in fates]
    killed, refused, raised, fine = run_many(configs, at_once=2)
    assert killed.attempts == 2
    assert "run 0 (pid " in killed.error
    assert "SIGKILL" in killed.error
    assert (refused.attempts, refused.error) == (1, "there are no berries in winter.")
    assert raised.attempts == 1
    assert raised.error.startswith("ZeroDivisionError: a berry was divided by zero (fragile_game.py, line ")
    assert "in meet_fate" in log_of(raised)
    assert (fine.error, fine.epochs) == (None, EPOCHS)
    for failed in (killed, refused, raised):
        assert (failed.reward, failed.last_epoch) == (None, None)
        assert len((failed.folder / "metrics.jsonl").read_text().splitlines()) == 5


def test_of_a_run_that_comes_to_nothing_nothing_is_left(tmp_path):
    configs = [config_of(tmp_path, "new/run", "experiment.num_agents=51"), config_of(tmp_path, "fine")]
    refused, fine = run_many(configs)
    assert "experiment.num_agents is 51" in refused.error
    assert fine.error is None
    assert [path.name for path in tmp_path.iterdir()] == ["fine"]


def test_an_interrupt_ends_all_of_them(tmp_path):
    def interrupt(result):
        wait_for(tmp_path / "hangs.marker")
        raise KeyboardInterrupt

    configs = [config_of(tmp_path, "quick"), config_of(tmp_path, "hangs", *once(tmp_path, "hangs"))]
    with pytest.raises(KeyboardInterrupt):
        run_many(configs, at_once=2, on_done=interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "hangs" / ".lock").read_text()), 0)


BAD = {
    "backend": ({"backend": "rays"}, ConfigError, "backend is 'rays': did you mean 'ray'?"),
    "no runs": ({"configs": []}, ConfigError, "the list of runs is empty"),
    "no CPUs": ({"cpus": 0}, ConfigError, "expected more than 0 CPUs"),
    "no number": ({"cpus": float("nan")}, ConfigError, "expected more than 0 CPUs"),
    "negative GPUs": ({"gpus": -1}, ConfigError, "0 GPUs or more"),
    "none at once": ({"at_once": 0}, ConfigError, "1 run at once or more"),
    "GPUs of processes": ({"gpus": 0.5}, ConfigError, "gpus is 0.5, but processes do not share out GPUs"),
    "game": ({"game": "treasurehnt"}, GameError, "did you mean 'treasurehunt'?"),
    "setting": ({"setting": "experiment.epoch=3"}, ConfigError, "run 1: unknown key experiment.epoch"),
    "value": ({"setting": "experiment.epochs=-3"}, ConfigError, "run 1: experiment.epochs"),
    "workers": ({"setting": "multiprocessing.enabled=true"}, ConfigError, "run 1: multiprocessing.enabled is true"),
    "same folder": ({"output": "more/../first"}, ConfigError, "runs 0 and 1 have the same output"),
    "used folder": ({"output": "used"}, RunFolderError, "already holds a run"),
}


@pytest.mark.parametrize(("given", "kind", "sentence"), BAD.values(), ids=BAD)
def test_what_cannot_be_run_is_refused_before_anything_starts(tmp_path, given, kind, sentence):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "metrics.jsonl").touch()
    second = RunConfig(
        given.pop("game", GAME), [given.pop("setting", "experiment.seed=1")], tmp_path / given.pop("output", "second")
    )
    configs = given.pop("configs", [config_of(tmp_path, "first"), second])
    with pytest.raises(kind) as raised:
        run_many(configs, **given)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


def test_files_that_arrive_are_there_whole_or_not_at_all(tmp_path):
    old = {"config.yaml": b"old", "checkpoints/final/a": b"old", "checkpoints/first/a": b"old"}
    new = {"config.yaml": b"new", "checkpoints/final/a": b"new", "log.txt": b"new"}
    (tmp_path / "notes").write_text("of the user")
    write_files(tmp_path, old)
    with pytest.raises(TypeError):
        write_files(tmp_path, {**new, "metrics.jsonl": None})
    assert files_of(tmp_path) == old
    write_files(tmp_path, new)
    assert files_of(tmp_path) == new
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "checkpoints",
        "config.yaml",
        "log.txt",
        "notes",
    ]


# ---- on a cluster


@pytest.fixture
def cluster():
    return {"address": nodes.nodes().address}


@pytest.mark.xdist_group("ray")
def test_on_nodes_results_are_the_same_and_a_retry_goes_on_from_what_was_sent(tmp_path, cluster):
    configs = [
        config_of(tmp_path, "killed", OFTEN, "experiment.seed=1", *once(tmp_path, "killed")),
        config_of(tmp_path, "refused", "world.fate=refuses"),
    ]  # (those that are done at the first attempt have the same way back; to start one on a node takes seconds)
    with pytest.raises(ConfigError, match="a worker is to have 64 CPUs and 0 GPUs"):
        run_many(configs, "ray", cpus=64, cluster=cluster)
    results = run_many(configs, "ray", cluster=cluster)
    assert [result.attempts for result in results] == [2, 1]
    assert [result.error for result in results] == [None, "there are no berries in winter."]
    assert "goes on with 4 epochs recorded" in log_of(results[0])
    assert [left_by(results[0].folder)] == one_after_the_other(configs[:1], tmp_path)
    assert len((results[1].folder / "metrics.jsonl").read_text().splitlines()) == 5
    assert not list(tmp_path.rglob(".part*"))


@pytest.mark.skipif(not IS_FULL, reason="with `make chaos`: workers that start on nodes take seconds")
@pytest.mark.xdist_group("ray")
def test_a_run_goes_on_elsewhere_when_its_node_is_lost(tmp_path, cluster):
    def lose_node():
        wait_for(tmp_path / "hangs.marker")
        wait_for(tmp_path / "run" / "checkpoints" / "epoch_000004")  # it has arrived here
        nodes.nodes().lose()

    while connect(ClusterConfig.parse(cluster)).room_for(3) == 0:  # the second node alone has 3 CPUs
        time.sleep(0.1)
    config = config_of(tmp_path, "run", OFTEN, *once(tmp_path, "hangs"))
    thread = threading.Thread(target=lose_node)
    thread.start()
    (result,) = run_many([config], "ray", cpus=3, cluster=cluster)
    thread.join()
    for kept in Path(tempfile.gettempdir()).glob("abreast_run_*/config.yaml"):  # what cleans up was on the node as well
        with contextlib.suppress(OSError):
            if str(tmp_path) in kept.read_text():
                shutil.rmtree(kept.parent)
    assert (result.error, result.attempts) == (None, 2)
    assert "goes on with 4 epochs recorded" in log_of(result)
    assert [left_by(result.folder)] == one_after_the_other([config], tmp_path)


# ---- runs that learn together


def joinable_configs(folder, *more):
    """DQN and PPO with two learning rates and two seeds each."""
    settings = ["experiment.num_agents=3", "experiment.max_turns=8", "experiment.epochs=6", "model.batch_size=8", *more]
    settings += [
        "model.hidden_size=16",
        "model.buffer_capacity=64",
        "world.batched=false",
        "multiprocessing.device=cpu",
    ]
    return [
        RunConfig(
            "treasurehunt",
            [*settings, f"model.algorithm={kind}", f"model.learning_rate={rate}", f"experiment.seed={seed}"],
            folder / f"{kind}_{rate}_{seed}",
        )
        for kind in ("dqn", "ppo")
        for rate in (0.001, 0.01)
        for seed in (0, 1)
    ]


def test_runs_that_differ_in_seed_or_learning_rate_alone_are_joined_on_a_gpu(tmp_path, monkeypatch):
    configs = joinable_configs(tmp_path)
    assert [len(group) for group in runs.joinable(configs)] == [1] * 8
    monkeypatch.setattr(runs, "device_for", lambda agent, parallel: "cuda:0")
    groups = runs.joinable(configs)
    assert [len(group) for group in groups] == [4, 4]
    assert [config for group in groups for config in group] == configs


def test_runs_that_are_joined_end_as_each_does_alone(tmp_path):
    began = []
    configs = joinable_configs(tmp_path)[2:6]  # two of DQN, two of PPO
    results = run_many(configs, joined=True, at_once=1, on_begin=began.append)
    assert [result.error for result in results] == [None] * 4 and began == configs
    assert [left_by(each.folder) for each in results] == one_after_the_other(configs, tmp_path)


@pytest.mark.parametrize(("fate", "attempts"), [("killed", [2, 2, 2]), ("raises", [1, 1, 1])])
def test_joined_runs_go_on_when_their_worker_dies_and_beside_one_that_raises(tmp_path, fate, attempts):
    three = "experiment.num_agents=3"  # enough for a stack
    settings = [OFTEN, three, *once(tmp_path, fate)]  # the first that gets so far meets it
    configs = [config_of(tmp_path, f"run_{seed}", *settings, f"experiment.seed={seed}") for seed in range(3)]
    results = run_many(configs, joined=True)
    assert [result.attempts for result in results] == attempts
    failed = [number for number, result in enumerate(results) if result.error is not None]
    assert failed == ([0] if fate == "raises" else [])
    fine = [number for number in range(3) if number not in failed]
    alone = one_after_the_other(configs, tmp_path)
    assert [left_by(results[number].folder) for number in fine] == [alone[number] for number in fine]


@pytest.mark.parametrize("model", ["dqn", "strangers.models:Noisy"])
def test_joined_runs_of_a_game_that_draws_from_shared_generators_end_as_each_does_alone(tmp_path, model):
    settings = ["experiment.epochs=6", "experiment.max_turns=8", "model.batch_size=8", "model.hidden_size=16"]
    settings += [f"model.algorithm={model}"]
    configs = [
        RunConfig("strangers.games:ManyDice", [*settings, f"experiment.seed={seed}"], tmp_path / f"run_{seed}")
        for seed in range(2)
    ]
    results = run_many(configs, joined=True)
    assert [result.error for result in results] == [None, None]
    assert [left_by(result.folder) for result in results] == one_after_the_other(configs, tmp_path)


def test_runs_that_do_not_fit_beside_the_others_come_later(tmp_path, monkeypatch):
    workers_used = []
    plain = runs._Runs._begin
    monkeypatch.setattr(runs._Runs, "_begin", lambda self, group: (workers_used.append([*group]), plain(self, group)))
    monkeypatch.setattr(runs, "RunWork", OnlyTwoFit)
    configs = [config_of(tmp_path, f"run_{seed}", f"experiment.seed={seed}") for seed in range(5)]
    results = run_many(configs, joined=True)
    assert workers_used == [[0, 1, 2, 3, 4], [2, 3, 4], [4]]
    assert [(result.error, result.attempts, result.epochs) for result in results] == [(None, 1, EPOCHS)] * 5


class OnlyTwoFit(runs.RunWork):
    """As on a GPU that is nearly full."""

    def obey(self, key, orders):
        runs.Attempt.count_fitting = lambda attempt, wanted: min(2, wanted)
        super().obey(key, orders)
