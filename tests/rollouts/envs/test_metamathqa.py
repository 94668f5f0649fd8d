"""MetaMathQA, rule by rule."""

import json
import pickle
import random
import re
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts.envs.countdown.expression import parse
from abreast.rollouts.envs.metamathqa import KIND, MetaMathQAEnv
from abreast.rollouts.envs.metamathqa.answers import label_in, read_answer
from abreast.rollouts.envs.metamathqa.env import SHIPPED, load_questions

QUESTION = {"query": "What is half of 84?", "response": "Half of 84 is 84 / 2 = 42.\nThe answer is: 42"}


@pytest.fixture
def env(tmp_path):
    """An environment with one known question."""
    return MetaMathQAEnv({"data_path": write(tmp_path / "one.jsonl", [QUESTION]), "max_attempts": 3})


def write(path, records):
    path.write_text("\n".join(json.dumps(record) for record in records) + "\n", encoding="utf-8")
    return str(path)


def same(one, other):
    answers = read_answer(one), read_answer(other)
    there, back = answers[0].says_the_same_as(answers[1]), answers[1].says_the_same_as(answers[0])
    assert there == back
    return there


# Comparing answers


@pytest.mark.parametrize(
    "ways",
    [
        [
            "0.5",
            ".5",
            "0.50",
            "1/2",
            " 1 / 2 ",
            "2/4",
            r"\frac{1}{2}",
            r"\dfrac{1}{2}",
            r"\tfrac12",
            "$0.5$",
            "50%",
            r"50\%",
        ],
        [
            "1000",
            "1,000",
            "1 000",
            "1000.",
            "1000.00",
            "+1000",
            "$1,000",
            r"\$1,000.00",
            "1{,}000",
            r"1,\!000",
            "£1000",
        ],
        ["-1/3", r"-\frac{1}{3}", r"\frac{-1}{3}", "− 1/3", "1/-3", "-2/6", r"$-\dfrac{1}{3}$"],
        ["2.5", "2 1/2", "2  1 / 2", r"2\frac{1}{2}", r"2 \frac12", "5/2", "2.50."],
        ["-2.5", "-2 1/2", r"-2\frac{1}{2}", r"-\frac52"],
        ["-5", "-$5", "$-5", "- 5", "−5"],
        ["36", "36%", r"36\%", "36 %"],
        ["65", r"65^\circ", r"65^{\circ}", "65°", r"65\,", r"\left65\right"],
        [
            "42",
            r"\boxed{42}",
            r"$\boxed{42}$.",
            r"\( 42 \)",
            r"\[42\]",
            "The answer is: 42.",
            "the ANSWER is:42",
            r"\text{42}",
        ],
        ["Monday", "monday", " MONDAY. ", "mon day", r"\text{Monday}", "The answer is: Monday"],
        ["(1, 2)", "(1,2)", r"\left( 1, 2 \right)"],
        ["x+1", "X + 1"],
        ["1/0", "1 / 0"],  # no number, but still the same text
    ],
    ids=lambda ways: ways[0],
)
def test_different_ways_to_say_the_same(ways):
    for way in ways:
        assert same(way, ways[0]), way


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5", "-5"),
        ("0.33", "1/3"),
        ("0.5", "0.51"),
        ("50%", "0.5%"),
        ("50%", "500"),
        ("2 1/2", "21/2"),
        (r"2\frac{1}{2}", "21/2"),
        ("1,2", "12"),
        ("1,00", "100"),
        ("12,3456", "123456"),
        ("1.2.3", "1.23"),
        ("1e3", "1000"),
        ("10^3", "1000"),
        ("٣", "3"),
        ("５", "5"),
        ("0x10", "16"),
        ("1_000", "1000"),
        ("nan", "inf"),
        ("1/0", "2/0"),
        ("", "0"),
        (r"\frac{x+1}{2}", "x+1/2"),
        ("5 cm", "5"),
        ("Monday", "Tuesday"),
        ("42 or 43", "42"),
        ("The answer is: 41. No, the answer is: 42", "41"),
    ],
)
def test_different_answers(one, other):
    assert not same(one, other)


