"""Runs: the same seed gives the same run; turn orders; what is trained when; memories."""

import json
import logging

import numpy as np
import pytest
import torch
import yaml

from abreast import (
    DQN,
    IQN,
    PPO,
    ActionSpec,
    Environment,
    Gridworld,
    MovingAgent,
    OneHotObservationSpec,
    RandomModel,
)
from abreast.errors import ConfigError, RunFolderError
from abreast.replay import Buffer
from abreast.training import parse_config
from abreast.worlds import EmptyEntity, Entity
from fakes import outcome, small_game, timeless


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    ("algorithm", "game"),
    [("dqn", "cleanup"), ("iqn", "staghunt"), ("ppo", "tag"), ("iqn", "treasurehunt")],
    ids="-".join,
)
def test_the_same_seed_twice_gives_identical_metrics_and_another_does_not(algorithm, game, tmp_path):
    def run(name, seed):
        env = small_game(f"model.algorithm={algorithm}", f"experiment.seed={seed}", "experiment.epochs=4", game=game)
        env.run_experiment(animate=False, output_dir=tmp_path / name)
        weights = [agent.model.online_block.values.detach().clone() for agent in env.agents]
        return timeless(metrics(tmp_path / name)), weights

    (first, weights), (second, same), (third, others) = run("a", 1), run("b", 1), run("c", 2)
    assert first == second and first != third
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(weights, same, strict=True))
    assert not any(torch.equal(mine, theirs) for mine, theirs in zip(weights, others, strict=True))
    assert first[-1]["updates"] > 0


def test_one_more_agent_leaves_the_streams_of_the_others_alone():
    few, many = (small_game(f"experiment.num_agents={count}", "model.algorithm=dqn") for count in (2, 3))
    for mine, theirs in zip(few.agents, many.agents, strict=False):
        assert torch.equal(mine.model.online_block.values, theirs.model.online_block.values)


def test_agents_learn_from_their_own_memory_alone():
    def weights_of_agent_0(spoil):
        env = small_game("model.algorithm=dqn")
        env.run_experiment(animate=False, logging=False)
        if spoil:
            env.agents[1].model.memory.ring.fields["rewards"][:] = 1e3
        env.agents[0].model.train_step()
        env.agents[1].model.train_step()
        return env.agents[0].model.online_block.values.detach()

    assert torch.equal(weights_of_agent_0(False), weights_of_agent_0(True))


def test_metrics_lines_hold_what_they_promise(tmp_path):
    env = small_game("model.algorithm=dqn", "experiment.epochs=5")
    result = env.run_experiment(animate=False, output_dir=tmp_path)
    lines = metrics(tmp_path)
    assert lines == result.epochs and len(lines) == 5
    for number, line in enumerate(lines):
        assert line["epoch"] == number
        assert line["reward"] == pytest.approx(sum(line["reward_per_agent"]))
        assert len(line["reward_per_agent"]) == len(line["loss_per_agent"]) == 2
        assert line["agent_steps"] == (number + 1) * 10 * 2
        known = [loss for loss in line["loss_per_agent"] if loss is not None]
        assert line["loss"] == (pytest.approx(sum(known)) if known else None)
        assert set(line["time"]) >= {"elapsed_s", "collect_s", "train_s", "agent_steps_per_s"}
    epsilons = [line["epsilon"] for line in lines]
    assert epsilons == sorted(epsilons, reverse=True) and epsilons[0] > epsilons[-1]


def test_the_run_folder_holds_what_a_run_leaves_behind(tmp_path):
    env = small_game("experiment.record_period=2")
    env.run_experiment(output_dir=tmp_path)
    files = (path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".mp4")  # where ffmpeg is there
    found = sorted(str(path.relative_to(tmp_path)) for path in files)
    parts = [f"{name}.safetensors" for name in ("actor_0", "agent_0", "agent_1", "replay_0", "replay_1")]
    assert found == [
        ".lock",
        *sorted(f"checkpoints/epoch_000003/{name}" for name in (*parts, "manifest.json")),
        *(f"checkpoints/final/{name}" for name in ("agent_0.safetensors", "agent_1.safetensors", "manifest.json")),
        "config.yaml",
        "log.txt",
        "metrics.jsonl",
        *(f"replays/{name}" for name in ("best.gif", "epoch_000000.gif", "epoch_000002.gif", "films.json", "last.gif")),
        "timeline.json",
    ]


def test_without_animation_and_logging_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = small_game().run_experiment(animate=False, logging=False)
    assert result.folder is None and len(result.epochs) == 3
    assert list(tmp_path.iterdir()) == []


