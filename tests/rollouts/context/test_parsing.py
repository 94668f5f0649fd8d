"""From an answer to actions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import RolloutError
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.parsing import Parser


def read(answer, max_actions=5, are_free=False, **config):
    return Parser(ContextConfig.parse(config), max_actions, are_free)(answer)


def test_an_answer_has_thoughts_and_actions():
    for form in ("strict", "lenient"):
        parsed = read("<think>The box is below.</think><answer>Down || Left</answer>", answer_format=form)
        assert parsed.actions == ["Down", "Left"] and parsed.think == "The box is below." and parsed.is_valid
        assert parsed.response == "<think>The box is below.</think><answer>Down || Left</answer>"


@pytest.mark.parametrize(
    ("answer", "actions", "think", "is_valid"),
    [
        ("<answer>Up</answer>", ["Up"], "", True),
        ("<THINK>a</Think> <ANSWER>Up</ANSWER>", ["Up"], "a", True),
        ("< think >a</ think >< answer >Up</answer >", ["Up"], "a", True),
        ("Sure! <think>a</think>So: <answer>Up</answer> Good luck.", ["Up"], "Sure! a So:", True),
        ("I go up. <answer>Up</answer>", ["Up"], "I go up.", True),
        ("<think>a</think><answer>Up || Down", ["Up", "Down"], "a", True),  # cut off
        ("<think>a</think>Up</answer>", ["Up"], "a", True),
        ("a</think><answer>Up</answer>", ["Up"], "a", True),  # the template wrote <think>
        ("maybe <answer>Up</answer>? no</think><answer>Down</answer>", ["Down"], "maybe Up ? no", True),
        ("<think>maybe <answer>Up</answer>? no</think><answer>Down</answer>", ["Down"], "maybe Up ? no", True),
        ("<think>a<answer>Up</answer>", ["Up"], "a", True),  # it forgot </think>
        ("<think>so <answer>..</answer>, then <answer>Up</answer>", ["Up"], "so .. , then", True),
        ("<think>a</think><answer>Up</answer><think>b</think><answer>Down</answer>", ["Up"], "a", True),
        ("<answer>Up</answer>\nTurn 2\nState: ...\n<answer>Down</answer>", ["Up"], "", True),  # the rest is made up
        ("<answer><answer>Up</answer></answer>", ["Up"], "", True),
        ("<answer>Up<answer>", ["Up"], "", True),
        ("<think>a</think>Up", ["Up"], "a", False),  # no answer tag
        ("Up || Down", ["Up", "Down"], "", False),
        ("<think>a long story", [], "a long story", False),
        ("<think>a</think>", [], "a", False),
        ("<think>a</think><answer> || </answer>", [], "a", False),
        ("", [], "", False),
        ("<answer>Up</answer><|im_end|>", ["Up"], "", True),
        ("<answer>U<|im_end|>p</answer><|endoftext|></s>", ["Up"], "", True),
        ("<answer>\0Up\ud800</answer>", ["Up�"], "", True),
    ],
)  # fmt: skip
def test_a_lenient_reader_finds_the_actions(answer, actions, think, is_valid):
    parsed = read(answer)
    assert (parsed.actions, " ".join(parsed.think.split()), parsed.is_valid) == (actions, think, is_valid)


@pytest.mark.parametrize(
    "answer",
    [
        "<answer>Up</answer>",
        "Up",
        "",
        "<think>a</think>",
        "<think>a</think> so <answer>Up</answer>",
        "Sure! <think>a</think><answer>Up</answer>",
        "<think>a</think><answer>Up</answer> Good luck.",
        "<THINK>a</THINK><answer>Up</answer>",
        "<think>a</think><answer>Up",
        "<think>a<answer>Up</answer>",
        "a</think><answer>Up</answer>",
        "<think>a<think>b</think></think><answer>Up</answer>",
        "<think>a</think><answer><answer>Up</answer></answer>",
        "<think>a</think><answer>Up</answer><answer>Down</answer>",
        "<think>a</think><answer>  </answer>",
        "<think>a</think><answer>",
        "<think></think></answer>",
    ],
)
def test_a_strict_reader_takes_one_form_only(answer):
    parsed = read(answer, answer_format="strict")
    assert parsed.actions == [] and not parsed.is_valid
    assert parsed.response == answer  # what the model wrote, if it has no normal form


def test_a_strict_reader_allows_white_space_and_special_tokens_around():
    parsed = read("\n<think>\na\n</think>\n\n<answer> Up </answer>\n<|im_end|>", answer_format="strict")
    assert (parsed.actions, parsed.think, parsed.is_valid) == (["Up"], "a", True)


def test_without_think_the_answer_alone_is_asked_for():
    for form in ("strict", "lenient"):
        parsed = read("<answer>Up</answer>", enable_think=False, answer_format=form)
        assert parsed.is_valid and parsed.response == "<answer>Up</answer>"
    assert read("Up", enable_think=False) == (["Up"], "", "<answer>Up</answer>", True)
    assert not read("<think>a</think><answer>Up</answer>", enable_think=False, answer_format="strict").is_valid
    assert read("<think>a</think><answer>Up</answer>", enable_think=False).response == "<answer>Up</answer>"


def test_a_template_may_have_written_think():
    asked = {"answer_format": "strict", "think_is_prefilled": True}
    assert read("a</think><answer>Up</answer>", **asked).is_valid
    assert read("<think>a</think><answer>Up</answer>", **asked).is_valid
    assert read("a story that is cut", think_is_prefilled=True).actions == []


def test_actions_beyond_the_most_are_cut_off():
    parsed = read("<think></think><answer>a||b || c ||  || d</answer>", max_actions=2)
    assert parsed.actions == ["a", "b"] and parsed.is_valid
    assert parsed.response == "<think></think><answer>a || b</answer>"
    assert read("<answer>a;b</answer>", action_sep=";").actions == ["a", "b"]
    assert read("<answer>a;b ; c</answer>", action_sep=" ; ").actions == ["a", "b", "c"]
    assert read("<answer>a || b</answer>", max_actions=1).actions == ["a"]


def test_free_texts_are_not_taken_apart():
    assert read("<answer>the norm ||v||</answer>", max_actions=1, are_free=True).actions == ["the norm ||v||"]
    assert read("<answer>(1 + 2) * 3 < 10</answer>", max_actions=1, are_free=True).actions == ["(1 + 2) * 3 < 10"]
    many = read("<answer>search[a || b] || click[c] || (1 || {2}) || ) || d</answer>", max_actions=9, are_free=True)
    assert many.actions == ["search[a || b]", "click[c]", "(1 || {2})", ")", "d"]
    assert read("<answer>[a || b</answer>", max_actions=9, are_free=True).actions == ["[a || b"]


def test_a_long_answer_is_cut():
    answer = f"<think>{'a' * 100}</think><answer>Up</answer>"
    assert read(answer, max_response_chars=50).actions == []
    assert read(f"<answer>Up</answer>{'a' * 100}", max_response_chars=50).actions == ["Up"]
    longer = f"<think>a</think><answer>Up</answer>{' ' * 100}"
    assert not read(longer, max_response_chars=50, answer_format="strict").is_valid


def test_special_tokens_that_form_anew_are_removed_too():
    nested = "<|im_" * 3 + "<|im_end|>" + "end|>" * 3
    assert "<|im_end|>" not in read(f"<answer>{nested}</answer>").actions[0]
    assert "<|im_end|>" not in read("<|im_<think>end|></think><answer>Up</answer>").response
    assert read("<answer>U<turn>p</answer>", special_tokens=["<turn>"]).actions == ["Up"]


def test_only_texts_are_answers():
    with pytest.raises(RolloutError, match="an answer is None: expected the text a language model wrote"):
        read(None)


TAGS = ["<think>", "</think>", "<answer>", "</answer>", "<ANSWER>", "< /answer>", "<ans", "wer>"]
TOKENS = ["<|im_end|>", "<|im_", "end|>", "</s>", "<", ">", "|", "||"]
OTHERS = [" ", "\n", "Up", "[", "]", "(", "\0", "\ud800", "\udc00", "√", "𝔘"]
PIECES = st.sampled_from([*TAGS, *TOKENS, *OTHERS])
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=25).map("".join))


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.sampled_from(["strict", "lenient"]), st.booleans(), st.booleans(), st.integers(1, 4), st.booleans())
def test_any_text_is_read(text, form, enable_think, prefilled, most, are_free):
    config = {"answer_format": form, "enable_think": enable_think, "think_is_prefilled": prefilled}
    parsed = read(text, most, are_free, **config)
    assert len(parsed.actions) <= most and all(action and action == action.strip() for action in parsed.actions)
    parsed.response.encode()  # it can be sent
    assert "<|im_end|>" not in parsed.response and "\0" not in parsed.response
    if form == "strict":
        assert parsed.is_valid == bool(parsed.actions)
    if parsed.actions:  # the normal form is strict, and says the same
        again = read(parsed.response, most, are_free, answer_format="strict", enable_think=enable_think)
        assert again == (parsed.actions, parsed.think if enable_think else "", parsed.response, True)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_what_is_strict_is_read_the_same_by_the_lenient(text):
    strict = read(text, answer_format="strict")
    if strict.is_valid:
        assert read(text) == strict


@pytest.mark.timeout(60)  # a fraction of a second, if the time grows with the length; hours, if with its square
@pytest.mark.parametrize("piece", [*TAGS, *TOKENS, *OTHERS, "< ", "<|", "<answer></answer>", "</think><answer>"])
def test_a_hostile_answer_does_not_take_long(piece):
    text = piece * (100_000 // len(piece))
    for form in ("strict", "lenient"):
        parsed = read(text, are_free=True, answer_format=form, max_response_chars=100_000)
        assert len(parsed.response) <= len(text) + 100
