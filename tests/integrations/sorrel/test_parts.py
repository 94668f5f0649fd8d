"""The parts by themselves: generators, building."""

import random
import sys

import numpy as np
import pytest
import torch

import sorrel_standin
from abreast.errors import ConfigError, GameError, StateError
from abreast.integrations.sorrel import find
from abreast.integrations.sorrel.game import Generators
from abreast.integrations.sorrel.source import build, own_settings
from integrations.sorrel.helpers import SETTINGS, SorrelExperiment, make, outcome, seed_everything


def draws():
    return random.random(), random.gauss(0, 1), float(np.random.randn()), float(torch.rand(()))  # noqa: NPY002


def test_generators_go_on_where_they_were_and_leave_the_others_alone():
    seed_everything(1)
    outside = [draws() for _ in range(2)]
    seed_everything(7)
    expected = [draws() for _ in range(2)]
    seed_everything(1)
    generators = Generators(7)
    mixed = [draws()]
    with generators:
        inside = [draws()]
    mixed.append(draws())
    with generators:
        inside.append(draws())
    assert inside == expected
    assert mixed == outside


@pytest.mark.parametrize("seed", [0, 2**32 + 5, 2**70])
def test_any_seed_will_do(seed):
    with Generators(seed):
        first = draws()
    with Generators(seed):
        assert draws() == first


def test_a_state_has_all_attributes_there_were_and_no_others():
    game = SorrelExperiment(make()).game
    env = game.lane(0).env
    state, model = game.state(), env.agents[0].model
    model.noted, model.sync_freq, env.noted = 1, 99, 2
    del model.batch
    game.set_state(state)
    assert (model.batch, model.sync_freq) == (16, 2)
    assert not hasattr(model, "noted") and not hasattr(env, "noted")


def test_a_state_of_more_agents_is_refused_and_changes_nothing():
    game, other = (SorrelExperiment(make()).game for _ in range(2))
    agents = other.lane(0).env.agents
    agents.append(agents[0])
    before = outcome(game.lane(0).env)
    with pytest.raises(StateError, match="KeyError: 'agent2'"):
        game.set_state(other.state())
    assert outcome(game.lane(0).env) == before


def test_an_evaluation_seeds_generators_of_the_environments_own():
    game = SorrelExperiment(make("values", sorrel_standin.OwnStream)).game
    lane = game.lane(0)
    lane.env.world.rng, outer = random.Random(3), torch.get_rng_state().tolist()

    def drawn(seed):
        game.draw_from([np.random.SeedSequence(seed)])
        with lane.generators:
            return draws(), lane.env.world.rng.random(), *(agent.model.rng.random() for agent in lane.env.agents)

    first = drawn(1)
    assert drawn(1) == first
    assert not set(first) & set(drawn(2))
    assert len(set(first)) == 4
    assert torch.get_rng_state().tolist() == outer


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A folder like one of the framework's examples."""
    folder = tmp_path / "little_example"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "entities.py").write_text("from sorrel_standin import EmptyEntity\n")
    (folder / "env.py").write_text(
        "import little_example.entities\nfrom sorrel_standin import Environment, ForageEnv, Grid\n"
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
    assert own_settings(package / "env.py") == {
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
    assert own_settings(package / "env.py") == {"experiment": {"epochs": 8, "max_turns": 2}}


def test_what_a_world_wants_and_nobody_gives_is_named(package):
    with pytest.raises(ConfigError, match="Plain needs an argument 'layers'"):
        build(find("little_example.env:LittleEnv").function, SETTINGS, 0)
    settings = {**SETTINGS, "world": {"height": 2, "width": 2, "layers": 1}}
    with pytest.MonkeyPatch.context() as patched:
        patched.delattr(sys.modules["little_example.entities"], "EmptyEntity")
        patched.delattr(sorrel_standin, "EmptyEntity")
        with pytest.raises(GameError, match=r"no EmptyEntity in little_example\.env"):
            build(find("little_example.env:LittleEnv").function, settings, 0)
