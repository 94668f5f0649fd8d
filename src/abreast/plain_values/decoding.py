"""From facts and arrays to values, in place of those that are there now.

An object that can change is made, or found, at once and filled later, so that it can be referred to meanwhile; one that
cannot is made when its parts are there. Dictionaries and sets are filled last: they need the hashes of what they hold.
"""

import functools
import itertools
import logging
import random
import struct
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from abreast.errors import StateError, short
from abreast.plain_values.blocks import read_block, read_dtype
from abreast.plain_values.encoding import FORMAT, SHARED_GENERATORS, count_hooks, slots_of
from abreast.plain_values.names import Places, find, find_class, name_of, user_globals
from abreast.state import State

Steps = Generator[tuple[Any, Any], Any, Any]
"""Asks for the parts of an object (each as written, and the current value in its place), and returns the object."""
MISSING = object()


class NotHere(StateError):
    """What a value was made of is not there on this side."""


def decode_all(state: State, current: Mapping[str, Any], places: Places, modules: Collection[str]) -> dict[str, Any]:
    """The values that `encode_all` was given. Whatever is wrong with the state is a `StateError`."""
    decoder = Decoder(state, current, places, modules)
    return {name: decoder.value(name) for name in decoder.names}


class Decoder:
    """Decodes values one by one; what they share, they share again."""

    def __init__(self, state: State, current: Mapping[str, Any], places: Places, modules: Collection[str]) -> None:
        facts = state.facts
        if (
            facts.get("format") != FORMAT
            or type(facts.get("values")) is not dict
            or type(facts.get("objects")) is not list
        ):
            raise StateError(f"the values are not written in format {FORMAT}.")
        self._values: dict[str, Any] = facts["values"]
        self._objects: list[Any] = facts["objects"]
        self._arrays, self._current, self._places, self._modules = state.arrays, current, places, modules
        self._made: dict[int, Any] = {}
        self._under_way: set[int] = set()
        self._fills: list[Steps] = []
        self._late_fills: list[Steps] = []
        self._loads: list[Steps] = []
        self._failed: set[int] = set()
        """Objects of values that could not be restored: what refers to them cannot be either."""
        self._guarded = {id(place) for place in places.values()} | user_globals(modules).keys()
        """Objects that others hold too, and that are not to be changed because they are in the place of another."""
        self._taken: dict[int, Any] = {}
        """Objects that have been changed in place, by identity."""

    @property
    def names(self) -> list[str]:
        return list(self._values)

    def value(self, name: str) -> Any:
        """One of the values."""
        before = set(self._made)
        try:
            return self._complete(self._values[name], self._current.get(name))
        except Exception as error:  # the facts may be anything
            self._failed |= self._made.keys() - before | self._under_way
            self._fills, self._late_fills, self._loads, self._under_way = [], [], [], set()
            if isinstance(error, StateError):
                raise type(error)(f"{name} is not restored from the file: {error}") from None
            told = f"{type(error).__name__}: {error}".rstrip(".")
            raise StateError(f"{name} is not restored from the file: its facts are damaged ({told}).") from None

    # ---- the order of things

    def _complete(self, encoded: Any, current: Any) -> Any:
        value = self._run(self._ask(encoded, current))
        while self._fills or self._late_fills or self._loads:
            self._fill()
            if self._late_fills:  # what was found last is inside of what was found first
                self._run(self._late_fills.pop())
            elif self._loads:
                self._run(self._loads.pop(0))
        return value

    def _fill(self) -> None:
        while self._fills:
            self._run(self._fills.pop())

    def _ask(self, encoded: Any, current: Any) -> Steps:
        return (yield encoded, current)

    def _run(self, steps: Steps) -> Any:
        """Take the steps of one object, and those of the objects it asks for, without recursion."""
        stack: list[tuple[Steps, int | None]] = [(steps, None)]
        answer: Any = None
        while stack:
            try:
                encoded, current = stack[-1][0].send(answer)
            except StopIteration as done:
                answer, number = done.value, stack.pop()[1]
                if number is not None:
                    self._under_way.discard(number)
                    self._made[number] = answer
                continue
            answer = None
            if type(encoded) is not list:
                answer = _scalar(encoded)
                continue
            (number,) = encoded
            if type(number) is not int or not 0 <= number < len(self._objects):
                raise StateError(f"it refers to the object {short(number)}, which is not there.")
            if number in self._failed:
                raise NotHere("it refers to what could not be restored.")
            if number in self._made:
                answer = self._made[number]
            elif number in self._under_way:
                raise StateError("it contains itself.")
            else:
                node = self._objects[number]
                make = DECODERS.get(node["kind"])
                if make is None:
                    raise StateError(f"there is no kind of value called {short(node['kind'])}.")
                self._under_way.add(number)
                stack.append((make(self, node, current), number))
        return answer

    def claim(self, current: Any, kind: type, node: Any = MappingProxyType({})) -> Any:
        """The current value, if it is of this type and may be changed in place; else MISSING."""
        if "at" in node:
            current = self._held_by_module(node["at"])
        elif id(current) in self._guarded:
            return MISSING
        if type(current) is not kind or id(current) in self._taken:
            return MISSING
        self._taken[id(current)] = current
        return current

    def _held_by_module(self, name: Any) -> Any:
        try:
            return find(name, self._modules) if name.partition(":")[0] in self._modules else MISSING
        except LookupError:
            return MISSING

    # ---- containers

    def _all(self, encoded: Iterable[Any], current: Iterable[Any]) -> Generator[tuple[Any, Any], Any, list[Any]]:
        found = []
        for each, old in itertools.zip_longest(encoded, list(current)[: len(_listed(encoded))]):
            found.append((yield each, old))
        return found

    def container(self, node: Any, current: Any) -> Steps:
        """A list, deque, dictionary or set, perhaps of a class derived from it."""
        base = MUTABLE[node["kind"]]
        kind = base if "class" not in node else find_class(node["class"], self._modules, current)
        if "like" in node and isinstance(current, base):  # older files do not say which class it was
            kind = type(current)
        if not issubclass(kind, base):
            raise StateError(f"{kind.__name__} is not a {base.__name__}.")
        target = self.claim(current, kind, node)
        if target is MISSING or (base is deque and target.maxlen != node["most"]):
            target = base.__new__(kind)
            if base is deque:
                deque.__init__(target, (), node["most"])
        if base in (list, deque):
            self._fills.append(self._fill_list(base, target, node))
        else:
            self._late_fills.append(self._fill_hashed(base, target, node))
        if "class" in node:
            self._fills.append(self._fill_attributes(target, node))
        return target
        yield

    def _fill_list(self, base: Any, target: Any, node: Any) -> Steps:
        items = yield from self._all(_listed(node["items"]), base.__iter__(target))
        base.clear(target)
        base.extend(target, items)

    def _fill_hashed(self, base: Any, target: Any, node: Any) -> Steps:
        if base is set:
            items = yield from self._all(_listed(node["items"]), ())
            self._fill()
            set.clear(target)
            set.update(target, items)
            return
        keys = yield from self._all(_listed(node["keys"]), ())
        items = yield from self._all(_listed(node["items"]), [_held(target, key) for key in keys])
        if base is defaultdict:
            target.default_factory = yield node["factory"], target.default_factory
        self._fill()
        dict.clear(target) if base is not OrderedDict else OrderedDict.clear(target)
        for key, item in zip(keys, items, strict=True):
            (OrderedDict if base is OrderedDict else dict).__setitem__(target, key, item)

    def fixed(self, node: Any, current: Any) -> Steps:
        """A tuple or a frozenset."""
        base: Any = {"tuple": tuple, "frozenset": frozenset}[node["kind"]]
        kind = base if "class" not in node else find_class(node["class"], self._modules, current)
        if not issubclass(kind, base):
            raise StateError(f"{kind.__name__} is not a {base.__name__}.")
        items = yield from self._all(_listed(node["items"]), current if isinstance(current, tuple) else ())
        if base is frozenset:
            self._fill()
        made = base.__new__(kind, items)
        if node.get("attributes"):
            self._fills.append(self._fill_attributes(made, node))
        return made

    # ---- objects

    def thing(self, node: Any, current: Any) -> Steps:
        """An object of a user's class, made without calling it."""
        kind = find_class(node["class"], self._modules, current)
        target = self.claim(current, kind, node)
        if target is MISSING:
            target = object.__new__(kind)
        self._fills.append(self._fill_attributes(target, node))
        return target
        yield

    def _fill_attributes(self, target: Any, node: Any) -> Steps:
        slots, there = slots_of(type(target)), getattr(target, "__dict__", {})
        values = yield from self._by_name(node["attributes"], there)
        in_slots = yield from self._by_name(node.get("slots", {}), {})
        if values.keys() - there.keys() and not hasattr(target, "__dict__"):
            raise StateError(f"{type(target).__name__} has no attributes.")
        if hasattr(target, "__dict__"):
            there.clear()
            there.update(values)
        for name, slot in slots.items():
            if name in in_slots:
                slot.__set__(target, in_slots[name])
            elif hasattr(type(target), name):
                with suppress(AttributeError):  # it is not set
                    slot.__delete__(target)
        if in_slots.keys() - slots.keys():
            raise StateError(f"{type(target).__name__} has other slots.")

    def _by_name(self, encoded: Any, current: Mapping[str, Any]) -> Generator[tuple[Any, Any], Any, dict[str, Any]]:
        names = list(encoded)
        values = yield from self._all(list(encoded.values()), [current.get(name) for name in names])
        return dict(zip(names, values, strict=True))

    def in_place(self, node: Any, current: Any) -> Steps:
        """An optimiser, or whatever else takes a state by itself."""
        if not hasattr(current, "load_state_dict") or isinstance(current, type):
            raise NotHere("it holds a module or optimiser, which `setup` would have to make first.")
        self._claim_in_place(current)
        self._loads.append(self._load(current, node))
        return current
        yield

    def _load(self, target: Any, node: Any) -> Steps:
        state = yield node["items"], None
        while self._fills or self._late_fills:
            self._fill()
            if self._late_fills:
                self._run(self._late_fills.pop())
        target.load_state_dict(state)

    def _claim_in_place(self, current: Any) -> None:
        if self.claim(current, type(current)) is MISSING:
            raise NotHere("two values that were apart are one and the same on this side.")

    def network(self, node: Any, current: Any) -> Steps:
        torch: Any = sys.modules.get("torch")
        if torch is None or not isinstance(current, torch.nn.Module) or name_of(type(current)) != node["class"]:
            raise NotHere(
                f"it holds a module or optimiser ({short(node['class'])}), which `setup` would have to make first."
            )
        self._claim_in_place(current)
        if count_hooks(current) != node["hooks"]:
            raise NotHere("it holds a module with other hooks.")
        self._fills.append(self._fill_network(current, node))
        return current
        yield

    def _fill_network(self, target: Any, node: Any) -> Steps:
        held = vars(target)
        before = {**held["_parameters"], **held["_buffers"]}
        tensors = yield from self._by_name(node["tensors"], before)
        parts = yield from self._by_name(node["parts"], held["_modules"])
        own = yield from self._by_name(node["attributes"], held)
        if parts.keys() != held["_modules"].keys() or any(parts[name] is not held["_modules"][name] for name in parts):
            raise NotHere("it holds a module of other parts.")
        if tensors.keys() != before.keys():
            raise NotHere("it holds a module of other parameters.")
        for name, tensor in tensors.items():
            if name in held["_buffers"]:
                held["_buffers"][name] = tensor
            elif tensor is not held["_parameters"][name]:
                raise NotHere(f"{name} does not fit the parameter that is there.")
        for name in own:
            held[name] = own[name]

    # ---- arrays and tensors

    def array(self, node: Any, current: Any) -> Steps:
        array = read_block(node, self._arrays)
        if node["kind"] == "scalar":
            return array[()]
        array.flags.writeable = not node.get("fixed")
        current = self._held_by_module(node["at"]) if "at" in node else current
        alike = isinstance(current, np.ndarray) and (current.shape, current.dtype) == (array.shape, array.dtype)
        if alike and current.flags.writeable and array.flags.writeable and current.strides == array.strides:
            target = self.claim(current, np.ndarray, node)
            if target is not MISSING:
                np.copyto(target, array)
                return target
        return array
        yield

    def objects(self, node: Any, current: Any) -> Steps:
        array = np.empty(tuple(node["shape"]), object)
        if len(_listed(node["items"])) != array.size:
            raise StateError("an array of objects has another size.")
        self._fills.append(self._fill_objects(array, node))
        return array
        yield

    def _fill_objects(self, array: Any, node: Any) -> Steps:
        items = yield from self._all(node["items"], ())
        for number, item in enumerate(items):
            array.flat[number] = item

    def tensor(self, node: Any, current: Any) -> Steps:
        torch: Any = _torch()
        tensor = torch.from_numpy(read_block(node, self._arrays))
        if "dtype_of_tensor" in node:
            tensor = tensor.view(_of(torch, node["dtype_of_tensor"], torch.dtype))
        if "device" in node:
            tensor = tensor.to(torch.device(node["device"]))
        kind = torch.nn.Parameter if node.get("parameter") else torch.Tensor
        about = (tensor.shape, tensor.dtype, tensor.device)
        target: Any = MISSING
        if isinstance(current, torch.Tensor) and (current.shape, current.dtype, current.device) == about:
            target = self.claim(current, kind) if current.grad_fn is None else MISSING
        if target is MISSING:
            target = torch.nn.Parameter(tensor, requires_grad=False) if node.get("parameter") else tensor
        else:
            with torch.no_grad():
                target.copy_(tensor)
        target.requires_grad_(bool(node.get("learns")))
        target.grad = (yield node["grad"], target.grad) if "grad" in node else None
        return target

    # ---- generators

    def generator(self, node: Any, current: Any) -> Steps:
        now = current.bit_generator if isinstance(current, np.random.Generator) else None
        bits = yield node["bits"], now
        if now is bits:
            target = self.claim(current, np.random.Generator)
            if target is not MISSING:
                return target
        return np.random.Generator(bits)

    def bits(self, node: Any, current: Any) -> Steps:
        kind: Any = _of(np.random, node["of"], type)
        if not issubclass(kind, np.random.BitGenerator):
            raise StateError(f"{short(node['of'])} is no generator of NumPy's.")
        seed = yield node["seed"], getattr(current, "seed_seq", None)
        spawns_alike = seed is None or _same_seed(getattr(current, "seed_seq", None), seed)
        target: Any = self.claim(current, kind) if spawns_alike else MISSING
        if target is MISSING:
            target = kind(seed)
        target.state = _unlisted(node["state"])
        return target

    def older_generator(self, node: Any, current: Any) -> Steps:
        """As older files have it: without what it spawns from."""
        if not isinstance(current, np.random.Generator):
            raise NotHere("it holds a generator, which `setup` would have to make first.")
        current.bit_generator.state = _unlisted(node["state"])
        return current
        yield

    def random_state(self, node: Any, current: Any) -> Steps:
        state = _unlisted(node["state"])
        target: Any = self.claim(current, np.random.RandomState)
        if target is MISSING or target.get_state(legacy=False)["bit_generator"] != state["bit_generator"]:
            kind: Any = _of(np.random, state["bit_generator"], type)
            target = np.random.RandomState(kind(0))
        target.set_state(state)
        return target
        yield

    def seed_sequence(self, node: Any, current: Any) -> Steps:
        entropy, key, size, spawned = yield from self._all(node["items"], ())
        made = np.random.SeedSequence(entropy, spawn_key=key, pool_size=size, n_children_spawned=spawned)
        if _same_seed(current, made) and self.claim(current, np.random.SeedSequence) is not MISSING:
            return current
        return made

    def torch_generator(self, node: Any, current: Any) -> Steps:
        torch: Any = _torch()
        state = torch.from_numpy(read_block(node, self._arrays))
        target = self.claim(current, torch.Generator)
        device = node.get("device", str(getattr(current, "device", "cpu")))
        if target is MISSING or str(target.device) != device:
            target = torch.Generator(device)
        target.set_state(state)
        return target
        yield

    def random(self, node: Any, current: Any) -> Steps:
        state = yield from self._all(node["items"], ())
        target = self.claim(current, random.Random)
        target = random.Random(0) if target is MISSING else target
        target.setstate(tuple(state))
        return target

    def shared(self, node: Any, current: Any) -> Steps:
        return _torch().default_generator if node["name"] == "torch" else SHARED_GENERATORS[node["name"]]
        yield

    # ---- names

    def place(self, node: Any, current: Any) -> Steps:
        if node["name"] not in self._places:
            raise NotHere(f"it refers to {short(node['name'])}, which is not there.")
        return self._places[node["name"]]
        yield

    def named(self, node: Any, current: Any) -> Steps:
        """A class, a function, a module or a thing that a module holds: the one that is there, or one of this game's."""
        name = node["name"]
        if type(name) is not str:
            raise StateError("a name is missing.")
        if _is_called(current, name):
            return current
        try:
            return find(name, self._modules)
        except LookupError:
            pass
        held = next((each for each in self._names_here if _is_called(each, name)), MISSING)
        if held is MISSING:
            raise NotHere(f"there is no {name} here.")
        return held
        yield

    @functools.cached_property
    def _names_here(self) -> list[Any]:
        """Classes, functions and modules that the current values hold somewhere."""
        found, left, seen = [], list(self._current.values()), set[int]()
        while left:
            value = left.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, type | ModuleType) or callable(value):
                found.append(value)
            if isinstance(value, list | tuple | set | frozenset | deque):
                left += value
            elif isinstance(value, dict):
                left += [*value, *value.values()]
            elif not isinstance(value, type | ModuleType):
                left += getattr(value, "__dict__", {}).values()
        return found

    def function(self, node: Any, current: Any) -> Steps:
        """A function that only its owner knows: the one that is there, with what it encloses put back."""
        if not _is_called(current, node["name"]) or current.__code__.co_firstlineno != node["line"]:
            raise NotHere(f"there is no function {short(node['name'])} of line {short(node['line'])} in its place.")
        if id(current) in self._taken:
            raise NotHere(f"the function {short(node['name'])} is in two places.")
        self.claim(current, FunctionType)
        self._fills.append(self._fill_function(current, node))
        return current
        yield

    def _fill_function(self, target: Any, node: Any) -> Steps:
        cells = target.__closure__ or ()
        if len(node.get("cells", ())) != len(cells):
            raise NotHere(f"the function {node['name']} encloses other things.")
        values = yield from self._all(node.get("cells", []), [cell.cell_contents for cell in cells])
        for cell, value in zip(cells, values, strict=True):
            cell.cell_contents = value
        target.__defaults__ = yield node.get("defaults"), target.__defaults__
        target.__kwdefaults__ = yield node.get("keywords"), target.__kwdefaults__
        if "own" in node or vars(target):
            own = (yield node["own"], None) if "own" in node else {}
            self._fills.append(self._set_vars(target, own))

    def _set_vars(self, target: Any, own: dict[str, Any]) -> Steps:
        while self._late_fills:
            self._run(self._late_fills.pop())
        vars(target).clear()
        vars(target).update(own)
        return None
        yield

    def method(self, node: Any, current: Any) -> Steps:
        owner = yield node["of"], getattr(current, "__self__", None)
        name = node["name"]
        if type(name) is not str:
            raise StateError("a name is missing.")
        if "function" in node:
            function = yield node["function"], getattr(current, "__func__", None)
            return MethodType(function, owner)
        kind = owner if isinstance(owner, type) else type(owner)
        found: Any = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
        if isinstance(found, FunctionType):
            return MethodType(found, owner)
        if isinstance(found, classmethod):
            return found.__get__(None, kind)
        if type(found).__name__ in ("method_descriptor", "builtin_function_or_method", "cython_function_or_method"):
            return found.__get__(owner, kind)
        raise NotHere(f"{kind.__name__} has no method {name}.")

    def enum(self, node: Any, current: Any) -> Steps:
        kind: Any = find_class(node["class"], self._modules, current)
        if not issubclass(kind, Enum):
            raise StateError(f"{kind.__name__} is no enumeration.")
        value = yield node["value"], None
        if node["name"] in kind.__members__:
            return kind.__members__[node["name"]]
        return kind(value)


