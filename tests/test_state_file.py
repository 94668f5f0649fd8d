"""States come back from a file as they were; what is no such file is refused with a sentence."""

import json
import random
from contextlib import suppress

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from abreast import state_file
from abreast.errors import StateFileError
from abreast.state import State
from abreast.state_file import DEEPEST, LONGEST_HEADER, dumps, loads

PLAIN_TYPES = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(endianness="="),
    arrays.unsigned_integer_dtypes(endianness="="),
    arrays.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
)
ARRAYS = arrays.arrays(PLAIN_TYPES, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
)
FACTS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=9).filter(lambda name: name != "__metadata__")


def assert_equal(one, two):
    assert one.facts == two.facts and one.arrays.keys() == two.arrays.keys()
    for name, array in one.arrays.items():
        found = two.arrays[name]
        assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def a_state():
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    return State({"updates": 3, "own": {"a": [1, None]}}, {"rows": rows, "counts": np.array([7], np.int64)})


@given(st.dictionaries(st.text(max_size=5), FACTS, max_size=3), st.dictionaries(NAMES, ARRAYS, max_size=4))
@settings(max_examples=60)
def test_every_plain_state_comes_back(facts, named):
    state = State(facts, named)
    data = dumps(state)
    found = loads(data)
    assert_equal(state, found)
    assert all(array.flags.writeable and array.flags.aligned for array in found.arrays.values())
    assert dumps(found) == data


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4).T,
        np.arange(12)[::-3],
        np.broadcast_to(np.float32(2), (3, 2)),
        np.array(5, np.int16),
        np.zeros((0, 3), np.float64),
        np.asfortranarray(np.ones((2, 3), bool)),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_unusual_arrays_come_back(array):
    assert_equal(State({}, {"a": array}), loads(dumps(State({}, {"a": array}))))


def test_other_readers_read_it(tmp_path):
    (tmp_path / "file").write_bytes(dumps(a_state()))
    with safetensors.safe_open(str(tmp_path / "file"), framework="numpy") as file:
        assert np.array_equal(file.get_tensor("rows"), a_state().arrays["rows"])
        assert json.loads(file.metadata()["abreast"])["updates"] == 3


def test_it_reads_what_the_package_wrote():
    rows = {"a": np.ones((2, 3)), "b": np.ones(3, bool), "c": np.zeros(0, np.int8)}
    found = loads(safetensors.numpy.save(rows, metadata={"abreast": '{"format": 2}'}))
    assert_equal(State({"format": 2}, rows), found)


def test_a_tuple_comes_back_as_a_list():
    assert loads(dumps(State({"a": (1, (2,))}))).facts == {"a": [1, [2]]}


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State({"a": {"b": [0, float("nan")]}}), r"the fact 'a' is \{'b': \[0, nan\]\}, which does not fit into JSON"),
        (State({"a": float("inf")}), "the fact 'a' is inf"),
        (State({"a": [np.float64(1)]}), r"the fact 'a' is \[np.float64\(1.0\)\], which does not fit into JSON"),
        (State({"a": np.int64(1)}), "the fact 'a' is"),
        (State({"a": np.str_("b")}), "the fact 'a' is"),
        (State({"a": {1: 2}}), "the fact 'a' is {1: 2}"),
        (State({1: 2}), "the fact 1 is 2"),
        (State({"a": {1, 2}}), r"the fact 'a' is \{1, 2\}"),
        (State({"a": b""}), "the fact 'a' is b''"),
        (State({"a": nested(DEEPEST + 5)}), "the fact 'a' is"),
        (State({"a": nested(10_000)}), "the fact 'a' is"),
        (State({"a": 10**5000}), "cannot be written as JSON"),
        (State({}, {"a": np.array([None])}), "the array a is of type object"),
        (State({}, {"a": np.zeros(1, [("x", "i4")])}), "the array a is of type"),
        (State({}, {"a": np.ma.array([1], mask=[True])}), "the array a is of type int64: a file holds"),
        (State({}, {"a": np.ones(2, np.complex64)}), "the array a is of type complex64: a file holds whole numbers"),
        (State({}, {"a": np.array(["text"])}), "the array a is of type <U4: a file holds whole numbers"),
        (State({}, {"a": np.ones(2, ">i4")}), "the array a is of type >i4: a file holds whole numbers"),
        (State({}, {"a": [1]}), "the array a is of type list"),
        (State({}, {"__metadata__": np.ones(1)}), "an array is called '__metadata__'"),
        (State({}, {"\ud800": np.ones(1)}), "an array is called"),
        (State({}, {3: np.ones(1)}), "an array is called 3"),
    ],
)
def test_what_has_no_plain_form_is_refused_by_name(state, reason):
    with pytest.raises(StateFileError, match=reason) as found:
        dumps(state)
    assert str(found.value).endswith(".") and len(str(found.value)) < 400


