"""What users' classes add: sent with what it shares, compared, truly copied or refused."""

import json
import logging
import threading

import numpy as np
import pytest
import torch

from abreast.attributes import AddedAttributes, ClassAttributes, differs, digest, pack, true_copy, unpack, why_not_sent
from abreast.errors import AttributeStateError, StateError


class Box:
    """A user's object."""

    KNOWN = frozenset({"ours"})
    of_the_class: list = []  # noqa: RUF012

    def __init__(self, **values):
        vars(self).update(values)


def test_what_is_shared_stays_shared_and_places_are_the_receivers_own():
    net, here, there = torch.nn.Linear(2, 2), Box(), Box()
    adam = torch.optim.Adam(net.parameters())
    net(torch.ones(2)).sum().backward()
    adam.step()
    sent = pack({"net": net, "adam": adam, "owner": here, "f": lambda: here}, {"here": here})
    got = unpack(sent, {"here": there})
    assert got["owner"] is there and got["f"]() is there
    assert got["adam"].param_groups[0]["params"][0] is got["net"].weight
    assert torch.equal(got["net"].weight, net.weight) and torch.equal(got["net"].weight.grad, net.weight.grad)
    assert got["net"].weight.data_ptr() != net.weight.data_ptr()


def test_what_cannot_be_sent_is_named_with_the_reason():
    with pytest.raises(AttributeStateError, match=r"its attribute lock \(lock\) cannot be sent.*cannot pickle"):
        pack({"fine": 1, "lock": threading.Lock()}, {})
    graph = (torch.ones(2, requires_grad=True) * 2).sum()
    assert "the graph of its gradient" in why_not_sent([graph], {})
    assert why_not_sent(torch.ones(2, requires_grad=True), {}) is None


def test_a_digest_changes_with_the_value():
    values = [np.zeros(3), {"a": [1, 2]}, torch.zeros(2), np.random.default_rng(1), torch.Generator()]
    before = [digest(value, {}) for value in values]
    assert before == [digest(value, {}) for value in values]
    values[0][1], values[1]["a"][0], values[2][0] = 1, 5, 3.0
    values[3].random()
    torch.rand(1, generator=values[4])
    assert all(one != digest(value, {}) for one, value in zip(before, values, strict=True))
    assert digest(threading.Lock(), {}) is None


def test_a_true_copy_shares_nothing_that_can_change():
    shared = [1]
    box = Box(array=np.zeros(3), shared=shared, again=shared, log=logging.getLogger("x"), kind=Box)
    twin = true_copy(box, {})
    assert twin.array is not box.array and twin.shared is not shared and twin.shared is twin.again
    assert twin.log is box.log


def test_functions_that_enclose_and_objects_that_copy_to_themselves_are_no_true_copies():
    seen = []

    class Stubborn(Box):
        def __deepcopy__(self, memo):
            return self

    for value in (lambda: seen, seen.append, {"rule": lambda: seen}, [Stubborn()], Box(inner=Stubborn())):
        with pytest.raises(ValueError, match="its copy would share"):
            true_copy(value, {})
    count = 3
    assert true_copy(lambda: count, {})() == 3
    with pytest.raises(ValueError, match="cannot pickle"):
        true_copy(threading.Lock(), {})


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [(1, 1, False), (1, 2, True), (1, 1.0, True), (float("nan"), float("nan"), False), ([1, [2]], [1, [3]], True),
     ({"a": 1}, {"a": 1}, False), ({"a": 1}, {"b": 1}, True), (np.zeros(2), np.zeros(2), False),
     (np.zeros(2), np.ones(2), True), (Box(), Box(), False), ((1, 2), (1, 2), False)],
)  # fmt: skip
def test_plain_values_are_compared(one, two, expected):
    assert differs(one, two) is expected


def test_the_state_of_several_objects_keeps_what_they_share():
    one, two = Box(ours=1, mine=[1]), Box()
    one.other, two.partner, two.list = two, one, one.mine
    state = AddedAttributes(lambda: {"one": one, "two": two}, lambda: {"one": one, "two": two}).state()
    a, b = Box(ours=5), Box()
    AddedAttributes(lambda: {"one": a, "two": b}, lambda: {"one": a, "two": b}).set_state(state)
    assert a.ours == 5 and a.other is b and b.partner is a and b.list is a.mine


def test_a_state_that_lacks_something_is_not_taken_for_whole():
    box = Box(lock=threading.Lock(), days=3)
    added = AddedAttributes(lambda: {"world": box}, dict)
    with pytest.raises(StateError, match=r"world\.lock cannot be sent to another process"):
        added.set_state(added.state())


def test_lists_of_a_class_that_change_are_named():
    classes = ClassAttributes([Box()])
    assert classes.changed() is None
    Box.of_the_class.append(1)
    assert classes.changed() == "Box.of_the_class"
    Box.of_the_class.clear()


def test_a_file_holds_the_same_with_nothing_pickled():
    one, two = Box(ours=1, mine=[1]), Box(gone=3)
    one.other, two.partner, two.list, two.rule = two, one, one.mine, lambda: 1
    added = AddedAttributes(lambda: {"one": one, "two": two}, lambda: {"one": one, "two": two})
    state = added.file_state()
    assert not state.opaque and json.dumps(state.facts, allow_nan=False)
    a, b = Box(ours=5, extra=1), Box(rule=two.rule)
    AddedAttributes(lambda: {"one": a, "two": b}, lambda: {"one": a, "two": b}).set_state(state)
    assert a.ours == 5 and a.other is b and b.partner is a and b.list is a.mine and b.gone == 3
    assert not hasattr(a, "extra")  # the other had none


def test_what_a_file_cannot_hold_is_named_with_its_owner():
    box = Box(days=3, deep=[{"x": threading.Lock()}])
    with pytest.raises(
        StateError, match=r"^Box\.deep\[0\]\['x'\] \(lock\) cannot be kept in a file, because .*: make it"
    ):
        AddedAttributes(lambda: {"world": box}, dict).file_state()


def test_a_file_cannot_set_what_is_ours():
    one = AddedAttributes(lambda: {"box": Box(mine=1)}, dict).file_state()
    one.facts["values"]["box.ours"] = 5
    with pytest.raises(StateError, match=r"box\.ours is in the file"):
        AddedAttributes(lambda: {"box": Box(mine=1)}, dict).set_state(one)


def test_an_attribute_that_a_class_gets_later_has_changed():
    classes = ClassAttributes([Box()])
    Box.later = 1
    assert classes.changed() == "Box.later"
    del Box.later
