"""The command line with environments of other libraries."""

import json
import sys
from pathlib import Path

import pytest
from PIL import Image

from abreast.cli import run
from abreast.games import find_game
from abreast.games.picture_view import SHADES

OWN = """
from zoo_envs import Corridor


def make(length=3, render_mode=None):
    return Corridor(length, render_mode)
"""
SMALL = ["model.hidden_size=16", "model.batch_size=8"]


@pytest.fixture
def abreast(capsys):
    def command(*arguments, code=0):
        returned = run([str(each) for each in arguments])
        told = capsys.readouterr()
        assert returned == code, told
        return " ".join((told.out + told.err).split())

    return command


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    return tmp_path


@pytest.mark.parametrize(
    ("target", "given", "lists"),
    [
        ("pettingzoo:mpe2.simple_tag_v3", "world.num_good=2", ["world.num_good 2", "world.num_obstacles 2"]),
        ("gymnasium:FrozenLake8x8-v1", "world.is_slippery=false", ["world.is_slippery false", "world.map_name 8x8"]),
        ("gymnasium:own.py:make", "world.length=4", ["world.length 4", "world.render_mode null An argument of"]),
    ],
)
def test_the_arguments_of_an_environment_are_listed_with_their_defaults(target, given, lists, abreast):
    Path("own.py").write_text(OWN)
    told = abreast("settings", target, "world", given)
    assert all(told.count(each) == 1 for each in lists), told


@pytest.mark.parametrize(
    ("target", "settings", "agents"),
    [
        ("pettingzoo:mpe2.simple_spread_v3", ["world.N=2", "world.max_cycles=6"], ["agent_0", "agent_1"]),
        pytest.param(
            "pettingzoo:pettingzoo.classic.tictactoe_v3", [], ["player_1", "player_2"], marks=pytest.mark.chaos
        ),
        ("gymnasium:CartPole-v1", ["experiment.max_turns=9"], ["agent"]),
        ("gymnasium:Pendulum-v1", ["experiment.max_turns=9", "model.algorithm=sac"], ["agent"]),
    ],
)
def test_a_run_is_trained_resumed_evaluated_watched_and_lent(target, settings, agents, abreast):
    told = abreast("train", target, *settings, *SMALL, "--epochs", 4, "--output", "run", "experiment.record_period=2")
    assert "The run folder is run" in told
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 4 and lines[-1]["agents"] == agents and len(lines[-1]["reward_per_agent"]) == len(agents)
    with Image.open("run/replays/epoch_000002.gif") as film:
        assert max(film.size) > 100
    abreast("train", "--resume", "run", "--epochs", 6)
    assert len(Path("run/metrics.jsonl").read_text().splitlines()) == 6
    told = abreast("eval", "run", "--episodes", 3)
    assert all(agent in told for agent in agents)
    told = abreast("play", "run")
    assert all(f"{agent} " in told for agent in agents)
    assert "▀" not in told and set(told.rpartition("turn")[2]) & set(SHADES.strip())  # no terminal, no colours
    abreast("train", target, *settings, *SMALL, "--epochs", 2, "--output", "other", "--load-agent", "0=run:0")


def test_a_file_of_the_users_is_found_again_from_another_folder(here, abreast, monkeypatch):
    (here / "own_corridor.py").write_text(OWN)
    actors = [
        "multiprocessing.num_envs=2",
        "multiprocessing.num_actors=2",
        "multiprocessing.workers=processes",
        "multiprocessing.schedule=lockstep",
    ]
    abreast("train", "gymnasium:own_corridor.py:make", *SMALL, *actors, "--parallel", "--epochs", 4, "--output", "runs/a",
            "experiment.max_turns=20", "world.length=2")  # fmt: skip
    config = Path("runs/a/config.yaml").read_text()
    assert "game: gymnasium:own_corridor.py:make" in config and "length: 2" in config
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    assert "agent" in abreast("eval", "../runs/a", "--episodes", 2)


def test_text_is_shown_as_it_is(abreast):
    assert "moves: 9" in abreast("play", "pettingzoo:zoo_envs:Auction")


def test_settings_say_what_the_environment_decides(abreast):
    told = abreast("settings", "pettingzoo:mpe2.simple_spread_v3", "world.N=4")
    assert "experiment.num_agents 4 " in told and "world.N 4 " in told and "model.algorithm ppo" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["train", "gymnasium:Pendulum-v1", "model.algorithm=dqn"], "a vector of floats (a Box of 1): use ppo or sac"),
        (["train", "gymnasium:CartPole-v1", "model.algorithm=sac"], "here are 2 numbered actions: use ppo, dqn or iqn"),
        (["train", "pettingzoo:zoo_envs:LacksAReward", "--output", "x"], "the rewards lack agent 'host'"),
        (["play", "gymnasium:CartPol-v1"], "did you mean 'CartPole-v1'?"),
        (["train", "pettingzoo:mpe2.simple_spread_v3", "--agents", "7"], "but simple_spread_v3 has 3"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments, told, abreast):
    output = abreast(*arguments, code=2)
    assert told in output and "Traceback" not in output


COUNTING = ("n_steps", "train_freq", "learning_starts", "buffer_capacity")


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ([], (512, None, None, 20_000)),
        (["multiprocessing.num_envs=32"], (512, None, None, 32 * (512 + 500))),
        (["model.n_steps=64", "model.buffer_capacity=600"], (64, None, None, 600)),
        (["experiment.train_interval=4"], (None, None, None, 20_000)),
        (["model.algorithm=dqn"], (None, 4, 1000, 20_000)),
        (["model.algorithm=dqn", "experiment.max_steps=500"], (None, 4, 50, 20_000)),
        (["model.algorithm=dqn", "model.buffer_capacity=200"], (None, 4, 200, 200)),
        (["model.algorithm=dqn", "model.gradient_steps=7"], (None, None, 0, 20_000)),
        (["model.algorithm=dqn", "model.gradient_steps=7", "model.train_freq=9"], (None, 9, 1000, 20_000)),
        (["model.algorithm=iqn", "multiprocessing.train_interval=2"], (None, None, 0, 20_000)),
    ],
)
def test_updates_are_counted_in_rows_unless_epochs_or_gradient_steps_of_an_update_are_given(given, counts):
    model = find_game("gymnasium:CartPole-v1").configure(None, given).model
    assert tuple(getattr(model, name, None) for name in COUNTING) == counts


def test_defaults_that_do_not_go_with_what_is_given_are_left_out():
    dqn, sac = (
        find_game(target).configure(None, [f"model.algorithm={name}", *given]).model
        for target, name, given in (
            ("gymnasium:CartPole-v1", "dqn", ["model.epsilon_decay=0.01"]),
            ("gymnasium:Pendulum-v1", "sac", ["experiment.train_interval=2"]),
        )
    )
    assert (dqn.epsilon_decay, dqn.exploration_fraction, dqn.train_freq) == (0.01, None, 4)
    assert (sac.train_freq, sac.learning_starts, sac.gradient_steps) == (None, 0, 64)


def test_agents_with_an_algorithm_of_their_own_have_its_defaults():
    given = ["model.per_agent.1.algorithm=dqn", "model.per_agent.2.gradient_steps=3", "model.learning_rate=0.01"]
    agents = find_game("pettingzoo:mpe2.simple_spread_v3").configure(None, given).model.per_agent
    assert (agents[1].train_freq, agents[1].learning_starts, agents[1].learning_rate) == (4, 1000, 0.01)
    assert (agents[2].n_steps, agents[2].gradient_steps, agents[2].learning_rate) == (512, 3, 0.01)
