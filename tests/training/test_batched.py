"""Games in batched worlds: the same rules, whole passes on a device. (Wherever learners live: promises/.)"""

import logging

import numpy as np
import pytest
import torch

from abreast.cli import run
from abreast.errors import ConfigError, RewardError, StateError, WorldError
from abreast.games import find_game
from abreast.models import DQN, RandomModel
from abreast.models.lane_streams import ALL_LANES, LaneStreams
from abreast.state import State
from abreast.training import whole_pass
from abreast.training.actors.base import models_of
from abreast.training.batched import BatchedLanes, WholePass
from abreast.training.collect import collect_pass
from abreast.training.evaluate import evaluate, play_episodes
from abreast.training.lanes import GridworldLanes
from abreast.training.system import MARLMultiprocessingSystem
from batched_game import BatchedMeadow, Grass, HostileMeadow, MeadowEnv
from fakes import outcome, small_game, timeless

MIXED = "{1: {algorithm: ppo}, 2: {algorithm: dqn, n_frames: 3}, 3: {algorithm: random}}"
BATCHED = ("world.batched=true", "multiprocessing.num_envs=4", "experiment.epochs=10", "model.buffer_capacity=320")


def meadow(kind=MeadowEnv, lanes=4, is_batched=True, **sections):
    own = {
        "experiment": {"num_agents": 4, "max_turns": 9, "epochs": 3 * lanes, **sections.pop("experiment", {})},
        "model": {
            "hidden_size": 16,
            "batch_size": 8,
            "n_frames": 2,
            "buffer_capacity": 400,
            **sections.pop("model", {}),
        },
        "world": {"batched": is_batched, **sections.pop("world", {})},
        "multiprocessing": {"num_envs": lanes, **sections.pop("multiprocessing", {})},
    }
    return kind.make({**own, **sections})


def mixed_meadow(**given):
    agents = {1: {"algorithm": "ppo"}, 2: {"algorithm": "dqn", "n_frames": 3}, 3: {"algorithm": "random"}}
    return meadow(model={"per_agent": agents}, **given)


def rows_of(env):
    """Everything that was remembered."""
    return [
        {name: array.tobytes() for name, array in model.memory.state().arrays.items()} for model in models_of(env.game)
    ]


def turn_by_turn(monkeypatch):
    """No pass is played as a whole."""
    monkeypatch.setattr(BatchedLanes, "play_pass", lambda *given: None)


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
def test_a_strangers_batched_world_is_played_like_its_object_world(order, monkeypatch):
    turn_by_turn(monkeypatch)
    passes = []
    for is_batched in (True, False):
        env = mixed_meadow(is_batched=is_batched, experiment={"turn_order": order})
        assert isinstance(env.game, BatchedLanes if is_batched else GridworldLanes)
        played = [collect_pass(env.game, epoch, 4, 0) for epoch in (0, 4)] + [collect_pass(env.game, 8, 3, 0)]
        passes.append((played, rows_of(env)))
    assert passes[0] == passes[1]
    assert any(each.metrics["gifts"] for each in passes[0][0][0])


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("game", ["meadow", "treasurehunt", "staghunt"])
def test_a_whole_pass_is_like_one_that_is_played_turn_by_turn_with_the_same_numbers(game, order, monkeypatch):
    def make():
        if game == "meadow":
            return mixed_meadow(experiment={"turn_order": order})
        agents = ("experiment.num_agents=4", f"model.per_agent={MIXED}", f"experiment.turn_order={order}")
        return small_game(*BATCHED, *agents, game=game)

    whole = make()
    lanes, turns = 4, whole.config.experiment.max_turns
    results = [[collect_pass(whole.game, epoch, count, 0) for epoch, count in ((0, 4), (4, 3))], rows_of(whole)]
    drawn = {}

    def draw(streams, asked):
        key = (id(streams), streams._epoch)
        if key not in drawn:
            generator = torch.Generator().manual_seed(streams.seed_of_pass(ALL_LANES))
            drawn[key] = iter(
                torch.empty((turns, lanes, 2), dtype=torch.float64).uniform_(generator=generator).tolist()
            )
        return next(drawn[key])[: len(asked)]

    monkeypatch.setattr(LaneStreams, "draw", draw)
    monkeypatch.setattr(RandomModel, "take_actions", lambda model, states, numbers: [
        model.drawn_action(die, lane) for lane, (_, die) in zip(numbers, model.streams.draw(numbers), strict=True)
    ])  # fmt: skip
    turn_by_turn(monkeypatch)
    other = make()
    played = [collect_pass(other.game, epoch, count, 0) for epoch, count in ((0, 4), (4, 3))]
    assert results == [played, rows_of(other)]
    assert np.std([each.reward_per_agent for each in played[0]]) > 0


