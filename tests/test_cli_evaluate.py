"""`abreast eval`: what it prints and writes, which checkpoints it takes, and one sentence for every mistake."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import abreast
import own_game
from abreast.cli import run
from abreast.state import State
from abreast.state_file import loads
from abreast.training import evaluate as evaluation
from abreast.training.checkpoints.folder import write_checkpoint
from abreast.training.social import OUTCOMES
from fakes import checkpoint_facts, small_game

LAST = 12
"""Epochs of the run."""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A run of two agents with an older checkpoint, a better one and the final one, whose agents differ."""
    folder = tmp_path_factory.mktemp("source") / "run"
    env = small_game("experiment.epochs=4", "model.per_agent={1: {algorithm: ppo}}", "multiprocessing.num_envs=2")
    env.run_experiment(animate=False, output_dir=folder)
    shutil.rmtree(folder / "checkpoints")
    for epochs, reward in ((4, 9.0), (8, 2.5), (LAST, None)):
        name = "final" if reward is None else f"epoch_{epochs:06d}"
        facts = checkpoint_facts(epochs, reward=reward)
        parts = agents_of(env, folder.parent / "model")
        write_checkpoint(folder / "checkpoints" / name, "run" if reward else "agents", facts, parts)
        env.run_experiment(animate=False, logging=False)
    return folder


def agents_of(env, file):
    parts = {}
    for number, agent in enumerate(env.agents):
        agent.model.save(file)
        parts[f"agent_{number}"] = loads(file.read_bytes())
    return parts


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def folder(source, tmp_path):
    shutil.copytree(source, tmp_path / "run")
    return tmp_path / "run"


def written(folder):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads((folder / "evaluation.json").read_text(), parse_constant=refuse)


def names(folder):
    return [each["checkpoint"] for each in written(folder)["checkpoints"]]


# ---- what it does


def test_the_newest_agents_are_evaluated_and_written(folder, capsys):
    assert run(["eval", "run", "--episodes", "3"]) == 0
    found = written(folder)
    assert found["abreast"] == abreast.__version__
    about = {key: found[key] for key in ("run", "game", "seed", "episodes", "mode", "lanes")}
    mode = "greedy (agent 0), explore (agent 1)"  # IQN and PPO
    assert about == {"run": "run", "game": "treasurehunt", "seed": 0, "episodes": 3, "mode": mode, "lanes": 2}
    (final,) = found["checkpoints"]
    assert (final["checkpoint"], final["epochs"], final["turns"]) == ("final", LAST, [10, 10, 10])
    assert [len(each["rewards"]) for each in final["agents"]] == [3, 3]
    sums = [sum(each) for each in zip(*(agent["rewards"] for agent in final["agents"]), strict=True)]
    assert final["sum"]["rewards"] == sums
    assert final["sum"]["mean"] == pytest.approx(np.mean(sums))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"run: 3 episodes, {mode}, seed 0"
    assert printed[1].split() == [
        "checkpoint", "agent", "or", "metric", "mean", "interquartile", "mean", "95", "%", "interval"
    ]  # fmt: skip
    assert [line.split()[0] for line in printed[2:5]] == ["final", "1", "sum"]
    assert printed[4].split()[1:3] == [f"{final['sum']['mean']:.2f}", f"{final['sum']['interquartile_mean']:.2f}"]
    shown = [line.split()[0] for line in printed[5:-2]]
    assert "peace" in shown and set(shown) <= set(OUTCOMES)  # those that are defined
    assert printed[-2] == f"What {', '.join(shown)} mean: docs/reference/social-outcomes.md"
    assert printed[-1] == "Every episode is in run/evaluation.json"


