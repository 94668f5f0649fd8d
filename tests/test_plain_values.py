"""Values in files: the same again, with what they share, or refused by name; damaged facts are one kind of error."""

import contextlib
import copy
import enum
import functools
import itertools
import json
import logging
import math
import random
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast import EmptyEntity
from abreast.errors import StateError
from abreast.plain_values import Decoder, NotHere, Unwritable, decode_all, encode_all, user_modules
from abreast.plain_values.older import is_older, translated
from abreast.settings import Section
from abreast.state import State

HERE = frozenset({__name__})
Pair = namedtuple("Pair", "one two")
MISSING = object()
TABLE = [1, 2, 3]


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Mode(enum.Flag):
    A = 1
    B = 2


class Thing:
    def __init__(self, **values):
        vars(self).update(values)

    def method(self):
        return self


class Slotted:
    __slots__ = ("left", "right")


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: float = 0.5


@dataclass(eq=False)
class Pot(EmptyEntity):
    history: list = field(default_factory=list)


class Names(dict):
    pass


class Size(Section):
    height: int = 3


class Counts:
    """Says by itself what it is made of."""

    def __init__(self):
        self.count, self.lock = 0, threading.Lock()

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def function():
    return 1


def through_json(state):
    return State(
        json.loads(json.dumps(state.facts, allow_nan=False)), {name: a.copy() for name, a in state.arrays.items()}
    )


def trip(value, current=None, places=None, modules=HERE):
    state = through_json(encode_all({"it": value}, places or {}, modules))
    return decode_all(state, {"it": current}, places or {}, modules)["it"]


def same(one, two):
    if type(one) is not type(two):
        return False
    if isinstance(one, float):
        return math.copysign(1, one) == math.copysign(1, two) and (one == two or (one != one and two != two))
    if isinstance(one, complex):
        return same(one.real, two.real) and same(one.imag, two.imag)
    if isinstance(one, list | tuple | deque):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return same(list(one), list(two)) and same(list(one.values()), list(two.values()))
    return one == two


numbers = st.integers() | st.floats() | st.booleans() | st.none() | st.integers(10**300, 10**5000)
leaves = (
    numbers
    | st.text()
    | st.binary()
    | st.complex_numbers()
    | st.sampled_from([*Colour, Mode.A | Mode.B, function, Thing])
)
keys = st.recursive(st.integers() | st.text() | st.booleans(), lambda inner: st.tuples(inner, inner), max_leaves=3)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(deque, st.lists(inner, max_size=3), st.none() | st.integers(3, 9))
        | st.builds(OrderedDict, st.dictionaries(keys, inner, max_size=3))
        | st.sets(keys, max_size=4)
        | st.frozensets(keys, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
@settings(max_examples=80)
def test_plain_values_are_the_same_again(value):
    assert same(trip(value), value)


@given(values, values)
@settings(max_examples=30)
def test_they_are_the_same_whatever_is_there_now(value, current):
    assert same(trip(value, copy.deepcopy(current)), value)


@pytest.mark.parametrize(
    "value",
    [np.float32(1.5), np.bool_(True), np.str_("x"), np.datetime64("2020-01-02"), np.complex64(1j), np.int8(3),
     np.zeros(3, bool), np.array([1j, 2]), np.array(["a", "bcd"]), np.array([b"x"]), np.array(["2020-01-01"], "M8[D]"),
     np.arange(6.0).reshape(2, 3).T, np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0), np.zeros((0, 3)), np.array(5),
     np.arange(3, dtype=">i4"), np.zeros(2, [("a", "f4"), ("b", "i2", (3,))]), np.arange(9, dtype=np.longdouble),
     np.arange(10)[::-2]],
    ids=lambda value: f"{type(value).__name__} {value.dtype} {value.shape}",
)  # fmt: skip
@pytest.mark.parametrize("has_current", [False, True])
def test_arrays_and_scalars_of_every_type(value, has_current):
    got = trip(value, np.zeros_like(value) if has_current and isinstance(value, np.ndarray) else None)
    assert type(got) is type(value) and got.dtype == value.dtype and got.shape == value.shape
    assert np.array_equal(got, value) and value.tobytes() == got.tobytes()
    if isinstance(value, np.ndarray) and min(value.strides, default=0) >= 0:
        assert got.strides == value.strides and got.flags.writeable


