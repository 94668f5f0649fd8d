"""Environments of Gymnasium, by id."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

import stranger_envs  # noqa: F401 (registers an id)
from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.check import check_environment, checks
from abreast.rollouts.envs import gymnasium as package
from abreast.rollouts.envs.gymnasium import KIND, GymnasiumConfig, make
from rollout_helpers import go, settings

TAXI = next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry)
CLIFF = next(name for name in ("CliffWalking-v1", "CliffWalking-v0") if name in gymnasium.registry)
IDS = ["FrozenLake-v1", TAXI, "Blackjack-v1", CLIFF, "CartPole-v1", "Acrobot-v1", "StrangersWalk-v0"]
LAKE = {0: "Left", 1: "Down", 2: "Right", 3: "Up"}


def tag(budget=50, **config):
    return {"G": {"env_type": "gymnasium", "max_actions_per_traj": budget, "env_config": config}}


def play(turns, use=False, **config):
    with EnvStateManager(settings(["G"], [2], 1, tag(**config), use_multiprocessing=use, max_workers=2)) as manager:
        manager.reset(seed=5)
        for actions in turns:
            manager.step(go([0, 1], *actions))
        return manager.caches, manager.statuses()


@pytest.mark.xdist_group("rollouts")
@pytest.mark.parametrize(
    ("name", "use"), [*((name, False) for name in IDS), ("FrozenLake-v1", True), ("StrangersWalk-v0", True)]
)
def test_it_plays_as_gymnasium_plays_it(name, use):
    caches, _ = play([["1"], ["0", "1"]], use, id=name)
    for seed, cache in enumerate(caches, 5):
        env = gymnasium.make(name)
        env.reset(seed=seed)
        _, first, *_ = env.step(1)
        rewards, done = [], False
        for action in (0, 1):
            if not done:
                _, reward, terminated, truncated, info = env.step(action)
                rewards.append(reward)
                done = terminated or truncated
        assert [entry.get("reward") for entry in cache["history"]] == [first, sum(rewards), None]
        told = cache["history"][1]["info"]
        assert str({key: told[key] for key in info}) == str(info) and cache["penalty"] == 0


def test_the_text_of_the_environment_is_shown_if_it_has_one():
    (cache, _), _ = play([["2"]], id="FrozenLake-v1", kwargs={"is_slippery": False})
    assert [entry["state"].split()[-4:] for entry in cache["history"]] == [
        ["<red:S>FFF", "FHFH", "FFFH", "HFFG"],
        ["S<red:F>FF", "FHFH", "FFFH", "HFFG"],
    ]
    (cache, _), _ = play([["2"]], id="FrozenLake-v1", kwargs={"is_slippery": False}, render_mode="observation")
    assert [entry["state"] for entry in cache["history"]] == ["0", "1"]


class Pictured(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array", "rgb_array_list"]}

    def __init__(self, render_mode=None):
        import numpy as np

        self.render_mode, self.pixels = render_mode, np.zeros((4, 5, 3), dtype=np.uint8)
        self.action_space, self.observation_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.pixels = self.pixels + 1
        return 0, 0.0, False, False, {}

    def render(self):
        return self.pixels if self.render_mode == "rgb_array" else [self.pixels - 1, self.pixels]


gymnasium.register("Pictured-v0", entry_point=Pictured)


@pytest.mark.parametrize("mode", ["rgb_array", "rgb_array_list"])
def test_pictures_are_shown_if_asked_for(mode):
    (cache, _), _ = play([["1"]], id="Pictured-v0", render_mode=mode)
    assert cache["history"][-1]["state"] == "<images>"
    (picture,) = cache["history"][-1]["images"]
    assert picture.size == (5, 4) and picture.getpixel((0, 0)) == (1, 1, 1)


def test_actions_have_names_if_they_are_given():
    (cache, _), _ = play([["right", "2", "DOWN"]], id="FrozenLake-v1", action_lookup=LAKE)
    assert cache["history"][0]["actions"] == ["Right", "Down"] and cache["penalty"] == -0.1
    assert cache["history"][0]["info"]["available_actions"] == list(LAKE.values())


def test_actions_that_are_masked_are_not_listed():
    env = make({"id": TAXI})
    _, info = env.reset(seed=1)
    allowed = [str(number) for number, is_allowed in enumerate(info["action_mask"]) if is_allowed]
    assert info["available_actions"] == allowed and 0 < len(allowed) < 6


@pytest.mark.parametrize(
    ("config", "actions", "success"),
    [
        ({"id": "FrozenLake-v1", "kwargs": {"is_slippery": False}}, "112122", True),
        ({"id": "FrozenLake-v1", "kwargs": {"is_slippery": False}}, "12", False),
        ({"id": CLIFF}, "0" + "1" * 11 + "2", False),
        ({"id": CLIFF, "success_reward": -13}, "0" + "1" * 11 + "2", True),
        ({"id": CLIFF, "success_reward": -13}, "00" + "1" * 11 + "22", False),
        ({"id": "CartPole-v1", "kwargs": {"max_episode_steps": 3}, "success_reward": 3}, "010", True),
    ],
)
def test_success_follows_from_the_rewards(config, actions, success):
    _, (status, _) = play([[*actions]], **config)
    assert status["terminated"] and status["truncated"] is not success


BAD = [
    ({"id": "FrozenLak-v1"}, "id: there is no Gymnasium environment 'FrozenLak-v1': did you mean 'FrozenLake-v1'?"),
    (
        {"id": "nothing like it"},
        "If a module of yours registers it, give MODULE:ID.",
    ),
    ({"id": "no_module:Thing-v0"}, "id: 'no_module:Thing-v0' needs the module 'no_module', which cannot be imported"),
    (
        {"id": "Pendulum-v1"},
        "Pendulum-v1 cannot be played: its action space is Box(-2.0, 2.0, (1,), float32), and",
    ),
    ({"kwargs": {"colour": 3}}, "FrozenLake-v1 cannot be made: "),
    (
        {"render_mode": "human"},
        "render_mode is 'human', but FrozenLake-v1 has auto, observation, ansi, rgb_array: take",
    ),
    (
        {"render_mode": "anis"},
        "render_mode is 'anis', but FrozenLake-v1 has auto, observation, ansi, rgb_array: take",
    ),
    (
        {"action_lookup": {4: "Jump"}},
        "FrozenLake-v1 cannot be played: action_lookup is {4: 'Jump'}, but its action space is Discrete(4)",
    ),
    ({"is_slippery": False}, "unknown key is_slippery: known are: action_lookup, id, kwargs"),
]


@pytest.mark.parametrize(("config", "says"), BAD, ids=[row[1][:30] for row in BAD])
def test_what_cannot_be_played_is_told_in_one_sentence(config, says):
    with pytest.raises((ConfigError, RolloutError)) as error:
        play([], **config)
    assert says in str(error.value)


def test_a_lookup_for_actions_of_several_parts_is_refused():
    gymnasium.register("Lock-v0", entry_point="stranger_envs:Lock")
    with pytest.raises(
        RolloutError, match=r"Lock-v0 cannot be played: action_lookup is .*, but its action space is MultiDiscrete"
    ):
        make({"id": "Lock-v0", "action_lookup": {0: "a"}})
    (cache, _), _ = play([["1 1"], ["1 9"]], id="stranger_envs:Lock-v0")
    assert cache["penalty"] == -0.1


SCRIPT = """
import gymnasium
from stranger_envs import Walk
from abreast.rollouts import EnvStateManager

