"""Single agents on the command line: `train --load-agent`, `train --freeze`, `play --agent`."""

import shutil
from pathlib import Path

import pytest
import safetensors.numpy
import yaml

from abreast.cli import run
from abreast.cli.agents import parse_agents, parse_numbers
from abreast.cli.play import with_players
from abreast.errors import ConfigError
from abreast.games import find_game
from abreast.models import IQN, PPO, RandomModel
from abreast.settings import explain

SMALL = ["experiment.epochs=2", "experiment.max_turns=5", "model.hidden_size=16", "model.batch_size=4", "--no-animate"]
OTHERS = [*SMALL, "model.algorithm=iqn", "model.hidden_size=32", "model.n_frames=3", "--agents", "3"]

ORCHARD = """
from abreast import ActionSpec, Environment, MovingAgent, OneHotObservationSpec


class Orchard(Environment):
    def setup_agents(self):
        view = OneHotObservationSpec(["EmptyEntity", "MovingAgent"], vision_radius=1)
        actions = ActionSpec(["up", "down"])
        self.agents = [MovingAgent(view, actions, self.make_model(view, 2, agent)) for agent in range(3)]

    def populate_environment(self):
        self.world.scatter(self.agents, onto="EmptyEntity")
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run `x` of three PPO agents, and one `tag` of another game."""
    folder = tmp_path_factory.mktemp("runs")
    train = ["train", "treasurehunt", *SMALL, "model.algorithm=ppo", "--agents", "3"]
    assert run([*train, "--output", str(folder / "x")]) == 0
    shutil.copytree(folder / "x", folder / "10:30")
    assert run(["train", "cleanup", *SMALL, "--agents", "2", "--output", str(folder / "cleanup")]) == 0
    return folder


@pytest.fixture(autouse=True)
def beside_the_runs(runs, monkeypatch):
    monkeypatch.chdir(runs)


def settings(folder):
    return yaml.safe_load(Path(folder, "config.yaml").read_text())


def weights(folder, agent):
    """The network of an agent, as a run keeps it."""
    file = Path(folder, "checkpoints", "final", f"agent_{agent}.safetensors")
    arrays = safetensors.numpy.load_file(file)
    return {name: array.tobytes() for name, array in arrays.items() if name.startswith(("online", "adam"))}


def test_an_agent_of_another_algorithm_plays_beside_those_of_this_run(tmp_path):
    out = tmp_path / "out"
    arguments = ["--load-agent", "1=x:2", "--load-agent", "2=10:30:0", "--freeze", "0,1", "--output", str(out)]
    assert run(["train", "treasurehunt", *OTHERS, *arguments]) == 0
    kept = settings(out)
    assert kept["experiment"]["load_agents"] == {1: "x:2", 2: "10:30:0"} and kept["experiment"]["freeze"] == [0, 1]
    assert kept["model"]["hidden_size"] == 32 and kept["model"]["algorithm"] == "iqn"
    for agent in (1, 2):
        own = kept["model"]["per_agent"][agent]
        assert own["algorithm"] == "ppo" and own["hidden_size"] == 16 and own["n_frames"] == 1
    assert weights(out, 1) == weights("x", 2) and weights(out, 2) != weights("10:30", 0)
    assert run(["play", str(out)]) == 0
    again = tmp_path / "again"
    assert (
        run(["train", "treasurehunt", "--config", str(out / "config.yaml"), "--no-animate", "--output", str(again)])
        == 0
    )
    assert weights(again, 2) == weights(out, 2)


def test_what_the_user_gives_for_an_agent_counts(tmp_path):
    out, file = tmp_path / "out", tmp_path / "mine.yaml"
    file.write_text("model: {per_agent: {0: {clip: 0.3, learning_rate: 0.01}}}\n")
    arguments = ["--load-agent", "0=x", "model.per_agent.0.learning_rate=0.02", "--config", str(file)]
    assert run(["train", "treasurehunt", *OTHERS, *arguments, "--output", str(out)]) == 0
    own = settings(out)["model"]["per_agent"][0]
    assert (own["clip"], own["learning_rate"], own["hidden_size"]) == (0.3, 0.02, 16)


def test_all_agents_may_be_frozen_and_learners_need_not_be_there(tmp_path):
    out = tmp_path / "out"
    assert run(["train", "treasurehunt", *OTHERS, "--parallel", "--freeze", "0,1,2", "--output", str(out)]) == 0
    assert settings(out)["experiment"]["freeze"] == [0, 1, 2]


def test_play_replaces_agents_of_a_run(tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["train", "treasurehunt", *OTHERS, "model.per_agent.1.n_quantiles=4", "--output", str(out)]) == 0
    assert run(["play", str(out), "--agent", "1=x:0", "--agent", "2=x"]) == 0
    assert "episode 1:" in capsys.readouterr().out
    env = with_players(find_game("treasurehunt"), out, [], {1: "x:0", 2: "x"})
    assert [type(agent.model) for agent in env.agents] == [IQN, PPO, PPO]
    for agent, source in ((1, 0), (2, 2)):
        state = env.agents[agent].model.file_state().arrays
        assert {name: state[name].tobytes() for name in weights("x", source)} == weights("x", source)
    assert [agent.model.epsilon for agent in env.agents] == [0.0] * 3
    assert [agent.model.is_greedy for agent in env.agents] == [True, False, False]  # each as its algorithm declares
    env = with_players(find_game("treasurehunt"), out, [], {1: "x:0"}, greedy=False)
    assert [agent.model.is_greedy for agent in env.agents] == [False] * 3 and env.agents[0].model.epsilon > 0