def test_a_run_that_goes_on_is_the_one_that_never_stopped(tmp_path):
    settings = (*BATCHED, "model.per_agent={1: {algorithm: ppo}}", "model.epsilon_decay=0.05")
    whole = small_game(*settings)
    expected = outcome(whole, whole.run_experiment)
    small_game(*settings, "experiment.epochs=8").run_experiment(output_dir=tmp_path / "run", animate=False)
    env = small_game(*settings)
    epochs = timeless(env.run_experiment(resume=tmp_path / "run", animate=False).epochs)
    assert epochs == expected[0]
    assert rows_of(env) == rows_of(whole)


def test_passes_differ_and_follow_from_the_seed():
    def played(seed):
        env = small_game(*BATCHED, f"experiment.seed={seed}")
        return [collect_pass(env.game, 0, 4, seed) for _ in range(2)]

    assert played(0) == played(0)
    assert played(0)[0] != played(0)[1] != played(1)[1]


def test_what_an_agent_chooses_follows_from_its_own_stream_alone():
    def actions(agents):
        env = meadow(experiment={"num_agents": agents}, model={"algorithm": "random"})
        collect_pass(env.game, 0, 4, 0)
        return [model.memory.ring.fields["actions"][:, :9].tolist() for model in models_of(env.game)]

    few, many = actions(2), actions(4)
    assert many[:2] == few
    assert many[0] != many[1]
    assert many[0][0] != many[0][1]


def test_evaluation_leaves_no_trace_and_its_episodes_follow_from_its_seed():
    env, other = small_game(*BATCHED), small_game(*BATCHED)
    first = evaluate(env, 6, seed=3)
    assert evaluate(env, 4, seed=3).rewards == first.rewards[:4]
    assert evaluate(env, 4, seed=4).rewards != first.rewards[:4]
    assert len({tuple(each) for each in first.rewards}) > 1
    assert evaluate(env, 4, seed=3, greedy=False).rewards != first.rewards[:4]
    assert outcome(env, env.run_experiment) == outcome(other, other.run_experiment)


def test_a_turn_is_over_the_same_tensors_in_every_pass():
    env = small_game(*BATCHED, "model.per_agent={1: {algorithm: ppo}}")
    env.run_experiment(animate=False, logging=False)
    whole = env.game._whole
    env.run_experiment(animate=False, logging=False)
    assert env.game._whole is whole
    play_episodes(env, 8)  # greedy: PPO takes another way through its choice
    assert env.game._whole is not whole
    greedy = env.game._whole
    play_episodes(env, 8)
    assert env.game._whole is greedy


class OnGpu:
    """Calls a turn as `Recorded` does on a GPU: a few times to record it, then once for every call."""

    def __init__(self, function, device, changed, name):
        self._function, self.is_recordable, self._is_recorded = function, True, False

    def __call__(self):
        if self.is_recordable and not self._is_recorded:
            self._is_recorded = True
            for _ in range(3):
                self._function()
        self._function()


def test_turns_that_recording_needs_do_not_count(monkeypatch):
    short = (*BATCHED, "experiment.max_turns=2", "model.per_agent={1: {algorithm: ppo}}")
    env = small_game(*short)
    expected = outcome(env, env.run_experiment)
    monkeypatch.setattr(whole_pass, "Recorded", OnGpu)
    env = small_game(*short)
    assert outcome(env, env.run_experiment) == expected
    assert env.game._whole._play._is_recorded


def test_a_turn_with_a_network_of_a_users_is_not_recorded(monkeypatch):
    monkeypatch.setattr(whole_pass, "Recorded", OnGpu)
    env = small_game(*BATCHED, "model.network=own_networks:TwoLayers")
    collect_pass(env.game, 0, 4, 0)
    assert env.game._whole is not None
    assert not env.game._whole._play._is_recorded


