"""Bodies of answers, whole, streamed and broken."""

import json

import pytest

from abreast.rollouts.drivers.client import Transient, error_text, read_answer


def stream(*lines):
    return read_answer("\n".join(lines).encode(), is_stream=True)


def delta(finish=None, **message):
    return "data: " + json.dumps({"choices": [{"delta": message, "finish_reason": finish}]})


def body(**message):
    return json.dumps(
        {"choices": [{"message": message}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    ).encode()


def test_a_whole_answer():
    assert read_answer(body(content="hello")) == ("hello", (3, 2), None, [])
    assert read_answer(b'{"choices": [{"message": {"content": "x"}}]}') == ("x", None, None, [])
    assert read_answer(body(content=None, refusal="I will not."))[0] == "I will not."


def test_an_answer_that_the_limit_has_cut_off_is_told_from_a_whole_one():
    cut = b'{"choices": [{"message": {"content": "x"}, "finish_reason": "length"}]}'
    assert read_answer(cut)[2] == "length" and read_answer(body(content="x"))[2] is None
    assert stream(delta(content="x"), delta("length"))[2] == "length"
    assert stream(delta("stop", content="x"))[2] == "stop"


def test_tool_calls_are_read_whole_and_in_pieces():
    calls = [
        {"function": {"name": "go", "arguments": '{"to": 1}'}},
        {"function": {"name": "stop", "arguments": {"a": 1}}},
    ]
    assert read_answer(body(tool_calls=calls))[3] == [("go", '{"to": 1}'), ("stop", '{"a": 1}')]
    assert read_answer(body(function_call={"name": "go", "arguments": "{}"}))[3] == [("go", "{}")]
    pieces = [{"index": 0, "function": {"name": "go", "arguments": ""}}, {"index": 0, "function": {"arguments": '{"to"'}},
              {"index": 1, "function": {"name": "stop"}}, {"index": 0, "function": {"arguments": ": 1}"}}]  # fmt: skip
    told = stream(*(delta(tool_calls=[piece]) for piece in pieces), delta("tool_calls"))
    assert told == ("", None, "tool_calls", [("go", '{"to": 1}'), ("stop", "")])


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_that_a_server_has_taken_out_is_put_back(key):
    whole = "<think>hm</think><answer>Up</answer>"
    assert read_answer(body(**{key: "hm", "content": "<answer>Up</answer>"}))[0] == whole
    assert read_answer(body(**{key: "hm", "content": whole}))[0] == whole  # it was left in the text as well
    assert read_answer(body(**{key: "hm", "content": None}))[0] == "<think>hm</think>"  # cut off while it was thinking
    assert stream(delta(**{key: "h"}), delta(**{key: "m"}), delta("stop", content="<answer>Up</answer>"))[0] == whole


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (body(content="hello")[:-9], "the answer is cut off"),
        (b"", "the answer is cut off"),
        (b"<html>", "the answer is cut off"),
        (b"[]", "or no chat completion"),
        (b'{"choices": []}', "ended before it was complete"),
        (b'{"choices": [{"message": {"content": 3}}]}', "or no chat completion"),
        (b'{"choices": [{"message": null}]}', "or no chat completion"),
        (b'{"choices": ' + b"[" * 200_000, "the answer is cut off"),
        (b'{"error": {"message": "overloaded"}}', "the server reports an error"),
    ],
)
def test_what_is_no_answer_may_pass(raw, reason):
    with pytest.raises(Transient, match=reason):
        read_answer(raw)


def test_a_stream():
    usage = 'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}'
    told = stream(
        ": comment", delta(role="assistant"), delta(content="he"), "", delta(content="llo"), usage, "data: [DONE]"
    )
    assert told == ("hello", (3, 2), None, [])
    assert stream(delta(content="he"), delta("stop", content="y"))[0] == "hey"  # some never say [DONE]


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
    assert stream(delta(content="hi"), about, delta("stop"), "data: [DONE]")[0] == "hi"


def test_content_parts_are_one_text():
    assert read_answer(body(content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))[0] == "ab"


def test_what_a_server_says_about_an_error():
    assert error_text(b"[" * 200_000).startswith("[[[")
    assert error_text(b'{"error": {"message": "No such\\n model.", "code": 4}}') == "No such\n model."
    assert error_text(b'{"error": "x"}') == error_text(b'{"message": "x"}') == error_text(b'{"detail": "x"}') == "x"
    assert error_text(b"<h1>Bad \xff Gateway</h1>") == "<h1>Bad \ufffd Gateway</h1>"
