"""Opponents from a pool: drawn alike wherever anything is computed, and drawn on as if the run had never stopped."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import matrix_game
from abreast.cli import run as abreast
from abreast.errors import CheckpointError, ConfigError
from abreast.training.checkpoints.folder import list_checkpoints
from abreast.training.moved import kept_agents
from abreast.training.opponents import Member, chances, draw
from fakes import learned, outcome, small_game, timeless
from strangers.models import Rhythmic

LANES = {"num_envs": 4, "num_actors": 2}


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A run with several checkpoints."""
    folder = tmp_path_factory.mktemp("runs") / "pool"
    kept = {"checkpoint_interval": 8, "keep_checkpoints": 9, "seed": 3}
    matrix_game.build(kept).run_experiment(animate=False, output_dir=folder)
    return str(folder)


def game(pool, sample="prioritised", experiment=None, **parallel):
    """The prisoners' dilemma against a pool."""
    opponents = {"pool": pool, "sample": sample, "every": 8}
    return matrix_game.build({"opponents": opponents, **(experiment or {})}, **{**LANES, **parallel})


class Stop(BaseException):
    """No Exception: a logger that raises one is left out, and the run goes on."""


class StopsAt:
    """A logger that ends the run when an epoch is recorded."""

    def __init__(self, epoch):
        self._epoch = epoch

    def record_epoch(self, epoch, *_, **__):
        if epoch == self._epoch:
            raise Stop


# ---- the same everywhere


@pytest.mark.parametrize(("source", "workers"), [("self", "processes"), ("run", "threads")])
def test_lockstep_meets_and_learns_what_the_sequential_run_does(source, workers, pool):
    where = pool if source == "run" else "self"
    alone = game(where)
    expected = outcome(alone, alone.run_experiment)
    met = [each["opponents"]["1"]["member"] for each in expected[0]]
    assert len(set(met)) > 2 and all(met[first : first + 4] == met[first : first + 1] * 4 for first in range(0, 24, 4))
    env = game(where, schedule="lockstep", workers=workers)
    assert outcome(env, env.run_experiment_mp) == expected


def test_pipelined_is_the_same_for_any_number_of_workers():
    found = []
    for settings in ({"workers": "inline"}, {"workers": "threads", "num_workers": 1}):
        env = game("self", **settings)
        found.append(outcome(env, env.run_experiment_mp))
    assert found[0] == found[1]