def test_it_is_what_the_library_says(folder):
    assert run(["eval", "run", "--episodes", "2", "--explore", "--seed", "5"]) == 0
    env = small_game("experiment.epochs=4", "model.per_agent={1: {algorithm: ppo}}", "multiprocessing.num_envs=2",
                     "experiment.seed=99")  # fmt: skip
    for number, agent in enumerate(env.agents):
        agent.model.load(folder / "checkpoints" / "final" / f"agent_{number}.safetensors")
    expected = evaluation.evaluate(env, 2, seed=5, greedy=False).as_json()
    assert written(folder)["checkpoints"][0] == {"checkpoint": "final", "epochs": LAST, **expected}
    assert (written(folder)["mode"], written(folder)["seed"]) == ("explore", 5)
    assert run(["eval", "run", "--episodes", "2", "--seed", "5"]) == 0  # each agent as its algorithm declares
    with env.agents[0].model.act_greedily():
        expected = evaluation.play_episodes(env, 2, seed=5, greedy=False).as_json()
    assert written(folder)["checkpoints"][0] == {"checkpoint": "final", "epochs": LAST, **expected}


def test_the_same_again_is_the_same_file_wherever_it_is_written(folder, capsys):
    run(["eval", "run", "--episodes", "2"])
    first = (folder / "evaluation.json").read_bytes()
    (folder / "evaluation.json").unlink()
    run(["eval", "run/checkpoints/final", "--episodes", "2", "--device", "cpu", "--output", "new/folder"])
    assert Path("new/folder/evaluation.json").read_bytes() == first and not (folder / "evaluation.json").exists()
    assert capsys.readouterr().out.endswith("Every episode is in new/folder/evaluation.json\n")


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("all", ["epoch_000004", "epoch_000008", "final"]),
        ("last", ["final"]),
        ("8", ["epoch_000008"]),
        ("8, epoch_000004,8", ["epoch_000008", "epoch_000004"]),
        (str(LAST), ["final"]),
    ],
)
def test_checkpoints_are_chosen(folder, which, expected):
    assert run(["eval", "run", "--episodes", "1", "--checkpoints", which]) == 0
    assert names(folder) == expected


def test_each_checkpoint_has_agents_of_its_own(folder):
    assert run(["eval", "run", "--episodes", "2", "--checkpoints", "all"]) == 0
    together = {each["checkpoint"]: each for each in written(folder)["checkpoints"]}
    best = max(together.values(), key=lambda each: each["sum"]["mean"])
    assert run(["eval", "run", "--episodes", "2", "--checkpoints", "best"]) == 0
    assert written(folder)["checkpoints"] == [best]
    assert len({json.dumps(each["agents"]) for each in together.values()}) == 3
    for name, each in together.items():
        assert run(["eval", f"run/checkpoints/{name}", "--episodes", "2"]) == 0
        assert written(folder)["checkpoints"] == [each]


def test_a_checkpoint_is_found_from_within_its_folder(folder, monkeypatch):
    monkeypatch.chdir(folder / "checkpoints")
    assert run(["eval", "epoch_000008", "--episodes", "1"]) == 0
    assert names(folder) == ["epoch_000008"]
    monkeypatch.chdir("epoch_000004")
    assert run(["eval", ".", "--episodes", "1"]) == 0
    assert names(folder) == ["epoch_000004"]


def test_the_last_checkpoint_and_the_final_one_are_not_both_evaluated_by_all(folder):
    last = folder / "checkpoints" / f"epoch_{LAST:06d}"
    shutil.copytree(folder / "checkpoints" / "final", last)
    assert run(["eval", "run", "--episodes", "1", "--checkpoints", "all"]) == 0
    assert names(folder) == ["epoch_000004", "epoch_000008", "final"]
    assert run(["eval", "run", "--episodes", "1", "--checkpoints", f"{last.name},final"]) == 0  # if both are named
    assert names(folder) == [last.name, "final"]
    file = folder / "checkpoints" / "final" / "agent_1.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    assert run(["eval", "run", "--episodes", "1", "--checkpoints", "all"]) == 0
    assert names(folder) == ["epoch_000004", "epoch_000008", last.name]


def test_a_damaged_checkpoint_is_left_out_of_all(folder, capsys):
    (folder / "checkpoints" / "epoch_000004" / "agent_1.safetensors").write_bytes(b"")
    assert run(["eval", "run", "--episodes", "1", "--checkpoints", "all"]) == 0
    assert names(folder) == ["epoch_000008", "final"]
    assert "left out:" in capsys.readouterr().err


