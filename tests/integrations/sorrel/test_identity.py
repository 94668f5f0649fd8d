"""The same result as in its own loop, bit for bit."""

import pytest

import sorrel_standin
from abreast.integrations.sorrel import Generators
from abreast.training.devices import compute_threads
from integrations.sorrel.helpers import SorrelExperiment, make, outcome, seed_everything, told


def own_loop(env):
    with compute_threads(1):
        env.run_experiment()
    return [(reward, losses) for reward, losses, _ in env.told]


@pytest.mark.parametrize("kind", ["values", "policy", "table", "tag"])
def test_a_run_equals_its_own_loop_with_the_same_seed(kind):
    theirs, ours, others = make(kind), make(kind), make(kind)
    seed_everything(1)
    expected = own_loop(theirs)
    result = SorrelExperiment(ours, {"experiment": {"seed": 1}}).run_experiment(animate=False, logging=False)
    assert told(result) == expected
    assert len(expected) == 6  # one more than asked for
    assert outcome(ours) == outcome(theirs) != outcome(others)
    SorrelExperiment(others).run_experiment(animate=False, logging=False)
    assert outcome(others) != outcome(ours)  # another seed


def test_a_run_may_go_on_from_where_the_generators_are():
    theirs, ours = make(), make()
    seed_everything(5)
    expected = own_loop(theirs)
    seed_everything(5)
    assert told(SorrelExperiment(ours, seeded=False).run_experiment(animate=False, logging=False)) == expected
    assert outcome(ours) == outcome(theirs)


@pytest.mark.parametrize(
    "model",
    [
        sorrel_standin.Counting,
        sorrel_standin.OwnStream,
        sorrel_standin.NoisyChoice,
        sorrel_standin.ShakesAtStart,
        sorrel_standin.ForgetsInTraining,
        sorrel_standin.Locked,
    ],
)
def test_models_may_change_whatever_and_whenever_they_like(model):
    env, theirs = make("values", model), make("values", model)
    SorrelExperiment(env).run_experiment(animate=False, logging=False)
    with compute_threads(1), Generators(0):
        theirs.run_experiment()
    assert outcome(env) == outcome(theirs)


def test_a_memory_may_hold_anything_and_learning_may_look_at_epsilon():
    env, theirs = make("values", sorrel_standin.Wordy), make("values", sorrel_standin.Wordy)
    result = SorrelExperiment(env).run_experiment(animate=False, logging=False)
    with Generators(0):
        theirs.run_experiment()
    assert told(result) == [(reward, losses) for reward, losses, _ in theirs.told]
    assert env.agents[0].model.epsilon == theirs.agents[0].model.epsilon


def test_training_of_its_own_is_called():
    env, theirs, plain = make(sorrel_standin.OwnTraining), make(sorrel_standin.OwnTraining), make()
    for each in (env, plain):
        SorrelExperiment(each).run_experiment(animate=False, logging=False)
    with compute_threads(1), Generators(0):
        theirs.run_experiment()
    assert outcome(env) == outcome(theirs) != outcome(plain)


def test_the_environment_itself_is_trained_and_left_without_a_trace():
    env = make("policy")
    models, memories = ([agent.model for agent in env.agents], [agent.model.memory for agent in env.agents])
    result = SorrelExperiment(env).run_experiment(animate=False, logging=False)
    assert [agent.model for agent in env.agents] == models
    assert [model.memory for model in models] == memories
    assert all("add" not in vars(memory) for memory in memories)
    for record in result.epochs:  # what was put into the memories is what the world has given
        assert sum(record["reward_per_agent"]) == record["metrics"]["total_reward"]