class LearnsAtRandom(Rhythmic):
    """Choosing changes an attribute, and its learning draws from a generator of its own."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.dice = np.random.default_rng(learning)

    def train_step(self):
        self.dice.random()
        return super().train_step()


def test_a_users_model_is_its_earlier_self():
    """With attributes of its own, which go into the pool and come back."""
    settings = [f"model.algorithm={__name__}:LearnsAtRandom", "experiment.epochs=6", "experiment.opponents.pool=self"]
    settings.append("experiment.opponents.every=2")
    alone = small_game(*settings)
    expected = outcome(alone, alone.run_experiment)
    env = small_game(*settings, "multiprocessing.schedule=lockstep", "multiprocessing.workers=threads")
    assert outcome(env, env.run_experiment_mp) == expected
    assert len({each["opponents"]["1"]["member"] for each in expected[0]}) > 1


@pytest.mark.parametrize(
    ("source", "schedule"), [("self", "lockstep"), (["run", "self:0"], "pipelined")], ids=["self", "both"]
)
def test_a_run_that_goes_on_draws_as_if_it_had_never_stopped(source, schedule, pool, tmp_path):
    where = [pool if each == "run" else each for each in ([source] if isinstance(source, str) else source)]
    often = {"checkpoint_interval": 12, "keep_checkpoints": 1, "epochs": 56}
    is_parallel = schedule == "pipelined"

    def go(**options):
        env = game(where, experiment=often, schedule=schedule, workers="inline")
        return env, (env.run_experiment_mp if is_parallel else env.run_experiment)(animate=False, **options)

    whole, expected = go(output_dir=tmp_path / "whole")
    with pytest.raises(Stop):  # with a checkpoint of epoch 36, 4 epochs before the next earlier self
        go(output_dir=tmp_path / "stopped", logger=StopsAt(34 if is_parallel else 38))
    again, result = go(resume=tmp_path / "stopped")
    assert timeless(result.epochs) == timeless(expected.epochs)
    assert learned(again) == learned(whole)
    one, two = (
        {each.relative_to(run): each.read_bytes() for each in (run / "pool").rglob("*.*")} for run in tmp_path.iterdir()
    )
    assert one == two
    # Every earlier self is there, though of the checkpoints one was kept.
    assert {each.parts[1] for each in one} >= {f"epoch_{epoch:06d}" for epoch in range(0, 56, 8)}
    assert len(list((tmp_path / "whole" / "checkpoints").glob("epoch_*"))) <= 2


# ---- what is drawn


def test_members_that_are_not_beaten_are_drawn_more_often():
    members = [
        Member("a", 0, games=8, won=7),
        Member("b", 0),
        Member("c", 0, games=2, won=0),
        Member("c", 1, "", 2, 1.0),
    ]
    hand = np.array([0.2**2, 0.5**2, 0.75**2, 0.5**2])  # 1 - (won + 1) / (games + 2), squared
    assert chances(members, "prioritised") == pytest.approx(hand / hand.sum())
    assert chances(members, "uniform") == pytest.approx([0.25] * 4)
    assert chances(members, "latest") == pytest.approx([0, 0, 0.5, 0.5])
    draws = 4000
    found = Counter(
        str(draw(members, "prioritised", np.random.SeedSequence(1, spawn_key=(6, 1, epoch)))) for epoch in range(draws)
    )
    shares = np.array([found[str(each)] / draws for each in members])
    assert shares == pytest.approx(hand / hand.sum(), abs=3 * np.sqrt(0.25 / draws))


def test_metrics_say_who_was_met_and_what_came_of_it(pool):
    env = game([f"{pool}:0", "self"], "latest", {"epochs": 12})
    epochs = env.run_experiment(animate=False, logging=False).epochs
    for each in epochs:
        ours, theirs = each["reward_per_agent"]
        met = each["opponents"]["1"]
        assert met["reward"] == ours and met["won"] == (0.5 if ours == theirs else float(ours > theirs))
        assert met["member"] == f"epoch_{[0, 0, 8][each['epoch'] // 4]:06d}:0"  # a pass is four epochs
        assert each["loss_per_agent"][1] is None
    assert epochs[-1]["updates"] == env.game.players[0].model.updates  # those of members are not counted


def test_what_was_won_against_each_is_counted(tmp_path):
    env = game("self", experiment={"checkpoint_interval": 24})
    epochs = env.run_experiment(animate=False, output_dir=tmp_path / "x").epochs
    (checkpoint,) = (each for each in list_checkpoints(tmp_path / "x") if each.kind == "run")
    for member in checkpoint.part("opponents").facts["members"]["1"]:
        name = f"{member['name']}:{member['agent']}"
        won = [each["opponents"]["1"]["won"] for each in epochs if each["opponents"]["1"]["member"] == name]
        assert (member["games"], member["won"]) == (len(won), sum(won)), name
    assert 0 < sum(each["opponents"]["1"]["won"] for each in epochs) < len(epochs)


def test_a_pool_has_all_checkpoints_of_a_run_and_its_earlier_selves(pool, tmp_path):
    assert sorted(kept_agents(Path(pool))) == [8, 16, 24]
    game("self", experiment={"epochs": 12}, num_actors=1).run_experiment(animate=False, output_dir=tmp_path / "x")
    assert {epochs: sorted(agents) for epochs, agents in kept_agents(tmp_path / "x").items()} == {
        0: [0],
        8: [0],
        12: [0, 1],
    }
    env = game(["x:0", pool], "uniform")
    env.run_experiment(animate=False, output_dir="y")
    assert sorted(path.name for path in Path("y/pool").iterdir()) == [
        *("run0_epoch_000000", "run0_epoch_000008", "run0_epoch_000012"),
        *("run1_epoch_000008", "run1_epoch_000016", "run1_epoch_000024"),
    ]


# ---- what is refused


def test_a_pool_without_agents_that_fit_is_refused_before_anything_is_written(pool, tmp_path, capsys):
    env = small_game(f"experiment.opponents.pool={pool}")
    with pytest.raises(
        ConfigError, match="has no member that fits agent 1: it is a run of PrisonersDilemma, and this is"
    ):
        env.run_experiment(output_dir=tmp_path / "no")
    other = matrix_game.build({"opponents": {"pool": pool}}, {"algorithm": "ppo", "buffer_capacity": 4096})
    with pytest.raises(ConfigError, match=r"fits agent 1: .* of algorithm 'dqn', but .* model 'ppo'"):
        other.run_experiment(output_dir=tmp_path / "no")
    with pytest.raises(ConfigError, match="self:1 has no member that fits agent 1: agent 1 does not learn here"):
        game("self:1").run_experiment(output_dir=tmp_path / "no")
    with pytest.raises(ConfigError, match="its weights come from the pool: leave one of the two out"):
        game("self", experiment={"load_agents": {1: pool}}).run_experiment(output_dir=tmp_path / "no")
    with pytest.raises(ConfigError, match=r"experiment\.opponents is given, but no agent learns"):
        game("self", experiment={"freeze": [0]})
    with pytest.raises(ConfigError, match=r"experiment\.opponents\.seats names agent 5, but the last agent is 1"):
        small_game("experiment.opponents={pool: self, seats: [5]}")
    with pytest.raises(ConfigError, match=r"experiment\.opponents\.seats is \[\]"):
        small_game("experiment.opponents={pool: self, seats: []}")
    assert (
        abreast(["train", "treasurehunt", "--agents", "2", "--output", "no", "experiment.opponents.pool=nowhere"]) == 2
    )
    assert "nowhere is not a run folder: it has no config.yaml" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_a_member_that_was_damaged_is_named(tmp_path):
    with pytest.raises(Stop):
        game("self", experiment={"checkpoint_interval": 4}).run_experiment(
            animate=False, output_dir="x", logger=StopsAt(10)
        )
    for file in Path("x/pool").rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(
        CheckpointError, match="a member of the run's pool, cannot be used: it does not match its checksum"
    ):
        game("self", experiment={"checkpoint_interval": 4}).run_experiment(animate=False, resume="x")


def test_opponents_are_in_the_settings_that_a_run_writes_down():
    env = small_game("experiment.opponents={pool: [self], seats: [0]}", "experiment.epochs=1")
    env.run_experiment(animate=False, output_dir="x")
    record = json.loads(Path("x/metrics.jsonl").read_text())
    assert record["opponents"]["0"]["member"] == "epoch_000000:1"
    assert abreast(["train", "--resume", "x", "experiment.opponents.sample=latest", "experiment.epochs=2"]) == 2
