"""The frozen lake, rule by rule."""

import pickle
import random
import warnings
from collections import Counter
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts.envs.frozen_lake import KIND, FrozenLakeConfig, FrozenLakeEnv
from abreast.rollouts.envs.frozen_lake import env as env_module
from abreast.rollouts.envs.frozen_lake.lake import Lake, slips
from abreast.rollouts.envs.frozen_lake.solver import best_move, solve
from abreast.rollouts.registry import KINDS

LEFT, DOWN, RIGHT, UP = 1, 2, 3, 4
GYMNASIUM_MAP = ["SFFF", "FHFH", "FFFH", "HFFG"]
JUNK = [0, 5, -1, 10**400, 1.0, True, None, "Left", "1", "x" * 1_000_000, b"1", [1], {}, np.array([1, 2]), float("nan")]


def place(*rows, **config):
    """An environment in mid-episode: the rows, with the player on P, on ice that does not slip unless asked to."""
    env = FrozenLakeEnv({"size": len(rows), "is_slippery": False, **config})
    env.reset(seed=0)
    text = "\n".join(rows)
    env._lake = Lake(len(rows), text.replace("P", "_"))
    env._stand_on(text.index("P"))
    return env


def play(env, seed, turns=30):
    """One episode of moves in a fixed order, with some junk in it: everything that came back."""
    seen = [env.reset(seed=seed)]
    for turn in range(turns):
        seen.append(env.step((turn * 7 + seed) % 5))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (LEFT, "___\nP__\nG__"),
        (RIGHT, "___\n__P\nG__"),
        (UP, "_P_\n___\nG__"),
        (DOWN, "___\n___\nGP_"),
    ],
)
def test_a_move_on_firm_ice_goes_where_it_is_meant_to(action, expected):
    text, reward, terminated, truncated, info = place("___", "_P_", "G__").step(action)
    assert text == expected
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == {"success": False, "action_is_valid": True, "action_is_effective": True}


@pytest.mark.parametrize(("rows", "actions"), [(("P_", "G_"), (LEFT, UP)), (("G_", "_P"), (RIGHT, DOWN))])
def test_a_move_into_the_border_stays(rows, actions):
    env = place(*rows)
    for action in actions:
        text, reward, terminated, _, info = env.step(action)
        assert (text, reward, terminated) == ("\n".join(rows), 0.0, False)
        assert info["action_is_valid"] and not info["action_is_effective"]


def test_the_goal_ends_the_episode_with_reward_1():
    text, reward, terminated, truncated, info = place("PG", "O_").step(RIGHT)
    assert (text, reward, terminated, truncated) == ("_√\nO_", 1.0, True, False)
    assert info == {"success": True, "action_is_valid": True, "action_is_effective": True}


def test_a_hole_ends_the_episode_without_reward():
    text, reward, terminated, truncated, info = place("PG", "O_").step(DOWN)
    assert (text, reward, terminated, truncated) == ("_G\nX_", 0.0, True, False)
    assert not info["success"]


