"""Tokens, masks and rewards of an episode."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from abreast.errors import RolloutError
from abreast.rollouts import Context, find_tag
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.tokens import prompt_ids, tokenize, tokenize_turns

from .tokenizers import END, START, CharTokenizer, chatml

ANSWERS = ["<think>a</think><answer>Up</answer>", "<think>b</think><answer>Down</answer>", "what?"]


def context_of(**config):
    return Context(find_tag("SimpleSokoban", {}, context=ContextConfig.parse(config)))


def episode(answers=ANSWERS, rewards=(0.5, -0.1, 2.0), penalty=0.0):
    history = [
        {"state": f"state {turn}", "actions_left": 9 - turn, "reward": reward, "info": {}}
        | {"actions": ["Up"] * bool(answer), "llm_raw_response": answer, "llm_response": "read" if answer else ""}
        for turn, (answer, reward) in enumerate(zip(answers, rewards, strict=False))
    ]
    last = {"state": "the end", "actions_left": 9 - len(history)}
    return {"env_id": 0, "tag": "SimpleSokoban", "penalty": penalty, "info": {}, "history": [*history, last]}


def written(tokens, tokenizer):
    """What the mask says the model wrote, by span."""
    pairs = list(zip(tokens.input_ids, tokens.loss_mask, strict=True))
    assert sum(tokens.loss_mask) == sum(mask for begin, end in tokens.spans for _, mask in pairs[begin:end])
    return [decode(tokenizer, [number for number, mask in pairs[begin:end] if mask]) for begin, end in tokens.spans]


def decode(tokenizer, ids):
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


def test_the_mask_holds_the_answers_and_their_ends_and_nothing_else():
    context, cache, tokenizer = context_of(), episode(), CharTokenizer()
    tokens = tokenize(context, cache, tokenizer)
    assert written(tokens, tokenizer) == [answer + END for answer in ANSWERS]
    text = chatml(context.conversation(cache), asks=False)
    assert tokens.input_ids == tokenizer.encode(text, add_special_tokens=False)
    assert "the end" not in text  # nothing is learned from what comes after the last answer
    assert {len(tokens.input_ids)} == {len(tokens.loss_mask), len(tokens.rewards)}
    assert decode(tokenizer, tokens.input_ids[: tokens.spans[0][0]]).endswith(f"{START}assistant\n")
    assert tokens.first_turn == 0


def test_an_answer_that_was_cut_off_has_not_its_end_in_the_mask():
    context, cache, tokenizer = context_of(), episode(), CharTokenizer()
    cache["history"][1]["finish_reason"] = "length"
    tokens = tokenize(context, cache, tokenizer)
    assert written(tokens, tokenizer) == [ANSWERS[0] + END, ANSWERS[1], ANSWERS[2] + END]
    assert [tokens.rewards[end - 1] for _, end in tokens.spans] == [0.5, -0.1, 2.0]
    turns = tokenize_turns(context, cache, tokenizer)
    assert [decode(tokenizer, turn.input_ids).endswith(END) for turn in turns] == [True, False, True]
    assert [turn.rewards[-1] for turn in turns] == [0.5, -0.1, 2.0]


def test_rewards_are_at_the_end_of_each_answer():
    tokens = tokenize(context_of(), episode(), CharTokenizer())
    placed = {place: reward for place, reward in enumerate(tokens.rewards) if reward}
    assert placed == {end - 1: reward for (_, end), reward in zip(tokens.spans, (0.5, -0.1, 2.0), strict=True)}


def test_penalties_lower_the_reward_of_their_turn_or_else_the_last():
    cache = episode(penalty=-0.3)
    tokens = tokenize(context_of(), cache, CharTokenizer())
    assert [reward for reward in tokens.rewards if reward] == pytest.approx([0.5, -0.1, 1.7])
    cache["history"][1]["penalty"] = -0.2
    tokens = tokenize(context_of(), cache, CharTokenizer())
    assert [reward for reward in tokens.rewards if reward] == pytest.approx([0.5, -0.3, 1.9])


def test_each_turn_may_be_a_sequence_of_its_own():
    context, cache, tokenizer = context_of(), episode(), CharTokenizer()
    turns = tokenize_turns(context, cache, tokenizer)
    assert [written(tokens, tokenizer) for tokens in turns] == [[answer + END] for answer in ANSWERS]
    assert [tokens.first_turn for tokens in turns] == [0, 1, 2]
    assert [tokens.rewards[-1] for tokens in turns] == [0.5, -0.1, 2.0]
    for turn, tokens in enumerate(turns):
        prompt = decode(tokenizer, tokens.input_ids[: tokens.spans[0][0]])
        assert prompt == chatml(context.messages(cache, turn=turn), asks=True)


def test_the_prompt_of_the_newest_turn():
    context, cache, tokenizer = context_of(), episode(), CharTokenizer()
    assert decode(tokenizer, prompt_ids(context, cache, tokenizer)) == chatml(context.messages(cache), asks=True)


def test_answers_may_be_trained_on_in_their_normal_form():
    tokenizer = CharTokenizer()
    tokens = tokenize(context_of(answers="normalised"), episode(), tokenizer)
    assert written(tokens, tokenizer) == [f"read{END}"] * 3


# ---- templates and tokenizers that would make masks wrong


def forgets(messages, asks):
    """As the templates of many thinking models: only the last answer keeps its reasoning."""

    def content(message, is_last):
        is_old = message["role"] == "assistant" and not is_last
        return message["content"].rpartition("</think>")[2] if is_old else message["content"]

    return chatml(messages, asks, content)


def opens_think(messages, asks):
    return chatml(messages, asks, opening=f"{START}assistant\n<think>\n")


def rewrites(messages, asks):
    return chatml(messages, asks, lambda message, is_last: message["content"].replace("<think>", "<think>\n"))


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (forgets, "changes the text of turn 1 when later turns are added (many remove earlier reasoning)"),
        (opens_think, "does not show the answer of turn 1 as the model wrote it, right after the prompt"),
        (rewrites, "does not show the answer of turn 1 as the model wrote it, right after the prompt"),
    ],
)
def test_a_template_that_changes_answers_is_refused_for_one_sequence_and_works_by_turns(template, told):
    context, cache, tokenizer = context_of(), episode(), CharTokenizer(template)
    with pytest.raises(RolloutError) as error:
        tokenize(context, cache, tokenizer)
    assert told in str(error.value) and "use tokenize_turns, or pass a chat_template=" in str(error.value)
    turns = tokenize_turns(context, cache, tokenizer)
    assert [written(tokens, tokenizer) for tokens in turns] == [[answer + END] for answer in ANSWERS]
    for turn, tokens in enumerate(turns):
        prompt = decode(tokenizer, tokens.input_ids[: tokens.spans[0][0]])
        assert prompt == template(context.messages(cache, turn=turn), True)
    assert written(tokenize(context, cache, tokenizer, chat_template=chatml), tokenizer)[0] == ANSWERS[0] + END


def test_a_template_may_trim_answers():
    tokenizer = CharTokenizer(lambda messages, asks: chatml(messages, asks, lambda each, last: each["content"].strip()))
    tokens = tokenize(context_of(), episode(["\n one \n", " ", "two"]), tokenizer)
    assert written(tokens, tokenizer) == [f"one{END}", END, f"two{END}"]


@pytest.mark.parametrize("answer", ["\nUp", "\n", "", "Up\n"])
def test_tokens_that_reach_over_the_border_are_taken_apart(answer):
    tokenizer = CharTokenizer(merges=["\n\n", "t\n"])
    tokens = tokenize(context_of(), episode([answer] * 2), tokenizer)
    assert written(tokens, tokenizer) == [answer + END] * 2
    assert decode(tokenizer, tokens.input_ids).count(f"{START}assistant\n{answer}{END}") == 2
    assert written(tokenize_turns(context_of(), episode([answer]), tokenizer)[0], tokenizer) == [answer + END]


def test_a_tokenizer_that_adds_a_blank_is_read_right_or_refused():
    tokenizer = CharTokenizer(blank_first=True)  # as SentencePiece does at the beginning of a text
    assert written(tokenize(context_of(), episode(), tokenizer), tokenizer) == [answer + END for answer in ANSWERS]
    tokenizer = CharTokenizer(blank_first=True, merges=["\n<"])
    with pytest.raises(RolloutError, match="tokens that reach over the border of a prompt and an answer"):
        tokenize(context_of(), episode(), tokenizer)


class NoEncode:
    chat_template = "a template"

    def apply_chat_template(self):
        """Never called."""


def needs_no_system(messages, asks):
    if messages[0]["role"] == "system":
        raise ValueError("System role not supported")
    return chatml(messages, asks)


@pytest.mark.parametrize(
    ("tokenizer", "told"),
    [
        (CharTokenizer(None), "the tokenizer chars has no chat template, so messages cannot become tokens"),
        (object(), "the tokenizer object has no method apply_chat_template: expected one of Hugging Face's shape."),
        (NoEncode(), "the tokenizer NoEncode has no method encode"),
        (CharTokenizer(special=[]), "in which there is no special token, so a model could not learn where to stop"),
        (CharTokenizer(lambda messages, asks: chatml(messages, asks, end="")), "in which there is no special token"),
        (
            CharTokenizer(needs_no_system),
            "not supported. Without a place for a system message, set context.system_prompt",
        ),
    ],
)
def test_a_tokenizer_that_cannot_do_it_is_refused(tokenizer, told):
    for make in (tokenize, tokenize_turns):
        with pytest.raises(RolloutError) as error:
            make(context_of(), episode(), tokenizer)
        assert told in str(error.value)


def test_without_a_system_prompt_there_is_no_system_message():
    tokenizer = CharTokenizer(needs_no_system)
    assert written(tokenize(context_of(system_prompt=""), episode(), tokenizer), tokenizer)[0] == ANSWERS[0] + END


def test_an_end_of_turn_token_inside_an_answer_is_refused():
    end = "<turn_end>"
    tokenizer = CharTokenizer(lambda messages, asks: chatml(messages, asks, end=end), special=[START, end])
    for make in (tokenize, tokenize_turns):
        with pytest.raises(RolloutError, match="the answer of turn 2 holds the end-of-turn token of chars"):
            make(context_of(), episode(["a", f"b{end}c"]), tokenizer)
    tokens = tokenize(context_of(special_tokens=[end]), episode(["a", f"b{end}c"]), tokenizer)
    assert written(tokens, tokenizer) == [f"a{end}", f"b{end}"]  # what came after it is left out


def test_special_tokens_that_are_only_declared_as_added_are_found():
    class Added(CharTokenizer):
        added_tokens_decoder = {1: type("AddedToken", (), {"special": True})()}

    tokenizer = Added()
    tokenizer.all_special_ids, tokenizer.eos_token_id = [2], 2
    assert written(tokenize(context_of(), episode(), tokenizer), tokenizer)[0] == ANSWERS[0] + END


def test_pictures_need_a_processor():
    cache = episode()
    cache["history"][0] |= {"state": "<images>", "images": [Image.new("RGB", (2, 2))]}
    with pytest.raises(RolloutError, match="a tokenizer takes texts only: give the processor"):
        tokenize(context_of(), cache, CharTokenizer())


def test_without_an_answer_there_is_nothing_to_train_on():
    for make in (tokenize, tokenize_turns):
        with pytest.raises(RolloutError, match="the episode has no answer yet"):
            make(context_of(), episode([]), CharTokenizer())


# ---- limits


def test_too_many_tokens_are_refused_or_cost_the_oldest_turns():
    cache, tokenizer = episode(), CharTokenizer()
    whole = tokenize(context_of(), cache, tokenizer)
    limit = {"max_prompt_tokens": len(whole.input_ids) - 1}
    with pytest.raises(RolloutError, match=r"the prompt has [\d,]+ tokens, but max_prompt_tokens is [\d,]+: raise it"):
        tokenize(context_of(**limit), cache, tokenizer)
    assert tokenize(context_of(max_prompt_tokens=len(whole.input_ids)), cache, tokenizer) == whole
    dropping = context_of(**limit, when_too_long="drop_oldest")
    tokens = tokenize(dropping, cache, tokenizer)
    assert tokens.first_turn == 1 and written(tokens, tokenizer) == [answer + END for answer in ANSWERS[1:]]
    assert [reward for reward in tokens.rewards if reward] == [-0.1, 2.0]
    text = decode(tokenizer, tokens.input_ids)
    assert dropping.instruction in text and dropping.system in text and "state 0" not in text
    with pytest.raises(RolloutError, match=r"even with its last turn alone, but max_prompt_tokens is 10: raise it\.$"):
        tokenize(context_of(max_prompt_tokens=10, when_too_long="drop_oldest"), cache, tokenizer)


def test_prompts_keep_the_limit_too_in_play_and_in_training():
    cache, tokenizer = episode(), CharTokenizer()
    sizes = [tokens.spans[0][0] for tokens in tokenize_turns(context_of(), cache, tokenizer)]
    dropping = context_of(max_prompt_tokens=sizes[1], when_too_long="drop_oldest")
    turns = tokenize_turns(dropping, cache, tokenizer)
    assert [tokens.spans[0][0] for tokens in turns][:2] == sizes[:2] and turns[2].spans[0][0] <= sizes[1]
    assert len(prompt_ids(dropping, cache, tokenizer)) <= sizes[1]
    with pytest.raises(RolloutError, match="raise it"):
        prompt_ids(context_of(max_prompt_tokens=sizes[1]), cache, tokenizer)


def test_a_window_shorter_than_the_episode_is_not_one_sequence():
    cache, tokenizer = episode(), CharTokenizer()
    with pytest.raises(RolloutError, match=r"history_window is 2, but the episode has 3 turns.*Use tokenize_turns"):
        tokenize(context_of(history_window=2), cache, tokenizer)
    assert tokenize(context_of(history_window=3), cache, tokenizer) == tokenize(context_of(), cache, tokenizer)
    last = tokenize_turns(context_of(history_window=1), cache, tokenizer)[2]
    assert "state 1" not in decode(tokenizer, last.input_ids)


def _has_end(answer):
    """Whether the first special token of an answer, if there is any, is the end of the turn."""
    found = re.search(r"<\|[a-z_]*\|>|</s>", answer)
    return found is None or found[0] == END


PIECES = st.lists(
    st.sampled_from(["\n", "\n\n", " ", "a", "<think>", END, START, "</s>", "<|im_", "end|>", "√"]), max_size=8
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(PIECES.map("".join), min_size=1, max_size=4), st.sets(st.sampled_from(["\n\n", "\na", "a\n", " a", "t\n"]))
)
def test_masks_are_right_for_any_answers(answers, merges):
    context, cache = context_of(), episode(answers, [1.0] * 4)
    tokenizer = CharTokenizer(merges=sorted(merges))
    shown = [
        context.shown(entry)[0] + END * _has_end(answer)
        for entry, answer in zip(cache["history"], answers, strict=False)
    ]
    tokens = tokenize(context, cache, tokenizer)
    assert written(tokens, tokenizer) == shown
    assert decode(tokenizer, tokens.input_ids) == chatml(context.conversation(cache), asks=False)
    assert [written(each, tokenizer)[0] for each in tokenize_turns(context, cache, tokenizer)] == shown
