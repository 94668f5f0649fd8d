"""Bodies of answers, whole, streamed and broken."""

import asyncio
import json

import pytest

from abreast.rollouts.drivers.client import answers
from abreast.rollouts.drivers.client.answers import Completion, error_text, read_stream, read_whole
from abreast.rollouts.drivers.client.retries import Transient


def stream(*lines):
    async def each():
        for line in lines:
            yield line.encode() + b"\n"

    return asyncio.run(read_stream(each()))


def delta(finish=None, **message):
    return "data: " + json.dumps({"choices": [{"delta": message, "finish_reason": finish}]})


def body(**message):
    return json.dumps(
        {"choices": [{"message": message}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    ).encode()


def test_a_whole_answer():
    assert read_whole(body(content="hello")) == Completion("hello", (3, 2))
    assert read_whole(b'{"choices": [{"message": {"content": "x"}}]}') == Completion("x", None)


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_that_a_server_has_taken_out_is_put_back(key):
    whole = "<think>hm</think><answer>Up</answer>"
    assert read_whole(body(**{key: "hm", "content": "<answer>Up</answer>"})).text == whole
    assert read_whole(body(**{key: "hm", "content": whole})).text == whole  # it was left in the text as well
    assert read_whole(body(**{key: "hm", "content": None})).text == "<think>hm</think>"  # cut off while it was thinking
    assert stream(delta(**{key: "h"}), delta(**{key: "m"}), delta("stop", content="<answer>Up</answer>")).text == whole


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (body(content="hello")[:-9], "the answer is cut off or no JSON"),
        (b"", "the answer is cut off or no JSON"),
        (b"<html>", "the answer is cut off or no JSON"),
        (b"[]", "no chat completion"),
        (b'{"choices": []}', "no chat completion"),
        (b'{"choices": [{"message": {"content": 3}}]}', "no chat completion"),
        (b'{"choices": [{"message": null}]}', "no chat completion"),
        (b'{"choices": ' + b"[" * 200_000, "the answer is cut off or no JSON"),
        (b'{"error": {"message": "overloaded"}}', "the server says: overloaded"),
    ],
)
def test_what_is_no_answer_may_pass(raw, reason):
    with pytest.raises(Transient, match=reason):
        read_whole(raw)


def test_a_stream():
    usage = 'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}'
    told = stream(
        ": comment", delta(role="assistant"), delta(content="he"), "", delta(content="llo"), usage, "data: [DONE]"
    )
    assert told == Completion("hello", (3, 2))
    assert stream(delta(content="he"), delta("stop", content="y")) == Completion("hey", None)  # some never say [DONE]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [delta(content="hel")],
        [delta(content="hel"), 'data: {"choi'],
        ['data: {"error": "x"}'],
        ["data: 3"],
        ["data: [DONE]"],
        ["data: " + "[" * 200_000],
    ],
)
def test_a_stream_that_ends_too_early_may_pass(lines):
    with pytest.raises(Transient):
        stream(*lines)


def test_an_event_without_a_part_of_the_answer_is_passed_over():  # Azure sends what its filters say so
    about = 'data: {"choices": [{"index": 0, "finish_reason": null, "content_filter_offsets": {}}]}'
    assert stream(delta(content="hi"), about, delta("stop"), "data: [DONE]").text == "hi"


def test_content_parts_are_one_text():
    assert read_whole(body(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])).text == "ab"


def test_a_stream_without_end_may_pass(monkeypatch):
    monkeypatch.setattr(answers, "LARGEST", 1000)
    with pytest.raises(Transient, match="the answer is larger than"):
        stream(*[delta(content="more and more")] * 100)


def test_what_a_server_says_about_an_error():
    assert error_text(b"[" * 200_000).startswith("[[[")
    assert error_text(b'{"error": {"message": "No such\\n model.", "code": 4}}') == "No such model"
    assert error_text(b'{"error": "x"}') == error_text(b'{"message": "x"}') == error_text(b'{"detail": "x"}') == "x"
    assert error_text(b"<h1>Bad \xff Gateway</h1>") == "<h1>Bad \ufffd Gateway</h1>"
    assert len(error_text(b"x" * 1000)) == 300
