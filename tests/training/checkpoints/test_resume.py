"""Resume: a run that was stopped, however, ends byte for byte as one that was not."""

import fnmatch
import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from abreast.errors import AbreastError, CheckpointError, ConfigError, RunFolderError, StateError
from abreast.models.observation import PlainObservation
from abreast.processes.fork_server import FORK_SERVER
from abreast.state_file import loads
from abreast.training.checkpoints.folder import best_of, list_checkpoints, open_checkpoint, write_checkpoint
from abreast.training.run.record import RunRecord
from chaos.damage import MAP_BOMB
from chaos.hostile_runs import replace_facts, replace_part
from chaos.leftovers import descendants
from fakes import small_game, timeless
from promises.cover import each_nth, rows

SMALL = ("experiment.epochs=12", "experiment.max_turns=6", "model.hidden_size=8", "model.buffer_capacity=64")
SMALL += ("model.batch_size=8", "model.gradient_steps=1", "model.n_frames=1", "experiment.checkpoint_interval=3")


class Stop(BaseException):
    """What ends a run in the middle. No Exception: a logger that raises one is left out, and the run goes on."""


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
    # What depends on the clock is left out, and how the run was to be run.
    found = checkpoint.facts.model_dump(exclude={"seconds", "elapsed_s", "config", "schedule"})
    for each in found["unfinished"]:
        del each["collect_s"]
    for name in checkpoint.parts:
        facts, arrays = checkpoint.part(name)
        digests = {key: hashlib.sha256(array.tobytes()).hexdigest() for key, array in sorted(arrays.items())}
        found[name] = (facts, digests)
    return found


PARALLEL = ("multiprocessing.num_workers=2",)
WAYS = {
    "sequential": (False, ()),
    "sequential, lanes and actors": (False, ("multiprocessing.num_envs=4", "multiprocessing.num_actors=2")),
    "lockstep": (True, ("multiprocessing.schedule=lockstep",)),
    "pipelined": (True, ("multiprocessing.num_envs=2",)),
    "pipelined, 2 actors": (True, ("multiprocessing.num_envs=2", "multiprocessing.num_actors=2")),
    "pipelined, inline": (True, ("multiprocessing.workers=inline", "multiprocessing.num_envs=2")),
    "pipelined, batches that follow the backlog": (
        True,
        ("multiprocessing.num_envs=2", "experiment.train_interval=3", "model.adaptive_batch=[8, 64]"),
    ),
    "pipelined, threads": (
        True,
        ("multiprocessing.workers=threads", "multiprocessing.num_envs=2", "multiprocessing.num_actors=2"),
    ),
}
CASES = each_nth(rows({"way": WAYS, "algorithm": ["iqn", "dqn", "ppo"]}, together=1), 2)


@pytest.mark.parametrize(("way", "algorithm"), CASES)
def test_a_run_that_goes_on_ends_as_one_that_was_never_stopped(way, algorithm, tmp_path):
    """Its folder, too. (All ways and all that can be run: promises/.)"""
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


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped in epoch 7, with two checkpoints."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Stop):
        run(folder, stop_at=7)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What the same run leaves behind if it is not stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(folder)
    return left_behind(folder)


@pytest.fixture
def folder(stopped, tmp_path):
    """A copy of it."""
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again_and_says_so(whole, tmp_path, caplog):
    with pytest.raises(Stop):
        run(tmp_path / "run", "experiment.checkpoint_interval=1000", stop_at=4)
    for path in (tmp_path / "run" / "checkpoints").iterdir():  # SIGKILL writes no agents
        shutil.rmtree(path)
    run(None, resume=tmp_path / "run")
    assert left_behind(tmp_path / "run") == whole
    assert "run was stopped before its first checkpoint: it begins again, at epoch 0" in caplog.text


@pytest.mark.parametrize("way", ["sequential", "pipelined"])
def test_more_epochs_are_as_if_they_had_been_asked_for_at_once(way, tmp_path):
    parallel, settings = WAYS[way]
    settings = ("model.epsilon_decay=0.01", *settings)
    run(tmp_path / "whole", *settings, parallel=parallel)
    run(tmp_path / "run", *settings, "experiment.epochs=6", parallel=parallel)
    run(None, *settings, "experiment.epochs=12", parallel=parallel, resume=tmp_path / "run")
    assert list(explain(left_behind(tmp_path / "run"), left_behind(tmp_path / "whole"))) == []


def test_a_run_may_go_on_in_workers_where_that_changes_nothing(stopped, whole, tmp_path):
    shutil.copytree(stopped, tmp_path / "run")
    cluster = "multiprocessing.cluster={address: 'elsewhere:1', workers_here: 1, learner_cpus: 2}"
    run(None, "multiprocessing.schedule=lockstep", cluster, parallel=True, resume=tmp_path / "run")
    assert list(explain(left_behind(tmp_path / "run"), whole)) == []