def test_arrays_of_objects_read_only_ones_and_types():
    got = trip([np.array([1, "a", [2], None], dtype=object), np.dtype("f4"), np.dtype([("a", "i2")]), np.dtype(object)])
    assert got[0].tolist() == [1, "a", [2], None] and got[1:] == [
        np.dtype("f4"),
        np.dtype([("a", "i2")]),
        np.dtype(object),
    ]
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    assert not trip(fixed).flags.writeable


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.bool, torch.complex64, torch.int64]
)
def test_tensors_of_every_type(dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype).T
    got = trip(tensor)
    assert got.dtype == dtype and torch.equal(got, tensor) and got.stride() == tensor.stride()


def test_parameters_gradients_and_the_rest_of_torch():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.full((2,), 3.0)
    leaf = torch.ones(2, requires_grad=True)
    got = trip([parameter, leaf, parameter, torch.Size([2, 3]), torch.float32, torch.device("cpu"), parameter.grad])
    assert type(got[0]) is torch.nn.Parameter and got[0].grad.tolist() == [3, 3] and got[6] is got[0].grad
    assert (
        got[1].requires_grad
        and got[2] is got[0]
        and got[3:6] == [torch.Size([2, 3]), torch.float32, torch.device("cpu")]
    )


@pytest.mark.parametrize(
    ("make", "draw"),
    [(lambda name=name: np.random.Generator(getattr(np.random, name)(3)), lambda each: each.normal())
     for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")]
    + [(lambda: np.random.RandomState(3), lambda each: each.normal()),
       (lambda: np.random.RandomState(np.random.PCG64(3)), lambda each: each.normal()),
       (lambda: random.Random(3), lambda each: each.gauss(0, 1)),
       (lambda: torch.Generator().manual_seed(3), lambda each: torch.randn(3, generator=each).tolist()),
       (lambda: np.random.default_rng(3), lambda each: each.spawn(1)[0].random()),
       (lambda: np.random.SeedSequence(3), lambda each: each.spawn(1)[0].generate_state(1)[0])],
)  # fmt: skip
@pytest.mark.parametrize("has_current", [False, True])
def test_generators_go_on_where_they_were(make, draw, has_current):
    generator = make()
    draw(generator)
    got = trip([generator, generator], [make(), None] if has_current else None)
    assert got[0] is got[1] and [draw(got[0]) for _ in range(3)] == [draw(generator) for _ in range(3)]


def test_two_generators_on_one_stream_stay_so():
    bits = np.random.PCG64(1)
    one, two = trip([np.random.Generator(bits), np.random.Generator(bits)])
    assert one.bit_generator is two.bit_generator


def test_the_generators_of_the_process_are_themselves():
    values = [random.random, np.random.rand, random._inst, torch.default_generator]
    assert [a == b for a, b in zip(trip(values), values, strict=True)] == [True] * 4


def test_objects_of_users_classes():
    slotted = Slotted()
    slotted.left = [1]
    thing = Thing(a=1, pot=Pot(history=[2]), slotted=slotted, point=Point(3), pair=Pair(1, [2]), size=Size(height=7))
    thing.names = Names(x=1)
    thing.names.more = 3
    got = trip(thing)
    assert (
        got.pot.history == [2]
        and type(got.pot) is Pot
        and got.slotted.left == [1]
        and not hasattr(got.slotted, "right")
    )
    assert got.point == Point(3) and got.pair == Pair(1, [2]) and type(got.pair) is Pair
    assert got.size == Size(height=7) and got.size.model_fields_set == {"height"}
    assert got.names == {"x": 1} and type(got.names) is Names and got.names.more == 3


def test_what_is_shared_stays_shared_cycles_included():
    inner, both = [1], []
    thing = Thing(a=inner, b=inner)
    thing.me, both_in_a_tuple = thing, (both, thing)
    both.append(both_in_a_tuple)
    points = {Point(1): thing, (Point(2), "x"): inner}
    values = {"thing": thing, "tuple": both_in_a_tuple, "points": points, "frozen": frozenset([Point(4)])}
    got = decode_all(through_json(encode_all(values, {}, HERE)), {}, {}, HERE)
    assert got["thing"].a is got["thing"].b and got["thing"].me is got["thing"]
    assert got["tuple"][0][0] is got["tuple"] and got["tuple"][1] is got["thing"]
    assert got["points"][Point(1)] is got["thing"] and got["points"][Point(2), "x"] is got["thing"].a
    assert Point(4) in got["frozen"]


def test_what_is_there_is_changed_in_place_but_never_confused():
    saved = {"a": [1], "b": [2], "c": Thing(x=1)}
    shared, thing = [0], Thing(old=5)
    now = {"a": shared, "b": shared, "c": thing}
    got = decode_all(through_json(encode_all(saved, {}, HERE)), now, {}, HERE)
    assert got["a"] == [1] and got["b"] == [2] and got["a"] is shared and got["b"] is not shared
    assert got["c"] is thing and vars(thing) == {"x": 1}


def test_nothing_of_ours_is_changed_from_a_file():
    from abreast.models import ALGORITHMS

    before = dict(ALGORITHMS)
    node = {"kind": "dict", "at": "abreast.models:ALGORITHMS", "keys": [], "items": []}
    assert decode_all(State({"format": 3, "values": {"it": [0]}, "objects": [node]}), {}, {}, HERE) == {"it": {}}
    assert dict(ALGORITHMS) == before


def test_a_list_of_the_module_is_not_changed_because_another_was_in_its_place():
    assert trip([5], TABLE) == [5] and TABLE == [1, 2, 3]
    assert trip(TABLE, None) is TABLE
    state = encode_all({"it": TABLE}, {}, HERE)
    TABLE.append(4)
    assert decode_all(state, {}, {}, HERE)["it"] is TABLE and TABLE == [1, 2, 3]


def test_places_are_this_sides_own():
    here, there = Thing(), Thing()
    state = through_json(encode_all({"it": [here, {"x": here}]}, {"world": here}, HERE))
    got = decode_all(state, {}, {"world": there}, HERE)["it"]
    assert got[0] is there and got[1]["x"] is there
    with pytest.raises(StateError, match=r"it is not restored from the file: it refers to 'world', which is not there"):
        decode_all(state, {}, {}, HERE)


def test_names_methods_and_other_things_that_are_called():
    thing = Thing(it=3)
    values = [function, Thing, thing.method, MISSING, int, np.float32, len, np.mean, np.add, json, logging.getLogger("x"),
              functools.partial(function, 1, k=[2]), Path("/a"), ..., slice(1, 2), range(3), [].append,
              Colour.RED]  # fmt: skip
    got = trip(values, list(values))
    assert got[:2] == values[:2] and got[2]().it == 3 and got[3] is MISSING
    assert [a is b for a, b in zip(got[4:11], values[4:11], strict=True)] == [True] * 7
    assert got[11].func is function and got[11].args == (1,) and got[11].keywords == {"k": [2]}
    assert got[12:16] == values[12:16] and got[16](5) is None and got[17] is Colour.RED
    assert trip([json, len], [len, [json]]) == [json, len]  # somewhere among what is there
    with pytest.raises(NotHere, match="there is no json: here"):
        trip(json)
    assert next(trip(itertools.count(4, 2))) == 4
    counter = trip(defaultdict(list, {1: [2]}))
    assert counter[5] == [] and trip(Counter("aab")) == Counter("aab")


def make_rule():
    seen = []
    return lambda: seen.append(1) or len(seen)


def test_what_a_function_encloses_is_put_back():
    rule, fresh = make_rule(), make_rule()
    rule(), rule()
    assert trip(rule, fresh) is fresh and fresh() == 3
    with pytest.raises(NotHere, match="there is no function"):
        trip(rule, lambda: 1)


def test_networks_and_optimisers_are_changed_in_place():
    def make():
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout())
        return {
            "weights": list(net.parameters()),
            "net": net,
            "layer": net[0],
            "adam": torch.optim.Adam(net.parameters()),
        }

    one, two = make(), make()
    for _ in range(2):
        one["net"](torch.randn(3, 2)).sum().backward()
        one["adam"].step()
    one["net"].eval()
    one["net"][1].momentum = 0.3
    got = decode_all(through_json(encode_all(one, {}, HERE)), two, {}, HERE)
    assert got["net"] is two["net"] and got["layer"] is got["net"][0] and got["weights"][0] is got["net"][0].weight
    assert not got["net"][2].training and got["net"][1].momentum == 0.3
    for each in (one, got):
        each["net"](torch.ones(3, 2)).sum().backward()
        each["adam"].step()
    for mine, other in zip(one["net"].state_dict().values(), got["net"].state_dict().values(), strict=True):
        assert torch.equal(mine, other)
    with pytest.raises(NotHere, match="would have to make first"):
        trip(one["net"])
    with pytest.raises(NotHere, match="does not fit the parameter"):
        trip(torch.nn.Linear(2, 2), torch.nn.Linear(2, 3))


