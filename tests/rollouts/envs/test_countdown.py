"""Countdown, rule by rule."""

import json
import math
import pickle
import random
import sys
import warnings
from fractions import Fraction
from itertools import permutations
from typing import get_args

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts.envs.countdown import KIND, CountdownConfig, CountdownEnv
from abreast.rollouts.envs.countdown.env import Verdict, judge
from abreast.rollouts.envs.countdown.expression import ExpressionError, parse
from abreast.rollouts.envs.countdown.solver import find_expression, solve
from abreast.rollouts.envs.countdown.tasks import Task

TASK = Task((44, 19, 35), 98)


@pytest.fixture
def env(tmp_path):
    """An environment with one known task."""
    return CountdownEnv({"data_path": write(tmp_path / "one.jsonl", [{"nums": [44, 19, 35], "target": 98}])})


def write(path, records):
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n", encoding="utf-8")
    return str(path)


# Expressions


@pytest.mark.parametrize(
    ("text", "numbers", "value"),
    [
        ("7", (7,), 7),
        ("1 + 2 * 3", (1, 2, 3), 7),
        ("(1 + 2) * 3", (1, 2, 3), 9),
        ("10 - 3 - 2", (10, 3, 2), 5),
        ("100 / 5 / 2", (100, 5, 2), 10),
        ("2 - 3 * 4 + 5 / 2", (2, 3, 4, 5, 2), Fraction(-15, 2)),
        ("1/3*3", (1, 3, 3), 1),
        ("-3 + 10", (3, 10), 7),
        ("2 * -(1 + 2)", (2, 1, 2), -6),
        ("8 ÷ 4 × 3 − 1", (8, 4, 3, 1), 5),
        ("\t( 5 )\n", (5,), 5),
        ("007", (7,), 7),
        ("999999999", (999_999_999,), 999_999_999),
        ("5 / (3 - 3)", (5, 3, 3), None),
        ("-(1 / 0) * 0 + 4", (1, 0, 0, 4), None),
        ("(" * 32 + "1" + ")" * 32, (1,), 1),
    ],
)
def test_expressions_have_numbers_and_an_exact_value(text, numbers, value):
    read, found = parse(text)
    assert tuple(read) == numbers
    assert math.isnan(found) if value is None else found == value


JUNK = [
    "",
    "   ",
    "9**9**9",
    "9^9",
    "7 // 2",
    "7 % 2",
    "1 2",
    "1 +",
    "* 1",
    "+1",
    "--1",
    "1 - - - 1",
    "(1",
    "1)",
    "()",
    "(1)(2)",
    "1.5",
    "1e9",
    "1_000",
    "0x10",
    "x",
    "abs(1)",
    "__import__('os')",
    "().__class__",
    "lambda: 1",
    "1 = 1",
    "1,2",
    "٣ + 4",
    "５",
    "²",
    "1\0",
    "1 # one",
    "1234567890",
    "9" * 900,
    "-" * 900,
    "(" * 33 + "1" + ")" * 33,
    "(" * 10_000 + "1" + ")" * 10_000,
    "1+" * 500_000 + "1",
    "\U0001f600",
    "\ud800",
]


@pytest.mark.parametrize("text", JUNK, ids=lambda text: ascii(text[:20]))
def test_anything_else_is_refused(text):
    with pytest.raises(ExpressionError):
        parse(text)


def trees(children):
    return st.tuples(children, st.sampled_from("+-*/"), children)


@settings(max_examples=40)
@given(st.recursive(st.integers(0, 999), trees, max_leaves=12), st.sampled_from(["", " ", "  "]))
def test_the_parser_agrees_with_trees_worked_out_by_hand(tree, gap):
    def text_of(node):
        return str(node) if isinstance(node, int) else f"({text_of(node[0])}{gap}{node[1]}{gap}{text_of(node[2])})"

    def value_of(node):
        if isinstance(node, int):
            return Fraction(node)
        left, operator, right = value_of(node[0]), node[1], value_of(node[2])
        return {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
        }[operator]()

    try:
        expected = value_of(tree)
    except ZeroDivisionError:
        expected = None
    _, value = parse(text_of(tree))
    assert math.isnan(value) if expected is None else value == expected


@given(st.text(alphabet="0123456789+-*/()= ×÷−.ae\n٣", max_size=60))
def test_no_text_makes_the_judge_stumble(text):
    assert judge(text, TASK) in get_args(Verdict)


# Verdicts and rewards


