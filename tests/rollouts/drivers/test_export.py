"""Trajectories for trainers."""

import json
import re
import sys

import pyarrow.parquet
import pytest

import varied_env  # noqa: F401 (registers it)
from abreast.errors import RolloutError, RunFolderError
from abreast.rollouts import Context, EnvStateManager, RolloutConfig
from abreast.rollouts.context.tokens import tokenize, tokenize_turns
from abreast.rollouts.drivers.config import PlayConfig
from abreast.rollouts.drivers.export import digest_of, export, of_manager
from abreast.rollouts.drivers.play import play_episodes
from abreast.rollouts.drivers.policies.base import Answer, Policy, Tokens
from abreast.rollouts.drivers.trajectories import Trajectories
from rollout_helpers import settings

GO = "<think>é√ \ud83d</think><answer>Go</answer>"


class Says(Policy):
    async def __call__(self, asked):
        return Answer(GO if asked.number % 2 else ["Go"], Tokens(7, 2))


def make_run(folder, tag="varied", **context):
    config = RolloutConfig.parse({**settings([tag], [4], use_multiprocessing=False), "context": context})
    with (
        EnvStateManager(config) as manager,
        Trajectories(folder, config, PlayConfig(tag=tag), "a test", "1.2.3") as kept,
    ):
        play_episodes(manager, Says(), kept.add)
    return folder


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path)


def read(path):
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_both_formats_hold_the_same_rows(run, tmp_path):
    assert export(run, tmp_path / "a.jsonl") == export(run, str(tmp_path / "a.parquet")) == 4
    lines, table = read(tmp_path / "a.jsonl"), read(tmp_path / "a.parquet")
    lone = json.loads(json.dumps(lines).replace("\\ud83d", "\\ufffd"))  # Parquet cannot hold half a character
    assert lone == table
    row = lines[3]
    assert [line["episode"] for line in lines] == [0, 1, 2, 3]
    assert row["messages"][0]["role"] == "system" and row["messages"][-1]["role"] == "assistant"
    assert row["answers"] == [GO] * 4 and row["rewards"] == [1.0] * 4 and row["num_turns"] == 4
    assert lines[2]["answers"] == ["<think></think><answer>Go</answer>"] * 3
    about = {key: row[key] for key in ("group_id", "tag", "env_type", "seed", "success", "reward", "penalty", "error")}
    assert about == {
        "group_id": 3, "tag": "varied", "env_type": "varied", "seed": 10_003, "success": True, "reward": 4.0, "penalty": 0.0,
        "error": None,
    }  # fmt: skip
    assert (row["prompt_tokens"], row["completion_tokens"], row["abreast_version"]) == (28, 8, "1.2.3")
    assert row["config_digest"] == lines[0]["config_digest"] and len(row["config_digest"]) == 16


def test_a_row_for_each_turn_holds_its_own_prompt(tmp_path):
    run = make_run(tmp_path, history_window=1)
    assert export(run, tmp_path / "a.parquet", per_turn=True) == 1 + 2 + 3 + 4
    rows = [row for row in read(tmp_path / "a.parquet") if row["episode"] == 3]
    assert [(row["turn"], row["turn_reward"]) for row in rows] == [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0)]
    for turn, row in enumerate(rows):
        assert [message["role"] for message in row["messages"]] == ["system", "user"]
        assert f"turn {turn} of 4" in row["messages"][-1]["content"]


class Letters:
    """A tokenizer in which every character is a token, and 1 ends a turn."""

    name_or_path, chat_template, eos_token, eos_token_id, all_special_ids = "letters", "yes", "\x01", 1, [1]
    all_special_tokens = ("\x01",)
    added_tokens_decoder = {}

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        text = "".join(f"{message['role']}:{message['content']}\x01" for message in messages)
        return f"{text}assistant:" if add_generation_prompt else text

    def encode(self, text, add_special_tokens):
        return [ord(letter) for letter in text]

    def decode(self, ids, **options):
        return "".join(map(chr, ids))


def test_with_a_tokenizer_rows_hold_tokens_and_masks(run, tmp_path):
    export(run, tmp_path / "a.parquet", Letters())
    export(run, tmp_path / "turns.jsonl", Letters(), per_turn=True)
    with EnvStateManager(settings(["varied"], [4], use_multiprocessing=False)) as manager:
        context, played = Context(manager.tag_of(0)), []
        play_episodes(manager, Says(), played.append)
    turns = iter(read(tmp_path / "turns.jsonl"))
    for row, each in zip(read(tmp_path / "a.parquet"), sorted(played, key=lambda each: each.number), strict=True):
        whole = tokenize(context, each.cache, Letters())
        assert (row["input_ids"], row["loss_mask"], row["token_rewards"]) == (
            whole.input_ids,
            whole.loss_mask,
            whole.rewards,
        )
        assert sum(row["token_rewards"]) == row["reward"]
        written = "".join(chr(token) for token, mask in zip(row["input_ids"], row["loss_mask"], strict=True) if mask)
        assert written.count("<answer>Go</answer>\x01") == row["num_turns"]
        for one in tokenize_turns(context, each.cache, Letters()):
            assert next(turns)["input_ids"] == one.input_ids
    assert next(turns, None) is None