# ---- inside


def _torch() -> Any:
    return sys.modules.get("torch") or __import__("torch")


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise StateError(f"a list is {short(value)}.")
    return value


def _scalar(encoded: Any) -> Any:
    if type(encoded) is not dict:
        return encoded
    ((kind, text),) = encoded.items()
    if kind == "int":
        return int(text, 16)
    if kind == "float":
        return struct.unpack(">d", bytes.fromhex(text))[0]
    raise StateError(f"there is no kind of number called {short(kind)}.")


def _of(owner: Any, name: object, kind: type) -> Any:
    """An attribute of this type."""
    found = vars(owner).get(name) if type(name) is str else None
    if not isinstance(found, kind):
        raise StateError(f"there is no {short(name)} in {owner.__name__}.")
    return found


def _held(mapping: dict[Any, Any], key: Any) -> Any:
    try:
        return dict.get(mapping, key)
    except Exception:  # its hash needs what is not there yet
        return None


def _is_called(thing: Any, name: object) -> bool:
    known = isinstance(thing, type | ModuleType) or callable(thing)
    return known and type(name) is str and name_of(thing) == name


def _same_seed(one: Any, two: Any) -> bool:
    return (
        isinstance(one, np.random.SeedSequence) and isinstance(two, np.random.SeedSequence) and one.state == two.state
    )