def test_after_max_steps_the_episode_is_cut_off():
    env = place("P_", "_G", max_steps=3)
    ends = [env.step(LEFT)[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_every_episode_has_all_its_moves():
    env = FrozenLakeEnv({"p": 1.0, "size": 100, "max_steps": 2})
    for seed in range(3):
        env.reset(seed=seed)
        assert [env.step(LEFT)[3] for _ in range(2)] == [False, True]


def test_the_goal_on_the_last_move_is_an_end_by_the_rules():
    assert place("PG", "__", max_steps=1).step(RIGHT)[1:4] == (1.0, True, False)


def test_no_step_without_an_episode():
    env = place("PG", "__")
    env.step(RIGHT)
    with pytest.raises(RolloutError, match="call reset"):
        env.step(RIGHT)
    with pytest.raises(RolloutError, match="call reset"):
        FrozenLakeEnv().step(LEFT)
    with pytest.raises(RolloutError, match="call reset"):
        FrozenLakeEnv().render()
    env.reset()
    env.step(LEFT)


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: f"{type(junk).__name__}-{str(junk)[:8]}")
def test_an_unknown_action_changes_nothing(junk):
    env, twin = FrozenLakeEnv({"max_steps": 2}), FrozenLakeEnv({"max_steps": 2})
    text, _ = env.reset(seed=3)
    twin.reset(seed=3)
    for _ in range(3):
        no_op = (text, 0.0, False, False, {"success": False, "action_is_valid": False, "action_is_effective": False})
        assert env.step(junk) == no_op
    assert env.step(UP) == twin.step(UP)


def test_numbers_of_numpy_are_actions():
    assert place("PG", "__").step(np.int64(RIGHT))[1] == 1.0


@pytest.mark.parametrize(
    "config", [{}, {"success_rate": 0.7}, {"success_rate": 0.0}, {"success_rate": 1.0}, {"is_slippery": False}], ids=str
)
def test_transitions_are_those_of_gymnasium(config):
    """From every cell of ice, by every action: the same cells, the same chances, the same rewards and ends."""
    table = gymnasium.make("FrozenLake-v1", desc=GYMNASIUM_MAP, **config).unwrapped.P
    lake = Lake(4, "\n".join(GYMNASIUM_MAP).translate(str.maketrans("SFH", "__O")))
    settings = FrozenLakeConfig.parse(config)
    for state in range(16):
        cell = state + state // 4
        if lake.text[cell] != "_":
            continue
        for action in (LEFT, DOWN, RIGHT, UP):
            ours, theirs = Counter(), Counter()
            for probability, direction in slips(settings, action):
                target = lake.neighbour(cell, direction)
                ours[target - target // 5, lake.text[target] == "G", lake.text[target] in "GO"] += probability
            for probability, target, reward, terminated in table[state][action - 1]:
                theirs[target, reward == 1, terminated] += probability
            assert +ours == pytest.approx(dict(+theirs)), (state, action)


@pytest.mark.parametrize(("rate", "chances"), [(1 / 3, (1 / 3, 1 / 3, 1 / 3)), (0.7, (0.15, 0.7, 0.15))])
@pytest.mark.parametrize("action", [LEFT, DOWN, RIGHT, UP])
def test_steps_slip_with_these_chances(action, rate, chances):
    env = place("___", "_P_", "__G", is_slippery=True, success_rate=rate, max_steps=10_000)
    start = env._cell
    seen = Counter()
    for _ in range(2000):
        env.step(action)
        seen[env._cell] += 1
        env._cell = start
    one_side, ahead, other_side = (action + 2) % 4 + 1, action, action % 4 + 1
    for direction, chance in zip((one_side, ahead, other_side), chances, strict=True):
        cell = {LEFT: 4, DOWN: 9, RIGHT: 6, UP: 1}[direction]
        assert seen[cell] / 2000 == pytest.approx(chance, abs=0.055)  # five deviations
    assert seen.total() == sum(seen[cell] for cell in (1, 4, 6, 9))


def test_start_and_goal_are_any_two_cells():
    env = FrozenLakeEnv({"size": 2, "p": 1.0})
    pairs = Counter(env.reset(seed=seed)[0] for seed in range(600))
    assert len(pairs) == 12
    assert min(pairs.values()) > 17 and max(pairs.values()) < 83  # 50 each; five deviations


def test_cells_are_frozen_with_chance_p():
    text, _ = FrozenLakeEnv({"size": 50, "p": 0.8}).reset(seed=0)
    assert text.count("_") / 2500 == pytest.approx(0.8, abs=0.04)
    assert text.count("P") == text.count("G") == 1


@pytest.mark.parametrize("config", [{}, {"p": 0.4}, {"size": 8, "p": 0.6}, {"size": 12, "p": 0.0}], ids=str)
def test_the_goal_can_always_be_reached(config):
    env = FrozenLakeEnv({"is_slippery": False, "max_steps": 1000, **config})
    for seed in range(60):
        text, _ = env.reset(seed=seed)
        path = solve(env.config, [{"state": text, "actions_left": 1000}])
        numbers = [("Left", "Down", "Right", "Up").index(name) + 1 for name in path]
        assert [env.step(number)[4]["success"] for number in numbers][-1], text


def test_a_lake_without_a_way_is_drawn_again():
    """On a small lake without any ice by chance, start and goal come to lie side by side sooner or later."""
    env = FrozenLakeEnv({"size": 4, "p": 0.0})
    assert [env.reset(seed=seed)[0].count("_") for seed in range(20)] == [0] * 20


def test_lakes_that_cannot_be_crossed_are_thrown_away_before_they_are_written_down(monkeypatch):
    written = []
    original = Lake.shortest_path
    monkeypatch.setattr(Lake, "shortest_path", lambda *place: written.append(place) or original(*place))
    FrozenLakeEnv({"size": 30, "p": 0.0}).reset(seed=1)
    assert len(written) == 1


def test_the_same_seed_gives_the_same_episode():
    one = FrozenLakeEnv()
    first = play(one, 5)
    assert play(one, 6) != first
    assert play(one, 5) == first == play(FrozenLakeEnv(), 5)


def test_an_episode_without_a_seed_goes_on_in_the_stream():
    one, other = FrozenLakeEnv(), FrozenLakeEnv()
    one.reset(seed=1)
    other.reset(seed=1)
    texts = [one.reset()[0] for _ in range(5)]
    assert texts == [other.reset()[0] for _ in range(5)]
    assert len(set(texts)) > 1


def test_the_lake_of_the_readme_is_that_of_its_seed():
    text, _ = FrozenLakeEnv().reset(seed=5)
    readme = (Path(env_module.__file__).parent / "README.md").read_text(encoding="utf-8")
    assert text in readme


def test_global_random_state_is_left_alone():
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 (the very state that must not change)
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    play(FrozenLakeEnv(), 0)
    FrozenLakeEnv({"size": 20, "p": 0.0}).reset()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


def test_a_pickled_environment_goes_on_as_if_nothing_had_happened():
    env = FrozenLakeEnv({"size": 8, "p": 1.0})
    env.reset(seed=2)
    env.step(UP)
    copy = pickle.loads(pickle.dumps(env))
    moves = [LEFT, LEFT, UP, RIGHT, DOWN]
    assert [env.step(move) for move in moves] == [copy.step(move) for move in moves]
    assert env.reset() == copy.reset()


@pytest.mark.parametrize("config", [{}, {"render_mode": "rgb_array"}, {"size": 2}, {"size": 9, "p": 0.5}], ids=str)
def test_gymnasium_finds_no_fault(config):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(FrozenLakeEnv(config), skip_render_check=False)
    # Only `gymnasium.make` gives an environment a spec.
    assert [str(w.message) for w in caught if "not having a spec" not in str(w.message)] == []


def test_every_text_lies_in_the_observation_space():
    env = FrozenLakeEnv()
    symbols = set()
    for seed in range(60):
        for text, *_ in play(env, seed):
            assert text in env.observation_space
            symbols |= set(text)
    assert symbols == set("P_OGX√\n")


def test_the_picture_shows_the_text():
    env = place("P_O", "__G", "___", render_mode="rgb_array")
    picture = env.render()
    assert picture.shape == (96, 96, 3) and picture.dtype == np.uint8
    tiles = {(y, x): picture[32 * y : 32 * y + 32, 32 * x : 32 * x + 32] for y in range(3) for x in range(3)}
    assert (tiles[0, 1] == tiles[2, 2]).all()
    different = [tiles[place] for place in ((0, 0), (0, 1), (0, 2), (1, 2))]
    for actions, at in (([RIGHT, RIGHT], (0, 2)), ([DOWN, RIGHT, RIGHT], (1, 2))):
        env = place("P_O", "__G", "___", render_mode="rgb_array")
        for action in actions:
            env.step(action)
        y, x = at
        different.append(env.render()[32 * y : 32 * y + 32, 32 * x : 32 * x + 32])
    assert len({tile.tobytes() for tile in different}) == 6
    for i, one in enumerate(different):
        for other in different[:i]:
            assert (one != other).any(axis=-1).mean() > 0.15  # told apart at a glance


def test_the_text_is_what_is_rendered():
    env = FrozenLakeEnv()
    text, _ = env.reset(seed=1)
    assert env.render() == text
    assert env.step(LEFT)[0] == env.render()


def test_the_solver_walks_a_shortest_way_on_firm_ice():
    config = FrozenLakeConfig(size=4, is_slippery=False)
    history = [{"state": "P_O_\nO_O_\n____\n_OOG", "actions_left": 10}]
    assert solve(config, history) == ["Right", "Down", "Down", "Right", "Right", "Down"]
    assert solve(config, [{**history[0], "actions_left": 2}]) == ["Right", "Down"]
    assert solve(config, [{**history[0], "actions_left": 0}]) == []


def test_the_solver_does_not_dawdle_where_time_does_not_press():
    config = FrozenLakeConfig(size=3, success_rate=1.0)
    assert solve(config, [{"state": "___\n_P_\nOOG", "actions_left": 100}]) == ["Right"]


def test_the_solver_uses_the_names_of_the_configuration():
    config = FrozenLakeConfig(size=2, is_slippery=False, action_lookup={1: "west", 2: "south", 3: "east", 4: "north"})
    assert solve(config, [{"state": "_G\nPO", "actions_left": 10}]) == ["north", "east"]


def test_the_solver_is_as_good_as_can_be_on_the_lake_of_gymnasium():
    """The best anyone can do there is known: the goal in 14 of 17 cases."""
    lake = Lake(4, "\n".join(GYMNASIUM_MAP).translate(str.maketrans("SFH", "__O")))
    config = FrozenLakeConfig()
    policy = {s: best_move(config, lake, s + s // 4, 2000) for s in range(16) if lake.text[s + s // 4] == "_"}
    table = gymnasium.make("FrozenLake-v1", desc=GYMNASIUM_MAP).unwrapped.P
    chance = [0.0] * 15 + [1.0]
    for _ in range(2000):
        chance = [
            sum(p * chance[target] for p, target, _, _ in table[s][policy[s] - 1]) if s in policy else chance[s]
            for s in range(16)
        ]
    assert chance[0] == pytest.approx(14 / 17, abs=0.002)


def test_the_solver_takes_a_risk_only_when_time_runs_out():
    """Going right may slip into a hole below. Going up never does and arrives in the end, but needs time to slip."""
    config, state = FrozenLakeConfig(size=3, success_rate=0.8), "___\n_PG\nOOO"
    assert solve(config, [{"state": state, "actions_left": 100}]) == ["Up"]
    assert solve(config, [{"state": state, "actions_left": 1}]) == ["Right"]


@pytest.mark.parametrize(
    ("config", "at_least"), [({}, 0.8), ({"success_rate": 0.8}, 0.9), ({"success_rate": 1.0}, 1.0)]
)
def test_the_solver_succeeds_from_what_it_sees(config, at_least):
    env = FrozenLakeEnv(config)
    numbers = {name: number for number, name in env.config.action_lookup.items()}
    successes = 0
    for seed in range(20):
        text, info = env.reset(seed=seed)
        done, left = False, 50
        while not done and left:
            (name,) = solve(env.config, [{"state": text, "actions_left": left}])
            text, _, terminated, truncated, info = env.step(numbers[name])
            done, left = terminated or truncated, left - 1
        successes += info["success"]
    assert successes / 20 >= at_least


def test_the_solver_says_what_it_cannot_read():
    with pytest.raises(RolloutError, match="render_mode"):
        solve(FrozenLakeConfig(), [{"state": "<images>", "actions_left": 3}])
    assert solve(FrozenLakeConfig(size=2), [{"state": "_√\n__", "actions_left": 3}]) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"size": 1}, "size is 1"),
        ({"size": 101}, "size is 101"),
        ({"size": "4"}, "size is '4'"),
        ({"p": 1.5}, "p is 1.5"),
        ({"p": float("nan")}, "p is nan"),
        ({"success_rate": -0.1}, "success_rate is -0.1"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"render_mode": "human"}, "render_mode is 'human'"),
        ({"slippery": True}, "did you mean 'is_slippery'"),
        ({"action_lookup": None}, "action_lookup is None"),
        ({"action_lookup": {1: "Left"}}, "four names"),
        ({"action_lookup": {0: "Left", 1: "Down", 2: "Right", 3: "Up"}}, "four names"),
        ({"action_lookup": {1: "Left", 2: "left", 3: "Right", 4: "Up"}}, "differ in more than upper and lower case"),
        ([], "expected a mapping"),
    ],
    ids=str,
)
def test_bad_settings_are_named(config, message):
    with pytest.raises(ConfigError, match=message):
        FrozenLakeEnv(config)


def test_the_defaults_are_those_of_the_rules():
    config = FrozenLakeEnv().config
    assert (config.size, config.p, config.is_slippery, config.success_rate) == (4, 0.8, True, 1 / 3)
    assert (config.max_steps, config.render_mode) == (100, "text")
    assert config.action_lookup == {1: "Left", 2: "Down", 3: "Right", 4: "Up"}
    assert FrozenLakeEnv(config).config is config


def test_the_registry_finds_it():
    assert KINDS.find("frozen_lake") is KIND
    assert isinstance(KIND.env(KIND.config.parse({"size": 5})), FrozenLakeEnv)