def test_animations_go_on(tmp_path):
    settings = ("experiment.record_period=2", "multiprocessing.workers=inline")
    run(tmp_path / "whole", *settings, parallel=True, animate=True)
    with pytest.raises(Stop):
        run(tmp_path / "run", *settings, parallel=True, animate=True, stop_at=5)
    run(None, *settings, parallel=True, animate=True, resume=tmp_path / "run")
    films = [
        {path.name: path.read_bytes() for path in (tmp_path / name / "replays").iterdir()} for name in ("run", "whole")
    ]
    assert films[0] == films[1] and len(fnmatch.filter(films[0], "epoch_*.gif")) == 6
    assert {"last.gif", "best.gif", "films.json"} < films[0].keys()


@pytest.mark.parametrize(
    ("number", "way"), rows({"number": [signal.SIGINT, signal.SIGTERM], "way": ["sequential", "pipelined"]}, together=1)
)
def test_the_first_signal_ends_a_run_with_a_checkpoint_of_all_that_was_played(number, way, tmp_path):
    parallel, settings = WAYS[way]
    env = small_game(*SMALL, "experiment.checkpoint_interval=1000", *settings)

    class Asks:
        def record_epoch(self, epoch, *_, **__):
            if epoch == 4:
                os.kill(os.getpid(), number)

    def terminated(number, frame):
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, terminated)
    try:
        with pytest.raises((KeyboardInterrupt, SystemExit)) as stopped:
            (env.run_experiment_mp if parallel else env.run_experiment)(
                animate=False, logger=Asks(), output_dir=tmp_path / "run"
            )
        assert signal.getsignal(signal.SIGTERM) is terminated
        assert FORK_SERVER.pid is None or descendants(FORK_SERVER.pid) == []
    finally:
        signal.signal(signal.SIGTERM, before)
    (kept,) = (tmp_path / "run" / "checkpoints").iterdir()
    assert open_checkpoint(kept).epochs == env.epochs_played
    (told,) = (
        stopped.value.__notes__
    )  # of what was played, of which the last pass is not in metrics.jsonl, if pipelined
    assert told.startswith(
        f"Stopped after {env.epochs_played} epochs; what was learned until then is in {tmp_path / 'run'}."
    )
    assert told.endswith(f"To go on: abreast train --resume {tmp_path / 'run'}")
    assert f"stopped after {env.epochs_played} epochs by " in (tmp_path / "run" / "log.txt").read_text()
    run(None, *settings, parallel=parallel, resume=tmp_path / "run")
    run(tmp_path / "whole", *settings, parallel=parallel)
    assert list(explain(left_behind(tmp_path / "run"), left_behind(tmp_path / "whole"))) == []


def test_a_second_signal_ends_a_run_at_once(tmp_path):
    env = small_game(*SMALL)

    class AsksTwice:
        def record_epoch(self, epoch, *_, **__):
            if epoch == 4:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
                raise AssertionError("it went on")

    with pytest.raises(KeyboardInterrupt):
        env.run_experiment(animate=False, logger=AsksTwice(), output_dir=tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints" / "epoch_000003").is_dir()


# ---- what is refused


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model.hidden_size=16"], "model.hidden_size is 16, but the run was begun with 8"),
        (["experiment.seed=1"], "experiment.seed is 1, but the run was begun with 0"),
        (["multiprocessing.num_envs=2"], "multiprocessing.num_envs is 2"),
        (["experiment.epochs=4"], "experiment.epochs is 4, but 6 are played already"),
        (["model.per_agent.1.algorithm=ppo"], "model.per_agent"),
    ],
)
def test_settings_that_would_change_the_past_are_refused(overrides, said, folder):
    before = contents(folder)
    with pytest.raises(CheckpointError, match=said):
        run(None, *overrides, resume=folder)
    assert contents(folder) == before


def test_another_schedule_game_or_version_is_refused(folder, monkeypatch):
    before = contents(folder)
    with pytest.raises(CheckpointError, match="needs the schedule 'lockstep', but here it is 'pipelined'"):
        run(None, parallel=True, resume=folder)
    with pytest.raises(CheckpointError, match="needs the game 'TreasurehuntEnv', but here it is 'TagEnv'"):
        run(None, game="tag", resume=folder)
    monkeypatch.setattr("abreast.training.checkpoints.resume.__version__", "9.9")
    with pytest.raises(CheckpointError, match=r"needs the version of abreast '0\.1\.0', but here it is '9\.9'"):
        run(None, resume=folder)
    assert contents(folder) == before


