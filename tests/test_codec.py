"""Users' values as bytes and back: the same again, or refused by name; a hostile file runs nothing."""

import contextlib
import enum
import functools
import importlib
import math
import os
import pickle
import random
import subprocess
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np
import pytest
import torch
from torch import nn

from abreast.codec import Names, attributes_of, decode, digest, encode
from abreast.errors import AttributeStateError, StateError


class Colour(enum.Enum):
    RED = 1


@dataclass
class Thing:
    """A user's object."""

    name: str = ""
    parts: list = field(default_factory=list)

    class Inner:
        pass


class Slotted:
    __slots__ = ("mood",)
    KNOWN = frozenset()


class Listed(list):
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.act, self.also = nn.Linear(3, 2), nn.functional.relu, torch.tanh

    def forward(self, x):
        return self.also(self.act(self.layer(x)))


def top_level():
    return 1


NAMES = Names([Thing()])


def again(values, places=None, current=None):
    return decode(encode(values, places or {}, NAMES), places or {}, NAMES, current or values)


def test_classes_beside_the_games_file_may_be_named_and_those_elsewhere_not(tmp_path, monkeypatch):
    for folder in ("game", "elsewhere"):
        (tmp_path / folder).mkdir()
        monkeypatch.syspath_prepend(tmp_path / folder)
    modules = "game_of_codec", "parts_of_codec", "somebody"  # of no other test: modules outlive them
    for folder, name in zip(("game", "game", "elsewhere"), modules, strict=True):
        (tmp_path / folder / f"{name}.py").write_text("class Part:\n    pass\n")
    game, its_parts, somebody = map(importlib.import_module, modules)
    names = Names([game.Part()])
    assert type(decode(encode({"a": its_parts.Part()}, {}, names), {}, names, {})["a"]) is its_parts.Part
    with pytest.raises(AttributeStateError, match=r"somebody\.Part is none of this game's own classes"):
        encode({"a": somebody.Part()}, {}, names)


def test_values_come_back_with_what_they_share():
    shared = [1]
    loop = Thing("loop")
    loop.parts.append(loop)
    values = {
        "plain": [None, True, 1, 2.5, 3j, "x", b"y", bytearray(b"z"), (1, 2), {3}, frozenset({4}), range(5), slice(1)],
        "containers": [deque([1], maxlen=3), defaultdict(list, a=[1]), OrderedDict(b=2), Counter("abb"), Listed([1])],
        "shared": [shared, shared],
        "loop": loop,
        "enum": Colour.RED,
        "kinds": [Thing, Thing.Inner, int, np.float32, torch.float32],
        "inner": Thing.Inner(),
        "path": PurePosixPath("a/b"),
        "partial": functools.partial(Thing, "made"),
        "arrays": [
            np.arange(4)[::2],
            np.zeros((2, 3), order="F"),
            np.array(["a"], object),
            np.float32(2),
            np.dtype("f4"),
        ],
    }
    found = again(values)
    assert found["plain"] == values["plain"] and found["containers"] == values["containers"]
    assert [type(each) for each in found["containers"]] == [type(each) for each in values["containers"]]
    assert found["containers"][0].maxlen == 3
    assert found["shared"][0] is found["shared"][1]
    assert found["loop"].parts[0] is found["loop"] and found["loop"] is not loop
    assert found["enum"] is Colour.RED and found["kinds"] == values["kinds"] and type(found["inner"]) is Thing.Inner
    assert found["path"] == values["path"] and found["partial"]().name == "made"
    for one, two in zip(found["arrays"], values["arrays"], strict=True):
        assert np.array_equal(one, two) and getattr(one, "dtype", None) == getattr(two, "dtype", None)
    assert found["arrays"][1].flags.f_contiguous
    found["arrays"][0][0] = 9  # is its own, and can be written


def test_the_order_of_axes_in_memory_is_kept():
    array = np.ones((4, 2, 3)).transpose(1, 2, 0)
    assert again({"a": array[::1]})["a"].strides == array.strides


def test_generators_go_on_with_the_same_numbers():
    values = {
        "a": np.random.default_rng(1), "b": np.random.RandomState(1), "c": random.Random(1), "d": torch.Generator(),
        "e": np.random.Generator(np.random.Philox(3)), "s": np.random.SeedSequence(4),
    }  # fmt: skip
    values["a"].random(), values["b"].normal(), values["c"].random()
    found = again(values)
    assert found["a"].random() == values["a"].random() and found["b"].normal() == values["b"].normal()
    assert found["c"].random() == values["c"].random() and found["e"].random() == values["e"].random()
    assert torch.rand(1, generator=found["d"]) == torch.rand(1, generator=values["d"])
    assert found["s"].spawn(1)[0].generate_state(1) == values["s"].spawn(1)[0].generate_state(1)


def test_networks_and_their_optimiser_come_back_together():
    net = Net()
    adam = torch.optim.Adam(net.parameters())
    net(torch.ones(3)).sum().backward()
    adam.step()
    found = again({"net": net, "adam": adam, "half": torch.ones(2, dtype=torch.bfloat16)})
    assert found["adam"].param_groups[0]["params"][0] is found["net"].layer.weight
    assert torch.equal(found["net"](torch.ones(3)), net(torch.ones(3)))
    assert torch.equal(found["net"].layer.weight.grad, net.layer.weight.grad)
    for one in (net, found["net"]):
        one(torch.ones(3)).sum().backward()
    adam.step(), found["adam"].step()
    assert torch.equal(found["net"].layer.weight, net.layer.weight)
    assert found["half"].dtype == torch.bfloat16 and found["net"].layer.weight.data_ptr() % 64 == 0


