"""Configurations as RAGEN's users have them."""

import sys
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from abreast import EnvStateManager
from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import RolloutConfig
from abreast.rollouts.files import read_config
from abreast.rollouts.loading import load_config
from rollout_helpers import settings

RAGEN = Path(__file__).parent / "ragen"
THEIRS = [
    "SimpleSokoban",
    "LargerSokoban",
    "SokobanDifferentGridVocab",
    "CoordSokoban",
    "VisualSimpleSokoban",
    "Countdown",
]
THEIRS += ["Bandit", "FrozenLake", "MetamathQA", "WebShop", "BanditTest", "CoordFrozenLake"]


def groups(tags, count=1, **more):
    return {"env_groups": count * len(tags), "group_size": 1, "env_configs": {"tags": tags, "n_groups": None}, **more}


def composed():
    """What Hydra hands to RAGEN's own manager."""
    return OmegaConf.create(read_config(RAGEN / "base.yaml"))


# ---- their files


@pytest.mark.parametrize(
    "name", [RAGEN / "base.yaml", str(RAGEN / "base.yaml"), composed()], ids=["path", "name", "object"]
)
def test_their_base_file_is_read_as_it_is(name):
    config, tags = load_config(name, "val")
    assert config == load_config(RAGEN / "base.yaml", "val")[0] and list(tags) == ["CoordSokoban"]


def test_their_base_file_plays_as_it_is():
    name = RAGEN / "base.yaml"
    with EnvStateManager(name) as manager:
        assert len(manager) == 128 and manager.tag_of(0).name == "CoordSokoban" and manager.tag_of(0).budget == 10
        assert manager.reset()[0]["history"][0]["actions_left"] == 10
        assert [status["seed"] for status in manager.statuses()][::16] == list(range(10_000, 10_008))
    with EnvStateManager(name, mode="val") as manager:
        assert len(manager) == 512
        manager.reset()
        assert manager.statuses()[0]["seed"] == 123


def test_a_file_goes_over_those_in_its_defaults():
    config = RolloutConfig.parse(read_config(RAGEN / "_6_webshop.yaml"))
    assert config.es_manager.train.env_configs.tags == ["WebShop"] and config.es_manager.train.env_groups == 8
    assert config.es_manager.format_penalty == -0.1 and config.custom_envs["WebShop"].max_actions_per_traj == 9
    assert config.context.max_actions_per_turn == 1 and config.context.action_sep == "||"
    assert config.custom_envs["WebShop"].max_turns == 9


def test_every_tag_of_the_six_environments_begins():
    config = read_config(RAGEN / "base.yaml")
    config["es_manager"]["train"] = groups(THEIRS)
    with EnvStateManager(config) as manager:
        assert len(manager.reset()) == len(THEIRS)


def test_their_rules_come_with_a_preset():
    config = {**read_config(RAGEN / "base.yaml"), "preset": "ragen"}
    with EnvStateManager(config) as manager:
        assert manager.tag_of(0).invalid_turn_cost == 0 and manager.tag_of(0).max_turns == 5, "agent_proxy.max_turn"


def test_an_environment_that_is_not_here_is_only_an_error_if_it_is_used():
    config = read_config(RAGEN / "base.yaml")
    config["es_manager"]["train"] = groups(["Alfworld", "Lean", "SimpleSokoban"])
    with pytest.raises(ConfigError) as error:
        EnvStateManager(config)
    first, second = error.value.faults
    assert "'alfworld'" in first and "'lean'" in second and "SimpleSokoban" not in str(error.value)
    EnvStateManager(config, mode="val").close()