@pytest.mark.parametrize(
    ("answer", "reward", "verdict"),
    [
        ("44 + 19 + 35", 1.0, "correct"),
        ("35+(19+44)", 1.0, "correct"),
        ("-(-44 - 19) + 35", 1.0, "correct"),
        ("44 + 19 - 35", 0.1, "wrong value"),
        ("44 / (19 - 19 * 35)", 0.0, "wrong numbers"),
        ("44 + 19", 0.0, "wrong numbers"),
        ("44 + 19 + 35 + 35 - 35", 0.0, "wrong numbers"),
        ("98", 0.0, "wrong numbers"),
        ("44 + 19 + thirty-five", 0.0, "unreadable"),
        ("", 0.0, "unreadable"),
        ("<answer>44 + 19 + 35</answer>", 1.0, "correct"),
        ("<answer>44</answer> no, <answer> 44 + 19 + 35 </answer> it is", 1.0, "correct"),
        ("<answer>44 + 19 + 35", 1.0, "correct"),
        ("44 + 19 + 35 = 98", 1.0, "correct"),
        ("<answer>44 + 19 + 35 = 98.0</answer>", 1.0, "correct"),
        ("44 + 19 + 35 = 7", 1.0, "correct"),
        ("44 + 19 - 35 = 98", 0.1, "wrong value"),
        ("98 = 44 + 19 + 35", 0.0, "unreadable"),
        ("44 + 19 + 35 = 98 = 98", 0.0, "unreadable"),
        ("44 + 19 + 35 =", 0.0, "unreadable"),
        ("so " * 1_000 + "<answer>44 + 19 + 35</answer>", 0.0, "unreadable"),
    ],
)
def test_one_expression_ends_the_episode_with_its_reward(env, answer, reward, verdict):
    env.reset(seed=0)
    state, given_reward, terminated, truncated, info = env.step(answer)
    readable = verdict != "unreadable"
    assert (given_reward, terminated, truncated) == (reward, readable, False)
    assert info == {
        "success": reward == 1.0,
        "action_is_valid": readable,
        "action_is_effective": readable,
        "verdict": verdict,
    }
    assert state.startswith("Numbers: 44, 19, 35\nTarget: 98\nYour answer ")
    assert env.render() == state


@pytest.mark.parametrize(
    ("numbers", "target", "answer", "verdict"),
    [
        ((1, 3), 0, "1 / 3", "wrong value"),
        ((1, 100_001), 0, "1 / 100001", "correct"),  # off by less than 1e-5
        ((1, 100_000), 0, "1 / 100000", "wrong value"),
        ((2, 2), 1, "2 / (2 - 2)", "wrong numbers"),
        ((2, 2, 2), 1, "2 / (2 - 2)", "wrong value"),
        ((0, 5), 5, "5 + 0", "correct"),
        ((0, 5), 5, "5 / 0", "wrong value"),
        ((7, 7), 49, "7 * 7", "correct"),
        ((7, 7), 7, "7", "wrong numbers"),
    ],
)
def test_values_count_within_1e_5_and_division_by_zero_is_a_wrong_value(numbers, target, answer, verdict):
    assert judge(answer, Task(numbers, target)) == verdict


def test_the_first_state_shows_the_numbers_and_the_target(env):
    state, info = env.reset(seed=5)
    assert state == env.render() == "Numbers: 44, 19, 35\nTarget: 98"
    assert info == {"success": False, "action_is_valid": True, "action_is_effective": False, "verdict": ""}


@pytest.mark.parametrize("action", [None, 3, 1.5, b"44", ["44 + 19 + 35"], np.int64(1), object()])
def test_an_action_that_is_no_text_changes_nothing(env, action):
    before, _ = env.reset(seed=0)
    state, reward, terminated, truncated, info = env.step(action)
    assert (state, reward, terminated, truncated) == (before, 0.0, False, False)
    assert (info["success"], info["action_is_valid"], info["action_is_effective"]) == (False, False, False)
    assert env.step("44 + 19 + 35")[1] == 1.0


@pytest.mark.parametrize("text", ["1+" * 500_000, "(" * 1_000_000, "<answer>" * 200_000, "= " * 400])
def test_a_monstrous_text_is_one_unreadable_answer(env, text):
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step(text)
    assert (reward, terminated, info["action_is_valid"]) == (0.0, False, False)


def test_a_step_without_an_episode_asks_for_reset(env):
    with pytest.raises(RolloutError, match="call reset"):
        env.step("1")
    env.reset(seed=0)
    env.step("1")
    with pytest.raises(RolloutError, match="call reset"):
        env.step("1")
    env.reset()
    assert env.step("44 + 19 + 35")[4]["success"]