def test_places_are_the_readers_own():
    here, there = Thing("here"), Thing("there")
    data = encode({"owner": here, "list": [here]}, {"owner": here}, NAMES)
    found = decode(data, {"owner": there}, NAMES, {})
    assert found["owner"] is there and found["list"] == [there]


def test_functions_without_a_closure_are_the_readers_own():
    rule = lambda x: x + 1  # noqa: E731
    assert again({"rule": rule, "act": torch.relu, "sine": math.sin, "add": np.add})["rule"] is rule
    data = encode({"rule": rule}, {}, NAMES)
    with pytest.raises(StateError, match=r"rule was the function .*, and is None here"):
        decode(data, {}, NAMES, {})
    with pytest.raises(StateError, match=r"rule was the function"):
        decode(data, {}, NAMES, {"rule": lambda x: x})


def closure():
    seen = []
    return lambda: seen.append(1)


class Local:
    pass


class Reduces:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (threading.Lock(), "cannot pickle '_thread.lock'"),
        (closure(), "closure.<locals>.<lambda> is none of this game's own"),
        ([lambda: 1], "<lambda> is none of this game's own"),
        ({"rule": top_level}, "test_codec.top_level is none of this game's own"),
        ([].append, "builtins"),
        (subprocess.Popen.__new__(subprocess.Popen), "subprocess.Popen is none of this game's own"),
        (Reduces(), "posix.system is none of this game's own"),
        ((torch.ones(2, requires_grad=True) * 2).sum(), "the graph of its gradient"),
        (type("Made", (), {})(), "Made is none of this game's own"),
    ],
)
def test_what_could_not_be_read_again_is_refused_by_name(value, said):
    with pytest.raises(AttributeStateError, match=r"its attribute bad \(\w+\) cannot be sent or kept: .*") as refused:
        encode({"fine": 1, "bad": value}, {}, NAMES)
    assert said in str(refused.value)


def global_call(module, name, *arguments):
    class Call:
        def __reduce__(self):
            return getattr(__import__(module, fromlist=["_"]), name), arguments

    return pickle.dumps({"x": Call()}, 5)


def named(module, name):
    """A pickle that names something with dots, and calls it."""
    return b"\x80\x04}\x8c\x01x\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(name)]) + (
        name.encode() + b"\x93\x8c\x04true\x85Rs."
    )  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        global_call("os", "system", "touch hostile"),
        global_call("subprocess", "Popen", ["touch", "hostile"]),
        global_call("numpy.testing", "runstring", "open('hostile', 'w')", {}),
        global_call("numpy", "load", "hostile"),
        global_call("torch", "load", "hostile"),
        global_call("builtins", "eval", "open('hostile', 'w')"),
        global_call("builtins", "getattr", [], "append"),
        named("pathlib", "os.system"),
        named("abreast.codec", "sys.modules"),
        named("test_codec", "os.system"),
        global_call("test_codec", "top_level"),
        named("test_codec", "subprocess"),
        pickle.dumps([1]),
        pickle.dumps({1: 2}),
        b"",
        b"\x80\x05",
        bytes(range(256)),
    ],
)
def test_a_hostile_file_is_refused_in_a_sentence_and_runs_nothing(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StateError, match=r"values of users' attributes cannot be read: .*\.$"):
        decode(data, {}, NAMES, {})
    assert not list(tmp_path.iterdir())


def test_any_change_of_bytes_is_a_value_or_a_sentence():
    data = encode({"a": np.arange(5), "b": Thing("x", [1]), "c": Net(), "d": random.Random(1)}, {}, NAMES)
    dice = random.Random(0)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        with contextlib.suppress(StateError):
            decode(bytes(changed), {}, NAMES, {})


def test_a_digest_changes_with_the_value():
    values = [np.zeros(3), {"a": [1, 2]}, torch.zeros(2), np.random.default_rng(1), torch.Generator(), Net()]
    before = [digest(value, {}) for value in values]
    values[5].eval()
    assert before == [digest(value, {}) for value in values]
    values[0][1], values[1]["a"][0], values[2][0] = 1, 5, 3.0
    values[3].random()
    torch.rand(1, generator=values[4])
    with torch.no_grad():
        values[5].layer.bias += 1
    assert all(one != digest(value, {}) for one, value in zip(before, values, strict=True))
    assert digest(threading.Lock(), {}) is None


def test_attributes_in_slots_count():
    slotted = Slotted()
    slotted.mood = 3
    assert attributes_of(slotted) == {"mood": 3}


@pytest.mark.parametrize("kind", ["f4", "U3", "M8[s]"])
def test_values_that_were_read_and_grow_on_become_the_same_bytes_as_if_they_had_never_been_written(kind):
    def grow(table, first, last):
        for number in range(first, last):
            table[f"state {number % 3}", number] = {"left": np.zeros(2, kind), "right": [0.5], "": b"", "\udc80": None}
        return table

    names = Names([Thing()])
    read = decode(encode({"table": grow({}, 0, 4)}, {}, names), {}, names, {})["table"]
    assert encode({"table": grow(read, 4, 8)}, {}, names) == encode({"table": grow({}, 0, 8)}, {}, names)
