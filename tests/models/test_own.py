"""Attributes of users' model classes: which are ours, which side changes them, what files keep of them."""

import importlib
import threading
from collections import defaultdict, deque

import numpy as np
import pytest
import torch
from torch import nn

from abreast.codec import Names, encode
from abreast.errors import ModelError, ModelFileError, StateError
from abreast.models import ALGORITHMS, BaseModel, ModelConfig
from abreast.models.own import LEARNED
from abreast.state import State
from fakes import TinyObservation, live, make_model


class Mine(BaseModel):
    """Holds a bit of everything."""

    acting = ("count",)

    def setup(self, learning, more):
        self.network = nn.Linear(self.input_size, self.n_actions)
        self.optimiser = torch.optim.Adam(self.network.parameters(), lr=0.1)
        self.table = defaultdict(float)
        self.recent, self.seen, self.best = deque(maxlen=3), set(), np.float32(0)
        self.pair, self.dice, self.noise = (1, [2.5]), np.random.default_rng(learning), torch.Generator()
        self.count = 0

    def take_action(self, state, lane=0):
        self.count += 1
        row = self.with_history(state, lane)
        return int(self.network(row).argmax())

    def train_step(self):
        rows = self.memory.trajectory(0, 0)
        loss = (self.network(self.as_input(rows.states)) - 1).pow(2).mean() * float(self.dice.random() + 1)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.table[len(self.table), "x"] = loss.item()
        self.recent.append(loss.item())
        self.seen.add(int(torch.randint(100, (), generator=self.noise)))
        self.best = np.float32(loss.item())
        return loss.item()


def mine(kind=Mine, seed=0, **settings):
    config = ModelConfig(n_frames=2, buffer_capacity=64, batch_size=8, **settings)
    return kind(TinyObservation(4), 3, config, np.random.SeedSequence(seed))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_attribute_of_ours_is_known(name):
    model = make_model(name)
    live(model)
    model.train_step()
    assert set(vars(model)) <= model.KNOWN and not model.own_attributes.values and model.is_ours


def test_each_attribute_belongs_to_learning_unless_it_is_declared():
    own = mine().own_attributes
    assert own.learned == own.values.keys() - {"count"}
    assert own.learned > {"network", "optimiser", "table", "dice"}


def test_what_choosing_changes_without_a_word_is_refused_with_the_line_to_add():
    class Silent(Mine):
        acting = ()

    model = mine(Silent)
    model.own_attributes.check_choosing()
    live(model)
    model.own_attributes.check_choosing()  # nothing is looked for in a sequential run
    model.own_attributes.guard()
    model.own_attributes.check_choosing()
    live(model)
    with pytest.raises(
        ModelError, match=r'Silent changes count in choosing .*: add the line `acting = \("count",\)` to'
    ):
        model.own_attributes.check_choosing()


def test_one_that_both_sides_change_is_refused_by_name():
    class Both(Mine):
        def train_step(self):
            self.count += 1
            return super().train_step()

    model, learner = mine(Both), mine(Both)
    for each in (model, learner):
        each.own_attributes.guard()
        live(each)
    learner.set_acting_state(model.acting_state())
    learner.train_step()
    learner.own_attributes.check_learning()
    with pytest.raises(ModelError, match="Both changes count in choosing and in learning"):
        model.adopt(learner.learning_state())


@pytest.mark.parametrize(
    "line",
    [
        "self.count = 0",
        "self.count += 1",
        "del self.count",
        "self.count[0] = 1",
        "self.count.append(1)",
        "self.helped()",
    ],
)
def test_one_that_learning_changes_too_is_told_so_at_once(line, tmp_path, monkeypatch):
    """Before learning has had its turn, by its source."""
    monkeypatch.syspath_prepend(tmp_path)
    name = f"two_sided_{abs(hash(line))}"
    text = f"def train_step(self):\n    return self.learn()\ndef learn(self):\n    {line}\n"
    (tmp_path / f"{name}.py").write_text(f"{text}def helped(self):\n    self.count = 3\n")
    kind = type("TwoSided", (Mine,), {**vars(importlib.import_module(name)), "acting": ()})
    model = mine(kind)
    model.own_attributes.guard()
    live(model)
    with pytest.raises(ModelError, match="TwoSided changes count in choosing and in learning"):
        model.own_attributes.check_choosing()


def test_a_learner_that_keeps_what_cannot_be_sent_is_named():
    model, learner = mine(), mine()
    for each in (model, learner):
        each.own_attributes.guard()
    learner.table["lock"] = threading.Lock()
    with pytest.raises(ModelError, match=r"Mine: its attribute table \(defaultdict\) cannot be sent or kept: .*lock"):
        model.adopt(learner.learning_state())


