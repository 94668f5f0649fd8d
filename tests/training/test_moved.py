"""Single agents: moved between runs, and frozen. Whatever the schedule, what does not learn stays as it is, to the bit."""

import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from abreast.attributes import reachable
from abreast.codec import digest
from abreast.errors import ConfigError, ModelFileError, RunFolderError
from abreast.games import find_game
from abreast.models import ALGORITHMS
from abreast.models.own import GENERATORS
from abreast.settings import merge
from abreast.state import copied
from abreast.training import Experiment, parse_config
from abreast.training.checkpoints.folder import write_checkpoint
from abreast.training.learners.hosted import HostedLearners
from abreast.training.moved import AgentOf, agent_settings, load_agent, load_agents
from fakes import checkpoint_facts, live, make_model, outcome, small_game
from integrations.adapted import build
from promises.cover import each_nth, rows
from strangers import models as strangers

MIXED = (
    "experiment.num_agents=4", "experiment.epochs=8", "model.per_agent.1.algorithm=ppo", "model.algorithm=iqn",
    "model.per_agent.2.algorithm=strangers.models:Rhythmic", "model.per_agent.3.algorithm=dqn",
)  # fmt: skip


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of four agents, each with another algorithm, and their models."""
    folder = tmp_path_factory.mktemp("runs") / "x"
    env = small_game(*MIXED, "experiment.seed=7")
    env.run_experiment(animate=False, output_dir=folder)
    return folder, [agent.model for agent in env.agents]


def learned(model):
    """All that learning changes, random streams and settings aside."""
    facts, arrays = copied(model.learning_state())
    own = {name: getattr(model, name, None) for name in ("steps", "offset")}
    return {**facts, **own, "sampling": 0, "rows_learned_from": 0}, {
        name: array.tobytes() for name, array in arrays.items() if name != "generator"
    }


def frozen_game(freeze, *overrides, schedule="lockstep", workers="threads", actors=1):
    return small_game(
        *MIXED, f"experiment.freeze={list(freeze)}", f"multiprocessing.schedule={schedule}",
        f"multiprocessing.workers={workers}",
        f"multiprocessing.num_envs={actors}", f"multiprocessing.num_actors={actors}", *overrides,
    )  # fmt: skip


# ---- what is typed


def test_an_agent_of_a_run_is_named_by_folder_and_number(tmp_path):
    (tmp_path / "12:30").mkdir()
    (tmp_path / "a:4").mkdir()
    assert AgentOf.parse("runs/x:4", 2) == AgentOf(Path("runs/x"), 4)
    assert AgentOf.parse("runs/x", 2) == AgentOf(Path("runs/x"), 2)
    assert AgentOf.parse("12:30", 2) == AgentOf(Path("12:30"), 2)
    assert AgentOf.parse("12:30:4", 2) == AgentOf(Path("12:30"), 4)
    assert AgentOf.parse("a:4", 2) == AgentOf(Path("a:4"), 2)


@pytest.mark.parametrize("text", ["runs/x:", ":4", "runs/x:-1", "runs/x:a", "runs/x:" + "9" * 5000, "x\0:"])
def test_what_names_no_agent_of_a_run_is_refused(text):
    with pytest.raises(ConfigError, match="does not name an agent of a run: expected RUN:NUMBER"):
        AgentOf.parse(text, 2)


# ---- moved


@pytest.mark.parametrize("source", range(4))
def test_what_was_learned_moves_and_what_the_run_decides_stays(source, run):
    folder, models = run
    settings = {"model": {"per_agent": {1: agent_settings(f"{folder}:{source}")}}}
    fresh, loaded = (_with_settings(settings) for _ in range(2))
    load_agent(loaded.agents[1].model, 1, f"{folder}:{source}")
    there, here, before = models[source], loaded.agents[1].model, fresh.agents[1].model
    assert type(here) is type(there) and learned(here) == learned(there)
    assert here.updates == there.updates > 0 and learned(before) != learned(there)
    mine, other = here.learning_state(), before.learning_state()
    assert mine.facts["sampling"] == other.facts["sampling"]
    assert np.array_equal(mine.arrays.get("generator", 0), other.arrays.get("generator", 0))
    assert here.acting_state().facts == before.acting_state().facts  # choosing, epsilon
    assert not here.memory.written.any()
    assert learned(loaded.agents[0].model) == learned(fresh.agents[0].model)


def _with_settings(values):
    small = {
        "experiment": {"num_agents": 2, "epochs": 3, "max_turns": 10},
        "model": {"n_frames": 1, "hidden_size": 8, "gradient_steps": 1},
    }
    game = find_game("treasurehunt")
    return game.build(game.configure(merge(small, values)))


def test_a_moved_agent_goes_on_learning_in_a_new_run_wherever_learners_live(run):
    folder, models = run
    settings = agent_settings(f"{folder}:1")
    made = []
    for how in ("run_experiment", "run_experiment_mp"):
        values = {"experiment": {"load_agents": {0: f"{folder}:1"}}, "model": {"per_agent": {0: settings}}}
        env = _with_settings({**values, "multiprocessing": {"schedule": "lockstep", "workers": "threads"}})
        made.append(outcome(env, getattr(env, how)))
        assert env.agents[0].model.updates == models[1].updates + 3
    assert made[0] == made[1]


@pytest.mark.parametrize(("workers", "actors"), each_nth([("threads", 2), ("inline", 2)], 2))
def test_other_actors_choose_with_the_moved_agent_too(workers, actors, run):
    made = []
    for how, where in (("run_experiment", "inline"), ("run_experiment_mp", workers)):
        env = small_game(
            *MIXED, f"experiment.load_agents.2={run[0]}", "experiment.freeze=[2]", f"multiprocessing.workers={where}",
            f"multiprocessing.num_envs={actors}", f"multiprocessing.num_actors={actors}",
            "multiprocessing.schedule=lockstep",
        )  # fmt: skip
        made.append(outcome(env, getattr(env, how)))
        assert env.agents[2].model.offset == run[1][2].offset > 0
    assert made[0] == made[1]


def test_the_learning_rate_is_a_setting_of_the_new_run(run):
    values = {"model": {"per_agent": {0: {**agent_settings(str(run[0])), "learning_rate": 0.5}}}}
    model = _with_settings(values).agents[0].model
    load_agent(model, 0, str(run[0]))
    assert model.optimiser.learning_rate == 0.5


@pytest.mark.parametrize("name", ["Bandit", "Reinforce", "Noisy"])
def test_generators_of_users_models_follow_from_the_seed_of_the_new_run(name, tmp_path):
    kind = getattr(strangers, name)
    there, here, same, other = (make_model(kind, seed=seed, algorithm="dqn") for seed in (1, 2, 2, 3))
    live(there, epochs=3)
    there.train_step()
    streams = []
    for model in (here, same, other):
        model.load_learned(there.file_state(), tmp_path)
        own = [each for each in reachable(model.own_attributes.values, model.places()) if isinstance(each, GENERATORS)]
        streams.append([digest(each, {}) for each in own])
    assert streams[0] == streams[1] and (not streams[0] or streams[0] != streams[2])
    for attribute in ("values", "losses", "baseline", "steps", "smoothed"):
        assert str(vars(here).get(attribute)) == str(vars(there).get(attribute))
    if name == "Reinforce":
        assert torch.equal(here.network[0].weight, there.network[0].weight)


def test_exploring_does_not_move_with_an_agent(run):
    settings = agent_settings(f"{run[0]}:1")
    assert settings["algorithm"] == "ppo" and settings["clip"] == 0.2 and settings["hidden_size"] == 16
    assert not [key for key in settings if "epsilon" in key or key == "per_agent"]


def test_classes_of_other_agents_need_not_be_found(run, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    text = (run[0] / "config.yaml").read_text()
    (copy / "config.yaml").write_text(text.replace("strangers.models:Rhythmic", "no_such_module:Model"))
    assert agent_settings(f"{copy}:1")["algorithm"] == "ppo"
    with pytest.raises(ConfigError, match=r"copy/config\.yaml: .*no_such_module"):
        agent_settings(f"{copy}:2")


def test_a_run_that_goes_on_does_not_load_again(run):
    values = {"experiment": {"load_agents": {0: str(run[0])}}, "model": {"per_agent": {0: agent_settings(str(run[0]))}}}
    env = _with_settings(values)
    env.run_experiment(animate=False, logging=False)
    before = learned(env.agents[0].model)
    load_agents(env)
    assert learned(env.agents[0].model) == before


@pytest.mark.parametrize("form", ["run", "one of several checkpoints"])
def test_every_form_of_a_run_is_read(form, run, tmp_path):
    copy, models = tmp_path / "copy", run[1]
    (copy / "checkpoints").mkdir(parents=True)
    (copy / "config.yaml").write_bytes((run[0] / "config.yaml").read_bytes())
    fresh = [agent.model for agent in small_game(*MIXED).agents]
    for epochs in (4, 8):
        whole = (epochs == 8) == (form == "run")
        parts = {f"agent_{number}": each.file_state() for number, each in enumerate(models if whole else fresh)}
        write_checkpoint(copy / f"checkpoints/epoch_{epochs:06d}", "agents", checkpoint_facts(epochs), parts)
    model = _with_settings({"model": {"per_agent": {0: agent_settings(f"{copy}:3")}}}).agents[0].model
    load_agent(model, 0, f"{copy / 'checkpoints/epoch_000004' if form.startswith('one') else copy}:3")
    assert learned(model) == learned(models[3])


# ---- refused


def refusal(error, match, **experiment):
    env = small_game()
    config = env.config.with_derived(experiment=env.config.experiment.with_derived(**experiment))
    env.config = config
    before = [learned(agent.model) for agent in env.agents]
    for how in (env.run_experiment, env.run_experiment_mp):
        with pytest.raises(error, match=match):
            how(animate=False, output_dir="out")
    assert not list(Path().iterdir()) and [learned(agent.model) for agent in env.agents] == before


def test_what_cannot_be_loaded_is_refused_before_anything_is_written(run):
    x = run[0]
    refusal(RunFolderError, "nothing is not a run folder: it has no config.yaml", load_agents={0: "nothing:1"})
    refusal(ConfigError, "has no agent 4: its last agent is 3", load_agents={0: f"{x}:4"})
    refusal(
        ModelFileError,
        "agent 1 cannot be loaded from .*:1: .* 'ppo', but .* 'dqn': .* load only the other agents",
        load_agents={1: str(x)},
    )
    refusal(ConfigError, "load_agents names agent 2, but the last agent is 1", load_agents={2: str(x)})
    refusal(ConfigError, "freeze names agent 9, but the last agent is 1", freeze=[9])


def test_both_shapes_are_named_where_view_actions_or_settings_differ(run):
    source = f"{run[0]}:3"
    for values, says in (
        (
            {"agent_vision_radius": 1},
            r"sees \(5, 5, \d\) and has 4 actions, but this one sees \(3, 3, \d\) and has 4 actions",
        ),
        ({"hidden_size": 17}, r"is \(\d+, 16\) of float32, expected \(\d+, 17\)"),
    ):
        env = _with_settings({"model": {"per_agent": {0: {**agent_settings(source), **values}}}})
        with pytest.raises(ModelFileError, match=says) as refused:
            load_agent(env.agents[0].model, 0, source)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"freeze": [5]}, "experiment.freeze names agent 5, but the last agent is 4 "),
        ({"freeze": [-1]}, "experiment.freeze names agent -1, but"),
        ({"freeze": ["0"]}, "experiment.freeze.0 is '0': expected a valid integer"),
        ({"freeze": 3}, "experiment.freeze is 3: expected a valid list"),
        ({"load_agents": {5: "x"}}, "experiment.load_agents names agent 5, but the last agent is 4 "),
        ({"load_agents": {"x": "x"}}, "experiment.load_agents has a key 'x': expected a valid integer"),
        ({"load_agents": {2: 4}}, "experiment.load_agents.2 is 4: expected a valid string"),
        ({"load_agents": "x"}, "experiment.load_agents is 'x': expected a valid dictionary"),
    ],
)
def test_settings_that_name_no_agent_are_refused(given, says):
    with pytest.raises(ConfigError) as refused:
        parse_config({"experiment": given})
    assert says in str(refused.value)


def test_games_that_are_no_gridworlds_are_asked_for_their_number_of_agents():
    experiment = Experiment(small_game().game, {"experiment": {"freeze": [4], "epochs": 1}})
    with pytest.raises(ConfigError, match="freeze names agent 4, but the last agent is 1"):
        experiment.run_experiment(animate=False, logging=False)


# ---- frozen


@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "strangers.models:Reinforce"])
def test_a_frozen_agent_chooses_and_learns_nothing(algorithm):
    settings = ["experiment.epochs=6", f"model.per_agent.0.algorithm={algorithm}", "experiment.freeze=[0]"]
    if algorithm == "sac":  # it chooses vectors
        small = ["model.hidden_size=16", "model.batch_size=8", "model.gradient_steps=1"]
        env = build("pettingzoo:box_envs:Steering", "model.algorithm=sac", *small, *settings)
    else:
        env = small_game(*settings)
    models = [player.model for player in env.game.players]
    before = copied(models[0].learning_state())
    epochs = env.run_experiment(animate=False, logging=False).epochs
    after = models[0].learning_state()
    assert after.facts == before.facts
    assert all(array.tobytes() == before.arrays[name].tobytes() for name, array in after.arrays.items())
    assert all(record["loss_per_agent"][0] is None for record in epochs)
    assert epochs[-1]["loss_per_agent"][1] is not None and models[1].updates > 0
    assert any(record["reward_per_agent"][0] for record in epochs)


@pytest.mark.parametrize(
    ("freeze", "actors"), rows({"freeze": [(1,), (0, 2), (0, 1, 2, 3)], "actors": [1, 2]}, together=1), ids=str
)
def test_lockstep_is_the_sequential_run_with_frozen_agents_too(freeze, actors):
    one, two = (frozen_game(freeze, actors=actors) for _ in range(2))
    assert outcome(one, one.run_experiment) == outcome(two, two.run_experiment_mp)
    for agent in freeze:
        assert one.agents[agent].model.updates == 0


@pytest.mark.parametrize(("freeze", "actors"), rows({"freeze": [(1,), (0, 2)], "actors": [1, 2]}, together=1), ids=str)
def test_pipelined_is_the_same_wherever_learners_live_with_frozen_agents_too(freeze, actors):
    made = [frozen_game(freeze, schedule="pipelined", workers=where, actors=actors) for where in ("inline", "threads")]
    assert outcome(made[0], made[0].run_experiment_mp) == outcome(made[1], made[1].run_experiment_mp)


def test_processes_give_the_same_with_frozen_and_moved_agents(run):
    made = []
    for workers in ("inline", "processes"):
        more = [f"experiment.load_agents.2={run[0]}", f"experiment.load_agents.3={run[0]}"]
        env = frozen_game([1, 2], *more, schedule="pipelined", workers=workers, actors=2)
        made.append(outcome(env, env.run_experiment_mp))
    assert made[0] == made[1]


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined", "free"])
def test_frozen_agents_have_no_learner(schedule, monkeypatch):
    seen = []
    start = HostedLearners.__init__

    def spying(learners, *arguments, **more):
        start(learners, *arguments, **more)
        while len(learners.pids) < len(learners._agents_of):
            time.sleep(0.01)  # the fork server is not waited for
        seen.append((len(learners.pids), learners._agents_of))

    monkeypatch.setattr(HostedLearners, "__init__", spying)
    for freeze, expected in (([0, 2], [[1], [3]]), ([0, 1, 2, 3], [])):
        few = ("multiprocessing.num_workers=3", "experiment.epochs=4")
        env = frozen_game(freeze, *few, schedule=schedule, workers="processes")
        result = env.run_experiment_mp(animate=False, logging=False)
        assert seen.pop() == (len(expected), expected) and not result.given_up
        assert [env.agents[agent].model.updates for agent in freeze] == [0] * len(freeze)
        assert result.epochs[-1]["loss_per_agent"][freeze[0]] is None


@pytest.mark.parametrize("schedule", ["lockstep", "free"])
def test_frozen_agents_are_no_silent_fault(schedule, caplog, monkeypatch):
    monkeypatch.setattr("abreast.training.learners.free.STALE_S", 0.0)
    env = frozen_game([0, 1, 2], schedule=schedule)
    env.agents[0].model.remember = lambda *step: None  # nothing reaches its memory
    env.run_experiment_mp(animate=False, logging=False)
    assert not [line for line in caplog.messages if line.startswith(("agent 0", "agent 1", "agent 2"))]


def test_a_frozen_agent_explores_only_if_its_own_entry_says_so():
    env = small_game(
        "experiment.freeze=[0, 1]", "experiment.num_agents=3", "model.epsilon=0.5", "model.per_agent.1.epsilon=0.3"
    )
    assert [agent.model.epsilon for agent in env.agents] == [0.0, 0.3, 0.5]
    env.run_experiment(animate=False, logging=False)
    assert [agent.model.epsilon for agent in env.agents[:2]] == [0.0, 0.3] and env.agents[2].model.epsilon < 0.5


def test_what_a_run_keeps_says_who_was_frozen():
    env = small_game("experiment.freeze=[1, 0]", "model.epsilon=0.5", "model.per_agent.1.hidden_size=8")
    env.run_experiment(animate=False, output_dir="out")
    again = parse_config(yaml.safe_load(Path("out/config.yaml").read_text()))
    assert again.experiment.freeze == [0, 1]
    assert [again.model_of(agent).epsilon for agent in (0, 1)] == [0.0, 0.0]
    assert [again.model_of(agent) for agent in (0, 1)] == [env.config.model_of(agent) for agent in (0, 1)]


def test_a_model_made_by_hand_does_not_explore_either():
    env = small_game("experiment.freeze=[0]", "model.algorithm=dqn")
    agent = env.agents[0]
    agent.model = type(agent.model)(agent.observation_spec, 4, env.config.model, env.agent_seed(0))
    assert agent.model.epsilon > 0
    env.run_experiment(animate=False, logging=False)
    assert agent.model.epsilon == 0.0


def test_freezing_an_agent_does_not_shift_the_streams_of_others():
    one, two = small_game("experiment.num_agents=3"), small_game("experiment.num_agents=3", "experiment.freeze=[0]")
    for agent in (1, 2):
        mine, other = (copied(env.agents[agent].model.learning_state()) for env in (one, two))
        assert mine.facts == other.facts
        assert all(array.tobytes() == other.arrays[name].tobytes() for name, array in mine.arrays.items())


def test_a_frozen_on_policy_agent_needs_no_memory_of_a_whole_round():
    own = ["model.per_agent.0.algorithm=ppo", "model.per_agent.0.buffer_capacity=32", "experiment.max_turns=40"]
    with pytest.raises(ConfigError, match="buffer_capacity is 32, but ppo learns from all 40 rows"):
        small_game(*own)
    assert small_game(*own, "experiment.freeze=[0]")
