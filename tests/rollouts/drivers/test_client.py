"""The client, against a real server: what is sent, and one sentence for everything that goes wrong."""

import asyncio
import socket
import sys
import tracemalloc

import pytest

from abreast.errors import ConfigError, RolloutError
from abreast.rollouts.context.config import ContextConfig
from abreast.rollouts.drivers import client as client_module
from abreast.rollouts.drivers.client import OpenAIPolicy
from abreast.rollouts.drivers.config import ServerConfig
from abreast.rollouts.drivers.policies.base import Asked, Unanswered
from abreast.rollouts.registry import find_tag
from llm_server import Drop, LLMServer, Raw, Status, Text

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_S", 0.001)


def ask(url, messages=HELLO, context=None, **config):
    """The answer, and the counts."""
    tag = find_tag("Bandit", {}, context=ContextConfig.parse(context or {}))
    client = OpenAIPolicy(ServerConfig(base_url=url, **config))

    async def run():
        await client.start()
        try:
            return await client(Asked(0, 0, tag, {"history": [{}]}, lambda: messages))
        finally:
            await client.close()

    return asyncio.run(run()), client.counts


def refused(match, url, kind=RolloutError, **config):
    with pytest.raises(kind, match=match) as told:
        ask(url, **config)
    assert str(told.value).endswith(".") and "\n" not in str(told.value)


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_sent_and_what_comes_back(stream, monkeypatch):
    monkeypatch.setenv("MY_KEY", " secret ")
    with LLMServer(lambda request: Text("Hi there!", usage=(7, 3)), key="secret") as server:
        more = {"sampling": {"temperature": 0.5, "max_tokens": 9}, "stream": stream, "api_key_env": "MY_KEY"}
        (text, tokens, reason, calls, *_), counts = ask(server.url + "/", **more)
    sent = server.requests[0].body
    if stream:
        assert sent.pop("stream") is True and sent.pop("stream_options") == {"include_usage": True}
    assert sent == {"model": "tiny", "messages": HELLO, "temperature": 0.5, "max_tokens": 9}
    assert (text, tokens, reason, calls) == ("Hi there!", (7, 3), "stop", [])
    assert (counts.requests, counts.retries, counts.uncounted, counts.tokens) == (1, 0, 0, (7, 3))


def test_answers_without_token_counts_are_counted():
    with LLMServer(lambda request: Text("x", usage=None)) as server:
        assert ask(server.url)[1].uncounted == 1


def test_a_server_that_streams_though_it_was_not_asked_to_is_understood_and_the_other_way_round():
    with LLMServer(lambda request: Raw(b'{"choices": [{"message": {"content": "whole"}}]}')) as server:
        assert ask(server.url, stream=True)[0][0] == "whole"


def test_no_server_at_the_url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]  # nothing listens there
        refused(
            rf"no server answers at http://127.0.0.1:{port}/v1 \(.+\): start one, or correct --base-url",
            f"http://127.0.0.1:{port}/v1",
        )
    refused("no server answers at http://no-such-host.invalid/v1", "http://no-such-host.invalid/v1")


def test_an_address_that_is_none():
    with pytest.raises(
        ConfigError, match="base_url is 'localhost:8000': expected an address such as http://localhost:8000"
    ):
        ServerConfig.parse({"base_url": "localhost:8000"})
    with pytest.raises(RolloutError, match="needs a server: give its address, say --base-url http"):
        OpenAIPolicy(ServerConfig())


@pytest.mark.parametrize(
    "url", ["http://", "http:///v1", "http://[::1", "http://localhost:abc/v1", "http://a:99999", "http://a/v1?x=1"]
)
def test_an_address_to_which_nothing_can_be_sent(url):
    with pytest.raises(ConfigError, match=r"base_url is .*: expected an address such as http://localhost:8000"):
        ServerConfig.parse({"base_url": url})


def test_an_address_that_redirects():
    with LLMServer(lambda request: Status(308, "", {"Location": "https://there/v1"})) as server:
        refused(r"redirects to https://there/v1 \(status 308\): give the address that answers itself", server.url)


def test_a_key_of_two_lines(monkeypatch):
    monkeypatch.setenv("MY_KEY", "one\ntwo")
    refused(r"MY_KEY \(--api-key-env\) holds more than one line", "http://127.0.0.1:1/v1", api_key_env="MY_KEY")


def test_an_answer_that_is_too_large_may_pass(monkeypatch):
    monkeypatch.setattr(client_module, "LARGEST", 1000)
    with LLMServer(lambda request: Text("x" * 2000 * (request.number == 0))) as server:
        assert ask(server.url)[1].retries == 1


def test_a_line_of_a_stream_that_is_too_long_may_pass():
    def behave(request):
        return Text("short") if request.number else Text("", delta={"content": "x" * (client_module.LARGEST + 1)})

    with LLMServer(behave) as server:
        assert ask(server.url, stream=True)[0][0] == "short"