def test_an_agent_that_cannot_be_read_leaves_its_checkpoint_out_of_all(folder, capsys):
    for name in ("final", "epoch_000004"):
        file = folder / "checkpoints" / name / "agent_1.safetensors"
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert run(["eval", str(folder), "--checkpoints", "all", "--episodes", "1"]) == 0
    assert names(folder) == ["epoch_000008"]
    assert capsys.readouterr().err.count("abreast: left out: ") == 2
    assert run(["eval", str(folder), "--checkpoints", "final,8"]) == 2
    assert "final/agent_1.safetensors" in capsys.readouterr().err


def test_a_checkpoint_that_is_removed_meanwhile_is_evaluated(folder, monkeypatch):
    def play_and_train(*arguments, **options):
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)  # as a run does that goes on
        return plain(*arguments, **options)

    plain = evaluation.evaluate
    monkeypatch.setattr(evaluation, "evaluate", play_and_train)
    assert run(["eval", str(folder), "--checkpoints", "all", "--episodes", "1"]) == 0
    assert len(names(folder)) == 3


def test_agents_of_several_actors_and_of_a_gpu_are_evaluated_here(folder):
    config = (folder / "config.yaml").read_text()
    changed = config.replace("num_actors: null", "num_actors: 2").replace("device: auto", "device: cuda:7")
    assert changed.count("num_actors: 2") == changed.count("cuda:7") == 1
    run(["eval", "run", "--episodes", "2"])
    before = written(folder)
    (folder / "config.yaml").write_text(changed)
    assert run(["eval", "run", "--episodes", "2"]) == 0
    assert written(folder) == before


def test_a_game_in_a_file(tmp_path, capsys, monkeypatch):
    game = tmp_path / "garden.py"
    shutil.copy(own_game.__file__, game)
    assert run(["train", "garden.py", "--output", "run"]) == 0
    assert run(["eval", "run", "--episodes", "2"]) == 0
    assert written(tmp_path / "run")["checkpoints"][0]["metrics"]["turns"]["values"] == [6.0, 6.0]
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["turns"]]
    assert line[1:3] == ["6.00", "6.00"]  # the game's own, in the table
    (tmp_path / "run" / "evaluation.json").unlink()
    (tmp_path / "moved").mkdir()
    game.rename(tmp_path / "moved" / "garden.py")
    monkeypatch.delitem(sys.modules, "garden")
    capsys.readouterr()
    assert run(["eval", "run"]) == 2
    assert "--game GAME" in capsys.readouterr().err
    assert not (tmp_path / "run" / "evaluation.json").exists()
    assert run(["eval", "run", "--episodes", "2", "--game", "moved/garden.py"]) == 0


# ---- mistakes