class Muttering(DQN):
    """A user's model, which is asked lane by lane."""

    def take_action(self, state, lane=0):
        return super().take_action(state, lane)


def test_a_users_model_is_asked_state_by_state_and_that_is_told_once(caplog):
    env = meadow(model={"algorithm": f"{__name__}:Muttering"})
    with caplog.at_level(logging.INFO, "abreast"):
        env.run_experiment(animate=False, logging=False)
    said = "MeadowEnv is played turn by turn, not on the device as a whole: agent 0: Muttering.take_action is your own"
    assert [record.message[: len(said)] for record in caplog.records if "turn by turn" in record.message] == [said]
    assert all(model.memory.written.tolist() == [27] * 4 for model in models_of(env.game))


def test_agents_learn_in_a_batched_world():
    learning = {"algorithm": "dqn", "epsilon_min": 0.01, "learning_rate": 0.005, "gradient_steps": 8, "batch_size": 32}
    env = meadow(lanes=8, experiment={"num_agents": 1, "epochs": 96}, model={**learning, "buffer_capacity": 4000})
    epochs = env.run_experiment(animate=False, logging=False).epochs
    env.act_at_random()
    random = evaluate(env, 32).sum.mean
    assert np.mean([epoch["reward"] for epoch in epochs[-16:]]) > random + 1


# ---- what goes wrong


class Infinite(BatchedMeadow):
    def act(self, agent, actions):
        rewards = super().act(agent, actions)
        return rewards / 0 if agent == 2 else rewards


class Late(BatchedMeadow):
    def act(self, agent, actions):
        self.given_LN[:, 0] += float("inf") if agent == 3 else 0
        return super().act(agent, actions)


class Shortsighted(BatchedMeadow):
    def view(self, agent):
        return super().view(agent)[:, 1:]


def environment_with(world):
    class Env(MeadowEnv):
        batched_world = world

    return Env


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_reward_that_is_not_finite_names_the_agent_and_nothing_of_a_whole_pass_is_remembered(is_whole, monkeypatch):
    if not is_whole:
        turn_by_turn(monkeypatch)
    env = meadow(environment_with(Infinite))
    with pytest.raises(RewardError, match=r"agent 2, turn \d, action \d: the reward is (inf|nan), expected a finite"):
        collect_pass(env.game, 0, 4, 0)
    assert not is_whole or all(not model.memory.written.any() for model in models_of(env.game))
    env = meadow(environment_with(Late))
    with pytest.raises(RewardError, match="the reward is inf"):
        collect_pass(env.game, 0, 4, 0)


def test_a_view_of_another_shape_is_refused():
    with pytest.raises(WorldError, match=r"Shortsighted.view of agent 0 returned torch.uint8 of shape \(4, 2, 3, 2\)"):
        collect_pass(meadow(environment_with(Shortsighted)).game, 0, 4, 0)


def test_a_pass_that_does_not_fit_is_told_as_settings_to_lower():
    env = meadow()
    env.config = env.config.with_derived(experiment=env.config.experiment.with_derived(max_turns=10**13))
    with pytest.raises(ConfigError, match=r"not enough memory .* multiprocessing.num_envs or experiment.max_turns"):
        collect_pass(env.game, 0, 4, 0)


def test_a_state_of_another_game_is_refused():
    env = meadow()
    assert env.game.state().facts == {"passes": 0}
    with pytest.raises(StateError, match="the number of passes of a batched world is None, expected a count"):
        env.game.set_state(State({"lane0.world": 1}))


def changed(env):
    env.world.size = 3
    return env


def with_factory(env):
    env.factory = meadow
    return env


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: meadow(HostileMeadow), "world.batched is true, but HostileMeadow has no batched world: leave"),
        (
            lambda: meadow(multiprocessing={"num_actors": 2}),
            "multiprocessing.num_actors is 2, and it takes one actor",
        ),
        (lambda: changed(meadow()), "Meadow.size is 3, but in an environment that is built for another lane it is"),
        (lambda: with_factory(meadow()), "env.factory is a function of your own"),
        (lambda: meadow(is_batched="maybe"), "world.batched is 'maybe': expected a valid boolean or 'auto'"),
    ],
)
def test_what_cannot_be_batched_is_refused_by_name(make, said):
    with pytest.raises(ConfigError) as refusal:
        make().run_experiment(animate=False, logging=False)
    assert said in str(refusal.value)