def test_settings_that_are_ours_cannot_be_sent_beside():
    with pytest.raises(ConfigError, match="sampling has n, stream: that is set by abreast, leave it out"):
        ServerConfig.parse({"sampling": {"stream": True, "n": 3, "top_p": 1}})
    with pytest.raises(ConfigError, match="sampling has max_tokens and max_completion_tokens: give the one"):
        ServerConfig.parse({"sampling": {"max_tokens": 1, "max_completion_tokens": 2}})


@pytest.mark.parametrize(
    ("key", "meant"),
    [("temprature", "temperature"), ("Top_P", "top_p"), ("max_token", "max_tokens"), ("seeds", "seed")],
)
def test_a_misspelt_key_of_a_request_is_refused_and_others_are_sent(key, meant):
    with pytest.raises(ConfigError, match=f"sampling has {key}, which no server knows: did you mean '{meant}'?"):
        ServerConfig.parse({"sampling": {key: 1}})
    assert ServerConfig.parse({"sampling": {"min_tokens": 3, "something_of_my_own": 1}})


def test_an_address_without_v1():
    with LLMServer() as server:
        refused(r"/v1 is: give that address", server.url.removesuffix("/v1"))


def test_an_unknown_model_is_told_with_those_that_there_are():
    with LLMServer(lambda request: Status(404, "No model `big`."), models=("small", "tiny")) as server:
        refused("has no model 'big': give --model one of small, tiny", server.url, model="big")


def test_without_a_name_the_only_model_is_taken():
    with LLMServer(models=("small", "tiny")) as server:
        refused("has the models small, tiny: name one with --model", server.url)
    with LLMServer(models=None) as server:
        refused("has no list of its models: name one with --model", server.url)
        assert ask(server.url, model="mine")[0][0] and server.requests[0].body["model"] == "mine"


def test_a_server_that_takes_any_name_is_given_it():  # llama.cpp does, and lists the name of its file
    with LLMServer(models=("/models/tiny.gguf",)) as server:
        assert ask(server.url, model="whatever")[0][0]


def test_no_chat_at_this_address():
    with LLMServer(lambda request: Status(404, "nothing here"), models=None) as server:
        refused(r"has no chat/completions \(status 404: nothing here\): check --base-url", server.url, model="x")


def test_a_wrong_key(monkeypatch):
    monkeypatch.setenv("MY_KEY", "wrong")
    monkeypatch.delenv("NO_KEY", raising=False)
    with LLMServer(key="right") as server:
        refused(
            r"refuses access \(status 401\), the key in MY_KEY is not the right one", server.url, api_key_env="MY_KEY"
        )
        refused(r"refuses access \(status 401\), no key was given: name the variable with --api-key-env", server.url)
        refused(r"NO_KEY \(--api-key-env\) is not set", server.url, api_key_env="NO_KEY")


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 4096 tokens.",  # vLLM, OpenAI
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",  # SGLang
        "the request exceeds the available context size, try increasing it",  # llama.cpp
    ],
)
def test_a_prompt_that_is_too_long(said):
    with LLMServer(lambda request: Status(400, said)) as server:
        refused("the prompt is too long for the model .* context.history_window", server.url, Unanswered)
    assert len(server.requests) == 1  # it would be too long again


def test_another_refusal_of_this_prompt_is_told_in_the_words_of_the_server():
    with LLMServer(lambda request: Status(400, "images are not supported.")) as server:
        refused(r"refuses the request \(status 400: images are not supported\)", server.url, Unanswered)


@pytest.mark.parametrize("reply", [Status(500), Status(429), Drop(), Raw(b"{")])
def test_retries_end(reply):
    with LLMServer(lambda request: reply) as server:
        refused("gave no answer to 3 requests, the last time because", server.url, Unanswered, retries=2)
        assert len(server.requests) == 3
        refused("gave no answer to 1 request, ", server.url, Unanswered, retries=0)


def test_a_request_that_takes_too_long_is_sent_again():
    async def behave(request):
        return await asyncio.get_running_loop().create_future() if request.number == 0 else Text("at last")

    with LLMServer(behave) as server:
        (text, *_), counts = ask(server.url, request_timeout=0.2)
    assert text == "at last" and counts.retries == 1


def waits_for(monkeypatch, *replies):
    """How long the client waits before it sends a request again, if the server replies so."""
    waits, sleep = [], asyncio.sleep

    async def note(seconds, *rest):
        waits.append(seconds)
        await sleep(0)

    with LLMServer(lambda request: [*replies, Text("x")][request.number]) as server:
        monkeypatch.setattr(asyncio, "sleep", note)
        assert ask(server.url, retries=len(replies))[0][0] == "x"
        monkeypatch.setattr(asyncio, "sleep", sleep)
    return [wait for wait in waits if wait]


@pytest.mark.parametrize(("asked", "seconds"), [("17", 17), (str(10**9), 600), ("soon", 0), ("-2", 0), ("nan", 0)])
def test_the_server_is_waited_for_as_long_as_it_asks_and_within_reason(monkeypatch, asked, seconds):
    (wait,) = waits_for(monkeypatch, Status(429, headers={"Retry-After": asked}))
    assert wait == seconds if seconds else 0 < wait < 0.01


