"""The policy `openai`: sends the chat of a turn to a server, again and again if that fails in a way that may pass.

fails in a way that may pass    no connection, broken off, too slow, cut off, status 408 409 425 429 5xx    sent again
this prompt is refused          status 400 413 422, too long for the model's context                        Unanswered
all would fail                  status 401 403 (key), 404 (model or address), 3xx (address)                 RolloutError
"""

import asyncio
import json
import math
import os
import random
import re
import time
from collections import Counter
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from abreast.errors import RolloutError, log, printable
from abreast.plugins import import_extra
from abreast.rollouts.context.context import Context
from abreast.rollouts.context.sampled import Sampled
from abreast.rollouts.drivers.config import ServerConfig
from abreast.rollouts.drivers.policies.base import Answer, Asked, Counts, Policy, Tokens, Unanswered

LARGEST = 2**24  # bytes of a body, those of a stream added up; of a header, aiohttp takes 8 KiB
STREAM = "text/event-stream"
MAY_PASS = frozenset({408, 409, 425, 429})
CONNECT_S, FIRST_S, LONGEST_S, LONGEST_ASKED_S = 10.0, 0.5, 30.0, 600.0
"""To connect; waits before a request is sent again: the first, the longest, the longest that a server may ask for."""
_NAMED_ID = re.compile(r"token_id:\d{1,9}")
_TOO_LONG = re.compile(r"context.{0,2}(length|size|window)|too long|too many tokens", re.IGNORECASE)