def test_the_default_run_folder_is_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = small_game().run_experiment(animate=False)
    assert result.folder.parts[0] == "runs" and (tmp_path / result.folder / "metrics.jsonl").is_file()


def test_a_folder_that_holds_a_run_is_not_mixed_with_another(tmp_path):
    small_game().run_experiment(animate=False, output_dir=tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(RunFolderError, match="already holds a run"):
        small_game().run_experiment(animate=False, output_dir=tmp_path)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


def test_what_was_learned_survives_an_error_in_the_world(tmp_path):
    env = small_game("model.algorithm=dqn")

    def explode():
        if env.epochs_played == 2:
            raise ZeroDivisionError("the world broke")

    env.world.transition = explode
    with pytest.raises(ZeroDivisionError):
        env.run_experiment(animate=False, output_dir=tmp_path)
    assert len(metrics(tmp_path)) == 2
    assert len(list((tmp_path / "checkpoints" / "final").glob("agent_*"))) == 2
    assert "stopped after 2 epochs by ZeroDivisionError" in (tmp_path / "log.txt").read_text()


def test_updates_come_every_train_interval_epochs():
    env = small_game("model.algorithm=dqn", "experiment.epochs=6", "experiment.train_interval=3")
    result = env.run_experiment(animate=False, logging=False)
    assert [record["updates"] for record in result.epochs] == [0, 0, 2, 2, 2, 4]


def test_a_second_run_goes_on_from_the_first():
    whole = small_game("model.algorithm=dqn", "model.epsilon_decay=0.1", "experiment.epochs=4")
    halves = small_game("model.algorithm=dqn", "model.epsilon_decay=0.1", "experiment.epochs=2")
    one = whole.run_experiment(animate=False, logging=False).epochs
    two = [record for _ in range(2) for record in halves.run_experiment(animate=False, logging=False).epochs]
    assert [record["reward"] for record in one] == [record["reward"] for record in two]
    assert [record["epoch"] for record in two] == [0, 1, 2, 3]


def test_a_logger_hears_of_every_epoch(tmp_path):
    class Listener:
        def __init__(self):
            self.heard = []

        def record_epoch(self, epoch, loss, reward, epsilon, **more):
            self.heard.append((epoch, reward, more["reward_per_agent"]))

    listener = Listener()
    result = small_game().run_experiment(animate=False, logger=listener, output_dir=tmp_path)
    assert listener.heard == [(r["epoch"], r["reward"], r["reward_per_agent"]) for r in result.epochs]


# ---- different models in one world


class Quick(DQN):
    """A model of a user's own."""

    class Config(DQN.Config):
        haste: float = 1.0


def mixed_game(*overrides):
    agents = ("model.per_agent.0.algorithm=ppo", "model.per_agent.1={algorithm: dqn, hidden_size: 8}")
    return small_game("experiment.num_agents=3", "model.algorithm=iqn", *agents, *overrides)


def test_each_agent_has_the_model_that_was_asked_for():
    env = mixed_game("model.per_agent.2.agent_vision_radius=3")
    assert [type(agent.model) for agent in env.agents] == [PPO, DQN, IQN]
    assert [agent.model.config.hidden_size for agent in env.agents] == [16, 8, 16]
    assert [agent.observation_spec.vision_radius for agent in env.agents] == [2, 2, 3]
    assert env.agents[0].model.config == env.config.model_of(0)


def test_a_mixed_run_is_repeated_from_its_configuration(tmp_path):
    env = mixed_game("experiment.epochs=6")
    first = outcome(env, env.run_experiment)
    env = mixed_game("experiment.epochs=6")
    env.run_experiment(animate=False, output_dir=tmp_path)
    assert "3 agents, algorithms ppo (1), dqn (1), iqn (1), 6 epochs" in (tmp_path / "log.txt").read_text()
    values = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert parse_config(values, env.world_section) == env.config
    again = type(env)(type(env.world)(values), values)
    assert outcome(again, again.run_experiment) == first


class Team(Environment):
    """A game that says itself what its agents are."""

    algorithms = ("ppo", Quick, f"{__name__}:Quick", None)

    def setup_agents(self):
        view = OneHotObservationSpec(["EmptyEntity", "MovingAgent", "Wall"], vision_radius=1)
        actions = ActionSpec(["left", "right"])
        for number, algorithm in enumerate(self.algorithms):
            self.agents.append(MovingAgent(view, actions, self.make_model(view, 2, number, algorithm)))

    def populate_environment(self):
        self.world.scatter(self.agents, onto="EmptyEntity")


def team(num_actors=1, **model):
    config = {
        "experiment": {"epochs": 4, "max_turns": 10},
        "model": {"hidden_size": 8, "batch_size": 8, "n_frames": 1, **model},
        "multiprocessing": {
            "num_envs": num_actors,
            "num_actors": num_actors,
            "schedule": "lockstep",
            "workers": "processes",
        },
    }
    return Team(Gridworld(3, 4, 1, EmptyEntity()), config)


def test_a_game_chooses_by_name_by_class_or_by_where_a_class_is():
    env = team(n_step=2)
    assert [type(agent.model) for agent in env.agents] == [PPO, Quick, Quick, IQN]
    assert {agent.model.config.hidden_size for agent in env.agents} == {8}
    assert env.agents[1].model.config.haste == 1.0 and env.agents[1].model.config.n_step == 2


def test_what_a_user_gives_for_an_agent_wins_over_the_game():
    env = team(per_agent={0: {"algorithm": "random"}, 1: {"gamma": 0.5}})
    assert [type(agent.model) for agent in env.agents] == [RandomModel, Quick, Quick, IQN]
    assert [agent.model.config.gamma for agent in env.agents] == [0.99, 0.5, 0.99, 0.99]


def test_a_class_that_is_no_model_is_refused(monkeypatch):
    monkeypatch.setattr(Team, "algorithms", (Marker,))
    with pytest.raises(ConfigError, match=r"the algorithm of agent 0 in make_model is .*: expected a class derived"):
        team()


@pytest.mark.xdist_group("system")
def test_the_agents_of_a_game_that_chooses_are_the_same_in_other_processes():
    one, two = team(num_actors=2), team(num_actors=2)
    assert outcome(one, one.run_experiment) == outcome(two, two.run_experiment_mp)


def test_the_configuration_of_a_run_says_what_each_agent_really_was(tmp_path):
    env = team()
    last = env.agents[3]
    last.model = RandomModel(last.observation_spec, 2, env.config.model, env.agent_seed(3))
    env.run_experiment(animate=False, output_dir=tmp_path)
    values = yaml.safe_load((tmp_path / "config.yaml").read_text())
    agents = values["model"]["per_agent"]
    assert values["model"]["algorithm"] == "iqn"
    assert [agents[number]["algorithm"] for number in range(4)] == ["ppo", *[f"{__name__}:Quick"] * 2, "random"]
    assert agents[1]["haste"] == 1.0 and "n_step" not in agents[3]
    again = Team(Gridworld(3, 4, 1, EmptyEntity()), values)
    assert [type(agent.model) for agent in again.agents] == [PPO, Quick, Quick, RandomModel]
    assert [agent.model.config for agent in again.agents[:3]] == [agent.model.config for agent in env.agents[:3]]


def test_epsilon_is_at_its_floor_after_half_of_the_epochs():
    env = mixed_game(
        "model.algorithm=dqn", "model.per_agent.2.epsilon=0.9", "model.epsilon_decay=null", "experiment.epochs=8"
    )
    half = env.run_experiment(animate=False, logging=False).epochs[4]["epsilon"]
    assert half == pytest.approx(0.01)  # in the mean of those that explore by it: PPO does not


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_lane_is_populated_once_when_it_is_built_and_once_for_each_epoch(lanes, monkeypatch):
    populated, plainly = [], Team.populate_environment
    monkeypatch.setattr(Team, "populate_environment", lambda env: populated.append(env.turn) or plainly(env))
    env = Team(Gridworld(3, 4, 1, EmptyEntity()), {"experiment": {"epochs": 4}, "multiprocessing": {"num_envs": lanes}})
    assert len(populated) == 1
    env.run_experiment(animate=False, logging=False)
    assert populated == [0] * (lanes + 4)


# ---- turn orders


class Marker(Entity):
    passable = True


class Walker(MovingAgent):
    pass


class Queue(Environment):
    """Two walkers in a row, the second right behind the first; both always go right."""

    def setup_agents(self):
        view = OneHotObservationSpec(["EmptyEntity", "Walker", "Marker", "Wall"], vision_radius=1)
        actions = ActionSpec(["right"])
        self.agents = [Walker(view, actions, self.make_model(view, 1, number)) for number in range(2)]

    def populate_environment(self):
        self.world.add((0, 1, 0), self.agents[0])
        self.world.add((0, 0, 0), self.agents[1])


@pytest.mark.parametrize(("order", "sees_its_neighbour"), [("sequential", False), ("simultaneous", True)])
def test_turn_orders_differ_in_what_the_second_agent_sees(order, sees_its_neighbour):
    config = {"experiment": {"turn_order": order, "max_turns": 2}, "model": {"algorithm": "random", "n_frames": 1}}
    env = Queue(Gridworld(1, 6, 1, EmptyEntity()), config)
    env.take_turn()
    seen = env.agents[1].model.memory.trajectory(0, 0).states[0, -1]
    assert bool(seen[1, 2, 1]) == sees_its_neighbour
    assert [agent.location[1] for agent in env.agents] == [2, 1]  # acting goes in order either way


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
def test_both_turn_orders_train(order):
    env = small_game(f"experiment.turn_order={order}", "model.algorithm=iqn")
    assert env.run_experiment(animate=False, logging=False).epochs[-1]["updates"] > 0


def test_a_world_that_is_done_ends_the_epoch_and_the_last_row_says_so():
    env = small_game("model.algorithm=dqn", "experiment.epochs=1")
    transition = env.world.transition

    def until_turn_4():
        transition()
        env.world.is_done = env.turn == 4

    env.world.transition = until_turn_4
    assert env.run_experiment(animate=False, logging=False).epochs[0]["agent_steps"] == 4 * 2
    assert env.agents[0].model.memory.trajectory(0, 0).dones.tolist() == [False, False, False, True]


# ---- memories, threads


def test_generated_memories_hold_every_step_and_leave_the_agents_alone(tmp_path):
    env = small_game("model.algorithm=ppo", "model.buffer_capacity=32")
    memories = env.generate_memories(12, output_dir=tmp_path)
    assert [len(memory) for memory in memories] == [120, 120]
    assert [len(agent.model.memory) for agent in env.agents] == [0, 0]
    rows = memories[1].trajectory(0, 0)
    assert rows.valid.sum() == 12 * 9  # the last row of each game has no successor
    back = memories[1].empty_copy(120).load(tmp_path / "memories" / "agent_1.safetensors")
    assert isinstance(back, Buffer) and np.array_equal(back.trajectory(0, 0).states, rows.states)


def test_a_game_that_forgets_its_agents_is_told_what_is_missing():
    with pytest.raises(NotImplementedError, match=r"Environment\.setup_agents"):
        Environment(Gridworld(2, 2, 1, EmptyEntity()), {})


# ---- the ends of episodes


class Ender(Walker):
    """Ends the world with its second step."""

    def act(self, world, action):
        reward = super().act(world, action)
        world.is_done = self.location[1] >= 2
        return reward


class Race(Queue):
    """The second walker ends the world in its turn, after the first has taken its last step."""

    def setup_agents(self):
        super().setup_agents()
        view, actions = self.agents[0].observation_spec, self.agents[0].action_spec
        self.agents[1] = Ender(view, actions, self.make_model(view, 1, 1))
        self.agents[1].kind = "Walker"


def test_who_acted_before_the_world_ended_learns_that_it_did():
    env = Race(Gridworld(1, 6, 1, EmptyEntity()), {"model": {"algorithm": "random", "n_frames": 1}})
    memories = env.generate_memories(1)
    for memory in memories:
        rows = memory.trajectory(0, 0)
        assert rows.dones.tolist() == [False, True] and rows.valid.tolist() == [True, True]


def test_an_interrupted_epoch_does_not_run_into_the_next_one():
    env = small_game("model.algorithm=dqn", "experiment.epochs=1")
    transition = env.world.transition

    def interrupt():
        transition()
        if env.turn == 4:
            raise KeyboardInterrupt

    env.world.transition = interrupt
    with pytest.raises(KeyboardInterrupt):
        env.run_experiment(animate=False, logging=False)
    env.world.transition = transition
    env.run_experiment(animate=False, logging=False)
    memory = env.agents[0].model.memory
    assert memory.ring.fields["age"][0, :13].tolist() == [0, 1, 2, *range(10)]


@pytest.mark.parametrize("settings", [(), ("multiprocessing.num_envs=2", "multiprocessing.num_actors=2")])
def test_training_that_is_interrupted_leaves_an_environment_that_can_be_run_again(settings):
    env = small_game("model.algorithm=dqn", "experiment.epochs=8", "model.buffer_capacity=100", *settings)

    def interrupt():
        raise KeyboardInterrupt

    env.agents[1].model.train_step = interrupt
    with pytest.raises(KeyboardInterrupt):
        env.run_experiment(animate=False, logging=False)
    del env.agents[1].model.train_step
    for run in (env.run_experiment, env.run_experiment_mp):
        assert run(animate=False, logging=False).epochs[-1]["updates"] > 0


def test_an_interrupted_episode_of_another_actor_is_cut():
    env = small_game(
        "model.algorithm=dqn", "multiprocessing.num_envs=2", "multiprocessing.num_actors=2", "experiment.epochs=2"
    )
    build = env.factory

    def factory():
        other = build()
        transition = other.world.transition

        def interrupt():
            transition()
            if other.turn == 5 and not interrupted:
                interrupted.append(True)
                raise KeyboardInterrupt

        other.world.transition = interrupt
        return other

    interrupted, env.factory = [], factory
    with pytest.raises(KeyboardInterrupt):
        env.run_experiment(animate=False, logging=False)
    env.run_experiment(animate=False, logging=False)
    fields = env.agents[0].model.memory.ring.fields
    assert fields["age"][1, 3:5].tolist() == [3, 0] and bool(fields["last"][1, 3])


def test_a_run_that_diverges_says_so_and_keeps_valid_metrics(tmp_path):
    env = small_game("model.algorithm=dqn", "model.learning_rate=1e30", "experiment.epochs=6")
    env.run_experiment(animate=False, output_dir=tmp_path)
    assert metrics(tmp_path)[-1]["loss_per_agent"] == [None, None]
    assert "NaN" not in (tmp_path / "metrics.jsonl").read_text()
    assert (tmp_path / "log.txt").read_text().count("lower model.learning_rate") == 2  # once per agent


def test_agents_that_share_a_model_are_refused():
    class Twins(Queue):
        def setup_agents(self):
            super().setup_agents()
            self.agents[1].model = self.agents[0].model

    with pytest.raises(ConfigError, match="agents 0 and 1 have one and the same model"):
        Twins(Gridworld(1, 6, 1, EmptyEntity()), {"model": {"algorithm": "random"}})


def test_a_log_handler_does_not_outlive_its_run(tmp_path):
    logger = logging.getLogger("abreast")
    before = list(logger.handlers), logger.level
    small_game().run_experiment(animate=False, output_dir=tmp_path)
    assert (list(logger.handlers), logger.level) == before


def test_generated_memories_hold_every_step_with_lanes_too():
    env = small_game("multiprocessing.num_envs=4", "model.buffer_capacity=100", "model.algorithm=dqn")
    assert [len(memory) for memory in env.generate_memories(20)] == [200, 200]


def test_memories_are_given_back_when_generating_them_fails():
    env = small_game()
    own = [agent.model.memory for agent in env.agents]

    def explode():
        raise ZeroDivisionError

    env.world.transition = explode
    with pytest.raises(ZeroDivisionError):
        env.generate_memories(1)
    assert [agent.model.memory for agent in env.agents] == own


def test_two_runs_in_the_same_second_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = {small_game("experiment.epochs=1").run_experiment(animate=False).folder for _ in range(2)}
    assert len(folders) == 2


@pytest.mark.parametrize("lanes", [1, 3])
def test_lanes_play_the_same_number_of_epochs_and_updates(lanes):
    env = small_game("model.algorithm=dqn", "experiment.epochs=7", f"multiprocessing.num_envs={lanes}")
    result = env.run_experiment(animate=False, logging=False)
    assert [record["epoch"] for record in result.epochs] == list(range(7))
    assert result.epochs[-1]["agent_steps"] == 7 * 10 * 2
    due = {1: 6, 3: 7}[lanes]  # the first epoch alone is too little for a batch
    assert result.epochs[-1]["updates"] == due * 2
    written = env.agents[0].model.memory.written.tolist()
    assert written == {1: [70], 3: [30, 20, 20]}[lanes]


def test_lanes_have_worlds_of_their_own():
    env = small_game("multiprocessing.num_envs=2", "model.algorithm=random")
    env.run_experiment(animate=False, logging=False)
    one, two = (agent.observation_spec for agent in (env.lanes[0].agents[0], env.lanes[1].agents[0]))
    assert env.lanes[0].world is not env.lanes[1].world and one is not two
    assert env.lanes[1].agents[0].model is env.agents[0].model
    rows = [env.agents[0].model.memory.trajectory(lane, 0).states for lane in (0, 1)]
    assert not np.array_equal(rows[0][:10], rows[1][:10])