def _unlisted(state: Any) -> Any:
    """The state of a NumPy generator: lists are arrays of whole numbers."""
    if isinstance(state, dict):
        return {key: _unlisted(value) for key, value in state.items()}
    return np.array(state, np.uint32 if len(state) == 624 else np.uint64) if isinstance(state, list) else state


def _made_of(make: Callable[..., Any]) -> Callable[[Decoder, Any, Any], Steps]:
    """Of all its items at once."""

    def decode(to: Decoder, node: Any, current: Any) -> Steps:
        items = yield from to._all(_listed(node["items"]), ())
        return make(*items)

    return decode


def _read(make: Callable[[Any], Any]) -> Callable[[Decoder, Any, Any], Steps]:
    """Of what stands in the node alone."""

    def decode(to: Decoder, node: Any, current: Any) -> Steps:
        return make(node)
        yield

    return decode


def _bytearray(to: Decoder, node: Any, current: Any) -> Steps:
    target = to.claim(current, bytearray)
    target = bytearray() if target is MISSING else target
    target[:] = bytes.fromhex(node["hex"])
    return target
    yield


def _partial(to: Decoder, node: Any, current: Any) -> Steps:
    old = (current.func, current.args, current.keywords) if isinstance(current, functools.partial) else ()
    function, arguments, keywords = yield from to._all(_listed(node["items"]), old)
    while to._fills or to._late_fills:
        to._fill()
        if to._late_fills:
            to._run(to._late_fills.pop())
    return functools.partial(function, *arguments, **keywords)