def test_what_is_no_run_is_refused_and_left_alone(tmp_path):
    for path, said in ((tmp_path / "none", "No such file"), (tmp_path, "has no config.yaml")):
        with pytest.raises(RunFolderError, match=f"is not a run folder.*{said}"):
            run(None, resume=path)
    with pytest.raises(ConfigError, match="leave out output_dir"):
        small_game(*SMALL).run_experiment(output_dir=tmp_path / "a", resume=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_has_played_already_is_refused(folder):
    env = small_game(*SMALL)
    env.run_experiment(animate=False, logging=False)
    with pytest.raises(CheckpointError, match="needs the number of epochs played 0, but here it is 12"):
        env.run_experiment(animate=False, resume=folder)


def test_an_agent_that_sees_something_else_now_is_named(folder):
    env = small_game(*SMALL)
    model = env.agents[1].model
    seen = PlainObservation((7, 7, 2), np.uint8, 1.0)
    env.agents[1].model = type(model)(seen, model.n_actions, model.config, np.random.SeedSequence(0))
    said = r"agent 1 now sees uint8 of shape \(7, 7, 2\), but in that run .*: undo what was changed in the"
    with pytest.raises(CheckpointError, match=said):
        env.run_experiment(animate=False, resume=folder)


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_checkpoint_is_named_with_the_one_before_which_goes_on(folder, whole):
    newest, older = folder / "checkpoints" / "epoch_000006", folder / "checkpoints" / "epoch_000003"
    damage(newest / "replay_1.safetensors")
    before = contents(folder)
    with pytest.raises(CheckpointError, match="replay_1") as refused:
        run(None, resume=folder)
    assert f"to go on from there: abreast train --resume {older}" in str(refused.value)
    assert contents(folder) == before
    shutil.copytree(newest, newest.with_name("epoch_000006.damaged"))  # it was damaged once before
    run(None, resume=older)
    assert left_behind(folder) == whole
    aside = [newest.with_name(f"epoch_000006.{name}") for name in ("damaged", "damaged1")]
    assert list(contents(aside[0]).values()) == list(contents(aside[1]).values()) != []


def test_an_older_checkpoint_is_refused_while_a_newer_one_is_whole(folder):
    with pytest.raises(CheckpointError, match="goes on to epoch 6, in epoch_000006, which would be lost"):
        run(None, resume=folder / "checkpoints" / "epoch_000003")


def test_lines_that_the_checkpoint_counts_and_are_not_there_are_named(folder):
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[:4]) + b'{"epoch": 4, "rew')
    with pytest.raises(RunFolderError, match=r"line 5 of .*metrics\.jsonl is cut off"):
        run(None, resume=folder)


def test_all_checkpoints_damaged_is_one_sentence(folder):
    for path in folder.glob("checkpoints/epoch_*/manifest.json"):
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="There is no other checkpoint"):
        run(None, resume=folder)


def test_the_newest_and_the_best_are_kept(tmp_path, monkeypatch):
    """The rewards are made up: after 4 epochs their mean is highest."""
    env = small_game(*SMALL, "experiment.checkpoint_interval=1", "model.algorithm=random", "experiment.epochs=8")
    rewards = iter([0, 1, 5, 9, -50, -50, -50, -50])

    original = RunRecord.epoch

    def made_up(self, epoch, played, *rest):
        original(self, epoch, played._replace(reward_per_agent=[float(next(rewards)), 0.0]), *rest)

    monkeypatch.setattr(RunRecord, "epoch", made_up)
    env.run_experiment(animate=False, logger=Silent(), output_dir=tmp_path / "run")
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["epoch_000004", "epoch_000007", "epoch_000008", "final"]
    by_name = {each.path.name: each for each in list_checkpoints(tmp_path / "run")}
    assert best_of([*by_name.values()]).path.name == "epoch_000004"
    sided = [each._replace(facts=each.facts.model_copy(update={"has_sides": True})) for each in by_name.values()]
    assert best_of(sided) is sided[-1]


def test_a_checkpoint_that_fails_is_tried_again_at_the_next_interval_and_not_before(tmp_path, monkeypatch):
    tried = []

    def write(folder, *rest):
        tried.append(folder.name)
        if len(tried) == 1:
            raise CheckpointError("there is no room.")
        return write_checkpoint(folder, *rest)

    monkeypatch.setattr("abreast.training.checkpoints.keeper.write_checkpoint", write)
    run(tmp_path / "run")
    assert tried == ["epoch_000003", "epoch_000006", "epoch_000009", "epoch_000012", "final"]
    assert not (tmp_path / "run" / "checkpoints" / "epoch_000003").exists()


