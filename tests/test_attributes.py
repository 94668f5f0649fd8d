"""What users' classes add: truly copied, compared, or refused."""

import logging
import threading

import numpy as np
import pytest

from abreast.attributes import differs, true_copy


class Box:
    """A user's object."""

    KNOWN = frozenset({"ours"})
    of_the_class: list = []

    def __init__(self, **values):
        vars(self).update(values)


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
