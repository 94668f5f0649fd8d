"""What users of RAGEN bring and expect: keys of its six environments, `preset: ragen`, and `mode` that chooses the split."""

import json
import random

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv as GymnasiumFrozenLake

from abreast.errors import ConfigError
from abreast.rollouts import EnvStateManager, RolloutConfig, find_kind, find_tag
from abreast.rollouts.config import TagConfig, shipped_tags
from abreast.rollouts.envs.bandit.config import PAIRS
from abreast.rollouts.envs.countdown.config import CountdownConfig
from abreast.rollouts.envs.countdown.tasks import Task, is_a_sum, tasks_in_file
from abreast.rollouts.envs.metamathqa.env import SHIPPED, load_questions
from abreast.rollouts.envs.records import records_of_split
from abreast.rollouts.envs.webshop.goals import goals_of_split

SOKOBAN_SYMBOLS = {0: " # ", 1: " _ ", 2: " O ", 3: " √ ", 4: " X ", 5: " P ", 6: " S "}
LAKE_SYMBOLS = {0: "P", 1: "_", 2: "O", 3: "G", 4: "X", 5: "√"}

KEYS = {  # every key of their configuration classes: what it is there by default, another value
    "sokoban": {
        "dim_room": ([6, 6], [7, 8]),
        "max_steps": (100, 50),
        "num_boxes": (3, 2),
        "search_depth": (300, 30),
        "grid_lookup": (SOKOBAN_SYMBOLS, {0: "W", 1: ".", 2: "G", 3: "C", 4: "B", 5: "A", 6: "@"}),
        "grid_vocab": (None, dict(zip("#_O√XPS", "abcdefg", strict=True))),
        "action_lookup": ({1: "Up", 2: "Down", 3: "Left", 4: "Right"}, {1: "Left", 2: "Right", 3: "Up", 4: "Down"}),
        "dim_x": (None, 7),
        "dim_y": (None, 8),
        "render_mode": ("text", "rgb_array"),
        "observation_format": ("grid", "grid_coord"),
        "min_solution_steps": (None, [2, 10]),
        "max_reset_tries": (1000, 10),
        "success_reward": (1.0, 2.0),
        "ignore_gym_reward": (False, True),
        "distance_reward_coeff": (0.0, 0.5),
        "invalid_act": (0, 9),
        "invalid_act_score": (None, -0.1),
    },
    "frozen_lake": {
        "size": (4, 5),
        "p": (0.8, 0.5),
        "is_slippery": (True, False),
        "map_seed": (None, 42),
        "render_mode": ("text", "rgb_array"),
        "observation_format": ("grid", "coord"),
        "action_map": ({1: 0, 2: 1, 3: 2, 4: 3}, {1: 3, 2: 2, 3: 1, 4: 0}),
        "map_lookup": (None, {"P": 0}),
        "grid_lookup": (LAKE_SYMBOLS, {0: "A", 1: ".", 2: "H", 3: "T", 4: "D", 5: "W"}),
        "grid_vocab": (None, dict(zip("P_OGX√", "abcdef", strict=True))),
        "action_lookup": ({1: "Left", 2: "Down", 3: "Right", 4: "Up"}, {1: "L", 2: "D", 3: "R", 4: "U"}),
        "invalid_act": (0, 9),
        "invalid_act_score": (None, -0.1),
    },
    "bandit": {
        "split": ("train", "test"),
        "lo_arm_name": ("phoenix", "Engineer"),
        "hi_arm_name": ("dragon", "Teacher"),
        "action_space_start": (1, 0),
        "lo_arm_score": (0.1, 0.15),
        "hi_arm_loscore": (0.0, 0.05),
        "hi_arm_hiscore": (1.0, 2.0),
        "hi_arm_hiscore_prob": (0.25, 0.5),
        "render_mode": ("text", "rgb_array"),
        "action_lookup": (None, {1: "a", 2: "b"}),
    },
    "countdown": {
        "train_path": (None, "tasks.jsonl"),
        "max_instances": (20_000, 3),
        "render_mode": ("text", "rgb_array"),
        "score": (1.0, 2.0),
        "format_score": (0.1, 0.2),
        "solvable_filter": (True, False),
        "max_steps": (1, 2),
        "invalid_act": ("", "none"),
        "invalid_act_score": (None, -0.1),
    },
    "metamathqa": {
        "dataset_path": (None, "meta-math/MetaMathQA"),
        "cache_dir": (None, "./data"),
        "split": ("train", "test"),
    },
    "webshop": {
        "dataset": ("small", "full"),
        "observation_mode": ("text", "html"),
        "file_path": (None, "items_shuffle.json"),
        "server": (None, "http://localhost"),
        "filter_goals": (None, "module:function"),
        "limit_goals": (-1, 100),
        "num_products": (None, 500),
        "human_goals": (False, True),
        "show_attrs": (False, True),
    },
}
REFUSED = {
    "sokoban": {"distance_reward_coeff", "invalid_act", "invalid_act_score"},
    "frozen_lake": {"map_seed", "action_map", "map_lookup", "invalid_act", "invalid_act_score"},
    "bandit": {"render_mode", "action_lookup"},
    "countdown": {"render_mode", "max_steps", "invalid_act", "invalid_act_score"},
    "metamathqa": {"dataset_path", "cache_dir"},
    "webshop": {"server", "filter_goals", "show_attrs"},
}


