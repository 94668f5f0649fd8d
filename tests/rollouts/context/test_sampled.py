"""Tokens as an engine sampled them: sequences, masks, and what a server told."""

import pytest

from abreast.errors import RolloutError
from abreast.rollouts import Context, EnvStateManager, find_tag
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.context.sampled import Sampled, TokenEpisode, kept_of, recorded, recorded_turns
from abreast.rollouts.context.tokens import tokenize

from .tokenizers import END, PAD, CharTokenizer, chatml

ANSWERS = ["<answer>Up</answer>", "what?", "<answer>Down || Left</answer>", "", "<answer>Right</answer>"]


def play(answers, tokenizer, end=True, **context):
    """An episode of FrozenLake that is played with tokens: its context, cache and sequence."""
    config = {"context": {"enable_think": False, **context}}
    with (
        EnvStateManager.for_tag("FrozenLake", config=config, use_multiprocessing=False) as manager,
        manager.episode(seed=11) as episode,
    ):
        made = Context(episode.tag)
        tokens = TokenEpisode(made, tokenizer)
        for answer in answers:
            if episode.done:
                break
            ids = tokenizer.encode(answer + (END if end else ""), add_special_tokens=False)
            tokens.prompt(episode.cache)
            episode.step(tokens.write(ids, [-0.5] * len(ids)))
            if not end:
                episode.cache["history"][-2]["finish_reason"] = "length"
        return made, episode.cache, tokens.sequence(episode.cache)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("merges", [(), ("er>\n", "</")])
def test_a_sequence_is_what_the_tokenizer_makes_of_the_same_episode(end, merges):
    tokenizer = CharTokenizer(merges=merges)
    context, cache, sequence = play(ANSWERS, tokenizer, end)
    plain = tokenize(context, cache, tokenizer)
    assert len(sequence.spans) == context.answered(cache) > 2
    assert (sequence.input_ids, sequence.loss_mask, sequence.rewards, sequence.spans) == (
        plain.input_ids[: len(sequence.input_ids)], plain.loss_mask[: len(sequence.input_ids)],
        plain.rewards[: len(sequence.input_ids)], plain.spans,
    )  # fmt: skip
    told = [None if not is_written else -0.5 for is_written in sequence.loss_mask]
    assert sequence.logprobs == told


def test_what_the_model_wrote_stays_as_it_wrote_it():
    """A tokenizer would merge these; a model may write them apart, and is trained on what it wrote."""
    tokenizer = CharTokenizer(merges=("Up",))
    apart = [token for letter in "Up" for token in tokenizer.encode(letter, add_special_tokens=False)]
    with (
        EnvStateManager.for_tag("FrozenLake", use_multiprocessing=False) as manager,
        manager.episode(seed=1) as episode,
    ):
        tokens = TokenEpisode(Context(episode.tag), tokenizer)
        first = tokens.prompt(episode.cache)
        assert tokens.write(apart) == "Up"
        episode.step("Up")
        again = tokens.prompt(episode.cache)
    assert again[: len(first) + 2] == [*first, *apart] and tokens.sequence(episode.cache).logprobs is None


def test_an_answer_ends_at_its_first_special_token():
    tokenizer = CharTokenizer()
    with (
        EnvStateManager.for_tag("FrozenLake", use_multiprocessing=False) as manager,
        manager.episode(seed=1) as episode,
    ):
        tokens = TokenEpisode(Context(episode.tag), tokenizer)
        begin = len(tokens.prompt(episode.cache))
        ids = tokenizer.encode(f"Up{PAD}user{END}", add_special_tokens=False)
        assert tokens.write(ids) == "Up"
        episode.step("Up")
    sequence = tokens.sequence(episode.cache)
    assert sequence.input_ids[begin:] == ids[:2] and sequence.loss_mask[begin:] == [1, 1]


def test_a_template_that_changes_earlier_turns_is_refused():
    def forgets(messages, asks):
        return chatml(messages, asks, lambda message, is_last: message["content"] if is_last else "...")

    with pytest.raises(RolloutError, match=r"prompt of turn 2 does not begin with the turns before.*not one sequence"):
        play(ANSWERS, CharTokenizer(forgets))
    with pytest.raises(RolloutError, match="history window"):
        play(ANSWERS, CharTokenizer(), history_window=1)


# ---- what a server told


def record(*sampled):
    """A cache whose turns have these tokens, and its context."""
    history = []
    for each in sampled:
        entry = {"state": "P", "actions_left": 5, "actions": ["Up"], "reward": 1.0, "llm_raw_response": "Up"}
        history.append({**entry, "sampled": kept_of(history, each)})
    context = Context(find_tag("FrozenLake", {}, context=ContextConfig()))
    return context, {"penalty": 0.0, "history": [*history, {"state": "G", "actions_left": 4}]}


def test_prompts_that_go_on_are_one_sequence_and_kept_once():
    first, second = Sampled([1, 2], [3, 4], [-0.1, -0.2]), Sampled([1, 2, 3, 4, 5, 6], [7], [-0.3])
    context, cache = record(first, second)
    assert [entry.get("sampled") for entry in cache["history"][:2]] == [
        {"prompt_ids": [1, 2], "ids": [3, 4], "logprobs": [-0.1, -0.2]},
        {"added_ids": [5, 6], "ids": [7], "logprobs": [-0.3]},
    ]
    whole = recorded(context, cache)
    assert (whole.input_ids, whole.loss_mask) == ([1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 0, 0, 1])
    assert whole.logprobs == [None, None, -0.1, -0.2, None, None, -0.3] and whole.rewards == [0, 0, 0, 1, 0, 0, 1]
    turns = recorded_turns(context, cache)
    assert [turn.input_ids for turn in turns] == [[1, 2, 3, 4], [1, 2, 3, 4, 5, 6, 7]]
    assert turns[1].loss_mask == [0, 0, 0, 0, 0, 0, 1]


def test_an_answer_that_the_server_tokenised_anew_is_no_one_sequence():
    context, cache = record(Sampled([1, 2], [3, 4], [-1, -1]), Sampled([1, 2, 34, 5], [7], [-1]))
    with pytest.raises(RolloutError, match=r"turn 2 does not begin with the tokens of the turns before.*per turn"):
        recorded(context, cache)
    assert [turn.input_ids for turn in recorded_turns(context, cache)] == [[1, 2, 3, 4], [1, 2, 34, 5, 7]]


@pytest.mark.parametrize("missing", [None, Sampled(), Sampled(None, [3], [-1]), Sampled([1], None, [-1])])
def test_where_a_server_does_not_tell_all_there_is_nothing(missing):
    context, cache = record(Sampled([1, 2], [3, 4], [-1, -1]), missing)
    assert recorded(context, cache) is None and recorded_turns(context, cache) is None


def test_without_log_probabilities_the_tokens_are_still_known():
    whole = recorded(*record(Sampled([1, 2], [3, 4], None)))
    assert whole.input_ids == [1, 2, 3, 4] and whole.logprobs is None