def test_facts_that_do_not_fit_into_a_header_are_refused(monkeypatch):
    monkeypatch.setattr(state_file, "LONGEST_HEADER", 1000)
    with pytest.raises(StateFileError, match="use arrays instead"):
        dumps(State({"a": "b" * 1000}))


def file_of(header, data=b""):
    """A file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(dtype="U8", shape=(4,), place=(0, 4)):
    return {"dtype": dtype, "shape": shape, "data_offsets": place}


ABOUT = {"__metadata__": {"abreast": "{}"}}


HOSTILE = {
    "empty": b"",
    "too short": b"1234",
    "no header": bytes(8),
    "zeros": bytes(1000),
    "a pickle": b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.",
    "a header of 10 GB": (10 * 1000**3).to_bytes(8, "little") + b"{}",
    "a header of 2**64 - 1": b"\xff" * 8 + b"{}",
    "not JSON": file_of(b"{"),
    "not UTF-8": file_of(b'{"\xff": 1}'),
    "not a dictionary": file_of([1]),
    "no metadata": file_of({"a": tensor()}, bytes(4)),
    "no text in metadata": file_of({"__metadata__": {"abreast": {}}}),
    "facts that are a list": file_of({"__metadata__": {"abreast": "[]"}}),
    "facts that are not JSON": file_of({"__metadata__": {"abreast": "{"}}),
    "half a character in facts": file_of(b'{"__metadata__": {"abreast": "\\ud800"}}'),
    "too many digits in facts": file_of({"__metadata__": {"abreast": '{"a": ' + "9" * 5000 + "}"}}),
    "facts too deep": file_of({"__metadata__": {"abreast": "[" * 100_000}}),
    "a header too deep": file_of(b'{"a":' * 100_000),
    "a deep entry": file_of(b'{"__metadata__": {"abreast": "{}"}, "a": ' + b"[" * 950 + b"]" * 950 + b"}"),
    "an unknown type": file_of(ABOUT | {"a": tensor("BF16", (2,))}, bytes(4)),
    "a type that is a list": file_of(ABOUT | {"a": tensor([])}, bytes(4)),
    "an entry that is a number": file_of(ABOUT | {"a": 3}),
    "a negative side": file_of(ABOUT | {"a": tensor(shape=(-2, -2))}, bytes(4)),
    "a side that is a bool": file_of(ABOUT | {"a": tensor(shape=(True, 4))}, bytes(4)),
    "a side that is a fraction": file_of(ABOUT | {"a": tensor(shape=(4.0,))}, bytes(4)),
    "a huge side": file_of(ABOUT | {"a": tensor(shape=(0, 2**61, 2**61), place=(0, 0))}),
    "too many sides": file_of(ABOUT | {"a": tensor(shape=(1,) * 65, place=(0, 1))}, bytes(1)),
    "places in the wrong order": file_of(ABOUT | {"a": tensor(place=(4, 0))}, bytes(4)),
    "three places": file_of(ABOUT | {"a": tensor(place=(0, 2, 4))}, bytes(4)),
    "a gap": file_of(ABOUT | {"a": tensor(place=(4, 8))}, bytes(8)),
    "an overlap": file_of(ABOUT | {"a": tensor(), "b": tensor(place=(2, 6))}, bytes(6)),
    "two in one place": file_of(ABOUT | {"a": tensor(), "b": tensor()}, bytes(8)),
    "a tensor of 10 GB": file_of(ABOUT | {"a": tensor(shape=(10**10,), place=(0, 10**10))}, bytes(4)),
    "data cut": file_of(ABOUT | {"a": tensor()}, bytes(3)),
    "data added": file_of(ABOUT | {"a": tensor()}, bytes(5)),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_state_is_refused(data):
    with pytest.raises(StateFileError) as found:
        loads(data)
    assert str(found.value).endswith(".") and len(str(found.value)) < 400 and "\n" not in str(found.value)


def test_the_hostile_files_are_hostile_for_their_reason_alone():
    assert loads(file_of(ABOUT | {"a": tensor()}, bytes(4))).arrays["a"].tolist() == [0, 0, 0, 0]
    assert LONGEST_HEADER < 10 * 1000**3


def test_no_change_of_a_byte_raises_anything_else():
    whole = dumps(a_state())
    chance = random.Random(12)
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 8])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with suppress(StateFileError):
            loads(bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]))