class Transient(Exception):
    """A request failed in a way that may pass. `said` are the words of the server or of a library, as they came."""

    def __init__(self, reason: str, said: str = "", wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason, self.said, self.wait_s = reason, said, wait_s


class OpenAIPolicy(Policy):
    """A language model behind a server, asked by any number of tasks of one event loop, at most `in_flight` at a time."""

    def __init__(self, config: ServerConfig) -> None:
        if config.base_url is None:
            raise RolloutError(
                "the policy openai needs a server: give its address, say --base-url http://localhost:8000/v1."
            )
        self._aiohttp = import_extra("aiohttp", "the policy openai needs", "llm", RolloutError)
        self._config, self._sent_again = config, Counter[str]()
        self._url, self._key = config.base_url.rstrip("/"), _key(config.api_key_env)
        self._counts = self.counts = Counts()
        self.sampling = config.sampling
        self._token_keys: dict[str, Any] = {"logprobs": True, "return_token_ids": True} if config.keep_tokens else {}
        """Keys of a request that ask for tokens."""
        self._said_missing = False
        self.model = config.model  # None: known once `start` has asked the server

    async def start(self) -> None:
        """Connect, and look whether the server is there, and takes the key."""
        is_near = urlsplit(self._url).hostname in ("localhost", "127.0.0.1", "::1")
        self._http = self._aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            connector=self._aiohttp.TCPConnector(limit=0),  # the semaphore limits them
            timeout=self._aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            trust_env=not is_near,  # a proxy does not know this machine's servers
        )
        self._in_flight = asyncio.Semaphore(self._config.in_flight)
        try:
            self._models = await self._list_models("models")
            if not self._models and not self._url.endswith("/v1") and await self._list_models("v1/models"):
                raise RolloutError(f"{self._url} is no OpenAI server, but {self._url}/v1 is: give that address.")
            if self.model is None and len(self._models) != 1:
                there = self._quoted(", ".join(self._models))
                listed = f"the models {there}" if there else "no list of its models"
                raise RolloutError(f"the server at {self._url} has {listed}: name one with --model.")
            self.model = self.model or self._models[0]
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Log how often requests were sent again, and close the connections."""
        for reason, count in self._sent_again.items():
            log.info("%d requests in all were sent again, because %s", count, reason)
        await self._http.close()

    async def __call__(self, asked: Asked) -> Answer:
        config, messages = self._config, asked.messages
        body = {**self._token_keys, **config.sampling, "model": self.model, "messages": messages}
        if (tools := Context(asked.tag).tools) is not None:
            body["tools"] = tools.schemas
        if config.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if messages[-1]["role"] == "assistant":  # it is the beginning of the answer: see ContextConfig.prefill
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        for attempt in range(config.retries + 1):
            try:
                async with self._in_flight:
                    self._counts.requests += 1
                    self._counts.retries += attempt > 0
                    began = time.perf_counter()
                    answer = await self._ask(asked, body)
                    self._counts.seconds.append(time.perf_counter() - began)
                self._counts.uncounted += answer.tokens is None
                self._counts.tokens = self._counts.tokens.plus(answer.tokens or Tokens())
                return answer
            except Transient as fault:
                failed, why = fault, f"{fault.reason} ({self._quoted(fault.said)})" if fault.said else fault.reason
            if attempt < config.retries:  # others may send meanwhile
                self._sent_again[failed.reason] += 1
                if self._sent_again[failed.reason] == 1:  # `close` logs how many there were
                    log.info("a request is sent again, because %s", why)
                own_s = min(FIRST_S * 2.0**attempt, LONGEST_S)  # shortened, so that not all clients come back at once
                await asyncio.sleep(max(own_s * random.uniform(0.5, 1.0), failed.wait_s))
        raise Unanswered(
            f"{self._url} gave no answer to {config.retries + 1} request{'s' * (config.retries > 0)}, the last time because"
            f" {why}."
        )

    async def _ask(self, asked: Asked, body: dict[str, Any]) -> Answer:
        response, content = await self._request("POST", "chat/completions", self._config.request_timeout, json=body)
        status, wait_s = response.status, response.headers.get("Retry-After", "")
        if status == 200:
            text, tokens, reason, calls = read_answer(content, response.content_type == STREAM)
            context = Context(asked.tag)
            given = context.with_tool_calls(text, calls) if calls else text
            sampled = self._sampled(content, response.content_type == STREAM) if self._config.keep_tokens else None
            names, kept = [name for name, _ in calls[:20]], calls if context.tools is not None else ()
            return Answer(given, tokens, reason, names, kept, sampled)
        said = self._quoted(error_text(content))
        if status in (400, 422) and "return_token_ids" in said and body.pop("return_token_ids", None):
            self._token_keys.pop("return_token_ids", None)  # a server that takes no key it does not know
            return await self._ask(asked, body)
        if status in MAY_PASS or status >= 500:
            asked_s = min(float(wait_s), LONGEST_ASKED_S) if wait_s.isdecimal() else 0.0
            raise Transient(f"it answered with status {status}", said, asked_s)
        if status == 404:
            fault = f"no chat/completions (status 404: {said}): check --base-url"
            if self._models and self.model not in self._models:
                fault = f"no model {self.model!r}: give --model one of {self._quoted(', '.join(self._models))}"
            raise RolloutError(f"the server at {self._url} has {fault}.")
        if _TOO_LONG.search(said):
            raise Unanswered(f"the prompt is too long for the model ({said}): shorten it with context.history_window.")
        raise Unanswered(f"{self._url} refuses the request (status {status}: {said}).")

    def _sampled(self, content: bytes, is_stream: bool) -> Sampled:
        """The tokens that an answer tells; the first time that some are missing, the log says so."""
        sampled = read_sampled(content, is_stream)
        if None in sampled and not self._said_missing:
            self._said_missing = True
            missing = [name for name, value in sampled._asdict().items() if value is None]
            log.warning(
                "the server at %s does not give %s of its answers: they are null in what is kept, and a trainer has to"
                " tokenise the texts itself", self._url, " and ".join(missing),
            )  # fmt: skip
        return sampled

    async def _request(self, method: str, path: str, limit_s: float, **more: Any) -> tuple[Any, bytes]:
        """A response and its body. Redirects are not followed: they would take the key elsewhere."""
        request = self._http.request(method, f"{self._url}/{path}", allow_redirects=False, **more)
        content = bytearray()
        try:
            async with asyncio.timeout(limit_s), request as response:
                async for part in response.content.iter_any():
                    content += part
                    if len(content) > LARGEST:
                        raise Transient(f"the answer is larger than {LARGEST // 2**20} MiB")
                    if response.content_type == STREAM and b"data: [DONE]" in content[-40:]:
                        break  # some servers keep the connection open after it
        except TimeoutError:
            raise Transient(f"no complete answer came within {limit_s:g} s") from None
        except (self._aiohttp.ClientError, self._aiohttp.http_exceptions.HttpProcessingError, OSError) as error:
            raise Transient("the connection failed", str(error) or type(error).__name__) from error
        status, name = response.status, self._config.api_key_env
        if 300 <= status < 400:
            there = f"{self._quoted(response.headers.get('Location', 'another address'))} (status {status})"
            raise RolloutError(f"{self._url} redirects to {there}: give the address that answers itself.")
        if status in (401, 403):
            given = "no key was given" if name is None else f"the key in {name} is not the right one"
            raise RolloutError(
                f"the server at {self._url} refuses access (status {status}), {given}: name the variable with --api-key-env."
            )
        return response, bytes(content)

    async def _list_models(self, path: str) -> list[str]:
        """The models that a server lists; none if it has no list."""
        try:
            response, content = await self._request("GET", path, 2 * CONNECT_S)
            return [str(each["id"]) for each in json.loads(content)["data"]] if response.status == 200 else []
        except (Transient, ValueError, KeyError, TypeError, RecursionError) as fault:
            if isinstance(fault.__cause__, (self._aiohttp.ClientConnectorError, self._aiohttp.InvalidURL)):
                raise RolloutError(
                    f"no server answers at {self._url} ({self._quoted(str(fault.__cause__))}): start one, or correct"
                    " --base-url."
                ) from None
            return []

    def _quoted(self, said: str) -> str:
        """Words of a server on one line, without the key, which it may repeat, and without control characters."""
        text = (said.replace(self._key, "[the API key]") if self._key else said)[:2000]
        return printable(" ".join(text.split()).rstrip("."))[:300]


def _key(name: str | None) -> str:
    """The key in an environment variable."""
    key = "" if name is None else os.environ.get(name, "").strip()
    fault = "is not set" if name and not key else "" if key.isprintable() else "holds more than one line of a key"
    if fault:
        raise RolloutError(f"the environment variable {name} (--api-key-env) {fault}: put the key alone into it.")
    return key


def read_answer(body: bytes, is_stream: bool = False) -> tuple[str, Tokens | None, str | None, list[tuple[str, str]]]:
    """Text, tokens, if they were counted, finish_reason, and tools called, by name and arguments; of one event or many."""
    events = events_of(body, is_stream)
    text, thought, calls = "", "", dict[Any, tuple[str, str]]()
    tokens, reason, has_begun = None, "", False
    for event in (event for event in events if event != b"[DONE]"):
        try:
            told = json.loads(event)
            if told.get("error"):  # some servers send errors with status 200
                raise Transient("the server reports an error", error_text(event))
            counts: list[Any] = [(told.get("usage") or {}).get(key) for key in ("prompt_tokens", "completion_tokens")]
            if all(type(count) is int and 0 <= count < 2**31 for count in counts):
                tokens = Tokens(*counts)
            for choice in told["choices"][:1]:  # the last event of a stream may have none, and the token counts
                message = choice.get("delta") or {} if is_stream else choice["message"]
                text += _text(message.get("content") or message.get("refusal"))
                thought += _text(message.get("reasoning_content") or message.get("reasoning"))
                older = [{"index": 0, "function": message["function_call"]}] if message.get("function_call") else ()
                for piece in message.get("tool_calls") or older:
                    place, called = piece.get("index", len(calls)), piece["function"]
                    (name, known), given = calls.get(place, ("", "")), called.get("arguments")
                    given = json.dumps(given) if isinstance(given, dict) else _text(given)
                    calls[place] = (name + _text(called.get("name")), known + given)
                reason, has_begun = _text(choice.get("finish_reason") or reason)[:40], True
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Transient("the answer is cut off or no chat completion", f"{len(event)} bytes") from None
    if not has_begun or (is_stream and not reason and b"[DONE]" not in events):
        raise Transient("the answer ended before it was complete", f"after {len(text)} characters")
    if thought and "</think>" not in text:  # a server with a reasoning parser has taken it out of the text
        text = f"<think>{thought}</think>{text}"
    return text, tokens, reason or None, [(name[:80], given) for name, given in calls.values()]


def read_sampled(body: bytes, is_stream: bool = False) -> Sampled:
    """The token ids and log-probabilities that an answer tells, in the forms of vLLM and SGLang; for one event or many."""
    prompt: list[int] | None = None
    ids, logprobs, by_name = list[int](), list[float](), list[str]()
    for event in events_of(body, is_stream):
        with suppress(ValueError, TypeError, AttributeError, RecursionError, KeyError):
            told = json.loads(event)
            for choice in told["choices"][:1]:
                prompt = prompt or _ids(told.get("prompt_token_ids") or choice.get("prompt_token_ids"))
                ids += _ids(choice.get("token_ids") or choice.get("output_token_ids")) or []
                for each in (choice.get("logprobs") or {}).get("content") or ():
                    logprobs.append(float(each["logprob"]))
                    by_name.append(str(each.get("token", "")))
    if not ids and by_name and all(_NAMED_ID.fullmatch(name) for name in by_name):  # return_tokens_as_token_ids
        ids = [int(name.partition(":")[2]) for name in by_name]
    fits = bool(logprobs) and (not ids or len(ids) == len(logprobs)) and all(map(math.isfinite, logprobs))
    return Sampled(prompt, ids or None, logprobs if fits else None)


def _ids(given: Any) -> list[int] | None:
    fits = isinstance(given, list) and all(type(token) is int and 0 <= token < 2**31 for token in given)
    return given if fits and given else None


def events_of(body: bytes, is_stream: bool) -> list[bytes]:
    """What an answer is made of: the events of a stream, or the whole of it."""
    return [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")] if is_stream else [body]


def error_text(body: bytes) -> str:
    """What a server says about an error."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = body.decode(errors="replace")
    for key in ("error", "message", "detail"):
        given = given.get(key) or given if isinstance(given, dict) else given
    return str(given)


def _text(given: Any) -> str:
    return "".join(part["text"] for part in given) if isinstance(given, list) else "" + (given or "")  # content parts