def test_a_key_without_an_equal_here_is_refused_by_name_unless_it_is_off():
    for key in ("step_penalty", "think_quality_penalty"):
        with pytest.raises(ConfigError, match=rf"es_manager.{key} is not supported: "):
            RolloutConfig.parse({"es_manager": {key: 0.5}})
    off = {"step_penalty": 0.0, "think_quality_penalty": 0.0}
    assert RolloutConfig.parse({"es_manager": off}) == RolloutConfig.parse({"es_manager": {}})
    with pytest.raises(ConfigError, match=r"custom_envs.A.max_instances is not supported: it is no key of a tag"):
        RolloutConfig.parse({"custom_envs": {"A": {"env_type": "bandit", "max_instances": 4}}})


def test_agent_proxy_gives_defaults_of_the_context():
    given = {"seed": {}, "agent_proxy": {"enable_think": False, "action_sep": ";", "max_context_window": 3, "x": 1}}
    context = RolloutConfig.parse(given).context
    assert (context.enable_think, context.action_sep, context.history_window) == (False, ";", 3)
    assert RolloutConfig.parse({**given, "context": {"enable_think": True}}).context.action_sep == "||"
    without = {"seed": {}, "agent_proxy": {"without_history": True, "max_context_window": -1}}
    assert RolloutConfig.parse(without).context.history_window == 1
    with pytest.raises(ConfigError, match="history_window is 'three': expected a valid integer"):
        RolloutConfig.parse({"seed": {}, "agent_proxy": {"max_context_window": "three"}})
    tags = {"A": {"env_type": "bandit"}, "B": {"env_type": "bandit", "max_turns": 2}}
    parsed = RolloutConfig.parse({"custom_envs": tags, "agent_proxy": {"max_turn": 7}}).custom_envs
    assert [parsed[name].max_turns for name in "AB"] == [7, 2]


# ---- groups


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"env_groups": 6, "env_configs": {"tags": ["A", "B"], "n_groups": None}}, (6, 16, [3, 3])),
        ({"env_groups": 6, "group_size": 2, "env_configs": {"tags": ["A", "B"]}}, (6, 2, [3, 3])),
        ({"env_configs": {"tags": ["A", "B"], "n_groups": [1, 4]}}, (5, 16, [1, 4])),
        ({"env_configs": {"tags": ["A"]}}, (8, 16, [8])),
        ({"env_groups": 3, "env_configs": None}, (3, 16, [3])),
        ({}, (8, 16, [8])),
    ],
)
def test_what_is_left_out_of_the_groups_follows_from_the_rest(given, expected):
    train = RolloutConfig.parse({"es_manager": {"train": given}}).es_manager.train
    assert (train.env_groups, train.group_size, train.env_configs.n_groups) == expected
    again = RolloutConfig.parse({"es_manager": {"train": train.model_dump()}}).es_manager.train
    assert again == train


def test_groups_that_cannot_be_spread_evenly_are_an_error():
    with pytest.raises(
        ConfigError, match=r"es_manager.val: env_groups is 256, which cannot be spread evenly over 3 tags"
    ):
        RolloutConfig.parse({"es_manager": {"val": {"env_configs": {"tags": ["A", "B", "C"]}}}})


# ---- sections that are not ours, and near misses


def test_sections_of_others_are_left_alone():
    ours = settings(["Bandit"], [2])
    others = {"trainer": {"n": 3}, "ctx_manager": {"x": "${nowhere}"}, "model_path": "a", "hydra": None, "lora": [1]}
    assert RolloutConfig.parse({**others, **ours}) == RolloutConfig.parse(ours)
    assert RolloutConfig.parse(OmegaConf.create({**others, **ours})) == RolloutConfig.parse(ours)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("es_manger", "es_manager"),
        ("custom_env", "custom_envs"),
        ("Custom_Envs", "custom_envs"),
        ("seeds", "seed"),
        ("contexts", "context"),
        ("use_multiprocessing", "es_manager.use_multiprocessing"),
        ("max_tokens", "custom_envs.NAME.max_tokens"),
    ],
)
def test_a_near_miss_is_an_error_that_names_the_nearest(wrong, meant):
    with pytest.raises(ConfigError, match=f"unknown key {wrong}: did you mean '{meant}'?"):
        RolloutConfig.parse({"seed": {}, "trainer": {}, wrong: {"a": 1} if "m" not in wrong else 3})