def config_of(name, **settings):
    """The configuration of a tag of this type, with these settings."""
    tag = {key: settings.pop(key) for key in ("preset", "max_actions_per_traj") if key in settings}
    mode = settings.pop("mode", "train")
    return find_tag("Mine", {"Mine": TagConfig(env_type=name, env_config=settings, **tag)}, mode).config


# ---- keys


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("preset", [None, "ragen"])
def test_all_their_keys_at_once_with_their_own_values(name, preset):
    settings = {key: value for key, (value, _) in KEYS[name].items()}
    if name == "bandit":
        del settings["split"]  # an older version has the names, a newer one the split
    assert config_of(name, preset=preset, **settings)


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in KEYS for key in KEYS[name]])
def test_every_key_is_honoured_or_refused_by_name(name, key):
    usual, value = KEYS[name][key]
    if key in REFUSED[name]:
        with pytest.raises(ConfigError, match=rf"{key} is .*: .*\w+") as caught:
            config_of(name, **{key: value})
        assert "unknown key" not in str(caught.value)
    else:
        assert config_of(name, **{key: value}) != config_of(name, **{key: usual})


def test_keys_of_the_bandit_go_where_they_belong():
    config = config_of("bandit", lo_arm_score=0.2, hi_arm_loscore=0.05, hi_arm_hiscore=3.0, hi_arm_hiscore_prob=0.5)
    assert (config.lo_reward, config.hi_reward_else, config.hi_reward, config.hi_probability) == (0.2, 0.05, 3.0, 0.5)


def test_several_refused_keys_are_told_together():
    with pytest.raises(ConfigError, match=r"(?s)tag 'Mine': server is 'x': .*show_attrs is True: "):
        config_of("webshop", server="x", show_attrs=True)


def test_a_data_set_that_is_a_file_is_taken(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"query": "1 + 1?", "response": "The answer is: 2"}\n')
    config = config_of("metamathqa", dataset_path=str(path))
    assert config.data_path == path


# ---- the preset


def test_the_preset_of_a_tag_wins_over_that_of_the_configuration():
    plain, ragen, off = ({"Mine": TagConfig(env_type="sokoban", preset=preset)} for preset in (None, "ragen", "off"))
    searches = [
        find_tag("Mine", tag, preset=preset).config.room_search
        for tag, preset in ((plain, None), (plain, "ragen"), (ragen, None), (off, "ragen"))
    ]
    assert searches == ["pulls", "moves", "moves", "pulls"]


def test_what_is_given_wins_over_preset_and_mode():
    assert config_of("sokoban", preset="ragen", room_search="pulls").room_search == "pulls"
    assert config_of("webshop", mode="val", split="test").split == "test"
    assert config_of("countdown", preset="ragen", solvable_filter=False).plus_minus_only is False


def test_an_unknown_preset_is_named():
    with pytest.raises(ConfigError, match="preset is 'ragem': expected 'ragen'"):
        RolloutConfig.parse({"preset": "ragem"})
    with pytest.raises(ConfigError, match=r"custom_envs\.Mine\.preset is 'x'"):
        RolloutConfig.parse({"custom_envs": {"Mine": {"env_type": "bandit", "preset": "x"}}})