@pytest.mark.parametrize("way", ["sequential", "pipelined"])
def test_a_run_that_ends_on_a_full_disk_names_the_last_checkpoint_that_is_whole(way, tmp_path, monkeypatch):
    def write(folder, *rest):
        if folder.name != "epoch_000004":
            raise CheckpointError("there is no room.")
        return write_checkpoint(folder, *rest)

    monkeypatch.setattr("abreast.training.checkpoints.keeper.write_checkpoint", write)
    parallel, settings = WAYS[way]
    settings = ("experiment.checkpoint_interval=4", *settings)
    with pytest.raises(Stop) as stopped:
        run(tmp_path / "run", *settings, parallel=parallel, stop_at=9)
    (told,) = stopped.value.__notes__
    assert f"; what was learned until epoch 4 is in {tmp_path / 'run'}. To go on: " in told
    with pytest.raises(Stop) as stopped:  # nor does it keep more when it goes on
        run(None, *settings, parallel=parallel, resume=tmp_path / "run", stop_at=9)
    assert f"; what was learned until epoch 4 is in {tmp_path / 'run'}." in stopped.value.__notes__[0]


# ---- checkpoints whose checksums are right, and what is inside is not


def other_part(folder, name, change):
    """Change a part of the newest checkpoint; `change` is given its facts and arrays."""
    path = max((folder / "checkpoints").glob("epoch_*")) / f"{name}.safetensors"
    state = loads(path.read_bytes())
    change(state.facts, state.arrays)
    replace_part(path, state)


HOSTILE = {
    "no world": ("actor_0", lambda facts, _: [facts.pop(name) for name in list(facts) if "world" in name]),
    "kinds that are none": ("actor_0", lambda facts, _: facts.update({"game.lane0.world.kinds": 7})),
    "pools that are none": ("actor_0", lambda facts, _: facts.update({"game.lane0.world.pools": [[1]]})),
    "a stream that is none": ("actor_0", lambda facts, _: facts.update({"player0.choosing": []})),
    "an epsilon that is a text": ("actor_0", lambda facts, _: facts.update({"player1.epsilon": "0.5"})),
    "an epsilon beyond all numbers": ("actor_0", lambda facts, _: facts.update({"player1.epsilon": 10**400})),
    "streams that are none": ("actor_0", lambda facts, _: facts.update({"player0.streams": ["a", 1]})),
    "no streams": ("actor_0", lambda facts, _: facts.pop("player0.streams")),
    "a format that is a list": ("agent_0", lambda facts, _: facts.update(format=[2])),
    "updates beyond all numbers": ("agent_0", lambda facts, _: facts["learning"].update(updates=10**400)),
    "an action that is none": ("replay_0", lambda _, arrays: arrays["actions"].fill(99)),
    "rows of a negative age": ("replay_0", lambda _, arrays: arrays["age"].fill(-1)),
    "rows beyond all counting": ("replay_0", lambda _, arrays: arrays["written"].fill(2**63 - 1)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_checkpoint_that_somebody_made_to_do_harm_is_refused(what, folder):
    other_part(folder, *HOSTILE[what])
    before = (folder / "metrics.jsonl").read_bytes().splitlines()[:6]
    with pytest.raises(AbreastError) as refused:
        run(None, resume=folder)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 500
    assert (folder / "metrics.jsonl").read_bytes().splitlines()[:6] == before


def test_rows_under_way_that_were_never_written_are_refused(tmp_path):
    settings = ("multiprocessing.workers=inline", "experiment.epochs=6", "model.epsilon_decay=0.1")
    run(tmp_path / "run", *settings, parallel=True)
    newest = max((tmp_path / "run" / "checkpoints").glob("epoch_*"))
    (under_way,) = open_checkpoint(newest).facts.model_dump()["unfinished"]
    for written in ([[10**6], [10**6]], [[1]], [[1], []]):
        replace_facts(newest, unfinished=[{**under_way, "written": written}])
        with pytest.raises(StateError, match=r"has written \[.*\] rows, but there are"):
            run(None, *settings, "experiment.epochs=7", parallel=True, resume=tmp_path / "run")


def test_facts_of_another_type_are_refused(folder):
    replace_facts(max((folder / "checkpoints").glob("epoch_*")), devices=7)
    with pytest.raises(CheckpointError, match=r"its facts\.devices is 7, but should be a valid list"):
        run(None, resume=folder)


@pytest.mark.parametrize("text", [MAP_BOMB, "2020-13-45", "a: " + "9" * 5000, "[" * 400, "7", ""])
def test_settings_in_a_checkpoint_that_are_none_are_refused_at_once(text, folder):
    replace_facts(max((folder / "checkpoints").glob("epoch_*")), config=text)
    with pytest.raises(CheckpointError, match=r"the configuration in .* is damaged: "):
        run(None, resume=folder)


def test_a_run_whose_metrics_are_gone_is_refused_in_a_sentence(folder):
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl is missing, but the checkpoint counts 6 lines"):
        run(None, resume=folder)