def test_a_file_keeps_the_attributes_and_learning_goes_on_as_if_nothing_had_happened(tmp_path):
    model, other = mine(), mine(seed=5)
    live(model)
    model.train_step()
    model.save(tmp_path / "mine.safetensors")
    other.load(tmp_path / "mine.safetensors")
    live(other)  # the same rows
    assert other.table == model.table and type(other.table) is defaultdict and other.recent == model.recent
    assert other.recent.maxlen == 3 and other.seen == model.seen and type(other.best) is np.float32
    assert other.pair == (1, [2.5]) and other.optimiser.param_groups[0]["params"][0] is other.network.weight
    assert [model.train_step() for _ in range(3)] == [other.train_step() for _ in range(3)]
    assert torch.equal(model.network.weight, other.network.weight)


def test_what_a_file_cannot_keep_stays_as_setup_makes_it_and_a_file_of_another_class_is_refused(tmp_path):
    class Odd(Mine):
        def setup(self, learning, more):
            super().setup(learning, more)
            self.thing = threading.Lock()

    odd, other = mine(Odd), mine(Odd)
    odd.count = 7
    odd.save(tmp_path / "odd.safetensors")
    assert list(odd.own_attributes.unkept) == ["thing"]
    lock = other.thing
    other.load(tmp_path / "odd.safetensors")
    assert other.count == 7 and other.thing is lock
    with pytest.raises(ModelFileError, match="holds a model of algorithm 'Odd'"):
        mine().load(tmp_path / "odd.safetensors")


def test_other_actors_draw_other_numbers_from_a_generator_of_ones_own():
    one, two = mine(), mine()
    two.choose_from(np.random.SeedSequence(9))
    assert one.dice.random() != two.dice.random()
    assert torch.rand((), generator=one.noise) != torch.rand((), generator=two.noise)


def test_new_episodes_are_whole_and_returned_once():
    model = make_model("dqn", n_frames=1)
    for step in range(10):
        model.remember(np.zeros(4, np.uint8), step % 3, float(step), done=step in (3, 6))
    found = [episode.rewards.tolist() for episode in model.new_episodes()]
    assert found == [[0, 1, 2, 3], [4, 5, 6]]
    assert model.new_episodes() == []
    model.end_episode(0)
    assert [episode.rewards.tolist() for episode in model.new_episodes()] == [[7, 8, 9]]


@pytest.mark.parametrize("action", [None, 3, -1, 1.5, "1", np.array([0, 1])])
def test_an_action_that_is_none_of_the_agents_is_refused(action):
    class Wrong(Mine):
        def take_action(self, state, lane=0):
            return action

    with pytest.raises(ModelError, match=r"Wrong.take_action returned .*: expected a whole number from 0 to 2"):
        mine(Wrong).take_actions([np.zeros(4, np.uint8)], [0])


def test_whole_numbers_of_any_kind_are_actions():
    class Right(Mine):
        given = iter([1, True, np.int64(1), np.array(1), torch.tensor(1)])

        def take_action(self, state, lane=0):
            return next(self.given)

    model = mine(Right)
    assert [model.take_actions([np.zeros(4, np.uint8)], [0]) for _ in range(5)] == [[1]] * 5


# ---- what attributes share


class Plain(BaseModel):
    """Has nothing of its own."""

    def take_action(self, state, lane=0):
        return 0

    def train_step(self):
        return None


class Linked(Mine):
    """Attributes that share an object, and parts of ours."""

    acting = ("count", "log", "same_log")

    def setup(self, learning, more):
        super().setup(learning, more)
        self.layers, self.log = [self.network], []
        self.same_log, self.of_ours, self.rule = self.log, self.memory, lambda row: row

    def take_action(self, state, lane=0):
        self.log.append(1)
        return super().take_action(state, lane)


def test_what_attributes_share_they_share_on_the_other_side():
    model, other = mine(Linked), mine(Linked, seed=5)
    live(model)
    model.train_step()
    other.extra = 1
    other.set_learning_state(model.learning_state())
    other.set_acting_state(model.acting_state())
    assert other.layers[0] is other.network and other.same_log is other.log and other.of_ours is other.memory
    assert other.optimiser.param_groups[0]["params"][0] is other.network.weight
    assert other.log == model.log and other.count == model.count == 20 and not hasattr(other, "extra")
    assert other.choosing_rng.random() == model.choosing_rng.random()


def test_the_last_attribute_that_learning_deletes_is_deleted_on_the_other_side_too():
    model, other = mine(Plain), mine(Plain)
    model.only = other.only = [1]
    del model.only
    other.adopt(model.learning_state())
    assert not hasattr(other, "only")


def test_a_state_that_sets_what_is_ours_is_refused():
    model = mine()
    state = model.learning_state()
    data = encode({"memory": 5}, {}, Names([model]))
    with pytest.raises(StateError, match="memory is an attribute of Mine that is not kept so"):
        model.set_learning_state(State(state.facts, {**state.arrays, LEARNED: np.frombuffer(data, np.uint8)}))