# Generated tasks


def episode(env, seed):
    state, info = env.reset(seed=seed)
    task = env._task
    return state, info, env.step(" + ".join(map(str, task.numbers)))


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"min_numbers": 2, "max_numbers": 6, "largest_number": 20, "largest_target": 20},
        {"min_numbers": 5, "max_numbers": 5, "largest_number": 1, "largest_target": 1},
    ],
)
def test_generated_tasks_keep_their_bounds_and_can_be_solved(config):
    env = CountdownEnv(config)
    counts = set()
    for seed in range(60):
        state, _ = env.reset(seed=seed)
        numbers, target = env._task
        counts.add(len(numbers))
        assert all(1 <= number <= env.config.largest_number for number in numbers)
        assert 1 <= target <= env.config.largest_target
        actions = solve(env.config, [{"state": state, "actions_left": 1}])
        assert env.step(actions[0])[4]["success"], state
    assert counts == set(range(env.config.min_numbers, env.config.max_numbers + 1))


def test_seeds_give_different_tasks():
    env = CountdownEnv()
    states = [env.reset(seed=seed)[0] for seed in range(100)]
    assert len(set(states)) == 100
    assert len({env.reset()[0] for _ in range(20)}) == 20  # without a seed, the next task follows


def test_the_same_seed_gives_the_same_episode_anywhere():
    env = CountdownEnv()
    first = [episode(env, seed) for seed in range(30)]
    assert [episode(env, seed) for seed in range(30)] == first
    assert [episode(CountdownEnv(), seed) for seed in range(30)] == first


def test_global_random_state_is_left_alone():
    def state():
        return random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002 (the state that must not change)

    before = state()
    env = CountdownEnv()
    for seed in (None, 1, None):
        episode(env, seed)
    assert state() == before


def test_gymnasium_finds_no_fault():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not having a spec")  # only `gymnasium.make` gives one
        check_env(CountdownEnv(), skip_render_check=False)


def test_every_state_lies_in_the_observation_space(tmp_path):
    largest = {"nums": [999_999_999] * 32, "target": 999_999_999}
    env = CountdownEnv({"data_path": write(tmp_path / "large.jsonl", [largest])})
    assert env.reset(seed=0)[0] in env.observation_space
    assert env.step("1")[0] in env.observation_space


def test_an_environment_goes_on_after_pickling():
    env = CountdownEnv()
    env.reset(seed=7)
    twin = pickle.loads(pickle.dumps(env))
    answer = " + ".join(map(str, env._task.numbers))
    assert twin.step(answer) == env.step(answer)
    assert twin.reset() == env.reset()


# Tasks from a file


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_tasks_come_from_a_file_by_seed(tmp_path, suffix):
    tasks = [{"nums": [n, n + 1], "target": 2 * n + 1, "more": "ignored"} for n in range(1, 50)]
    path = tmp_path / f"tasks{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, tasks)) + "\n\n")
    elif suffix == ".json":
        path.write_text(json.dumps(tasks))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(tasks), path)
    env = CountdownEnv({"data_path": str(path)})
    seen = [env.reset(seed=seed)[0] for seed in range(200)]
    assert set(seen) <= {f"Numbers: {n}, {n + 1}\nTarget: {2 * n + 1}" for n in range(1, 50)}
    assert len(set(seen)) > 35
    assert [CountdownEnv({"data_path": str(path)}).reset(seed=seed)[0] for seed in range(200)] == seen


GOOD = '{"nums": [1, 2], "target": 3}'


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        "null",
        "\xff",
        "[" * 100_000,
        '{"nums": [1, 2]}',
        '{"nums": [], "target": 3}',
        '{"nums": "12", "target": 3}',
        '{"nums": [1, -2], "target": 3}',
        '{"nums": [1, true], "target": 3}',
        '{"nums": [1, 2.5], "target": 3}',
        '{"nums": [1, 1000000000], "target": 3}',
        '{"nums": [1, 2], "target": null}',
        '{"nums": [1, 2], "target": -3}',
        '{"nums": [1, 2], "target": NaN}',
    ],
    ids=lambda line: ascii(line[:40]),
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(f"{GOOD}\n{GOOD}\n{line}\n{GOOD}\n".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"tasks\.jsonl, line 3"):
        CountdownEnv({"data_path": str(path)})