def test_play_puts_agents_into_a_game_of_random_ones(capsys):
    assert run(["play", "treasurehunt", "experiment.max_turns=5", "--agent", "2=x:1"]) == 0
    assert "episode 1:" in capsys.readouterr().out
    env = with_players(find_game("treasurehunt"), None, ["experiment.num_agents=3"], {2: "x:1"})
    assert [type(agent.model) for agent in env.agents] == [RandomModel, RandomModel, PPO]


def test_play_in_a_game_that_makes_as_many_agents_as_it_likes(tmp_path, capsys):
    game = tmp_path / "orchard.py"
    game.write_text(ORCHARD)
    assert run(["train", str(game), *SMALL, "--output", str(tmp_path / "run")]) == 0
    for agent in ([], ["--agent", f"1={tmp_path / 'run'}:2"]):
        assert run(["play", str(game), "experiment.max_turns=5", *agent]) == 0
    assert capsys.readouterr().out.count("agent 2") == 2


def test_settings_show_who_is_loaded_and_frozen():
    given = ["experiment.freeze=[3, 0]", "experiment.load_agents.2=runs/x:4"]
    told = {key: (value, meaning) for key, value, meaning in explain(find_game("treasurehunt").configure(None, given))}
    assert told["experiment.freeze"][0] == [0, 3] and "do not learn" in told["experiment.freeze"][1]
    assert told["experiment.load_agents"][0] == {2: "runs/x:4"}
    assert run(["settings", "treasurehunt", *given]) == 0


TRAIN = ["train", "treasurehunt", *SMALL, "--agents", "3", "--output", "out"]
MISTAKES = [
    ("no number", [*TRAIN, "--load-agent", "x=x"], "--load-agent 'x=x' is not of the form NUMBER=RUN"),
    ("no run", [*TRAIN, "--load-agent", "2="], "--load-agent '2=' is not of the form NUMBER=RUN"),
    ("nothing", [*TRAIN, "--load-agent", ""], "--load-agent '' is not of the form"),
    ("no number after the colon", [*TRAIN, "--load-agent", "2=x:"], "'x:' does not name an agent of a run"),
    ("twice", [*TRAIN, "--load-agent", "2=x", "--load-agent", "2=y"], "is given twice for agent 2, 'x' and 'y'"),
    ("no run folder", [*TRAIN, "--load-agent", "2=none:1"], "none is not a run folder: it has no config.yaml"),
    ("an impossible name", [*TRAIN, "--load-agent", "2=" + "x" * 300], "is not a run folder"),
    ("an agent RUN has not", [*TRAIN, "--load-agent", "2=x:3"], "x has no agent 3: its last agent is 2"),
    ("an agent the game has not", [*TRAIN, "--load-agent", "3=x:0"], "load_agents names agent 3, but the last agent is 2"),
    ("a view of another game", [*TRAIN, "--load-agent", "0=cleanup:1"],
     "agent 0 cannot be loaded from cleanup:1: "),
    ("another algorithm", [*TRAIN, "--load-agent", "0=x", "model.per_agent.0.algorithm=dqn"],
     "model.per_agent.0.algorithm is 'dqn', but agent 0 is loaded from x:0, whose algorithm is 'ppo': leave it out."),
    ("another network", [*TRAIN, "--load-agent", "0=x", "model.per_agent.0.hidden_size=8"], ", 16) of float32, expected ("),
    ("a setting it has not", [*TRAIN, "--load-agent", "0=x", "model.per_agent.0.kappa=1.0"],
     "unknown key model.per_agent.0.kappa"),
    ("frozen who is not there", [*TRAIN, "--freeze", "0,3"], "experiment.freeze names agent 3, but the last agent is 2"),
    ("frozen text", [*TRAIN, "--freeze", "a"], "--freeze 'a' is no list of agents: expected numbers, say --freeze 0,3."),
    ("frozen nothing", [*TRAIN, "--freeze", ""], "--freeze '' is no list of agents"),
    ("play: no number", ["play", "x", "--agent", "x"], "--agent 'x' is not of the form NUMBER=RUN"),
    ("play: not there", ["play", "x", "--agent", "3=x:0"], "names agent 3, but the last agent is 2"),
    ("play: no run", ["play", "treasurehunt", "--agent", "0=none"], "none is not a run folder"),
    ("play: other view", ["play", "treasurehunt", "--agent", "0=cleanup"], "agent 0 cannot be loaded from cleanup:0"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "says"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES])
def test_a_mistake_gets_one_sentence_and_leaves_nothing_behind(arguments, says, runs, capsys):
    before = sorted(runs.rglob("*"))
    assert run(arguments) == 2
    told = capsys.readouterr().err
    assert says in told and told.count("\n") == 1, told
    assert sorted(runs.rglob("*")) == before


# ---- options


def test_options_name_agents():
    assert parse_agents(["2=runs/x=y:4", "0=z"], "--agent") == {2: "runs/x=y:4", 0: "z"}
    assert parse_numbers("3, 0", "--freeze") == [3, 0]


@pytest.mark.parametrize("text", ["x=runs/x", "2=", "=runs/x", "2", "", "-1=runs/x", "2.0=runs/x", "9" * 5000 + "=x"])
def test_what_gives_no_agent_a_run_is_refused(text):
    with pytest.raises(ConfigError, match="is not of the form NUMBER=RUN or NUMBER=RUN:NUMBER"):
        parse_agents([text], "--load-agent")


@pytest.mark.parametrize("text", ["", "a", "0,", "-1", "0;3", "1.5"])
def test_what_is_no_list_of_agents_is_refused(text):
    with pytest.raises(ConfigError, match="is no list of agents"):
        parse_numbers(text, "--freeze")
