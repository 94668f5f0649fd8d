"""What users bring gives identical results wherever it is run, or is refused by name; never anything else."""

import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from abreast import EmptyEntity, Environment, Gridworld
from abreast.errors import ConfigError, ModelError, RewardError, StateError, WorldError
from abreast.training.actors.process import ProcessActors
from abreast.training.learners.hosted import HostedLearners
from fakes import outcome
from strangers import games, models
from villains import harm

SMALL = {"hidden_size": 16, "batch_size": 16, "n_frames": 2, "buffer_capacity": 512, "algorithm": "dqn"}


def config(num_envs=1, num_actors=1, schedule="lockstep", epochs=8, max_turns=12, **parallel):
    return {
        "experiment": {"epochs": epochs, "max_turns": max_turns},
        "model": SMALL,
        "multiprocessing": {
            "workers": "processes",
            "num_envs": num_envs,
            "num_actors": num_actors,
            "schedule": schedule,
            **parallel,
        },
    }


def plain():
    return Gridworld(6, 6, 1, EmptyEntity())


GAMES = {
    "mutable attributes": lambda **more: games.Dirty(games.DirtyWorld(), config(**more)),
    "shared generators": lambda **more: games.Dice(plain(), config(**more)),
    "own generators": lambda **more: games.Moody(plain(), config(**more)),
    "dataclass entities": lambda **more: games.Pots(Gridworld(5, 5, 1, games.Pot()), config(**more)),
    "a Gymnasium environment": lambda **more: games.Poles(games.Pole(), config(**more)),
    "a joint payoff": lambda **more: games.JointPrisoners(plain(), config(**more)),
    "rewards given late": lambda **more: games.Prisoners(plain(), config(**more)),
}


def with_model(kind):
    class WithModel(games.Walkers):
        def make_model(self, view, n_actions, agent):
            if self._lends_models is not None:
                return super().make_model(view, n_actions, agent)
            lanes = self.config.multiprocessing.lanes
            return kind(view, n_actions, self.config.model, self.agent_seed(agent), lanes)

    return lambda **more: WithModel(plain(), config(**more))


MODELS = {
    kind.__name__: with_model(kind)
    for kind in (
        models.Bandit, models.Reinforce, models.Convolutional, models.Noisy, models.SharedDice, models.RemembersItself,
        models.SyncsAtEpochs, models.Rhythmic,
    )
}  # fmt: skip


def own_values(env):
    """What users' classes have added, as far as it can be compared."""
    names = ("dirt", "visits", "log", "days")
    found = [str(vars(env.world).get(name)) for name in names] + [str(vars(env).get("days"))]
    for agent in env.agents:
        model = agent.model
        found += [str(getattr(agent, "mood", None)), str(getattr(model, "losses", None)), model.updates]
        for name in ("values", "weights", "online", "target", "rows", "value", "baseline", "smoothed", "steps"):
            value = vars(model).get(name)
            found.append(str(value) if not isinstance(value, torch.nn.Module) else None)
        for name in ("dice", "noise"):
            generator = vars(model).get(name)
            if isinstance(generator, np.random.Generator):
                found.append(str(generator.bit_generator.state))
            elif generator is not None:
                found.append(generator.get_state().tolist())
        network = vars(model).get("network")
        found += [] if network is None else [value.tolist() for value in network.state_dict().values()]
    return found


def result(make, run, **settings):
    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002 (as left behind by whatever ran before)
    if run == "run_experiment_mp":
        random.seed(2), np.random.seed(2), torch.manual_seed(2)  # noqa: NPY002
    env = make(**settings)
    told = outcome(env, getattr(env, run))
    return told, own_values(env)


SHAPES = [{"num_envs": 4}, {"num_envs": 2, "num_actors": 2}]


LOCKSTEP = [(name, SHAPES[1]) for name in (*GAMES, *MODELS)] + [(name, SHAPES[0]) for name in [*GAMES, *MODELS][::5]]


