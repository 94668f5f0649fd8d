"""`preset: ragen`: its prompts and its way to read answers, compared with recorded expectations; its files are played."""

import logging
import os
from pathlib import Path

import pytest
import yaml

from abreast.errors import ConfigError
from abreast.rollouts import Context, EnvStateManager, RolloutConfig, find_tag
from abreast.rollouts.config import TagConfig
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.parsing import Parser
from abreast.rollouts.context.preview import as_text
from abreast.rollouts.context.tokens import tokenize, tokenize_turns
from abreast.rollouts.files import read_config

from .context.tokenizers import END, CharTokenizer

RAGEN, EXPECTED = Path(__file__).parent / "ragen", Path(__file__).parent / "ragen_expected"
CASES = yaml.safe_load((EXPECTED / "answers.yaml").read_text())


def context_of(name, custom=None, **given):
    return Context(find_tag(name, custom or {}, preset="ragen", context=ContextConfig.parse(given)))


def test_tools_take_the_place_of_the_opening_tag_that_the_preset_writes():
    for context in (context_of("FrozenLake", tools=True), context_of("Mine", {"Mine": TOOLS})):
        assert context.tools is not None and context.opening == ""
    with pytest.raises(ConfigError, match="it has tools and prefill"):
        context_of("FrozenLake", tools=True, prefill=True)


TOOLS = TagConfig(env_type="frozen_lake", context={"tools": True})


# ---- answers


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['case']}, think {case['think']}")
def test_an_answer_is_read_as_recorded(case):
    context = context_of("SimpleSokoban", enable_think=case["think"], max_actions_per_turn=2)
    parsed = context.parse(case["answer"])
    # Special tokens never reach a prompt, and what RAGEN leaves unread ends at the first of them.
    shown, _ = context.shown({"llm_raw_response": case["answer"], "llm_response": parsed.response})
    assert (parsed.actions, shown) == (case["actions"], case["shown"].partition("<|")[0])
    assert parsed.is_valid == bool(case["actions"]) and "<|" not in parsed.response


def test_a_free_text_is_split_at_every_separator():
    parser = Parser(ContextConfig(answer_format="blocks"), 2, are_free=True)
    assert parser("<think></think><answer>search[a || b]</answer>").actions == ["search[a", "b]"]


def test_a_hostile_answer_is_read_in_no_time():
    for piece in ("<think>", "</think>", "<answer>", "</think> <answer>", "<think></think>", "<|im_", "< "):
        Parser(ContextConfig(answer_format="blocks", max_response_chars=300_000), 2, False)(piece * 40_000)


# ---- prompts


def episode(tag, answers, **config):
    groups = {"env_groups": 1, "group_size": 1, "env_configs": {"tags": [tag], "n_groups": [1]}}
    base = read_config(RAGEN / "base.yaml")
    base["es_manager"] = {"use_multiprocessing": False, "train": groups}
    with EnvStateManager({**base, "preset": "ragen", **config}) as manager:
        (cache,) = manager.reset(seed=3)
        context = Context(manager.tag_of(0))
        for answer in answers:
            manager.step([context.input(0, answer)])
        return context, cache


GIVEN = {
    "SimpleSokoban": ["so</think><answer>Up||Left||Down</answer>", "no idea"],
    "FrozenLake": ["so</think> <answer>Down</answer><|im_end|>"],
    "WebShop": ["so</think><answer>search[red shoes]</answer>"],
    "Bandit": [],
    "Countdown": [],
    "MetamathQA": [],
}


@pytest.mark.parametrize("tag", GIVEN)
def test_prompts_are_those_recorded(tag):
    context, cache = episode(tag, GIVEN[tag])
    shown, recorded = as_text(context.messages(cache)), EXPECTED / f"{tag}.txt"
    if os.environ.get("ABREAST_WRITE"):
        recorded.write_text(f"{shown}\n", encoding="utf-8")
    assert f"{shown}\n" == recorded.read_text(encoding="utf-8")


def test_a_prompt_has_the_form_of_ragen():
    context, cache = episode("SimpleSokoban", GIVEN["SimpleSokoban"])
    system, first, answer, second, unread, third, opening = context.messages(cache)
    assert [message["role"] for message in (system, first, answer, second, unread, third, opening)] == (
        ["system"] + ["user", "assistant"] * 3
    )
    assert answer["content"] == "<think>so</think><answer>Up || Left</answer>"  # normalised
    assert unread["content"] == "<think>no idea"  # as it was, with the tag that the prompt ended with
    assert opening["content"] == "<think>"
    for number, message in enumerate((first, second, third), 1):
        assert f"Turn {number}:\nState:\n" in message["content"] and "100 words at most" in message["content"]
        assert "<think> [what you think] </think> <answer>" in message["content"]
        assert f"There are {cache['history'][number - 1]['actions_left']} actions left." in message["content"]
    assert "Reward" not in first["content"] and second["content"].startswith("Reward:\n-")
    assert third["content"].startswith("Reward:\n0\n\nTurn 3:")


def test_tags_of_the_preset_tell_how_long_an_answer_may_be():
    assert context_of("CoordSokoban").config.max_words == 120 and context_of("WebShop").config.max_words == 200


def test_a_tool_that_was_called_is_named():
    context, cache = episode("SimpleSokoban", ["so</think>"])
    cache["history"][0]["tool_calls"] = ["jump"]
    assert "it called jump, and no tools can be called.\nTurn 2:" in context.messages(cache)[3]["content"]