def test_other_damaged_files_are_named(tmp_path):
    def refused(name, content, match):
        path = tmp_path / name
        if content is not None:
            path.write_text(content)
        with pytest.raises(ConfigError, match=match):
            CountdownEnv({"data_path": str(path)})

    refused("missing.jsonl", None, r"cannot read .*missing\.jsonl: No such file")
    refused("missing.parquet", None, r"cannot read .*missing\.parquet")
    refused("empty.jsonl", "\n\n", r"empty\.jsonl holds no records with nums and target")
    refused("tasks.csv", GOOD, r"expected \.jsonl, \.json or \.parquet")
    refused("tasks.json", GOOD, r"tasks\.json does not hold a JSON list")
    refused("list.json", f"[{GOOD}, 5]", r"list\.json, record 2")
    refused("broken.json", f"[{GOOD},\n", r"broken\.json is not valid JSON .*line 2")
    refused("tasks.parquet", "this is no Parquet", r"tasks\.parquet is not a valid Parquet file")
    (tmp_path / "folder.jsonl").mkdir()
    refused("folder.jsonl", None, r"cannot read .*folder\.jsonl")


def test_parquet_rows_without_the_columns_are_named(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"nums": [[1, 2]]}), tmp_path / "tasks.parquet")
    with pytest.raises(ConfigError, match=r"tasks\.parquet, row 1 .*nums and target"):
        CountdownEnv({"data_path": str(tmp_path / "tasks.parquet")})


def test_parquet_without_its_package_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r'pip install "abreast\[parquet\]"'):
        CountdownEnv({"data_path": str(tmp_path / "tasks.parquet")})


# The solver


@pytest.mark.parametrize(
    ("numbers", "target"),
    [
        ((6,), 6),
        ((3, 3, 8, 8), 24),  # only by way of fractions: 8 / (3 - 8 / 3)
        ((1, 5, 5, 5), 24),
        ((5, 5, 7, 9), 0),
        ((2, 3, 4, 5, 5), 0),
        ((75, 50, 2, 3, 8, 7), 812),
    ],
)
def test_the_solver_finds_what_there_is(numbers, target):
    assert judge(find_expression(numbers, target), Task(numbers, target)) == "correct"


@pytest.mark.parametrize("numbers", [(1, 2, 3, 7), (2, 3, 7, 100), (0, 0, 4, 9), (5, 5, 5, 30)])
def test_the_solver_finds_exactly_what_trying_every_combination_finds(numbers):
    def every_value(values):
        if len(values) == 1:
            return set(values)
        found = set()
        for i, j in permutations(range(len(values)), 2):
            a, b = values[i], values[j]
            rest = [value for k, value in enumerate(values) if k not in (i, j)]
            for result in [a + b, a - b, a * b] + ([a / b] if b else []):
                found |= every_value([*rest, result])
        return found

    reachable = every_value([Fraction(number) for number in numbers])
    for target in range(-50, 150):
        assert (find_expression(numbers, target) is not None) == (target in reachable), target


def test_the_solver_still_uses_the_right_numbers_where_there_is_no_solution():
    config = CountdownConfig()
    assert solve(config, [{"state": "Numbers: 1, 1\nTarget: 50", "actions_left": 1}]) == ["1 + 1"]
    many = ", ".join(["2"] * 9)
    assert solve(config, [{"state": f"Numbers: {many}\nTarget: 50", "actions_left": 1}]) == [" + ".join(["2"] * 9)]
    assert solve(config, [{"state": "Numbers: 1, 1\nTarget: 2", "actions_left": 0}]) == []


# Settings


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"min_numbers": 5}, "min_numbers 5 is more than max_numbers 4"),
        ({"largest_target": 50}, "largest_target 50 is below largest_number 100"),
        ({"min_numbers": 1}, "min_numbers is 1"),
        ({"max_numbers": 7}, "max_numbers is 7"),
        ({"max_numbers": "4"}, "max_numbers is '4'"),
        ({"largest_number": 0}, "largest_number is 0"),
        ({"data_path": 3}, "data_path is 3"),
        ({"action_lookup": {1: "Up"}}, "action_lookup"),
        ({"min_number": 3}, "did you mean 'min_numbers'"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(config, match):
    with pytest.raises(ConfigError, match=match):
        CountdownEnv(config)


def test_the_kind_makes_the_environment():
    config = KIND.config.parse({"max_numbers": 3})
    assert KIND.name == "countdown" and KIND.solver is solve
    assert KIND.env(config).config is config