def test_every_setting_that_a_preset_or_a_mode_selects_exists():
    for name in KEYS:
        kind = find_kind(name)
        for defaults in (*kind.presets.values(), *kind.by_mode.values()):
            assert defaults.keys() <= kind.config.model_fields.keys()
            assert kind.config.parse(defaults)
        assert kind.budget_setting is None or kind.budget_setting in kind.config.model_fields


def test_tags_of_the_preset_have_the_budgets_of_ragen():
    budgets = {name: tag.max_actions_per_traj for name, tag in shipped_tags("ragen").items()}
    assert (budgets["WebShop"], budgets["Countdown"], budgets["MetamathQA"], budgets["LargerSokoban"]) == (9, 1, 1, 10)
    for name in budgets:
        assert find_tag(name, {}, preset="ragen").budget == budgets[name]
    assert set(shipped_tags()) <= set(budgets)  # those of its own stay


def manager_of(tag, preset=None, mode="train", **settings):
    groups = {"env_groups": 2, "group_size": 1, "env_configs": {"tags": [tag], "n_groups": [2]}}
    manager = {"use_multiprocessing": False, "train": groups, "val": groups}
    return EnvStateManager({"es_manager": manager, "preset": preset, **settings}, mode=mode)


def test_an_invalid_turn_is_free_under_the_preset_and_still_the_episode_ends():
    with manager_of("SimpleSokoban", preset="ragen") as manager:
        outputs = manager.reset()
        turns = 0
        while outputs:
            assert all(cache["history"][-1]["actions_left"] == 10 for cache in outputs)
            outputs = manager.step([{"env_id": cache["env_id"], "actions": []} for cache in outputs])
            turns += 1
        assert turns == 15  # as many as actions, and five more
        assert all(status["truncated"] and status["num_actions"] == 0 for status in manager.statuses())
        assert manager.caches[0]["penalty"] == pytest.approx(-1.5)


def test_without_the_preset_an_invalid_turn_costs_an_action():
    with manager_of("SimpleSokoban") as manager:
        manager.reset()
        (cache, _) = manager.step([{"env_id": number, "actions": ["nonsense"]} for number in (0, 1)])
        assert cache["history"][-1]["actions_left"] == 9


def test_cost_and_turns_are_settings_of_a_tag():
    tag = {"env_type": "frozen_lake", "max_actions_per_traj": 4, "invalid_turn_cost": 0, "max_turns": 3}
    with manager_of("Mine", custom_envs={"Mine": tag}) as manager:
        manager.reset()
        for _ in range(2):
            assert len(manager.step([{"env_id": 0, "actions": []}])) == 1
        assert manager.step([{"env_id": 0, "actions": []}]) == [] and manager.statuses()[0]["truncated"]
    assert find_tag("Mine", {"Mine": TagConfig(env_type="bandit", invalid_turn_cost=0)}).max_turns == 15


def test_max_turns_limits_turns_with_valid_actions_too():
    tag = {"env_type": "sokoban", "max_actions_per_traj": 50, "max_turns": 2, "env_config": {"num_boxes": 3}}
    with manager_of("Mine", custom_envs={"Mine": tag}) as manager:
        manager.reset()
        assert len(manager.step([{"env_id": 0, "actions": ["Up"]}])) == 1
        assert manager.step([{"env_id": 0, "actions": ["Up"]}]) == []


# ---- mode


@pytest.mark.parametrize(("mode", "split"), [("train", "train"), ("val", "val")])
def test_the_mode_of_a_manager_chooses_the_split(mode, split):
    for tag in ("WebShop", "MetaMathQA", "Countdown"):
        with manager_of(tag, mode=mode) as manager:
            assert manager.tag_of(0).config.split == split


def test_a_manager_in_validation_plays_goals_of_that_split():
    places = {}
    for mode in ("train", "val"):
        with manager_of("WebShop", mode=mode) as manager:
            manager.reset(seed=3)
            manager.step([{"env_id": 0, "actions": ["click[nothing]"]}])
            places[mode] = int(manager.caches[0]["history"][0]["info"]["goal"].rpartition("-")[2])
    assert places["val"] in goals_of_split("val", 3000) and places["train"] in goals_of_split("train", 3000)