class OwnGame(MeadowEnv):
    """A game of a user's, derived from one with a batched world."""


@pytest.mark.parametrize("game", ["cleanup", "tag", f"{__name__}:OwnGame", "own_game.py", "gymnasium:CartPole-v1"])
def test_a_game_without_a_batched_world_is_refused_with_those_that_have_one(game, monkeypatch, capsys, request):
    monkeypatch.chdir(request.path.parent.parent)
    name = find_game(game).name
    said = (
        f"{name} has no batched world, so world.batched cannot be true: leave it out."
        " (`abreast settings GAME` lists world.batched if there is one.)"
    )
    for way in ("--batched", "world.batched=true"):
        assert run(["train", game, way]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert said in told or (game.startswith("gymnasium") and "takes no argument 'batched'" in told)


def on_a_gpu(env):
    """As if its models learned on one."""
    for agent in env.agents:
        agent.model.device = "cuda:0"
    return env


def test_auto_is_batched_on_a_gpu_with_many_lanes_if_all_can(caplog):
    assert not meadow(lanes=32, is_batched="auto").is_batched  # on the CPU
    assert on_a_gpu(meadow(lanes=32, is_batched="auto")).is_batched
    assert not on_a_gpu(meadow(lanes=31, is_batched="auto")).is_batched
    with caplog.at_level(logging.INFO, "abreast"):
        assert not on_a_gpu(
            meadow(lanes=32, is_batched="auto", model={"algorithm": f"{__name__}:Muttering"})
        ).is_batched
        assert not on_a_gpu(meadow(HostileMeadow, lanes=32, is_batched="auto")).is_batched
        assert not on_a_gpu(meadow(lanes=32, is_batched="auto", multiprocessing={"num_actors": 2})).is_batched
    assert [record.message.partition(": ")[2][:37] for record in caplog.records] == [
        "agent 0: Muttering.take_action is you",
        "HostileMeadow has no batched world",
        "multiprocessing.num_actors is 2, and ",
    ]


def test_no_lane_is_built_of_objects():
    env = meadow(lanes=6, model={"algorithm": "random"})
    env.run_experiment(animate=False, logging=False)
    assert len(env._lanes) == 1


def test_a_plan_keeps_learners_in_the_thread_of_a_batched_world():
    def plan_of(env):
        return MARLMultiprocessingSystem(env, env.agents, env.config).plan

    plan = plan_of(meadow())
    assert (plan.workers, plan.num_actors, plan.is_open) == ("inline", 1, False)
    assert "playing and learning share the device" in plan.reasons[1]
    plan = plan_of(meadow(lanes=16, multiprocessing={"workers": "processes"}))
    assert (plan.workers, plan.num_actors, plan.is_open) == ("processes", 1, False)


# ---- commands


def test_commands_on_a_batched_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    small = ["model.hidden_size=16", "experiment.num_agents=2", "experiment.max_turns=5", "experiment.record_period=4"]
    small += ["multiprocessing.num_envs=4", "multiprocessing.device=cpu", "model.buffer_capacity=400"]
    assert run(["train", "treasurehunt", "--batched", "--epochs", "6", "--output", "run", *small]) == 0
    films = {path.name for path in (tmp_path / "run" / "replays").glob("*.gif")}
    assert films == {"epoch_000000.gif", "epoch_000004.gif", "last.gif", "best.gif"}
    assert run(["train", "--resume", "run", "--epochs", "8"]) == 0
    assert run(["eval", "run", "--episodes", "5"]) == 0
    capsys.readouterr()
    assert run(["play", "run"]) == 0
    assert "turn 5" in capsys.readouterr().out


def test_a_picture_shows_the_first_lane_as_it_is():
    env = meadow()
    pictures = []
    collect_pass(env.game, 0, 4, 0, on_turn=lambda: pictures.append(env.game.picture()))
    assert len(pictures) == 10
    grass = [[cell[0].kind == Grass.kind for cell in row] for row in env.world.map]
    assert grass == (env.game.world.cells_LHW[0] == env.game.world.number(Grass)).tolist()
    assert np.asarray(pictures[0]).tolist() != np.asarray(pictures[-1]).tolist()
    assert isinstance(env.game._whole, WholePass)