def _mappingproxy(to: Decoder, node: Any, current: Any) -> Steps:
    held = yield node["of"], None
    return MappingProxyType(held)


def _of_torch(node: Any) -> Any:
    torch = _torch()
    if node["of"] == "Size":
        return torch.Size(node["items"])
    if node["of"] == "device":
        return torch.device(node["text"])
    return _of(torch, node["text"].removeprefix("torch."), torch.dtype)


PATHS: dict[str, type[PurePath]] = {kind.__name__: kind for kind in (type(Path()), PurePosixPath, PureWindowsPath)}
MUTABLE: dict[str, Any] = {kind.__name__: kind for kind in (list, deque, set, dict, OrderedDict, defaultdict, Counter)}
DECODERS: dict[str, Callable[[Decoder, Any, Any], Steps]] = {
    **dict.fromkeys(MUTABLE, Decoder.container),
    "tuple": Decoder.fixed,
    "frozenset": Decoder.fixed,
    "object": Decoder.thing,
    "state_dict": Decoder.in_place,
    "network": Decoder.network,
    "array": Decoder.array,
    "scalar": Decoder.array,
    "objects": Decoder.objects,
    "tensor": Decoder.tensor,
    "generator": Decoder.generator,
    "older_generator": Decoder.older_generator,
    "bits": Decoder.bits,
    "random_state": Decoder.random_state,
    "seed_sequence": Decoder.seed_sequence,
    "torch_generator": Decoder.torch_generator,
    "random": Decoder.random,
    "shared": Decoder.shared,
    "place": Decoder.place,
    "name": Decoder.named,
    "function": Decoder.function,
    "method": Decoder.method,
    "enum": Decoder.enum,
    "bytes": _read(lambda node: bytes.fromhex(node["hex"])),
    "bytearray": _bytearray,
    "complex": _made_of(complex),
    "range": _made_of(range),
    "slice": _made_of(slice),
    "ellipsis": _read(lambda node: Ellipsis),
    "count": _made_of(itertools.count),
    "partial": _partial,
    "mappingproxy": _mappingproxy,
    "logger": _read(lambda node: logging.getLogger(node["name"])),
    "path": _read(lambda node: PATHS[node["of"]](node["text"])),
    "dtype": _read(lambda node: read_dtype(node["dtype"], objects=True)),
    "torch": _read(_of_torch),
}