def test_a_key_that_is_no_text_is_an_error():  # YAML makes a truth value of `on:`
    for key in (3, True):
        with pytest.raises(ConfigError, match=f"unknown key {key}: known are: "):
            RolloutConfig.parse({"seed": {}, key: {"a": 1}})


def test_a_file_of_another_kind_is_not_taken_for_one_without_settings():
    with pytest.raises(ConfigError, match="unknown key trainer"):
        RolloutConfig.parse({"trainer": {"n": 3}})


def test_keys_inside_our_sections_are_checked():
    config = composed()
    OmegaConf.update(config, "es_manager.train.group_sise", 3, force_add=True)
    with pytest.raises(ConfigError, match=r"unknown key es_manager.train.group_sise: did you mean"):
        EnvStateManager(config)


# ---- references


def test_references_are_resolved():
    given = {"n": 3, "a": {"b": "${n}"}, "es_manager": {"format_penalty": 0.5, "max_workers": "${a.b}"}}
    given["custom_envs"] = {"A": {"env_type": "bandit", "env_instruction": "take ${n} of \\${n}"}}
    for form in (given, OmegaConf.create(given), {**given, "es_manager": OmegaConf.create({"max_workers": 3})}):
        parsed = RolloutConfig.parse(form)
        assert parsed.es_manager.max_workers == 3 and parsed.custom_envs["A"].env_instruction == "take 3 of ${n}"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            "${b.c}",
            "es_manager.max_workers cannot be resolved: Interpolation key 'b.c' not found; write the value itself.",
        ),
        ("${oc.env:NO_SUCH_NAME}", "es_manager.max_workers cannot be resolved: "),
        ("${es_manager.max_workers}", "cannot be resolved: "),
        ("${unclosed", "the configuration cannot be resolved: "),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_one_fault(value, says):
    with pytest.raises(ConfigError) as error:
        RolloutConfig.parse({"es_manager": {"max_workers": value}})
    assert says in str(error.value) and len(error.value.faults) == 1


def test_without_omegaconf_only_what_needs_it_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    assert RolloutConfig.parse({"es_manager": {"max_workers": 3}, "trainer": {"x": "${y}"}}).es_manager.max_workers == 3
    with pytest.raises(ConfigError, match=r'need the package omegaconf: pip install "abreast\[omegaconf\]"'):
        RolloutConfig.parse({"es_manager": {"max_workers": "${trainer.n}"}, "trainer": {"n": 3}})
    write(tmp_path, base={"seed": {}}, top={"defaults": ["base", "nowhere"]})
    with pytest.raises(ConfigError, match=r"the defaults of .*top.yaml need the package omegaconf"):
        read_config(tmp_path / "top.yaml")
    assert read_config(tmp_path / "base.yaml") == {"seed": {}}


def test_a_reference_that_omegaconf_cannot_resolve_is_named():
    with pytest.raises(ConfigError, match=r"es_manager.max_workers cannot be resolved: .*nowhere"):
        RolloutConfig.parse(OmegaConf.create({"es_manager": {"max_workers": "${nowhere}"}}))


# ---- lists of defaults


def write(folder, **files):
    for name, values in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def test_defaults_are_merged_as_hydra_does(tmp_path):
    (tmp_path / "seed").mkdir()
    write(tmp_path / "seed", low={"train": 1})
    write(
        tmp_path,
        below={"es_manager": {"max_workers": 2, "step_timeout": 5}, "custom_envs": {"A": {"env_type": "bandit"}}},
    )
    write(tmp_path, top={"defaults": ["below", {"seed": "low"}, "nowhere"], "es_manager": {"max_workers": 3}})
    write(tmp_path, first={"defaults": ["_self_", "below"], "es_manager": {"max_workers": 3}})
    assert read_config(tmp_path / "top.yaml") == {
        "es_manager": {"max_workers": 3, "step_timeout": 5},
        "custom_envs": {"A": {"env_type": "bandit"}},
        "seed": {"train": 1},
        "defaults": ["nowhere"],
    }
    assert read_config(tmp_path / "first.yaml")["es_manager"]["max_workers"] == 2


