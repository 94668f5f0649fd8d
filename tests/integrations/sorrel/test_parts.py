"""The parts by themselves: generators, fingerprints, events, building."""

import random
import sys

import numpy as np
import pytest
import torch

import sorrel_standin
from abreast.errors import GameError, ModelError, StateError
from abreast.integrations.sorrel import find
from abreast.integrations.sorrel.building import build, own_settings
from abreast.integrations.sorrel.carried import Carried, from_blocks, in_blocks
from abreast.integrations.sorrel.events import EventLog, Layout
from abreast.integrations.sorrel.fingerprint import fingerprint
from abreast.integrations.sorrel.generators import Generators
from abreast.replay import Buffer
from integrations.sorrel.helpers import SETTINGS, seed_everything


def draws():
    return random.random(), random.gauss(0, 1), float(np.random.randn()), float(torch.rand(()))  # noqa: NPY002


def test_generators_go_on_where_they_were_and_leave_the_others_alone():
    seed_everything(1)
    outside = [draws() for _ in range(2)]
    seed_everything(1)
    first, second = (Generators(np.random.SeedSequence(7)) for _ in range(2))
    mixed = [draws()]
    with first, first:
        inside = [draws()]
    second.set_state(first.state())
    mixed.append(draws())
    with first:
        inside.append(draws())
    with second:
        assert draws() == inside[1] != inside[0]
    assert mixed == outside


def test_a_state_of_generators_that_is_none_is_refused():
    generators = Generators()
    state = generators.state()
    with pytest.raises(StateError, match="position"):
        generators.set_state(state._replace(facts={**state.facts, "position": 1000}))
    with pytest.raises(StateError, match="torch"):
        generators.set_state(state._replace(arrays={**state.arrays, "torch": np.zeros(3, np.uint8)}))


def test_fingerprints_are_those_of_equal_values():
    shared = np.arange(3)
    assert fingerprint([shared, shared]) == fingerprint([np.arange(3), np.arange(3)])
    different = [
        1,
        1.0,
        True,
        "1",
        [1],
        (1,),
        {1: 1},
        {1},
        np.ones(1),
        np.float32(1),
        None,
        random.Random(1),
        random.Random(2),
    ]
    assert len({fingerprint(each) for each in different}) == len(different)
    circle = []
    circle.append(circle)
    assert fingerprint(circle)


def test_a_model_is_carried_with_all_it_is_made_of():
    seed_everything()
    model, other = (sorrel_standin.ValueModel(11, 4, seed) for seed in (1, 2))
    for number in range(40):
        model.memory.add(np.full(11, number), number % 4, 1.0, False, positions=(1, 2))
    model.train_step()
    twin = Carried(model).copy().model
    memory, network = other.memory, other.local
    Carried(other).take(from_blocks(in_blocks(Carried(model).state())))
    assert other.memory is memory and other.local is network and other.models["local"] is network
    seed_everything()
    loss = model.train_step()
    for each in (twin, other):
        seed_everything()
        assert each.train_step() == loss
        assert fingerprint(each.state_dict()) == fingerprint(model.state_dict())


def test_actions_that_are_no_numbers_and_unknown_extra_data():
    layout = Layout.of(sorrel_standin.Memory(9, (3,), positions=(2,)))
    log, memory = EventLog(layout), Buffer(20, (3,), dtype=np.float32, extras=layout.columns())
    with pytest.raises(ModelError, match="an action put into memory is 'left'"):
        log.add(memory, np.zeros(3), "left", 0.0, False)
    with pytest.raises(ModelError, match=r"memory\.add was given moods"):
        log.add(memory, np.zeros(3), 1, 0.0, False, moods=1)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder like one of the framework's examples."""
    folder = tmp_path / "little_example"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "entities.py").write_text("from sorrel_standin import EmptyEntity\n")
    (folder / "env.py").write_text(
        "from sorrel_standin import Environment, ForageEnv, Grid\n"
        "class Plain(Grid):\n    berry_rate = 0.1\n"
        "class LittleEnv(Environment[Plain]):\n"
        "    setup_agents, populate_environment = ForageEnv.setup_agents, ForageEnv.populate_environment\n"
        "    make = ForageEnv.make\n"
        "class Untold(ForageEnv, Environment):\n    pass\n"
    )
    (folder / "main.py").write_text(
        "from pathlib import Path\nraise SystemExit('never run')\n"
        "if True:\n    config = {'experiment': {'epochs': 2, 'max_turns': 3, 'log_dir': Path('x')}, 'model': {},\n"
        "              'world': {'height': 4, 'width': 5, 'layers': 1, 'far': -1}}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith("little_example")]:
        del sys.modules[name]


def test_settings_are_read_from_the_main_script_and_the_world_is_made_of_them(package):
    source = find("little_example.env:LittleEnv")
    assert own_settings(source.module) == {
        "experiment": {"epochs": 2, "max_turns": 3},
        "model": {},
        "world": {"height": 4, "width": 5, "layers": 1, "far": -1},
    }
    env = source.build(source.configure()).env
    assert type(env.world).__name__ == "Plain"
    assert env.world.map.shape == (4, 5, 1)


def test_a_yaml_file_comes_first(package):
    (package / "configs").mkdir()
    (package / "configs" / "config.yaml").write_text("experiment: {epochs: 8, max_turns: 2}\n")
    assert own_settings(find("little_example.env:LittleEnv").module) == {"experiment": {"epochs": 8, "max_turns": 2}}


def test_what_a_world_wants_and_nobody_gives_is_named(package):
    with pytest.raises(GameError, match="Plain wants layers"):
        build(find("little_example.env:LittleEnv").make, SETTINGS, 0)
    (package / "entities.py").write_text("")
    settings = {**SETTINGS, "world": {"height": 2, "width": 2, "layers": 1}}
    sys.modules.pop("little_example.entities", None)
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr(sorrel_standin, "EmptyEntity")
        with pytest.raises(GameError, match=r"no EmptyEntity in little_example\.env"):
            build(find("little_example.env:LittleEnv").make, settings, 0)