def test_a_tokenizer_that_cannot_be_used_leaves_no_file(run, tmp_path):
    class NoTemplate(Letters):
        chat_template = None

    with pytest.raises(RolloutError, match="has no chat template"):
        export(run, tmp_path / "a.jsonl", NoTemplate())
    assert not list(tmp_path.glob("a*"))


def test_the_episodes_of_a_manager(tmp_path):
    with EnvStateManager(settings(["varied", "FrozenLake"], [2, 1], 2, use_multiprocessing=False)) as manager:
        assert export(manager, tmp_path / "none.parquet") == 0
        outputs = manager.reset()
        context = Context(manager.tag_of(0))
        for _ in range(2):
            outputs = manager.step([context.input(cache["env_id"], GO) for cache in outputs if cache["env_id"] < 4])
        export(manager, tmp_path / "a.parquet")
    rows = read(tmp_path / "a.parquet")
    assert read(tmp_path / "none.parquet") == []
    assert [row["group_id"] for row in rows] == [0, 0, 1, 1, 2, 2]
    assert [row["terminated"] for row in rows] == [True] * 4 + [False] * 2
    assert [row["num_turns"] for row in rows] == [1, 1, 2, 2, 0, 0] and rows[3]["answers"] == [
        GO.replace("\ud83d", "\ufffd")
    ] * 2
    assert rows[0]["config_digest"] == digest_of(manager.config)


def test_pictures_are_files_beside_the_export(tmp_path):
    with EnvStateManager(settings(["VisualSokoban"], use_multiprocessing=False)) as manager:
        manager.reset()
        manager.step([{"env_id": 0, "actions": ["Up"]}])
        export(manager, tmp_path / "a.jsonl")
    row = read(tmp_path / "a.jsonl")[0]
    assert row["images"] == ["a_images/000000.png"] and (tmp_path / row["images"][0]).read_bytes().startswith(
        b"\x89PNG"
    )
    assert sum(message["content"].count("<image>") for message in row["messages"]) == 1


def test_an_episode_that_cannot_be_exported_is_named_and_skipped(run, tmp_path, caplog):
    class Short(Letters):
        """Cannot take the longest episode."""

        def apply_chat_template(self, messages, tokenize, add_generation_prompt):
            if len(messages) > 8:
                raise ValueError("too many messages")
            return super().apply_chat_template(messages, tokenize, add_generation_prompt)

    skipped = {}
    assert export(run, tmp_path / "a.jsonl", Short(), skipped=skipped) == 3
    assert [row["episode"] for row in read(tmp_path / "a.jsonl")] == [0, 1, 2] and [*skipped] == [3]
    assert re.search(r"1 of 4 episodes are not in .*a\.jsonl, because .* too many messages.*Skipped: 3", caplog.text)


def test_with_a_tokenizer_episodes_with_pictures_are_skipped(tmp_path, caplog):
    with EnvStateManager(settings(["VisualSokoban", "varied"], use_multiprocessing=False)) as manager:
        manager.reset()
        manager.step([{"env_id": 0, "actions": ["Up"]}, {"env_id": 1, "actions": ["Go"]}])
        assert export(manager, tmp_path / "a.jsonl", Letters()) == 1
        assert "Skipped: 0" in caplog.text and "pictures" in caplog.text
        with pytest.raises(
            RolloutError, match=r"no episode could be exported to .*b\.jsonl: the messages hold pictures"
        ):
            source = of_manager(manager, tmp_path / "b.jsonl")
            export(source._replace(lines=source.lines[:1]), tmp_path / "b.jsonl", Letters())
    assert not (tmp_path / "b.jsonl").exists()


def test_the_digest_tells_episodes_apart_and_nothing_else():
    plain = digest_of(RolloutConfig.parse({}))
    assert plain == digest_of(RolloutConfig.parse({"es_manager": {"max_workers": 3, "use_multiprocessing": True}}))
    for other in (
        {"seed": {"train": 1}},
        {"context": {"enable_think": False}},
        {"es_manager": {"format_penalty": 1.0}},
    ):
        assert digest_of(RolloutConfig.parse(other)) != plain


def test_mistakes(run, tmp_path, monkeypatch):
    with pytest.raises(
        RolloutError, match=r"cannot export to .*a\.csv: expected a name that ends with \.jsonl or \.parquet"
    ):
        export(run, tmp_path / "a.csv")
    (run / "config.yaml").rename(run / "other.yaml")
    with pytest.raises(
        RunFolderError, match=r"is no run of `abreast rollout` that could be used: it has no config\.yaml"
    ):
        export(run, tmp_path / "a.jsonl")
    (run / "other.yaml").rename(run / "config.yaml")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        RolloutError, match=r'needs the package pyarrow: pip install "abreast\[parquet\]", or write \.jsonl'
    ):
        export(run, tmp_path / "a.parquet")
    assert not list(tmp_path.glob("a*"))