def test_defaults_that_go_in_a_circle_or_are_no_list_are_errors(tmp_path):
    write(tmp_path, one={"defaults": ["two"]}, two={"defaults": ["one"]}, three={"defaults": "one"})
    with pytest.raises(ConfigError, match=r"among its own defaults \(one.yaml -> two.yaml -> one.yaml\)"):
        read_config(tmp_path / "one.yaml")
    with pytest.raises(ConfigError, match=r"defaults is 'one' in .*three.yaml: expected a list"):
        read_config(tmp_path / "three.yaml")


def test_a_missing_tag_tells_which_defaults_were_not_found(tmp_path):
    write(tmp_path, alone={"defaults": ["envs"], "es_manager": {"train": groups(["CoordSokobann"])}})
    with pytest.raises(RolloutError, match=r"no tag or .*'CoordSokobann'.*these have no file beside it: envs"):
        EnvStateManager(tmp_path / "alone.yaml")


# ---- all faults

FAULTS = """
seed: {train: -1, vall: 3}
es_manger: {}
es_manager:
  use_multiprocessing: sometimes
  max_workers: 0
  format_penalti: 0.1
  step_timeout: ${nowhere.x}
  think_quality_penalty: 0.5
  train: {env_groups: 5, group_size: 2, env_configs: {tags: [Nowhere, Bad, Worse, Foreign, Broken]}}
  val: {env_groups: 2, group_size: 0, env_configs: {tags: [Bad], n_groups: [2]}}
context: {action_sep: 3}
custom_envs:
  Bad: {env_type: frozen_lake, env_config: {size: 1}}
  Worse: {env_type: sokoban, env_config: {num_boxs: 1, max_steps: many}}
  Foreign: {env_type: alfworld}
  Broken: {env_type: bandit, max_actions_per_traj: 0}
trainer: {anything: 1}
"""
TOLD = [
    "es_manager.step_timeout cannot be resolved: Interpolation key 'nowhere.x' not found",
    "seed.train is -1: expected",
    "unknown key seed.vall: did you mean 'seed.val'?",
    "unknown key es_manger: did you mean 'es_manager'?",
    "es_manager.use_multiprocessing is 'sometimes'",
    "es_manager.max_workers is 0",
    "unknown key es_manager.format_penalti: did you mean 'es_manager.format_penalty'?",
    "es_manager.think_quality_penalty is not supported",
    "es_manager.val.group_size is 0",
    "context.action_sep is 3",
    "custom_envs.Broken.max_actions_per_traj is 0",
    "there is no tag or environment type 'Nowhere'",
    "env_config of the tag 'Bad': size is 1",
    "env_config of the tag 'Worse': unknown key num_boxs: did you mean 'num_boxes'?",
    "env_config of the tag 'Worse': max_steps is 'many'",
    "there is no environment type 'alfworld'",
]


def test_all_faults_of_a_file_are_told_at_once(tmp_path):
    path = tmp_path / "faults.yaml"
    path.write_text(FAULTS)
    with pytest.raises(ConfigError) as error:
        EnvStateManager(path)
    heading, *lines = str(error.value).splitlines()
    assert heading == f"{len(TOLD)} faults in this configuration:"
    for told in TOLD:
        assert sum(told in line for line in lines) == 1, f"{told} in {error.value}"
    assert len(lines) == len(TOLD)


def test_a_single_fault_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError) as error:
        EnvStateManager({"es_manager": {"max_workers": 0}})
    assert str(error.value).startswith("es_manager.max_workers is 0: expected") and len(error.value.faults) == 1
