"""Token ids, log-probabilities, calls and sampling settings: from a server to trajectories and exports."""

import json
import logging

import pytest

from abreast.cli import run
from abreast.rollouts.drivers.client import read_sampled
from abreast.rollouts.drivers.export import export
from llm_server import LLMServer, Status, Text


class Chars:
    """A tokenizer on the server's side: one token a character; prompts are the whole chat, with ends of turns."""

    END = 7

    def prompt(self, messages):
        ids = []
        for message in messages:
            ids += [*map(ord, f"{message['role']}:{message['content']}"), self.END]
        return [*ids, *map(ord, "assistant:")]

    def answer(self, text):
        return [*map(ord, text), self.END]


def telling(text="<answer>Up</answer>", **more):
    def behave(request):
        ids = Chars().answer(text)
        return Text(text, sampled=(Chars().prompt(request.body["messages"]), ids, [-0.25] * len(ids)), **more)

    return behave


def rollout(server, folder, *more):
    told = [
        "rollout",
        "FrozenLake",
        "--policy",
        "openai",
        "--base-url",
        server.url,
        "--episodes",
        "2",
        "--output",
        str(folder),
    ]
    assert run([*told, "-q", "es_manager.use_multiprocessing=false", *more]) == 0
    return [json.loads(line) for line in (folder / "trajectories.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_server_tells_of_its_tokens_is_kept_and_exported_and_nothing_tokenised(stream, tmp_path, caplog):
    with LLMServer(telling()) as server:
        more = ["--keep-tokens", "--in-flight", "1", "sampling.temperature=0.5", *["--stream"] * stream]
        lines = rollout(server, tmp_path / "run", *more)
    assert server.requests[0].body["logprobs"] is True and server.requests[0].body["return_token_ids"] is True
    line = lines[0]
    kept, turns = line["history"][0]["sampled"], len(line["answers"])
    assert (
        turns > 1 and kept["ids"] == Chars().answer("<answer>Up</answer>") and line["sampling"] == {"temperature": 0.5}
    )
    assert "added_ids" in line["history"][1]["sampled"] and "does not give" not in caplog.text
    export(tmp_path / "run", tmp_path / "whole.jsonl")
    row = json.loads((tmp_path / "whole.jsonl").read_text().splitlines()[0])
    assert row["input_ids"] == [*Chars().prompt(server.requests[turns - 1].body["messages"]), *kept["ids"]]
    assert sum(row["loss_mask"]) == turns * len(kept["ids"]) and len(row["logprobs"]) == len(row["input_ids"])
    assert all((told == -0.25) == bool(mask) for told, mask in zip(row["logprobs"], row["loss_mask"], strict=True))
    assert row["finish_reasons"] == ["stop"] * turns and json.loads(row["sampling"]) == {"temperature": 0.5}
    assert sum(row["token_rewards"]) == pytest.approx(row["score"])
    assert export(tmp_path / "run", tmp_path / "turns.parquet", per_turn=True) == sum(
        len(each["answers"]) for each in lines
    )
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(tmp_path / "turns.parquet").to_pylist()
    assert table[1]["finish_reason"] == "stop" and table[1]["logprobs"][-1] == -0.25 and table[1]["loss_mask"][-1] == 1


def test_a_server_that_tells_nothing_is_said_once_and_it_is_null(tmp_path, caplog):
    with LLMServer(lambda request: Text("<answer>Up</answer>")) as server, caplog.at_level(logging.WARNING, "abreast"):
        lines = rollout(server, tmp_path / "run", "--keep-tokens")
    assert lines[0]["history"][0]["sampled"] is None
    assert caplog.text.count("does not give prompt_ids and ids and logprobs") == 1
    export(tmp_path / "run", tmp_path / "whole.jsonl")
    assert "input_ids" not in json.loads((tmp_path / "whole.jsonl").read_text().splitlines()[0])


def test_a_server_that_refuses_the_key_is_asked_without_it(tmp_path):
    def strict(request):
        if "return_token_ids" in request.body:
            return Status(400, "Unrecognized request argument supplied: return_token_ids")
        return telling()(request)

    with LLMServer(strict) as server:
        lines = rollout(server, tmp_path / "run", "--keep-tokens", "--in-flight", "1")
    asked = ["return_token_ids" in request.body for request in server.requests]
    assert asked[0] and not any(asked[1:])
    kept = lines[0]["history"][0]["sampled"]
    assert kept["ids"] is None and kept["logprobs"][0] == -0.25


def test_without_the_setting_nothing_is_asked_for_and_nothing_kept(tmp_path):
    with LLMServer(telling()) as server:
        lines = rollout(server, tmp_path / "run")
    assert not {"logprobs", "return_token_ids", "tools"} & server.requests[0].body.keys()
    assert "sampled" not in lines[0]["history"][0]


def test_forms_of_other_servers_and_nonsense():
    named = {"token": "token_id:5", "logprob": -1.0}
    sent = {"choices": [{"logprobs": {"content": [named]}, "prompt_token_ids": [1]}]}
    assert read_sampled(json.dumps(sent).encode()) == ([1], [5], [-1.0])
    for choice in (
        {"token_ids": [1, 2], "logprobs": {"content": [named]}},  # of another length
        {"token_ids": [1], "logprobs": {"content": [{"logprob": float("-inf")}]}},
    ):
        assert read_sampled(json.dumps({"choices": [choice]}).encode()).logprobs is None
    for body in (b"", b"[]", b'{"choices": 3}', b'{"choices": [{"token_ids": "abc", "logprobs": 7}]}', b"[" * 10**5):
        assert read_sampled(body) == (None, None, None)


def test_tools_are_sent_and_calls_are_taken_and_sent_back(tmp_path):
    called = [{"id": "x", "type": "function", "function": {"name": "act", "arguments": '{"action": "Up"}'}}]
    broken = [{"id": "x", "type": "function", "function": {"name": "act", "arguments": '{"action"'}}]

    def behave(request):
        sent = [call for message in request.body["messages"] for call in message.get("tool_calls", ())]
        try:
            assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in sent)
        except ValueError as error:  # as vLLM
            return Status(400, f"Invalid arguments: {error}")
        return Text("", delta={"tool_calls": broken if request.number == 0 else called}, finish_reason="tool_calls")

    with LLMServer(behave) as server:
        more = ["context.tools=true", "--in-flight", "1", "--episodes", "1"]
        (line,) = rollout(server, tmp_path / "run", *more)
    assert server.requests[0].body["tools"][0]["function"]["name"] == "act"
    history = line["history"]
    assert history[0]["actions"] == [] and history[1]["actions"] == ["Up"] and history[1]["calls"][0]["name"] == "act"
    assert line["penalty"] == pytest.approx(history[0]["penalty"]) and history[0]["penalty"] < 0
    sent = server.requests[1].body["messages"]
    assert sent[-2]["tool_calls"][0]["function"]["name"] == "act" and sent[-1]["role"] == "tool"
    why = """the arguments are '{"action"': they must be a JSON object."""
    assert sent[-1]["content"].startswith(f"Not executed: {why}\n") and "no valid action" not in str(sent)
    assert history[0]["calls"] == [{"name": "act", "arguments": '{"action"', "why": why}] and line["error"] is None
    assert history[0]["invalid"] == [f"the call of act was not executed: {why}"]
    assert (
        run(["rollout", "FrozenLake", "--policy", "replay", str(tmp_path / "run"), "--output", str(tmp_path / "again")])
        == 0
    )
