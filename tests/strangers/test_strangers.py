"""What users bring gives identical results wherever it is run, or is refused by name; never anything else."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from itertools import cycle, product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from abreast import EmptyEntity, Environment, Gridworld
from abreast.errors import ConfigError, ModelError, RewardError, StateError, WorldError
from abreast.training.actors.process import ProcessActors
from abreast.training.learners.hosted import HostedLearners
from fakes import outcome
from strangers import games, models
from strangers.cases import (
    EPOCHS,
    GAMES,
    MODELS,
    SMALL,
    STRANGERS,
    config,
    kept,
    plain,
    play,
    result,
    with_model,
    with_models,
)

FULL = bool(os.environ.get("ABREAST_CHAOS"))
HERE = {
    "lockstep": {"run": "run_experiment"},
    "pipelined": {"run": "run_experiment_mp", "schedule": "pipelined", "workers": "inline"},
}
"""One copy of everything, by schedule: what all other ways have to be equal to."""
SHAPES = {"4 lanes": {"num_envs": 4, "num_workers": 1}, "2 actors": {"num_envs": 4, "num_actors": 2}}
SHARE_GENERATORS = ("shared generators", "SharedDice")
"""Threads share them, too: there nothing is promised."""


def cases():
    """Each stranger in one schedule and shape, in processes or in threads, begun here or there, in turn; with ABREAST_CHAOS
    in all of them.
    """
    for number, name in enumerate(STRANGERS):
        for case in product(HERE, SHAPES, ("processes", "threads"), ("begun here", "begun there")):
            schedule, shape, workers, begun = (number // step % 2 for step in (1, 2, 4, 8))
            workers = "processes" if workers or name in SHARE_GENERATORS else "threads"
            chosen = list(HERE)[schedule], list(SHAPES)[shape], workers, ("begun here", "begun there")[begun]
            if case == chosen or (FULL and (case[2] == "processes" or name not in SHARE_GENERATORS)):
                yield name, *case


@pytest.mark.parametrize(("name", "schedule", "shape", "workers", "begun"), list(cases()))
@pytest.mark.xdist_group("strangers")
def test_the_same_wherever_it_runs_and_whenever_it_is_stopped(name, schedule, shape, workers, begun, tmp_path, caplog):
    """Half of a run is played with one copy of everything, the other half with learners and actors elsewhere."""
    make, folder = STRANGERS[name], tmp_path / "run"
    here = {**HERE[schedule], **SHAPES[shape]}
    there = {**here, "run": "run_experiment_mp", "workers": workers}
    whole = result(make, epochs=EPOCHS, **here)
    assert whole[0][0][-1]["updates"] > 0 or name == "Heuristic"
    if name == "a Gymnasium environment":
        assert result(make, epochs=EPOCHS, **there) == whole  # and cannot be resumed
        return
    with pytest.raises(KeyboardInterrupt):
        play(make, stop_at=7, output_dir=folder, **(here if begun == "begun here" else there))
    assert "cannot be resumed" not in caplog.text
    assert kept(folder, play(make, resume=folder, **(there if begun == "begun here" else here))) == whole


def spread(kinds, ways):
    """Each kind in one of the ways, in turn; with ABREAST_CHAOS, in all of them."""
    return list(product(kinds, ways)) if FULL else list(zip(kinds, cycle(ways), strict=False))


DECLARED = (models.Bandit, models.Noisy, models.RemembersItself, models.SyncsAtEpochs, models.Rhythmic)


@pytest.mark.parametrize(("kind", "workers"), spread(DECLARED, ("processes", "inline")))
@pytest.mark.xdist_group("strangers")
def test_what_choosing_changes_is_refused_with_the_line_to_add(kind, workers):
    undeclared = type("Undeclared", (kind,), {"acting": ()})
    line = ", ".join(f'"{name}"' for name in kind.acting)
    settings = {"schedule": "pipelined", "workers": workers}
    with pytest.raises(ModelError, match=re.escape(f"add the line `acting = ({line},)` to the class")):
        with_model(undeclared)(**settings).run_experiment_mp(animate=False, logging=False)
    with_model(undeclared)().run_experiment(animate=False, logging=False)  # one copy of everything refuses nothing


class KillsAt:
    """A logger that kills a process of some kind when an epoch is recorded."""

    def __init__(self, **epochs):
        self.epochs, self.hosts = epochs, {}

    @contextlib.contextmanager
    def watching(self):
        with contextlib.ExitStack() as stack:
            for name, kind in {"learner": HostedLearners, "actor": ProcessActors}.items():
                stack.enter_context(mock.patch.object(kind, "__init__", self._noticed(name, kind.__init__)))
            yield

    def _noticed(self, name, original):
        def noticed(host, *arguments, **keywords):
            original(host, *arguments, **keywords)
            self.hosts[name] = host

        return noticed

    def record_epoch(self, epoch, loss, reward, epsilon, **more):
        for name in [name for name, at in self.epochs.items() if at == epoch]:
            os.kill(self.hosts[name].pids[0], signal.SIGKILL)


@pytest.mark.parametrize(
    ("make", "epochs"),
    [
        (with_models(models.OwnOptimiser, models.LowersItsLearningRate, game=games.Moody), {"learner": 3, "actor": 7}),
        (with_models(models.Noisy, models.Reinforce), {"learner": 3}),  # whose choosing is their own: one actor plays
    ],
    ids=["values of learning and of the world", "values of choosing"],
)
@pytest.mark.xdist_group("strangers")
def test_killed_learners_and_actors_change_nothing(make, epochs, tmp_path):
    shape, logger = SHAPES["2 actors"], KillsAt(**epochs)
    undisturbed = result(make, "run_experiment", epochs=EPOCHS, **shape)
    with logger.watching():
        env = play(make, "run_experiment_mp", logger=logger, output_dir=tmp_path / "run", **shape)
    assert kept(tmp_path / "run", env) == undisturbed
    health = {key: value for host in logger.hosts.values() for key, value in host.health().items()}
    assert health["restarts"] == 1 and health.get("actor_restarts", 0) == ("actor" in epochs)


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


class BothSides(models.Rhythmic):
    """Both sides count their steps, and it is declared."""

    def train_step(self):
        self.steps += 1
        return super().train_step()


ON_BOTH_SIDES = {
    models.ClearsItsRows: "rows",
    models.OneGenerator: "dice",
    models.LowersItsEpsilon: "epsilon",
    BothSides: "steps",
}


@pytest.mark.parametrize(("kind", "shape"), spread(ON_BOTH_SIDES, SHAPES))
@pytest.mark.xdist_group("strangers")
def test_a_model_that_changes_an_attribute_on_both_sides_is_refused_though_it_is_declared(kind, shape, tmp_path):
    said = f"{kind.__name__} changes {ON_BOTH_SIDES[kind]} in choosing and in learning"
    with pytest.raises(ModelError, match=said):
        with_model(kind)(**SHAPES[shape]).run_experiment_mp(animate=False, output_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_same_model_learns_sequentially():
    env = with_model(models.ClearsItsRows)()
    assert env.run_experiment(animate=False, logging=False).epochs[-1]["updates"] == 16


@pytest.mark.xdist_group("strangers")
def test_tensors_with_a_graph_are_refused():
    with pytest.raises(ModelError, match="KeepsGraphs changes logs in choosing and in learning"):
        with_model(models.KeepsGraphs)().run_experiment_mp(animate=False, logging=False)
    declared = type("Declared", (models.KeepsGraphs,), {"acting": ("logs",)})
    with pytest.raises((ConfigError, StateError), match=r"its attribute logs .* the graph of its gradient"):
        with_model(declared)().run_experiment_mp(animate=False, logging=False)


class Locked(Gridworld):
    def __init__(self):
        super().__init__(6, 6, 1, EmptyEntity())
        self.lock = threading.Lock()


def build_locked():
    return games.Walkers(Locked(), config(num_envs=4, num_actors=2))


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
    from strangers.cases import config, plain
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
            env = Notebook(plain(), config(num_envs=4, num_actors=2))
            epochs = getattr(env, run)(animate=False, logging=False).epochs
            told.append([[epoch["reward"] for epoch in epochs], [agent.model.values.tolist() for agent in env.agents]])
        assert told[0] == told[1] and epochs[-1]["updates"] > 0
        print("the same")
        if "__file__" in globals():  # once more, as a notebook has it: in the same place, and in no file
            from pathlib import Path

            code = Path(__file__).read_text()
            del __file__
            exec(compile(code, "<stdin>", "exec"))
"""


@pytest.mark.xdist_group("strangers")
def test_models_and_games_of_a_script_or_notebook_learn_in_processes(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(NOTEBOOK))
    path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "script.py"], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout == "the same\nthe same\n", done.stderr


# ---- new faces


class ChangesAtPass50(models.Reinforce):
    """Keeps to learning's attributes until its fiftieth epoch."""

    def end_epoch_action(self, *, epoch):
        super().end_epoch_action(epoch=epoch)
        if epoch == 50:
            self.baseline = 1.0


class OverlappingViews(models.Bandit):
    def setup(self, learning, more):
        super().setup(learning, more)
        self.table = np.zeros(8)
        self.front, self.back = self.table[:5], self.table[3:]


@pytest.mark.parametrize(("schedule", "workers"), spread(HERE, ("processes", "inline")))
@pytest.mark.xdist_group("strangers")
def test_a_change_at_pass_50_is_found_like_an_early_one(schedule, workers):
    settings = {"epochs": 60, "max_turns": 3, "schedule": schedule, "workers": workers}
    with pytest.raises(ModelError, match="ChangesAtPass50 changes baseline in choosing and in learning"):
        with_model(ChangesAtPass50)(**settings).run_experiment_mp(animate=False, logging=False)


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