def test_splits_of_a_file_are_disjoint_and_complete():
    records = list(range(57))
    train, val, test = (records_of_split(records, split) for split in ("train", "val", "test"))
    assert sorted([*train, *val, *test]) == records and (len(train), len(val), len(test)) == (47, 5, 5)
    assert records_of_split(records, "all") == records
    assert all(records_of_split([1, 2], split) == [1, 2] for split in ("train", "val", "test", "all"))


def test_questions_of_validation_are_no_questions_of_training():
    seen = {}
    for mode in ("train", "val"):
        tag = find_tag("MetaMathQA", {}, mode)
        env = tag.kind.env(tag.config)
        seen[mode] = {env.reset(seed=seed)[0] for seed in range(300)}
    assert seen["val"] and not seen["val"] & seen["train"]


# ---- frozen lake


def ragen_lake(size, p, seed):
    """The map that RAGEN's generator makes of a seed, as letters: frozen cells and holes first, then start, then goal."""
    rng, _ = gymnasium.utils.seeding.np_random(seed)
    while True:
        cells = rng.choice(["F", "H"], (size, size), p=[p, 1 - p])
        start, goal = tuple(rng.integers(size, size=2)), tuple(rng.integers(size, size=2))
        if start == goal:
            continue
        cells[start], cells[goal] = "S", "G"
        reached, edge = {start}, [start]
        while edge:
            row, column = edge.pop()
            for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                if min(cell) >= 0 and max(cell) < size and cell not in reached and cells[cell] != "H":
                    reached.add(cell)
                    edge.append(cell)
        if goal in reached:
            return ["".join(row) for row in cells]


@pytest.mark.parametrize("config", [{}, {"size": 6, "p": 0.6}, {"size": 8, "is_slippery": False}], ids=str)
def test_the_same_seed_gives_the_lake_and_the_slips_of_ragen(config):
    ours = find_kind("frozen_lake").env({"max_steps": 1000, **config})
    for seed in range(60):
        text, _ = ours.reset(seed=seed)
        rows = ragen_lake(config.get("size", 4), config.get("p", 0.8), seed)
        assert text == "\n".join(rows).translate(str.maketrans("FHSG", "_OPG"))
        theirs = GymnasiumFrozenLake(desc=rows, is_slippery=config.get("is_slippery", True))
        theirs.reset(seed=seed)
        moves = np.random.default_rng(seed)
        while True:
            action = int(moves.integers(4))
            place, reward, ended, *_ = theirs.step(action)
            text, got, terminated, truncated, _ = ours.step(action + 1)
            lines = text.split("\n")
            (player,) = [row * len(rows) + line.find(c) for row, line in enumerate(lines) for c in "PX√" if c in line]
            assert (player, got, terminated) == (place, reward, ended)
            if ended or truncated:
                break


# ---- bandit


def test_arms_of_a_split_are_drawn_by_seed_and_only_those_shown_can_be_pulled():
    tag = find_tag("Bandit", {}, preset="ragen")
    env = tag.kind.env(tag.config)
    shown = set()
    for seed in range(100):
        text, _ = env.reset(seed=seed)
        (pair,) = [
            pair
            for pair in PAIRS["train"]
            if f": {pair[0]} and {pair[1]}." in text or f": {pair[1]} and {pair[0]}." in text
        ]
        shown.add(pair)
        numbers = {name: number for number, name in tag.config.action_lookup.items()}
        other = next(number for name, number in numbers.items() if name not in pair)
        assert env.step(other)[4]["action_is_valid"] is False
        assert env.observation_space.contains(text)
        (name,) = tag.kind.solver(tag.config, [{"state": text, "actions_left": 1}])
        assert name == pair[1]
        _, _, terminated, _, info = env.step(numbers[name])
        assert terminated and info["success"]
    assert shown == set(PAIRS["train"])


def test_no_arm_is_in_both_splits():
    names = [name.casefold() for split in PAIRS.values() for pair in split for name in pair]
    assert len(set(names)) == len(names)


def test_names_that_are_given_win_over_the_split():
    config = config_of("bandit", preset="ragen", lo_arm_name="Trader", hi_arm_name="Librarian")
    assert config.action_lookup == {1: "Trader", 2: "Librarian"}