class Mine(Walk):
    pass

gymnasium.register("Mine-v0", entry_point=Mine)

if __name__ == "__main__":
    groups = {"env_groups": 2, "group_size": 1, "env_configs": {"tags": ["M"], "n_groups": [2]}}
    config = {
        "es_manager": {"train": groups, "use_multiprocessing": True, "max_workers": 2},
        "custom_envs": {"M": {"env_type": "gymnasium", "env_config": {"id": "Mine-v0"}}},
    }
    with EnvStateManager(config) as manager:
        manager.reset(seed=1)
        manager.step([{"env_id": 0, "actions": ["1"]}, {"env_id": 1, "actions": ["0"]}])
        assert len(manager.worker_pids) == 2
        print([cache["history"][0]["actions"] for cache in manager.caches], "moved" in str(manager.caches))
"""


@pytest.mark.xdist_group("rollouts")
def test_an_id_that_a_script_registers_is_known_in_workers(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": ":".join(sys.path)})  # fmt: skip
    assert done.stdout.strip() == "[['1'], ['0']] False", done.stderr


@pytest.mark.parametrize("name", ["FrozenLake-v1", "Blackjack-v1", "CartPole-v1", "StrangersWalk-v0"])
def test_an_id_can_be_checked(name, monkeypatch):
    monkeypatch.setattr(checks, "plays_alike_elsewhere", lambda play, *arguments: play(*arguments))
    assert {verdict.outcome for verdict in check_environment(name)} == {"ok"}


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "<red:S> is a red S. An action is its name or its number"),
        ({"action_lookup": LAKE}, "<red:S> is a red S."),
        ({"id": "CartPole-v1"}, "An action is its name or its number"),
        ({"id": "CartPole-v1", "render_mode": "rgb_array"}, "The state is a picture. An action"),
        ({"render_mode": "observation", "action_lookup": LAKE}, ""),
    ],
)
def test_the_legend_is_that_of_the_variant(config, told):
    legend = KIND.legend(GymnasiumConfig.parse(config))
    assert told in legend and ("An action" in legend) is ("An action" in told) and ("red" in legend) is ("red" in told)


def test_the_readme_lists_every_setting_and_its_example_is_true():
    readme = (Path(package.__file__).parent / "README.md").read_text(encoding="utf-8")
    for name in GymnasiumConfig.model_fields:
        assert f"| `{name}` |" in readme
    env = make({"id": TAXI})
    env.reset(seed=1)
    for row in env.render().strip().split("\n"):
        assert f"{row}\n" in readme