def test_waits_double_up_to_the_longest_and_are_shortened_by_at_most_half(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_S", 0.5)
    waits = waits_for(monkeypatch, *[Status(500, headers={"Retry-After": "0"})] * 8)
    for wait, whole in zip(waits, [0.5, 1, 2, 4, 8, 16, 30, 30], strict=True):
        assert whole / 2 <= wait <= whole


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(RolloutError, match=r'needs the package aiohttp: pip install "abreast\[llm\]"'):
        OpenAIPolicy(ServerConfig(base_url="http://localhost:1/v1"))


# ---- what a server says is not trusted


@pytest.mark.parametrize("stream", [False, True])
def test_tools_that_a_model_calls_are_named_and_reach_the_environment_if_the_context_has_a_form(stream):
    called = [{"index": 0, "function": {"name": "move", "arguments": '{"to": "Up"}'}}]
    with LLMServer(lambda request: Text("", delta={"tool_calls": called})) as server:
        assert ask(server.url, stream=stream)[0][0::3] == ("", ["move"])
        given = ask(server.url, stream=stream, context={"tool_call_form": "<answer>{name} {arguments}</answer>"})[0]
        assert given[0::3] == ('<answer>move {"to": "Up"}</answer>', ["move"])


def test_the_key_never_comes_back_from_a_server(monkeypatch, caplog):
    caplog.set_level("INFO", "abreast")
    monkeypatch.setenv("MY_KEY", "sk-secret/1")
    replies = [
        Status(500, "bad key sk-secret/1"),
        Raw(b'{"error": "sk-secret\\/1"}'),
        Raw(b'{"choices": "sk-secret/1"}'),
        Status(400, f"{'x' * 290} sk-secret/1"),
        Status(308, "", {"Location": "http://there/?key=sk-secret/1"}),
    ]
    for reply in replies:
        with LLMServer(lambda request, reply=reply: reply) as server, pytest.raises(RolloutError) as told:
            ask(server.url, retries=1, api_key_env="MY_KEY")
        assert "secret" not in str(told.value) and "secret" not in caplog.text


def test_escape_sequences_of_a_server_are_not_printed(caplog):
    caplog.set_level("INFO", "abreast")
    with LLMServer(lambda request: Status(500, "\x1b]0;title\x07 \x1b[31mred\u202e")) as server:
        refused("status 500 .\ufffd.0;title\ufffd \ufffd.31mred\ufffd.", server.url, Unanswered, retries=1)
    assert "\x1b" not in caplog.text
    with LLMServer(models=("\x1b[31mone", "two")) as server:
        refused("has the models \ufffd.31mone, two", server.url)


def test_a_list_of_models_is_bounded_and_no_redirect_is_followed(monkeypatch):
    with LLMServer(models=("m" * (client_module.LARGEST + 1),)) as server:
        refused("has no list of its models", server.url)
    with LLMServer() as there:
        redirect = Status(302, "", {"Location": f"{there.url}/models"})
        with LLMServer(models=redirect) as server:
            refused(rf"redirects to {there.url}/models \(status 302\)", server.url)
        assert not there.requests


@pytest.mark.parametrize("usage", [(-5, 3), (10**4000, 1), (True, 1), ("7", 1), (1.5, 2)])
def test_token_counts_that_are_none_are_not_counted(usage):
    with LLMServer(lambda request: Text("x", usage=usage)) as server:
        (_, tokens, *_), counts = ask(server.url)
    assert tokens is None and counts.uncounted == 1 and counts.tokens == (0, 0)


def test_a_huge_answer_is_refused_before_it_is_whole():
    sent = b'{"choices": [{"message": {"content": "' + b"x" * 24_000_000
    with LLMServer(lambda request: Text("short") if request.number else Raw(sent)) as server:
        tracemalloc.start()
        try:
            assert ask(server.url)[0][0] == "short"
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert most < 3 * len(sent)  # the server of this test holds it twice


def test_a_log_line_about_many_requests_says_how_long_was_waited(caplog):
    caplog.set_level("INFO", "abreast")

    async def behave(request):
        return await asyncio.get_running_loop().create_future() if request.number < 4 else Text("at last")

    with LLMServer(behave) as server:
        assert ask(server.url, request_timeout=0.1)[0][0] == "at last"
    assert "4 requests in all were sent again, because no complete answer came within 0.1 s" in caplog.text


def test_a_stream_that_stays_open_after_its_end_is_not_waited_for():
    with LLMServer(lambda request: Text("done", stays_open=True)) as server:
        assert ask(server.url, stream=True, request_timeout=20, retries=0)[0][0] == "done"


def test_a_prefilled_answer_is_asked_to_go_on():
    with LLMServer(lambda request: Text("x")) as server:
        ask(server.url, messages=[*HELLO, {"role": "assistant", "content": "<think>"}])
        ask(server.url)
    first, second = (request.body for request in server.requests)
    assert first["continue_final_message"] is True and first["add_generation_prompt"] is False
    assert "continue_final_message" not in second