def test_actions_of_the_bandit_may_begin_at_another_number():
    env = find_kind("bandit").env({"action_space_start": 0, "hi_arm_loscore": 0.5, "hi_arm_hiscore_prob": 0.0})
    env.reset(seed=1)
    assert env.step(2)[4]["action_is_valid"] is False
    assert env.step(1)[1] == 0.5 and env.action_space.contains(0)


# ---- countdown


@pytest.fixture
def tasks(tmp_path):
    """Forty tasks; every third is no sum."""
    path = tmp_path / "tasks.jsonl"
    records = [
        {"nums": [n + 2, 3, 50], "target": n + 2 + 3 - 50 + 100 if n % 3 else (n + 2) * 3 + 50} for n in range(40)
    ]
    records = [record | ({"target": record["nums"][0] + 47} if n % 3 else {}) for n, record in enumerate(records)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def state_of(task):
    return f"Numbers: {', '.join(map(str, task.numbers))}\nTarget: {task.target}"


def test_countdown_tasks_of_a_seed_are_those_of_ragen(tasks):
    sums = [task for task in tasks_in_file(CountdownConfig(data_path=tasks))[:20_000] if is_a_sum(task)]
    assert 20 < len(sums) < 40
    env = find_kind("countdown").env(config_of("countdown", preset="ragen", train_path=str(tasks)))
    for seed in (0, 1, 25, 26, 27, 10_007):
        assert env.reset(seed=seed)[0] == state_of(sums[seed % len(sums)])


def test_max_instances_takes_the_first_records(tasks):
    env = find_kind("countdown").env(config_of("countdown", train_path=str(tasks), max_instances=5))
    assert {env.reset(seed=seed)[0] for seed in range(60)} == {
        state_of(task) for task in tasks_in_file(CountdownConfig(data_path=tasks))[:5]
    }


@pytest.mark.parametrize(
    ("numbers", "target", "expected"),
    [
        ((1, 2, 3), 6, True),
        ((1, 2, 3), 2, True),
        ((1, 2, 3), 1, False),
        ((5,), 5, True),
        ((2, 3), 6, False),
        ((1,) * 17, 17, False),
    ],
)
def test_sums(numbers, target, expected):
    assert is_a_sum(Task(numbers, target)) is expected


def test_generated_tasks_may_be_sums_only():
    env = find_kind("countdown").env(config_of("countdown", plus_minus_only=True))
    for seed in range(200):
        numbers, target = env.reset(seed=seed)[0].removeprefix("Numbers: ").split("\nTarget: ")
        assert is_a_sum(Task(tuple(map(int, numbers.split(", "))), int(target)))


def test_a_file_without_sums_is_named(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"nums": [2, 3], "target": 6}\n')
    with pytest.raises(ConfigError, match=r"no task of the data file .* leave plus_minus_only out"):
        find_kind("countdown").env({"data_path": path, "plus_minus_only": True})


def test_an_answer_that_cannot_be_read_ends_a_countdown_episode_only_under_the_preset():
    for preset, ends in ((None, False), ("ragen", True)):
        env = find_kind("countdown").env(config_of("countdown", preset=preset))
        text, _ = env.reset(seed=1)
        state, reward, terminated, _, info = env.step("I do not know")
        assert (reward, terminated, info["action_is_valid"]) == (0.0, ends, False)
        assert state == f"{text}\nYour answer is not an arithmetic expression."


def test_after_an_answer_that_cannot_be_read_another_one_counts():
    with manager_of("Countdown") as manager:
        first = manager.reset()[0]["history"][0]["state"]
        (cache,) = manager.step([{"env_id": 0, "actions": ["no idea"]}])
        assert cache["history"][-1]["actions_left"] == 2
        tag = manager.tag_of(0)
        (answer,) = tag.kind.solver(tag.config, [{"state": first, "actions_left": 2}])
        assert manager.step([{"env_id": 0, "actions": [answer]}]) == []
        assert not manager.statuses()[0]["truncated"] and manager.statuses()[0]["reward"] == 1.0


def test_scores_of_countdown_are_settings():
    env = find_kind("countdown").env({"score": 5.0, "format_score": 0.5, "min_numbers": 2, "max_numbers": 2})
    numbers = env.reset(seed=3)[0].removeprefix("Numbers: ").split("\n")[0].split(", ")
    rewards = set()
    for operation in "+-*/":
        env.reset(seed=3)
        rewards.add(env.step(f"{numbers[0]} {operation} {numbers[1]}")[1])
        env.reset(seed=3)
        rewards.add(env.step(f"{numbers[1]} {operation} {numbers[0]}")[1])
    assert rewards == {5.0, 0.5}


# ---- metamathqa


def test_metamathqa_under_the_preset():
    env = find_kind("metamathqa").env(config_of("metamathqa", preset="ragen"))
    questions = load_questions(SHIPPED)
    for seed in range(30):
        query, label = questions[random.Random(seed).randint(0, len(questions) - 1)]
        assert env.reset(seed=seed)[0] == f"Question: {query}"
        for _ in range(7):  # more than there are attempts without the preset
            _, _, terminated, truncated, _ = env.step("certainly wrong")
            assert not terminated and not truncated
        assert env.step(f" {label.upper()} ")[1] == 0.5**7


def test_answers_are_compared_as_texts_under_the_preset(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"query": "Half?", "response": "The answer is: 1/2"}\n')
    for preset, success in ((None, True), ("ragen", False)):
        env = find_kind("metamathqa").env(config_of("metamathqa", preset=preset, data_path=str(path)))
        env.reset(seed=0)
        assert env.step("0.5")[4]["success"] is success
        env.reset(seed=0)
        assert env.step("1 / 2")[4]["success"]


# ---- webshop


def test_webshop_under_the_preset_pays_only_what_fits_in_everything():
    graded, binary = (
        find_kind("webshop").env(config_of("webshop", **settings))
        for settings in ({"human_goals": False}, {"preset": "ragen"})
    )

    def buy_unseen(env, seed):
        _, info = env.reset(seed=seed)
        words = info["instruction"].partition(" with ")[0]
        info = env.step(f"search[{words}]")[4]
        env.step(info["available_actions"][-1])
        return env.step("click[buy now]")[1]

    pairs = [(buy_unseen(graded, seed), buy_unseen(binary, seed)) for seed in range(30)]
    assert all(paid == float(reward == 1.0) for reward, paid in pairs)
    assert sum(0 < reward < 1 for reward, _ in pairs) > 5


def test_webshop_under_the_preset_is_limited_by_the_tag_alone():
    env = find_kind("webshop").env(config_of("webshop", preset="ragen"))
    env.reset(seed=0)
    for _ in range(10):
        env.step("search[shoes]")
        assert not env.step("click[back to search]")[3]
    assert env.config.human_goals is False


def test_limit_goals_uses_the_first_of_their_order():
    env = find_kind("webshop").env(config_of("webshop", limit_goals=6, split="train"))
    goals = {env.reset(seed=seed)[1]["goal"] for seed in range(20)}
    assert goals == {f"human-{place}" for place in goals_of_split("train", 6)}


def test_num_products_makes_a_catalogue_of_its_own(tmp_path):
    env = find_kind("webshop").env({"num_products": 60, "cache_dir": tmp_path})
    assert env._catalogue.goal_counts["human"] == 60
    assert [path.name.split("-of-")[0] for path in tmp_path.glob("*.sqlite")] == ["60"]


def test_dataset_names_the_file_of_a_folder(tmp_path):
    from abreast.rollouts.envs.webshop.generate import write_files

    write_files(tmp_path, 30)
    for name in ("items_shuffle", "items_ins_v2"):
        small = json.loads((tmp_path / f"{name}.json").read_text())
        small = small[:10] if isinstance(small, list) else dict(list(small.items())[:10])
        (tmp_path / f"{name}_1000.json").write_text(json.dumps(small))
    counts = {
        dataset: find_kind("webshop").env({"dataset": dataset, "data": tmp_path})._catalogue.goal_counts["synthetic"]
        for dataset in ("small", "full")
    }
    assert counts == {"small": 10, "full": 30}


def test_a_data_set_that_is_not_there_is_said_once(caplog):
    tags = {"Shop": {"env_type": "webshop", "env_config": {"dataset": "small"}}}
    EnvStateManager({"custom_envs": tags}, tags=["Shop"]).close()
    (record,) = caplog.records
    assert "which no env_config.data names, so products of the generated catalogue stand in." in record.message
