"""Debug mode: the same results, and the first fault named."""

import numpy as np
import pytest

from abreast.errors import ModelError, ReplayError
from abreast.models.dqn import DQN
from fakes import small_game, timeless


def weights(env):
    return [agent.model.learning_state().arrays for agent in env.agents]


@pytest.mark.parametrize("schedule", ["sequential", "pipelined"])
@pytest.mark.parametrize("agents", [2, 3])  # one by one, and stacked
def test_debug_changes_no_result(schedule, agents):
    runs = []
    for debug in (False, True):
        env = small_game(f"experiment.num_agents={agents}", "model.algorithm=dqn", "multiprocessing.workers=threads")
        run = env.run_experiment if schedule == "sequential" else env.run_experiment_mp
        result = run(animate=False, logging=False, debug=debug)
        runs.append((timeless(result.epochs), weights(env)))
        assert not any(agent.model.own_attributes.is_guarded for agent in env.agents)
    (records, first), (checked, second) = runs
    assert records == checked and records[-1]["updates"]
    for one, other in zip(first, second, strict=True):
        assert one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


class Faulty(DQN):
    """Spoils one of its rows in the second epoch."""

    spoilt = "rewards", np.nan

    def end_epoch_action(self, *, epoch):
        super().end_epoch_action(epoch=epoch)
        if epoch == 1:
            name, value = self.spoilt
            self.memory.ring.fields[name][0, 13] = value


class NeverWritten(Faulty):
    spoilt = "age", -1


class NoSuchAction(Faulty):
    spoilt = "actions", 4


class LosesItsWeights(DQN):
    """Its third update has a gradient that is no number."""

    STACK = None

    def loss(self, *arguments):
        reported = super().loss(*arguments)
        is_third = self.updates == 2
        return {name: value * float("nan") if is_third else value for name, value in dict(reported).items()}


class CountsItsChoices(DQN):
    """Choosing changes what it does not say is choosing's."""

    def setup(self, learning, more):
        super().setup(learning, more)
        self.choices = 0

    def take_actions(self, states, lanes):
        self.choices += 1
        return super().take_actions(states, lanes)


@pytest.mark.parametrize(
    ("kind", "error", "says"),
    [
        (Faulty, ReplayError, r"debug: agent 1, epoch 1, turn 3 of an episode in lane 0 \(row 13\): the reward is not"),
        (NeverWritten, ReplayError, r"debug: agent 1, epoch 1, turn -1 .*: the row was never written whole\."),
        (NoSuchAction, ReplayError, r"debug: agent 1, epoch 1, turn 3 .*: the action is none of 4\."),
        (
            LosesItsWeights,
            ModelError,
            r"debug: agent 1, epoch 3, update 3: the gradient of online\.\S+ is not finite\.",
        ),
        (CountsItsChoices, ModelError, r"CountsItsChoices changes choices in choosing"),
    ],
)
def test_the_first_fault_ends_the_run_and_is_named(kind, error, says):
    env = small_game("model.algorithm=dqn", "experiment.epochs=8", "experiment.train_interval=1")
    agent = env.agents[1]
    agent.model = kind(agent.observation_spec, 4, env.config.model, env.agent_seed(1))
    with pytest.raises(error, match=says):
        env.run_experiment(animate=False, logging=False, debug=True)


def test_observations_that_are_no_numbers_are_found_after_the_first_turn_too():
    memory = small_game("model.algorithm=dqn").agents[0].model.memory
    floats = type(memory)(32, (2,), dtype=np.float32)
    for turn in range(5):
        floats.add(np.array([0.0, np.inf if turn == 3 else 1.0], np.float32), 0, 0.0, False)
    assert floats.find_fault(4) == "turn 3 of an episode in lane 0 (row 3): the observation is not finite"