@pytest.mark.parametrize(("name", "shape"), LOCKSTEP)
@pytest.mark.xdist_group("strangers")
def test_identical_in_lockstep(name, shape):
    make = {**GAMES, **MODELS}[name]
    assert result(make, "run_experiment_mp", **shape) == result(make, "run_experiment", **shape)


@pytest.mark.parametrize("name", ["own generators", *MODELS])
@pytest.mark.xdist_group("strangers")
def test_identical_when_pipelined_wherever_learners_live(name):
    make = {**GAMES, **MODELS}[name]
    settings = {"num_envs": 2, "schedule": "pipelined", "epochs": 12}
    told = result(make, "run_experiment_mp", **settings)
    assert told == result(make, "run_experiment_mp", workers="inline", **settings)
    assert told[0][0][-1]["updates"] > 0


DECLARED = (models.Bandit, models.Noisy, models.RemembersItself, models.SyncsAtEpochs, models.Rhythmic)


@pytest.mark.parametrize("kind", DECLARED)
@pytest.mark.parametrize("workers", ["processes", "inline"])
@pytest.mark.xdist_group("strangers")
def test_what_choosing_changes_is_refused_with_the_line_to_add(kind, workers):
    undeclared = type("Undeclared", (kind,), {"acting": ()})
    line = ", ".join(f'"{name}"' for name in kind.acting)
    settings = {"schedule": "pipelined", "workers": workers}
    with pytest.raises(ModelError, match=re.escape(f"add the line `acting = ({line},)` to the class")):
        with_model(undeclared)(**settings).run_experiment_mp(animate=False, logging=False)
    with_model(undeclared)().run_experiment(animate=False, logging=False)  # one copy of everything refuses nothing


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"])
@pytest.mark.xdist_group("strangers")
def test_what_choosing_changes_is_each_actors_own_from_the_first_pass_on(schedule):
    settings = {"num_actors": 2, "schedule": schedule, "epochs": 12}
    inline, elsewhere = (
        result(MODELS["Rhythmic"], "run_experiment_mp", workers=workers, **settings)
        for workers in ("inline", "threads")
    )
    assert inline == elsewhere


@pytest.mark.parametrize("name", ["own generators", "Reinforce", "Noisy"])
@pytest.mark.xdist_group("strangers")
def test_killed_learners_and_actors_change_nothing(name):
    make = {**GAMES, **MODELS}[name]
    settings = {"num_envs": 2, "num_actors": 2, "epochs": 60, "max_restarts": 50}
    undisturbed = result(make, "run_experiment", **settings)
    with (
        harm(HostedLearners, lambda pid: os.kill(pid, signal.SIGKILL), 0.4, 2),
        harm(ProcessActors, lambda pid: os.kill(pid, signal.SIGKILL), 0.5, 2),
    ):
        assert result(make, "run_experiment_mp", **settings) == undisturbed


def test_lanes_do_not_influence_each_other():
    """The finding: random agents scored −7.4 in 4 lanes that shared the world's dirt, −27.2 with true copies."""
    env = GAMES["mutable attributes"](num_envs=4)
    env.run_experiment(animate=False, logging=False)
    dirt = [lane.world.dirt.sum() for lane in env.lanes]
    assert dirt == [24 * 2] * 4  # two agents, twelve turns, two epochs in each lane


# ---- no reward is lost


