"""The same result as in its own loop, wherever learning happens and whatever dies."""

import os

import pytest

import sorrel_standin
from abreast import MARLMultiprocessingSystem, MPConfig
from abreast.integrations.sorrel import streams_apart
from abreast.integrations.sorrel.model import SorrelModel
from abreast.training.devices import compute_threads
from integrations.sorrel.helpers import SorrelExperiment, make, outcome, parallel, seed_everything, told

EACH = pytest.mark.parametrize("kind", ["values", "policy", "table", "tag"])


def own_loop(env):
    with compute_threads(1):
        env.run_experiment()
    return [(reward, losses) for reward, losses, _ in env.told]


def run(env, settings=None, **options):
    experiment = SorrelExperiment(env, settings, **options)
    how = experiment.run_experiment if settings is None else experiment.run_experiment_mp
    return how(animate=False, logging=False)


@EACH
def test_sequential_runs_equal_its_own_loop_from_the_same_seeds(kind):
    theirs, ours = make(kind), make(kind)
    seed_everything(1)
    expected = own_loop(theirs)
    seed_everything(1)
    result = run(ours, streams="shared")
    assert told(result) == expected
    assert len(expected) == 6  # one more than asked for
    assert outcome(ours) == outcome(theirs)
    assert outcome(ours) != outcome(make(kind))


@EACH
def test_with_streams_apart_sequential_and_parallel_runs_equal_its_own_loop(kind):
    theirs, ours = make(kind), make(kind)
    with streams_apart(theirs, seed=0):
        expected = own_loop(theirs)
    assert told(run(ours)) == expected
    assert outcome(ours) == outcome(theirs)
    lockstep = make(kind)
    assert told(run(lockstep, parallel("lockstep"))) == expected
    assert outcome(lockstep) == outcome(theirs)


def test_pipelined_is_the_same_for_any_number_of_processes():
    """(Lockstep in processes: `test_a_killed_learner_changes_nothing`.)"""
    inline, processes, sequential = make(epochs=9), make(epochs=9), make(epochs=9)
    run(inline, parallel("pipelined"))
    run(processes, parallel("pipelined", "processes", num_workers=1))
    run(sequential)
    assert outcome(inline) == outcome(processes) != outcome(sequential)


def test_where_a_plan_lets_learners_live_in_this_thread_lockstep_copies_nothing(monkeypatch):
    sequential, env = make(), make()
    run(sequential)
    monkeypatch.setattr("abreast.training.plan.cores", lambda: 1)
    monkeypatch.delattr(SorrelModel, "separate")
    run(env, parallel("lockstep", "auto"))
    assert outcome(env) == outcome(sequential)
    with pytest.raises(AttributeError, match="separate"):
        run(make(), parallel("pipelined", "auto"))  # an epoch is played before the round of the last is trained


def test_a_killed_learner_changes_nothing(tmp_path):
    def killed(witness):
        env = make("values", sorrel_standin.Killed)
        for number, agent in enumerate(env.agents):
            agent.model.home, agent.model.witness = os.getpid(), str(witness / str(number))
        return env

    expected = killed(tmp_path)
    run(expected)
    env = killed(tmp_path)
    with MARLMultiprocessingSystem(env, env.agents, MPConfig(schedule="lockstep", workers="processes")) as system:
        epochs = system.run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    assert epochs[-1]["time"]["restarts"] >= 1
    for each in (expected, env):
        for agent in each.agents:
            del agent.model.home, agent.model.witness
    assert outcome(env) == outcome(expected)


def test_the_system_takes_an_environment_as_it_is():
    sequential, env = make("policy"), make("policy")
    run(sequential)
    models = [agent.model for agent in env.agents]
    with MARLMultiprocessingSystem(env, env.agents, MPConfig(schedule="lockstep", workers="inline")) as system:
        assert len(system.run()) == 6
    assert [agent.model for agent in env.agents] == models
    assert outcome(env) == outcome(sequential)
    assert all("add" not in vars(model.memory) and "reset" not in vars(model) for model in models)