@settings(max_examples=40)
@given(st.fractions(max_denominator=1000))
def test_every_fraction_equals_itself_in_all_notations(number):
    top, bottom = number.numerator, number.denominator
    label = f"{top}/{bottom}"
    assert read_answer(label).number == number
    assert same(f"\\frac{{{top}}}{{{bottom}}}", label)
    assert same(f"{3 * top} / {3 * bottom}", label)
    assert same(f"{top:,}", label) == (bottom == 1)
    assert same(f"{abs(top):,}.1250", f"{8 * abs(top) + 1}/8")
    whole, rest = divmod(abs(top), bottom)
    sign = "-" if top < 0 else ""
    assert same(f"{sign}{whole} {rest}/{bottom}", label)
    assert not same(f"{top + 1}/{bottom}", label)


@given(st.text(max_size=200) | st.text(alphabet=r"0123456789.,/-+%$\frac{} boxedtext()", max_size=200))
def test_no_text_makes_the_comparison_stumble(text):
    answer = read_answer(text)
    assert answer.says_the_same_as(read_answer(text))


@pytest.mark.parametrize(
    "text", ["9" * 1000, "1/" + "9" * 998, "0." + "0" * 998, r"\frac{" * 166, r"\text{" * 166, "1," * 500, "\\" * 1000]
)
def test_junk_within_the_limit_is_only_a_wrong_answer(env, text):
    env.reset(seed=0)
    assert env.step(text)[1:4] == (0.0, False, False)


@pytest.mark.parametrize(
    ("response", "label"),
    [
        ("So it is 5.\nThe answer is: 5", "5"),
        ("The answer is: 4? No.\nThe answer is:  $\\frac{1}{2}$ \n", "$\\frac{1}{2}$"),
        ("the answer IS: Monday", "Monday"),
        ("The answer is 5", None),
        ("The answer is: ", None),
        ("", None),
    ],
)
def test_the_label_follows_the_last_mark(response, label):
    assert label_in(response) == label


# The episode


def test_the_first_state_shows_the_question(env):
    state, info = env.reset(seed=3)
    assert state == env.render() == "Question: What is half of 84?"
    assert info == {"success": False, "action_is_valid": True, "action_is_effective": False, "attempts": 0}


def test_every_wrong_attempt_halves_the_reward():
    for wrong in range(5):
        env = MetaMathQAEnv()
        env.reset(seed=1)
        for _ in range(wrong):
            assert env.step("certainly not this")[1:4] == (0.0, False, False)
        questions = load_questions(SHIPPED)
        label = next(label for query, label in questions if env.render().startswith(f"Question: {query}"))
        _, reward, terminated, truncated, info = env.step(label)
        assert (reward, terminated, truncated) == ([1.0, 0.5, 0.25, 0.125, 0.0625][wrong], True, False)
        assert info == {"success": True, "action_is_valid": True, "action_is_effective": True, "attempts": wrong + 1}


def test_the_state_says_that_an_answer_was_wrong_and_how_many_there_were(env):
    env.reset(seed=0)
    env.step("41")
    state, _, _, _, info = env.step("43")
    expected = "Question: What is half of 84?\n\nYour last answer was wrong. Attempts made: 2 of 3."
    assert state == env.render() == expected
    assert info == {"success": False, "action_is_valid": True, "action_is_effective": True, "attempts": 2}
    assert env.step("42")[0].endswith("Your last answer was correct. Attempts made: 3 of 3.")


