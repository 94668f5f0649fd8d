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


@pytest.fixture
def make_work():
    """Makes the work of a learner of one agent, again and again, over the same shared memory."""
    model = make_model("dqn")
    (place,) = create_shared_models([model])
    layout = {f"replay0.{name}": what for name, what in model.memory.layout(20).items()}
    block = SharedBlock(place.layout() | layout)
    place.attach(block)
    publish_model(model, place, 0, updates=0, results=[])
    shared = SharedReplayBuffer.like(model.memory, 20, block, "replay0.")
    model.memory.move_rows(shared.ring)
    live(model, epochs=2)

    def make(freely=False):
        memory = SharedReplayBuffer.like(model.memory, 20, block, "replay0.")
        context = Context()
        return context, learner_process(context, [Job(0, model.recipe(), memory, place.for_reader(0), 0)], 1, 1, freely)

    make.place = place
    return make


def test_rounds_that_were_done_but_not_reported_are_reported_not_repeated(make_work):
    """As if the learner had been killed after publishing two rounds and before its answers arrived."""
    orders = [(number, Train(2, [[40]], {})) for number in range(2)]
    context, work = make_work()
    for number, order in orders:
        work.obey(number, order)
    assert make_work.place.version == 2 and context.answers[0][1].result != context.answers[1][1].result
    again, successor = make_work()
    for number, order in orders:
        successor.obey(number, order)
    told = [[value.result for _, value, _ in each.answers] for each in (context, again)]
    assert told[0] == told[1] and make_work.place.version == 2
    successor.obey(2, Train(1, [[40]], {}))
    assert again.answers[-1][1].result.updates == 5


def test_a_learner_says_which_agent_it_is_at_and_that_it_is_at_none_when_it_answers(make_work):
    context, work = make_work()
    work.obey(0, Train(3, [[40]], {}))
    assert context.at[-1] == -1 and context.at.count(0) >= 3


def test_a_free_learner_trains_while_it_is_idle_and_publishes_now_and_then(make_work):
    context, work = make_work(freely=True)
    assert work.idle() is None
    work.obey("free", TrainFreely(publish_interval=2, max_updates_per_step=0.1, head_start={}))
    waits = [work.idle() for _ in range(8)]
    assert waits == [0.0] * 4 + [pytest.approx(0.005)] * 4  # 4 updates for 40 steps
    assert [answer[2] for answer in context.answers] == [False, False] and make_work.place.version == 2
    work.close()
    assert make_work.place.version == 3


def test_a_free_learner_does_not_count_updates_that_its_agent_brought_from_another_run(make_work):
    _, work = make_work(freely=True)
    work.obey("free", TrainFreely(publish_interval=2, max_updates_per_step=0.1, head_start={0: -2.0}))
    assert [work.idle() for _ in range(4)].count(0.0) == 2  # as if it had 2 already
    work.obey("free", TrainFreely(publish_interval=2, max_updates_per_step=0.1, head_start={0: 2.0}))
    assert [work.idle() for _ in range(8)].count(0.0) == 4