MISTAKES = [
    ("no such folder", ["eval", "nowhere"], "nowhere is not a run folder: there is no such folder."),
    ("no run", ["eval", "."], ". is not a run folder: it has no config.yaml."),
    ("a file", ["eval", "run/config.yaml"], "run/config.yaml is not a run folder"),
    ("an impossible name", ["eval", "x" * 300], "is not a run folder: there is no such folder"),
    ("no episodes", ["eval", "run", "--episodes", "0"], "Invalid value for '--episodes'"),
    ("negative seed", ["eval", "run", "--seed", "-1"], "Invalid value for '--seed'"),
    ("no such checkpoint", ["eval", "run", "--checkpoints", "5"],
     "run has no checkpoint '5': expected all, best, last, or some of epoch_000004, epoch_000008, final, by name"),
    ("half a list", ["eval", "run", "--checkpoints", "4,"], "run has no checkpoint ''"),
    ("nothing at all", ["eval", "run", "--checkpoints", ""], "run has no checkpoint ''"),
    ("one of one", ["eval", "run/checkpoints/final", "--checkpoints", "all"], "is one checkpoint, and --checkpoints all"),
    ("no such checkpoint folder", ["eval", "run/checkpoints/epoch_000099"], "there is no such folder"),
    ("a device there is not", ["eval", "run", "--device", "tpu"], "multiprocessing.device is 'tpu'"),
    ("output below a file", ["eval", "run", "--output", "run/config.yaml/x"],
     "cannot write run/config.yaml/x/evaluation.json: Not a directory."),
    ("unknown game", ["eval", "run", "--game", "chess"], "there is no game 'chess'"),
    ("a game it is not", ["eval", "run", "--game", "staghunt"], "faults in this configuration"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"), [mistake[1:] for mistake in MISTAKES], ids=[each[0] for each in MISTAKES]
)
def test_mistakes(arguments, said, folder, capsys):
    refused(arguments, said, folder, capsys)


def refused(arguments, said, folder, capsys):
    before = sorted(folder.rglob("*"))
    assert run(arguments) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len([line for line in told.splitlines() if not line.startswith("  - ")]) == 1
    assert "Traceback" not in told
    assert sorted(folder.rglob("*")) == before


def test_a_run_without_a_checkpoint_yet(folder, capsys):
    shutil.rmtree(folder / "checkpoints")
    refused(["eval", "run"], "run has no checkpoint yet", folder, capsys)
    (folder / "checkpoints").mkdir()
    for which in ("last", "all", "best", "500"):
        refused(["eval", "run", "--checkpoints", which], "run has no checkpoint yet", folder, capsys)


def test_a_damaged_checkpoint_that_was_asked_for(folder, capsys):
    (folder / "checkpoints" / "epoch_000008" / "agent_0.safetensors").write_bytes(b"")
    refused(["eval", "run", "--checkpoints", "8"], "it has 0 bytes instead of", folder, capsys)
    refused(["eval", "run/checkpoints/epoch_000008"], "it has 0 bytes instead of", folder, capsys)
    whole = folder / "checkpoints" / "epoch_000004" / "agent_0.safetensors"
    data = bytearray(whole.read_bytes())
    data[-1] ^= 1
    whole.write_bytes(data)
    refused(["eval", "run", "--checkpoints", "4"], "does not match its checksum", folder, capsys)


def test_weights_that_do_not_fit(folder, capsys):
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("hidden_size: 16", "hidden_size: 24"))
    refused(
        ["eval", "run", "--output", "run/its/own"], "is (5, 16) of float32, expected (5, 24) of float32", folder, capsys
    )


def test_another_number_of_agents(folder, capsys):
    config = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(config.replace("num_agents: 2", "num_agents: 3"))
    refused(["eval", "run"], "has 2 agents, but TreasurehuntEnv made 3", folder, capsys)


def test_a_state_that_is_no_model(folder, capsys):
    parts = {"agent_0": State(), "agent_1": State()}
    write_checkpoint(folder / "checkpoints" / "final", "agents", checkpoint_facts(20), parts)
    refused(["eval", "run"], "agent_0.safetensors", folder, capsys)


def test_a_broken_configuration(folder, capsys):
    (folder / "config.yaml").write_text("experiment: [")
    refused(["eval", "run"], "config.yaml is not valid YAML", folder, capsys)


def test_a_folder_that_cannot_be_written(folder, capsys, monkeypatch):
    (folder / "evaluation.json").mkdir()
    refused(["eval", "run"], "cannot write run/evaluation.json: a folder is in its place", folder, capsys)

    (folder / "evaluation.json").rmdir()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr(evaluation, "evaluate", lambda *arguments, **keywords: pytest.fail("it was played first"))
    refused(["eval", "run"], "cannot write run/evaluation.json: Permission denied", folder, capsys)


def test_an_interrupt_leaves_the_file_of_before(folder, monkeypatch):
    run(["eval", "run", "--episodes", "1"])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "play_lanes", interrupted)
    assert run(["eval", "run", "--episodes", "2"]) == 130
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_models_are_told_the_epoch_of_the_checkpoint(folder, monkeypatch):
    told, play = [], evaluation.play_lanes
    monkeypatch.setattr(
        evaluation, "play_lanes", lambda game, epoch, lanes: told.append(epoch) or play(game, epoch, lanes)
    )
    assert run(["eval", "run", "--episodes", "3", "--checkpoints", "all"]) == 0
    assert told == [4, 4, 8, 8, LAST, LAST]