def test_the_episode_is_cut_off_after_the_last_attempt(env):
    env.reset(seed=0)
    ends = [env.step("41")[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]
    with pytest.raises(RolloutError, match="call reset"):
        env.step("42")
    env.reset()
    assert env.step("42")[1] == 1.0


def test_the_last_attempt_may_be_right(env):
    env.reset(seed=0)
    env.step("1")
    env.step("2")
    assert env.step("42")[1:4] == (0.25, True, False)
    with pytest.raises(RolloutError, match="call reset"):
        env.step("42")


def test_a_step_before_the_first_reset_asks_for_it(env):
    with pytest.raises(RolloutError, match="call reset"):
        env.step("42")


@pytest.mark.parametrize(
    "action",
    [None, 42, 4.2, b"42", ["42"], object(), "", " \n\t", "$", "The answer is:", "4" * 1001, "42 " * 400_000],
    ids=lambda action: ascii(action)[:20],
)
def test_what_cannot_be_an_answer_changes_nothing(env, action):
    env.reset(seed=0)
    before = env.step("41")[0]
    state, reward, terminated, truncated, info = env.step(action)
    assert (state, reward, terminated, truncated) == (before, 0.0, False, False)
    assert info == {"success": False, "action_is_valid": False, "action_is_effective": False, "attempts": 1}
    assert env.step("42")[1] == 0.5


def episode(env, seed):
    return [env.reset(seed=seed), *(env.step(answer) for answer in ("no such answer", "-12345", ""))]


def test_the_same_seed_gives_the_same_episode_anywhere():
    env = MetaMathQAEnv()
    first = [episode(env, seed) for seed in range(30)]
    assert [episode(env, seed) for seed in range(30)] == first
    assert [episode(MetaMathQAEnv(), seed) for seed in range(30)] == first


def test_seeds_reach_all_questions():
    env = MetaMathQAEnv()
    assert len({env.reset(seed=seed)[0] for seed in range(800)}) == len(load_questions(SHIPPED))
    assert len({env.reset()[0] for _ in range(20)}) > 10  # without a seed, the next question follows


def test_global_random_state_is_left_alone():
    def state():
        return random.getstate(), pickle.dumps(np.random.get_state())  # noqa: NPY002 (the state that must not change)

    before = state()
    env = MetaMathQAEnv()
    for seed in (None, 1, None):
        episode(env, seed)
    assert state() == before


def test_gymnasium_finds_no_fault():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*not having a spec")  # only `gymnasium.make` gives one
        check_env(MetaMathQAEnv(), skip_render_check=False)


def test_every_state_lies_in_the_observation_space(tmp_path):
    records = [
        {"query": "Was ist größer: π oder 3?\t" + "?" * 3000, "response": "The answer is: π"},
        {"query": "二加三等于几？", "response": "The answer is: 5"},
    ]
    env = MetaMathQAEnv({"data_path": write(tmp_path / "many.jsonl", records), "max_attempts": 100})
    for seed in range(10):
        assert env.reset(seed=seed)[0] in env.observation_space
        for _ in range(100):
            state, _, _, _, _ = env.step("wrong")
        assert state in env.observation_space


def test_an_environment_goes_on_after_pickling():
    env = MetaMathQAEnv()
    env.reset(seed=7)
    env.step("wrong")
    data = pickle.dumps(env)
    assert len(data) < 10_000  # the questions do not travel along
    twin = pickle.loads(data)
    assert twin.step("wrong again") == env.step("wrong again")
    assert twin.reset() == env.reset()


# Questions


def records():
    return [json.loads(line) for line in SHIPPED.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("record", records(), ids=lambda record: record["query"][:40])
def test_every_shipped_label_can_be_worked_out(record):
    label = label_in(record["response"])
    _, value = parse(record["expression"])
    if "choices" in record:
        assert value.denominator == 1 and 0 <= value < len(record["choices"])
        assert same(record["choices"][int(value)], label)
    else:
        assert read_answer(label).number == value


def arithmetic_in(text):
    """Every "expression = number" of a text, with decimals as fractions and without commas."""
    text = re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", text)
    for left, right in re.findall(r"([0-9(-][0-9.+*/() -]*) = (-?[0-9]+(?:[./][0-9]+)?)", text):
        yield tuple(
            re.sub(r"([0-9]+)\.([0-9]+)", lambda m: f"({m[1]}{m[2]}/1{'0' * len(m[2])})", side)
            for side in (left, right)
        )


def test_every_step_of_the_shipped_solutions_is_right():
    for response in (record["response"] for record in records()):
        steps = list(arithmetic_in(response))
        assert len(steps) == response.count(" = "), response
        for left, right in steps:
            assert parse(left)[1] == parse(right)[1], response


def test_the_shipped_set_has_labels_of_all_kinds_and_no_question_twice():
    labels = [label for _, label in load_questions(SHIPPED)]
    assert len({query for query, _ in load_questions(SHIPPED)}) == len(labels) == 96
    for kind in (
        r"[0-9]+",
        r"-[0-9]+",
        r"[0-9]+\.[0-9]+",
        r"[0-9]+/[0-9]+",
        r"\\frac\{.*",
        r".*%",
        r"\$.*",
        r".*,.*",
        r"\w+",
    ):
        assert any(re.fullmatch(kind, label) for label in labels), kind
    for label in labels:
        assert read_answer(label).text


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
def test_questions_come_from_a_file_by_seed(tmp_path, suffix):
    questions = [
        {"type": "made up", "query": f"What is {n} + 1?", "response": f"It is one more.\nThe answer is: {n + 1}"}
        for n in range(20)
    ]
    path = tmp_path / f"questions{suffix}"
    if suffix == ".jsonl":
        write(path, questions)
    elif suffix == ".json":
        path.write_text(json.dumps(questions, indent=1))
    else:
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.Table.from_pylist(questions), path)
    env = MetaMathQAEnv({"data_path": str(path)})
    seen = set()
    for seed in range(200):
        state, _ = env.reset(seed=seed)
        number = int(re.fullmatch(r"Question: What is ([0-9]+) \+ 1\?", state)[1])
        seen.add(number)
        assert env.step(str(number + 1))[1] == 1.0
    assert seen == set(range(20))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        '"text"',
        '{"query": "What?"}',
        '{"query": "What?", "response": null}',
        '{"query": 5, "response": "The answer is: 5"}',
        '{"query": " ", "response": "The answer is: 5"}',
        '{"query": "What?", "response": "It is 5."}',
        '{"query": "What?", "response": "The answer is: "}',
        '{"query": "What?", "response": "The answer is: ' + "5" * 1001 + '"}',
    ],
    ids=lambda line: line[:60],
)
def test_a_damaged_line_is_named(tmp_path, line):
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{json.dumps(QUESTION)}\n\n{line}\n")
    with pytest.raises(ConfigError, match=r"questions\.jsonl, line 3"):
        MetaMathQAEnv({"data_path": str(path)})


def test_missing_and_empty_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere\.json: No such file"):
        MetaMathQAEnv({"data_path": str(tmp_path / "nowhere.json")})
    (tmp_path / "empty.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"empty\.json holds no records with query and response"):
        MetaMathQAEnv({"data_path": str(tmp_path / "empty.json")})


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"max_attempts": 0}, "max_attempts is 0"),
        ({"max_attempts": 2.5}, "max_attempts is 2.5"),
        ({"data_path": 3}, "data_path is 3"),
        ({"action_lookup": {1: "Up"}}, "action_lookup"),
        ({"max_attempt": 3}, "did you mean 'max_attempts'"),
    ],
)
def test_wrong_settings_are_refused_in_one_sentence(config, match):
    with pytest.raises(ConfigError, match=match):
        MetaMathQAEnv(config)


def test_the_kind_makes_the_environment():
    config = KIND.config.parse({"max_attempts": 2})
    assert KIND.name == "metamathqa" and KIND.solver is None
    assert KIND.env(config).config is config