def test_a_class_that_offers_its_state_says_it_itself():
    one, two = Counts(), Counts()
    one.count = 5
    assert trip([one], [two])[0] is two and two.count == 5


ARRAY = np.arange(6)
GRAPH = (torch.ones(2, requires_grad=True) * 2).sum()


class Local:
    class Inside:
        def __getstate__(self):
            return {}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            [1, {"a": threading.Lock()}],
            r"it\[1\]\['a'\] \(lock\) cannot be written to a file: its class belongs to _thread",
        ),
        (GRAPH, r"it \(Tensor\) .* the graph of its gradient"),
        (Thing(x=[ARRAY, ARRAY[2:]]), r"it\.x\[\d\] \(ndarray\) .* it shares memory with it\.x\[\d\]"),
        ([torch.from_numpy(ARRAY), ARRAY], r"it\[\d\] .* shares memory"),
        (Local.Inside(), r"it \(Inside\) .* says by __getstate__ what it is made of"),
        (np.matrix([[1]]), "derived from an array"),
        (SimpleNamespace(), "its class belongs to types"),
        (iter([1]), "list_iterator"),
        (sys.stdout, "cannot be written"),
        (Thing(**{"x": ValueError("x")}), r"it\.x \(ValueError\)"),
        (random.SystemRandom(), "SystemRandom"),
        (object(), "object"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_written_is_refused_by_name(value, said):
    with pytest.raises(Unwritable, match=said) as error:
        encode_all({"fine": 1, "it": value}, {}, HERE)
    assert error.value.root == "it"


def test_deep_nesting_is_no_matter():
    value: list = []
    for _ in range(20_000):
        value = [value]
    got, depth = trip(value), 0
    while got:
        got, depth = got[0], depth + 1
    assert depth == 20_000
    nested: tuple = ()
    for _ in range(20_000):
        nested = (nested,)
    got, depth = trip(nested), 0
    while got:
        got, depth = got[0], depth + 1
    assert depth == 20_000
    deep = {"format": 3, "values": {"it": [0]}, "objects": [{"kind": "tuple", "items": [[0]]}]}
    with pytest.raises(StateError, match="it contains itself"):
        decode_all(State(deep), {}, {}, HERE)


# ---- hostile and damaged facts


@pytest.mark.parametrize(
    "node",
    [
        {"kind": "object", "class": "subprocess:Popen", "attributes": {}},
        {"kind": "object", "class": "builtins:object", "attributes": {"x": 1}},
        {"kind": "object", "class": f"{__name__}:function", "attributes": {}},
        {"kind": "object", "class": f"{__name__}:np.ndarray", "attributes": {}},
        {"kind": "object", "class": f"{__name__}:Names", "attributes": {}},
        {"kind": "object", "class": "abreast.processes.memory:SharedMemory", "attributes": {}},
        {"kind": "name", "name": "os:system"},
        {"kind": "name", "name": "builtins:eval"},
        {"kind": "name", "name": f"{__name__}:json.dumps"},
        {"kind": "name", "name": f"{__name__}:Path"},
        {"kind": "name", "name": f"{__name__}:json"},
        {"kind": "name", "name": f"{__name__}:copy"},
        {"kind": "method", "of": [0], "name": "x"},
        {"kind": "array", "array": "none"},
        {"kind": "array", "array": "bytes", "dtype": "O", "shape": [1]},
        {"kind": "array", "array": "bytes", "dtype": "f4", "shape": [10**15]},
        {"kind": "generator", "bits": 5},
        {"kind": "bits", "of": "default_rng", "state": {}, "seed": None},
        {"kind": "random", "items": [3, 4, 5]},
        {"kind": "torch", "of": "dtype", "text": "torch.nn"},
        {"kind": "dict", "keys": [[1]], "items": []},
        {"kind": "bytes", "hex": "zz"},
        {"kind": "enum", "class": f"{__name__}:Colour", "name": "GREEN", "value": 9},
        {"kind": "nothing"},
        {},
        None,
        7,
    ],
    ids=str,
)
def test_hostile_facts_are_refused(node):
    facts = {"format": 3, "values": {"it": [0]}, "objects": [node]}
    with pytest.raises(StateError):
        decode_all(State(facts, {"bytes": np.zeros(8, np.uint8)}), {"it": None}, {}, HERE)


def rich():
    return {
        "thing": Thing(a=[1, (2, {3: "x"})], slotted=Point(1), colour=Colour.RED, f=function),
        "rng": np.random.default_rng(1), "random": random.Random(1), "array": np.arange(4), "tensor": torch.ones(2),
        "deque": deque([1], 4), "set": {1, 2}, "default": defaultdict(int, a=1), "net": torch.nn.Linear(1, 1),
        "adam": torch.optim.SGD([torch.ones(1)], momentum=0.1), "big": 10**5000, "nan": math.nan, "rule": make_rule(),
    }  # fmt: skip


GIVEN = encode_all(rich(), {}, HERE)
junk = st.sampled_from(
    [None, True, -1, 0, 1, 7, 10**30, 0.5, "", "x", "list", "object", [], [0], [3], [10**9], [[0]], {}, {"int": "0x1"},
     {"float": "00"}, {"kind": "list", "items": []}, {"x": 1}]
)  # fmt: skip


@given(st.data())
@settings(max_examples=100)
def test_damaged_facts_are_one_kind_of_error(data):
    """One place after another gets something else; whatever happens is a value or a `StateError`."""
    facts = copy.deepcopy(GIVEN.facts)
    for _ in range(data.draw(st.integers(1, 3))):
        held = facts["objects"] if data.draw(st.booleans()) else facts
        while isinstance(held, dict | list) and held:
            keys = list(held) if isinstance(held, dict) else list(range(len(held)))
            key = data.draw(st.sampled_from(keys))
            if isinstance(held[key], dict | list) and data.draw(st.integers(0, 3)):
                held = held[key]
                continue
            held[key] = copy.deepcopy(data.draw(junk))  # the next round may change what is inside of it
            break
    with contextlib.suppress(StateError):
        decode_all(State(facts, GIVEN.arrays), rich(), {}, HERE)


def test_what_failed_is_not_half_there_in_another_value():
    lost, shared = Thing(), [1]
    shared.append(lost)
    state = encode_all({"one": [shared, threading], "two": shared, "three": 3}, {"lost": lost}, HERE)
    decoder = Decoder(through_json(state), {}, {}, HERE)
    for name in ("one", "two"):
        with pytest.raises(NotHere):
            decoder.value(name)
    assert decoder.value("three") == 3


# ---- older files, users' modules


def test_facts_of_older_files_are_read():
    old = {
        "count": 3,
        "table": {"kind": "dict", "value": [[{"kind": "tuple", "value": [0, "x"]}, 1.5]]},
        "recent": {"kind": "deque", "value": [1, [2]], "most": 3},
        "dice": {"kind": "generator", "value": np.random.default_rng(4).bit_generator.state},
        "weights": {"kind": "tensor", "value": "own.weights"},
        "random": {"kind": "random", "value": {"kind": "tuple", "value": [
            3, {"kind": "tuple", "value": list(random.Random(5).getstate()[1])}, None]}},
    }  # fmt: skip
    assert is_older(old) and not is_older(GIVEN.facts)
    state = State(translated(old), {"own.weights": np.ones(2, np.float32)})
    now = {"table": defaultdict(float), "dice": np.random.default_rng(1), "random": random.Random(1)}
    got = decode_all(state, now, {}, HERE)
    assert got["count"] == 3 and got["table"] == {(0, "x"): 1.5} and type(got["table"]) is defaultdict
    assert got["recent"] == deque([1, [2]]) and got["recent"].maxlen == 3 and got["weights"].tolist() == [1, 1]
    assert (
        got["dice"].random() == np.random.default_rng(4).random()
        and got["random"].random() == random.Random(5).random()
    )


def test_the_modules_of_a_user_are_those_of_the_classes_and_what_they_import_from_own_files():
    found = user_modules([Thing(), EmptyEntity()])
    assert __name__ in found and not {"numpy", "json", "abreast", "torch", "builtins"} & found