@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
@pytest.mark.parametrize("max_turns", [1, 2, 10])
@pytest.mark.parametrize("kind", [games.Prisoners, games.JointPrisoners])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_every_reward_reaches_row_score_and_total(kind, max_turns, order, num_envs):
    settings = config(num_envs=num_envs, epochs=num_envs, max_turns=max_turns)
    settings["experiment"]["turn_order"] = order
    settings["model"] = {**SMALL, "n_frames": 1}
    env = kind(plain(), settings)
    record = env.run_experiment(animate=False, logging=False).epochs
    for lane, epoch in enumerate(record):
        rows = [agent.model.memory.trajectory(lane, 0) for agent in env.agents]
        played = [each.actions.tolist() for each in rows]
        pairs = list(zip(*played, strict=True))
        if order == "sequential" or kind is games.JointPrisoners:
            paid = [sum(games.PAYOFF[pair][player] for pair in pairs) for player in range(2)]
            assert epoch["reward_per_agent"] == paid
        assert [float(each.rewards.sum()) for each in rows] == epoch["reward_per_agent"]
        assert env.lanes[lane].world.total_reward == epoch["reward"]
        if kind is games.JointPrisoners:  # with the very step that earned it
            assert [each.rewards.tolist() for each in rows] == [
                [games.PAYOFF[pair][player] for pair in pairs] for player in range(2)
            ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (float("nan"), "nan, expected a finite number"),
        (float("inf"), "inf, expected a finite number"),
        (1e39, r"1e\+39, expected a finite number"),
        (None, "None, expected a number"),
        ("1", "'1', expected a number"),
        (np.ones(2), r"array\(\[1., 1.\]\), expected a number"),
        (torch.tensor(float("nan")), "nan, expected a finite number"),
    ],
)
@pytest.mark.parametrize("run", ["run_experiment", "run_experiment_mp"])
def test_a_reward_that_is_no_finite_number_stops_the_run_by_name(value, said, run, tmp_path):
    class Odd(games.MovingAgent):
        kind = "MovingAgent"

        def act(self, world, action):
            reward = super().act(world, action)
            return value if len(world.odd) > 7 else world.odd.append(1) or reward

    class OddGame(games.Walkers):
        body = Odd

    world = plain()
    world.odd = []
    env = OddGame(world, config(workers="inline"))
    where = r"agent 0 \(Odd\), turn 5, action \d \((up|down|left|right)\): the reward is "
    with pytest.raises(RewardError, match=where + said):
        getattr(env, run)(animate=False, output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [1, True, np.float32(1), np.int8(1), np.array(1.0), torch.tensor(1.0)])
def test_numbers_of_any_kind_are_rewards(value):
    class Paid(games.MovingAgent):
        kind = "MovingAgent"

        def act(self, world, action):
            return value

    class Pays(games.Walkers):
        body = Paid

    assert Pays(plain(), config(epochs=1)).run_experiment(animate=False, logging=False).epochs[0]["reward"] == 24.0


