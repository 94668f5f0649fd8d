"""Types and tags by name."""

import sys
import types

import pytest

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import RolloutConfig, find_kind, find_tag, register
from abreast.rollouts.registry import registered


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    monkeypatch.setattr("abreast.rollouts.registry.registered", dict(registered))


def env_of(module):
    """A class of the same name in another module."""
    return type("MyEnv", (), {"__module__": module, "reset": None, "step": None})


def test_a_name_is_given_once():
    register("mine")(env_of("project_a"))
    register("mine")(env_of("project_a"))  # its module was imported again
    with pytest.raises(RolloutError, match=r"the environment type 'mine' is taken, by <class 'project_a.MyEnv'>: give"):
        register("mine")(env_of("project_b"))
    register("scripted")(env_of("__main__"))
    register("scripted")(env_of("__mp_main__"))
    with pytest.raises(RolloutError, match="'sokoban' is taken"):
        register("sokoban")(type("SokobanEnv", (), {"__module__": "elsewhere"}))


def test_a_solver_can_be_registered_too():
    register("solved", solver=lambda config, history: ["go"])(env_of("project_a"))
    assert find_kind("solved").solver(None, []) == ["go"]


def test_module_and_name_are_a_type(monkeypatch):
    module = types.ModuleType("some_module")
    module.Plain = type("Plain", (), {"__doc__": "It is plain.", "reset": None, "step": None})
    module.Known = register("known", summary="It is known.")(env_of("some_module"))
    monkeypatch.setitem(sys.modules, "some_module", module)
    kind = find_kind("some_module:Plain")
    assert (kind.name, kind.summary) == ("some_module:Plain", "It is plain.")
    assert isinstance(kind.env(kind.config.parse({})), module.Plain)
    assert find_kind("some_module:Known").name == "known"
    assert find_tag("some_module:Plain", {}).budget == 10
    for name in ("some_module:", ":Plain"):
        with pytest.raises(RolloutError, match="expected MODULE:NAME"):
            find_kind(name)


def test_a_type_is_a_tag():
    assert find_tag("sokoban", {}).config.num_boxes == 3 and find_tag("SimpleSokoban", {}).config.num_boxes == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"custom_envs": {"Foo": 3}}, "custom_envs.Foo is 3: expected a valid dictionary or instance of TagConfig."),
        ({"custom_envs": {"A": {}}}, "custom_envs.A.env_type is missing: give it a value."),
        ({"custom_envs": {"A": {"env_type": "b", "max_action_per_traj": 1}}},
         "unknown key custom_envs.A.max_action_per_traj: did you mean 'custom_envs.A.max_actions_per_traj'?"),
        ({"custom_envs": {5: {}}},
         "2 faults in this configuration:\n- custom_envs has a key 5: expected a valid string.\n"
         "- custom_envs.5.env_type is missing: give it a value."),
        ({"max_tokens": 1}, "unknown key max_tokens: did you mean 'custom_envs.NAME.max_tokens'?"),
        ({"es_manager": {"use_multiprocessing": "yes"}},
         "es_manager.use_multiprocessing is 'yes': expected a valid boolean or 'auto' or 'threads'."),
        ({"es_manager": {"train": {"env_groups": 2, "group_size": 1, "env_configs": {"tags": ["A"], "n_groups": [1]}}}},
         "es_manager.train: env_configs.n_groups [1] add up to 1, but env_groups is 2: make them equal."),
        ({"es_manager": {"val": {"env_groups": 10**6, "group_size": 9, "env_configs": {"tags": ["A"], "n_groups": [1]}}}},
         "es_manager.val: env_groups is 1000000 and group_size is 9: expected 1,000,000 environments at most."),
        ([1], "the configuration is [1], expected a mapping with keys such as seed, es_manager, custom_envs."),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named_where_it_is(given, told):
    with pytest.raises(ConfigError) as error:
        RolloutConfig.parse(given)
    assert str(error.value) == told


def test_empty_headings_are_no_mistake():
    assert RolloutConfig.parse({"es_manager": None, "seed": None}) == RolloutConfig.parse({})
