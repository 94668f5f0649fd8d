"""A learner's work, without a worker around it."""

import pytest

from abreast.processes.memory import SharedBlock
from abreast.replay import SharedReplayBuffer
from abreast.training import create_shared_models, learner_process, publish_model
from abreast.training.learners.process import Job, Train, TrainFreely
from fakes import live, make_model


class Context:
    """A child's context that writes down what it is told."""

    number = 0

    def __init__(self):
        self.answers, self.at = [], []

    def beat(self, at=-1, allow_s=0.0):
        self.at.append(at)

    def answer(self, key, value, last=True):
        self.answers.append((key, value, last))


def shared_work(models):
    """Makes the work of a learner of these agents, again and again, over the same shared memory; and its places."""
    places, layout = create_shared_models(models), {}
    for agent, (model, place) in enumerate(zip(models, places, strict=True)):
        rows = model.memory.layout(20)
        layout |= place.layout() | {f"replay{agent}.{name}": what for name, what in rows.items()}
    block = SharedBlock(layout)
    for agent, (model, place) in enumerate(zip(models, places, strict=True)):
        place.attach(block)
        publish_model(model, place, 0, updates=model.updates, results=[])
        model.memory.move_rows(SharedReplayBuffer.like(model.memory, 20, block, f"replay{agent}.").ring)

    def job(agent):
        memory = SharedReplayBuffer.like(models[agent].memory, 20, block, f"replay{agent}.")
        return Job(agent, models[agent].recipe(), memory, places[agent].for_reader(0), 0)

    def make(freely=False):
        context = Context()
        return context, learner_process(context, [job(agent) for agent in range(len(models))], 1, freely)

    return make, places


@pytest.fixture
def make_work():
    """Makes the work of a learner of one agent that has lived 40 steps."""
    model = make_model("dqn")
    live(model, epochs=2)
    make, (make.place,) = shared_work([model])
    return make


def test_rounds_that_were_done_but_not_reported_are_reported_not_repeated(make_work):
    """As if the learner had been killed after publishing two rounds and before its answers arrived."""
    orders = [(number, Train(2, [[40]], 0.0, {})) for number in range(2)]
    context, work = make_work()
    for number, order in orders:
        work.obey(number, order)
    assert make_work.place.version == 2 and context.answers[0][1].result != context.answers[1][1].result
    again, successor = make_work()
    for number, order in orders:
        successor.obey(number, order)
    told = [[value.result for _, value, _ in each.answers] for each in (context, again)]
    assert told[0] == told[1] and make_work.place.version == 2
    successor.obey(2, Train(1, [[40]], 0.0, {}))
    assert again.answers[-1][1].result.updates == 5


def test_a_learner_says_which_agent_it_is_at_and_that_it_is_at_none_when_it_answers(make_work):
    context, work = make_work()
    work.obey(0, Train(3, [[40]], 0.0, {}))
    assert context.at[-1] == -1 and context.at.count(0) >= 3


def test_a_free_learner_trains_while_it_is_idle_and_publishes_now_and_then(make_work):
    context, work = make_work(freely=True)
    assert work.idle() is None
    work.obey("free", TrainFreely(publish_interval=2, max_updates_per_step=0.1, head_start={}, weights={}))
    waits = [work.idle() for _ in range(8)]
    assert waits == [0.0] * 4 + [pytest.approx(0.005)] * 4  # 4 updates for 40 steps
    assert [answer[2] for answer in context.answers] == [False, False] and make_work.place.version == 2
    work.close()
    assert make_work.place.version == 3


def test_a_free_learner_does_not_count_updates_that_its_agent_brought_from_another_run(make_work):
    _, work = make_work(freely=True)
    work.obey("free", TrainFreely(publish_interval=2, max_updates_per_step=0.1, head_start={0: -2.0}, weights={}))
    assert [work.idle() for _ in range(4)].count(0.0) == 2  # as if it had 2 already
    work.obey("free", TrainFreely(publish_interval=2, max_updates_per_step=0.1, head_start={0: 2.0}, weights={}))
    assert [work.idle() for _ in range(8)].count(0.0) == 4


def trained(models, calls, **rule):
    """Updates of each agent after so many calls of a free learner's idle, and the agents in the order of their updates."""
    make, _ = shared_work(models)
    context, work = make(freely=True)
    work.obey("free", TrainFreely(**{"publish_interval": 1, "max_updates_per_step": None, "head_start": {}, **rule}))
    for _ in range(calls):
        work.idle()
    order = [agent for _, agent, _ in context.answers]
    return [model.updates + order.count(agent) for agent, model in enumerate(models)], order


def lived(*rows):
    """A model for each of these numbers of rows."""
    models = [make_model("dqn", seed=seed, buffer_capacity=256) for seed in range(len(rows))]
    for model, turns in zip(models, rows, strict=True):
        live(model, turns=turns)
    return models


def test_a_free_learner_gives_agents_updates_by_their_weights():
    updates, order = trained(lived(40, 40, 40), 35, weights={0: 2.0, 2: 0.5})
    assert updates == [20, 10, 5] and order[:7] == [0, 1, 2, 0, 0, 1, 0]


def test_weights_scale_the_most_updates_per_step_too():
    assert trained(lived(40, 40), 99, weights={0: 2.0}, max_updates_per_step=0.1)[0] == [8, 4]


def test_a_free_learner_trains_first_the_agent_with_the_fewest_updates_for_its_steps():
    assert trained(lived(40, 120), 40, weights={})[0] == [10, 30]
    behind = lived(40, 40, 40)
    behind[0].updates, behind[2].updates = 9, 2
    updates, order = trained(behind, 16, weights={})
    assert updates == [9, 9, 9] and order == [1, 1, *[1, 2] * 7]


def test_a_free_learner_does_not_wait_for_an_agent_that_has_too_little_to_learn_from():
    assert trained(lived(4, 40, 0), 5, weights={0: 100.0, 2: 100.0})[0] == [0, 5, 0]