# ---- refused, with the reason


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (models.ClearsItsRows, "ClearsItsRows changes rows in choosing and in learning"),
        (models.OneGenerator, "OneGenerator changes dice in choosing and in learning"),
        (models.LowersItsEpsilon, "LowersItsEpsilon changes epsilon in choosing and in learning"),
    ],
)
@pytest.mark.parametrize("shape", SHAPES, ids=["4 lanes", "2 actors"])
@pytest.mark.xdist_group("strangers")
def test_a_model_that_changes_an_attribute_on_both_sides_is_refused(kind, said, shape, tmp_path):
    with pytest.raises(ModelError, match=said):
        with_model(kind)(**shape).run_experiment_mp(animate=False, output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_same_model_learns_sequentially():
    env = with_model(models.ClearsItsRows)()
    assert env.run_experiment(animate=False, logging=False).epochs[-1]["updates"] == 16


@pytest.mark.xdist_group("strangers")
def test_tensors_with_a_graph_are_refused():
    with pytest.raises(
        ModelError, match=r"KeepsGraphs changes logs in choosing .* add the line `acting = \(\"logs\",\)`"
    ):
        with_model(models.KeepsGraphs)().run_experiment_mp(animate=False, logging=False)
    declared = type("Declared", (models.KeepsGraphs,), {"acting": ("logs",)})
    with pytest.raises((ConfigError, StateError), match=r"its attribute logs .* the graph of its gradient"):
        with_model(declared)().run_experiment_mp(animate=False, logging=False)


class Locked(Gridworld):
    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        self.lock = threading.Lock()


def build_locked():
    return games.Walkers(Locked(), config(num_envs=2, num_actors=2))


@pytest.mark.parametrize(
    ("world", "said"),
    [
        (Locked, "Locked.lock .* cannot be copied for another lane"),
        (games.EnclosesAList, "EnclosesAList.rule .* share a list"),
    ],
)
def test_a_world_that_cannot_be_copied_is_refused_by_the_name_of_the_attribute(world, said, tmp_path):
    env = games.Walkers(world(), config(num_envs=2))
    with pytest.raises(WorldError, match=said):
        env.run_experiment(output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    games.Walkers(world(), config()).run_experiment(animate=False, logging=False)  # one lane needs no copy


@pytest.mark.xdist_group("strangers")
def test_what_cannot_be_copied_can_be_built_by_a_factory():
    told = []
    for run in ("run_experiment", "run_experiment_mp"):
        env = build_locked()
        env.factory = build_locked
        told.append(outcome(env, getattr(env, run)))
        assert env.lanes[0].world.lock is not env.lanes[1].world.lock
    assert told[0] == told[1]


def test_what_is_set_after_building_is_refused_where_lanes_would_not_have_it():
    env = GAMES["mutable attributes"](num_envs=2)
    env.world.bonus = 3
    with pytest.raises(ConfigError, match=r"DirtyWorld.bonus is 3, but .* another lane it is 'missing'"):
        env.run_experiment(animate=False, logging=False)
    env = GAMES["own generators"](num_envs=2)
    env.days = 5
    with pytest.raises(ConfigError, match=r"Moody.days is 5, but .* it is 1"):
        env.run_experiment(animate=False, logging=False)


def test_an_observation_outside_its_spec_is_refused():
    class Blurred(games.MovingAgent):
        kind = "MovingAgent"

        def pov(self, world):
            return super().pov(world) * 0.5

    class Blur(games.Walkers):
        body = Blurred

    with pytest.raises(WorldError, match=r"agent 0 observes float64 .* its observation spec says uint8"):
        Blur(plain(), config()).run_experiment(animate=False, logging=False)


# ---- models defined in a notebook, or in a script


NOTEBOOK = """
    from abreast import BaseModel, EmptyEntity, Gridworld
    from strangers import games
    from strangers.test_strangers import config, plain
    import numpy as np

    RATE = 0.1

    class Mine(BaseModel):
        def setup(self, learning, more):
            self.values = np.zeros(self.n_actions)
        def take_action(self, state, lane=0):
            return int((self.values + self.choosing_rng.normal(size=self.n_actions)).argmax())
        def train_step(self):
            batch = self.memory.sample(8)
            np.add.at(self.values, batch.actions, RATE * batch.rewards)
            return float(batch.rewards.mean())

    class Notebook(games.Walkers):
        def make_model(self, view, n_actions, agent):
            if self._lends_models is not None:
                return super().make_model(view, n_actions, agent)
            return Mine(view, n_actions, self.config.model, self.agent_seed(agent), self.config.multiprocessing.lanes)

    if __name__ == "__main__":
        told = []
        for run in ("run_experiment", "run_experiment_mp"):
            env = Notebook(plain(), config(num_envs=2, num_actors=2))
            epochs = getattr(env, run)(animate=False, logging=False).epochs
            told.append([[epoch["reward"] for epoch in epochs], [agent.model.values.tolist() for agent in env.agents]])
        assert told[0] == told[1] and epochs[-1]["updates"] > 0
        print("the same")
"""


@pytest.mark.parametrize("how", ["a notebook", "a script"])
@pytest.mark.xdist_group("strangers")
def test_models_and_games_of_a_notebook_or_script_learn_in_processes(how, tmp_path):
    code, tests = textwrap.dedent(NOTEBOOK), Path(__file__).parent.parent
    (tmp_path / "script.py").write_text(code)
    arguments = ["-"] if how == "a notebook" else ["script.py"]
    done = subprocess.run(
        [sys.executable, *arguments], input=code, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
    )  # fmt: skip
    assert done.stdout == "the same\n", done.stderr


# ---- new faces


class ChangesAtPass50(models.Reinforce):
    """Keeps to learning's attributes until its hundredth epoch."""

    def end_epoch_action(self, *, epoch):
        super().end_epoch_action(epoch=epoch)
        if epoch == 50:
            self.baseline = 1.0


class BothSides(models.Rhythmic):
    """Both sides count their steps, and it is declared."""

    def train_step(self):
        self.steps += 1
        return super().train_step()


class OwnOptimiser(models.DQN):
    """Plain SGD over our network, as an attribute of its own beside ours."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.sgd = torch.optim.SGD(self.online.parameters(), lr=0.01, momentum=0.9)

    def descend(self, loss):
        self.sgd.zero_grad(set_to_none=False)
        loss.backward()
        self.sgd.step()
        self.optimiser.steps += 1


class OverlappingViews(models.Bandit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.table = np.zeros(8)
        self.front, self.back = self.table[:5], self.table[3:]


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"])
@pytest.mark.xdist_group("strangers")
def test_a_change_at_pass_50_is_found_like_an_early_one(schedule):
    settings = {"epochs": 60, "max_turns": 3, "schedule": schedule}
    with pytest.raises(
        ModelError, match=r"ChangesAtPass50 changes baseline in choosing .* `acting = \(\"baseline\",\)`"
    ):
        with_model(ChangesAtPass50)(**settings).run_experiment_mp(animate=False, logging=False)


@pytest.mark.xdist_group("strangers")
def test_a_change_on_both_sides_is_refused_though_it_is_declared():
    with pytest.raises(ModelError, match=r"BothSides changes steps in choosing and in learning"):
        with_model(BothSides)().run_experiment_mp(animate=False, logging=False)


@pytest.mark.parametrize("schedule", ["lockstep", "pipelined"])
@pytest.mark.xdist_group("strangers")
def test_an_own_optimiser_over_our_network_learns_elsewhere(schedule):
    make, other = with_model(OwnOptimiser), "run_experiment" if schedule == "lockstep" else "run_experiment_mp"
    settings = {"num_envs": 2, "schedule": schedule, "epochs": 12}
    there = result(make, "run_experiment_mp", **settings)
    assert there == result(make, other, **settings, workers="inline")
    assert there[0][0][-1]["updates"] > 0


@pytest.mark.xdist_group("strangers")
def test_overlapping_views_are_refused():
    with pytest.raises(ModelError, match=r"OverlappingViews: (table|front|back) and (table|front|back) share memory"):
        with_model(OverlappingViews)().run_experiment_mp(animate=False, logging=False)


class ClosesOverItsLane(Gridworld):
    """Its rule is a function over this very world: a deep copy would stay bound to the first lane."""

    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        self.bonus = [0.0]
        self.rule = lambda: self.bonus.append(1.0)


def test_a_closure_over_a_lane_is_refused():
    with pytest.raises(WorldError, match=r"ClosesOverItsLane.rule .* its copy would share"):
        games.Walkers(ClosesOverItsLane(), config(num_envs=2)).run_experiment(animate=False, logging=False)


def test_declared_names_have_to_be_attributes():
    misspelt = type("Misspelt", (models.Rhythmic,), {"acting": ("stepps",)})
    with pytest.raises((ConfigError, ModelError), match=r"Misspelt.acting names 'stepps', but the model has no such"):
        with_model(misspelt)().run_experiment_mp(animate=False, logging=False)


def test_the_games_here_are_environments():
    assert all(isinstance(make(), Environment) for make in {**GAMES, **MODELS}.values())