def test_without_thoughts_the_answer_is_prefilled():
    context, cache = episode("Bandit", [], context={"enable_think": False})
    assert context.messages(cache)[-1] == {"role": "assistant", "content": "<answer>"}
    assert "<think>" not in str(context.messages(cache))


def test_every_text_is_a_setting():
    texts = {"turn": "T{turn} {state} [{length}] {reward}", "length": "{max_words}!", "reward": "R{reward}"}
    context, cache = episode(
        "SimpleSokoban", ["x</think><answer>Up</answer>"], context={"texts": texts, "system_prompt": "S"}
    )
    system, first, _, second, _ = context.messages(cache)
    assert system["content"] == "S" and first["content"].endswith("[100!] ")
    assert second["content"].startswith("T2 ") and second["content"].endswith("[100!] R-0.1")


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (
            {"turn": "{stat}"},
            "context.texts.turn: it has {stat}: did you mean 'state'? Double braces that are to be shown.",
        ),
        ({"turn": "no state"}, "context.texts.turn: it needs {state} once"),
        ({"turn": "{state} {"}, "context.texts.turn: its braces are not pairs"),
        ({"reward": "{state}"}, "context.texts.reward: it has {state}: known are: reward, turn."),
        ({"turms": "x"}, "unknown key context.texts.turms: did you mean"),
    ],
)
def test_a_text_that_cannot_be_filled_in_is_refused(texts, told):
    with pytest.raises(ConfigError) as error:
        RolloutConfig.parse({"context": {"texts": texts}})
    assert told in str(error.value)


def test_what_is_given_wins_over_the_preset_and_a_tag_may_be_without_it():
    assert context_of("Bandit", answer_format="lenient", show_rewards=False).config.answers == "normalised"
    assert context_of("Bandit", answer_format="lenient").config.answer_format == "lenient"
    off = {"Mine": TagConfig(env_type="bandit", preset="off", max_tokens=9)}
    assert context_of("Mine", off).config == ContextConfig()
    own = {"Mine": TagConfig(env_type="bandit", preset="ragen", max_tokens=9, context={"prefill": False})}
    config = find_tag("Mine", own).context
    assert (config.max_words, config.prefill, config.answer_format) == (9, False, "blocks")


# ---- tokens


def test_the_tag_that_a_prompt_ends_with_is_not_in_the_mask():
    context, cache = episode("SimpleSokoban", ["so</think><answer>Up</answer>", "no idea"])
    tokenizer = CharTokenizer()
    for tokens in (tokenize(context, cache, tokenizer), *tokenize_turns(context, cache, tokenizer)[:1]):
        begin, end = tokens.spans[0]
        written = tokenizer.decode(tokens.input_ids[begin:end], False, False)
        before = tokenizer.decode(tokens.input_ids[:begin], False, False)
        assert written == f"so</think><answer>Up</answer>{END}" and before.endswith("assistant\n<think>")
        assert all(tokens.loss_mask[begin:end]) and not any(tokens.loss_mask[:begin])


# ---- their files, and what is not here


@pytest.mark.parametrize("preset", [None, "ragen"])
@pytest.mark.parametrize("name", sorted(path.name for path in RAGEN.glob("*.yaml")))
def test_all_of_their_files_load_and_play(name, preset):
    config = {**read_config(RAGEN / name), "preset": preset}
    config["es_manager"] = {**config.get("es_manager", {}), "use_multiprocessing": False}
    with EnvStateManager(config) as manager:
        context, caches, turns = Context(manager.tag_of(0)), manager.reset(), 0
        answer = "<think>so</think><answer>Up || Down</answer>"
        if manager.tag_of(0).name == "WebShop":
            answer = "<think>so</think><answer>search[shoes]</answer>"
        while caches:
            assert all(context.messages(cache) for cache in caches[:2])
            caches = manager.step([context.input(cache["env_id"], answer) for cache in caches])
            turns += 1
        assert 2 <= turns <= 15
        assert all(cache["penalty"] == 0 for cache in manager.caches)


def test_a_key_that_only_changes_what_is_shown_is_taken_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "abreast"), EnvStateManager(RAGEN / "_sokoban_multiturn.yaml"):
        pass
    assert "render_multi_actions has no effect: a turn shows the state after its last action only" in caplog.text


def test_a_data_set_that_is_not_here_is_named_before_another_stands_in(caplog, tmp_path):
    tags = ["MetamathQA", "Countdown", "WebShop", "SimpleSokoban"]
    groups = {"env_groups": 4, "group_size": 1, "env_configs": {"tags": tags}}
    with (
        caplog.at_level(logging.WARNING, "abreast"),
        EnvStateManager({"preset": "ragen", "es_manager": {"train": groups}}),
    ):
        pass
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == (
        "MetamathQA: RAGEN plays meta-math/MetaMathQA, which no env_config.data_path names, so the questions that ship"
        " stand in."
    )
    assert len(told) == 3 and told[1].startswith("Countdown: ") and told[2].startswith("WebShop: ")
    caplog.clear()
    with (
        caplog.at_level(logging.WARNING, "abreast"),
        EnvStateManager({"es_manager": {"train": groups | {"env_groups": 1, "env_configs": {"tags": ["Countdown"]}}}}),
    ):
        pass
    assert not caplog.records
