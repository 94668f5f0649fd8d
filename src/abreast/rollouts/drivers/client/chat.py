"""The policy `openai`: sends the chat of a turn to a server, again and again if that fails in a way that may pass.

fails in a way that may pass    no connection, broken off, too slow, cut off, status 408 409 425 429 5xx    sent again
this prompt is refused          status 400 413 422, too long for the model's context                        Unanswered
all would fail                  status 401 403 (key), 404 (model or address), 3xx (address)                 RolloutError
"""

import asyncio
import json
import logging
import os
import random
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from abreast.errors import RolloutError
from abreast.rollouts.context.cleaning import printable
from abreast.rollouts.context.context import Context
from abreast.rollouts.drivers.client.answers import Completion, error_text, read_answer
from abreast.rollouts.drivers.client.retries import Transient, retry_after_s, wait_s
from abreast.rollouts.drivers.config import ServerConfig
from abreast.rollouts.drivers.policies.base import Answer, Asked, Counts, Policy, Unanswered

if TYPE_CHECKING:
    import aiohttp

log = logging.getLogger("abreast")

LARGEST = 2**24
"""Bytes of a body, pieces of a stream included: a server that never stops would fill the memory. Headers, of which aiohttp
takes 8 KiB a line, are bounded by it too."""
STREAM = "text/event-stream"
MAY_PASS = frozenset({408, 409, 425, 429})
CONNECT_S = 10.0
MOST_LOGGED = 3
"""Requests that are sent again and logged, for each reason; the others are counted."""
_TOO_LONG = re.compile(r"context.{0,2}(length|size|window)|too long|too many tokens", re.IGNORECASE)
_NO_MODEL = re.compile(r"model.*(not found|not exist|unknown|invalid|not available)|(unknown|invalid).*model", re.I)


class OpenAIPolicy(Policy):
    """A language model behind a server, asked by any number of tasks of one event loop, at most `in_flight` at a time."""

    def __init__(self, config: ServerConfig) -> None:
        if config.base_url is None:
            raise RolloutError(
                "the policy openai needs a server: give its address, say --base-url http://localhost:8000/v1."
            )
        try:
            import aiohttp
        except ImportError:
            raise RolloutError('the policy openai needs the package aiohttp: pip install "abreast[llm]".') from None
        self._aiohttp, self._config = aiohttp, config
        self._url, self._key = config.base_url.rstrip("/"), _key(config.api_key_env)
        self._rng, self._sent_again = random.Random(), Counter[str]()
        self._counts = self.counts = Counts()
        self.model = config.model
        """The name of the model; if none was given, it is known once `start` has asked the server."""

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
            models = await self._models(self._url)
            if models is None and not self._url.endswith("/v1") and await self._models(f"{self._url}/v1") is not None:
                raise RolloutError(
                    f"{self._url} is no OpenAI-compatible server, but {self._url}/v1 is: give that address."
                )
            if self.model is None:
                if models is None or len(models) != 1:
                    listed = "no list of its models" if models is None else f"the models {self._quoted(models)}"
                    raise RolloutError(f"the server at {self._url} has {listed}: name one with --model.")
                self.model = models[0]
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Log how often requests were sent again, and close the connections."""
        for reason, count in self._sent_again.items():
            if count > MOST_LOGGED:
                log.info("%d requests in all were sent again, because %s", count, reason)
        self._sent_again.clear()
        await self._http.close()

    async def __call__(self, asked: Asked) -> Answer:
        config, messages = self._config, asked.messages
        body = {**config.sampling, "model": self.model, "messages": messages}
        if config.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if messages[-1]["role"] == "assistant":  # it is the beginning of the answer: see ContextConfig.prefill
            body |= {"continue_final_message": True, "add_generation_prompt": False}
        for attempt in range(config.retries + 1):
            try:
                async with self._in_flight:
                    self._counts.requests += 1
                    self._counts.retries += attempt > 0
                    text, tokens, reason, calls = await self._send(body)
                self._counts.note(tokens)
                said = Context(asked.tag).with_tool_calls(text, calls) if calls else text
                return Answer(said, tokens, reason, [name for name, _ in calls[:20]])
            except Transient as fault:
                failed, why = fault, f"{fault.reason} ({self._quoted(fault.said)})" if fault.said else fault.reason
            if attempt < config.retries:  # others may send meanwhile
                self._sent_again[failed.reason] += 1
                if self._sent_again[failed.reason] <= MOST_LOGGED:
                    log.info("a request is sent again, because %s", why)
                await asyncio.sleep(wait_s(attempt, failed.wait_s, self._rng))
        times = "1 request" if not config.retries else f"{config.retries + 1} requests"
        raise Unanswered(f"{self._url} gave no answer to {times}, the last time because {why}.")

    async def _send(self, body: dict[str, Any]) -> Completion:
        url, limit_s = f"{self._url}/chat/completions", self._config.request_timeout
        response, content = await self._request("POST", url, limit_s=limit_s, json=body)
        if response.status != 200:
            await self._refuse(response, error_text(content))
        return read_answer(content, response.content_type == STREAM)

    async def _request(self, *request: str, limit_s: float, **more: Any) -> "tuple[aiohttp.ClientResponse, bytes]":
        """A response and its body. Redirects are not followed: they would take the key elsewhere."""
        try:
            async with (
                asyncio.timeout(limit_s),
                self._http.request(*request, allow_redirects=False, **more) as response,
            ):
                return response, await _content(response)
        except TimeoutError:
            raise Transient(f"no complete answer came within {limit_s:g} s") from None
        except (self._aiohttp.ClientError, self._aiohttp.http_exceptions.HttpProcessingError, OSError) as error:
            raise Transient("the connection failed", str(error) or type(error).__name__) from error

    async def _refuse(self, response: "aiohttp.ClientResponse", said: str) -> NoReturn:
        """Raise what a status other than 200 means."""
        status = response.status
        if status in MAY_PASS or status >= 500:
            raise Transient(
                f"it answered with status {status}", said, retry_after_s(response.headers.get("Retry-After"))
            )
        self._check_access(response)
        said = self._quoted(said)
        if status == 404 or (status in (400, 422) and _NO_MODEL.search(said)):
            models = await self._models(self._url)
            if models is None:
                raise RolloutError(f"{self._url} has no chat/completions (status {status}: {said}): check --base-url.")
            if self.model not in models:
                raise RolloutError(
                    f"the server at {self._url} has no model {self.model!r}: give --model one of {self._quoted(models)}."
                )
        if _TOO_LONG.search(said):
            raise Unanswered(f"the prompt is too long for the model ({said}): shorten it with context.history_window.")
        raise Unanswered(f"{self._url} refuses the request (status {status}: {said}).")

    def _check_access(self, response: "aiohttp.ClientResponse") -> None:
        """Raise if the address or the key is not the right one."""
        if 300 <= response.status < 400:
            there = self._quoted(response.headers.get("Location", "another address"))
            raise RolloutError(
                f"{self._url} redirects to {there} (status {response.status}): give the address that answers itself with"
                " --base-url."
            )
        if response.status in (401, 403):
            name = self._config.api_key_env
            given = "no key was given" if name is None else f"the key in {name} is not the right one"
            raise RolloutError(
                f"the server at {self._url} refuses access (status {response.status}), {given}: name the variable with"
                " --api-key-env."
            )

    async def _models(self, url: str) -> list[str] | None:
        """The models that a server lists; None if it has no list."""
        absent = (self._aiohttp.ClientConnectorError, self._aiohttp.ConnectionTimeoutError, self._aiohttp.InvalidURL)
        try:
            response, content = await self._request("GET", f"{url}/models", limit_s=2 * CONNECT_S)
            self._check_access(response)
            return [str(each["id"]) for each in json.loads(content)["data"]] if response.status == 200 else None
        except Transient as fault:
            if isinstance(fault.__cause__, absent):
                raise RolloutError(
                    f"no server answers at {self._url} ({self._quoted(fault.said)}): start one, or correct --base-url."
                ) from None
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def _quoted(self, said: str | Sequence[str]) -> str:
        """Words of a server on one line, without the key, which it may repeat, and without control characters."""
        text = said if isinstance(said, str) else ", ".join(said) or "(none)"
        text = (text.replace(self._key, "[the API key]") if self._key else text)[:2000]
        text = printable(" ".join(text.split()).rstrip("."))
        return text if len(text) <= 300 else f"{text[:297]}..."


def _key(name: str | None) -> str:
    """The key in an environment variable."""
    key = "" if name is None else os.environ.get(name, "").strip()
    fault = "is not set" if name and not key else "" if key.isprintable() else "holds more than one line of a key"
    if fault:
        raise RolloutError(f"the environment variable {name} (--api-key-env) {fault}: put the key alone into it.")
    return key


async def _content(response: "aiohttp.ClientResponse") -> bytes:
    """The body; of a stream, up to the event that ends it: some servers keep the connection open after it."""
    content = bytearray()
    async for part in response.content.iter_any():
        content += part
        if len(content) > LARGEST:
            raise Transient(f"the answer is larger than {LARGEST // 2**20} MiB")
        if response.content_type == STREAM and b"data: [DONE]" in content[-40:]:
            break
    return bytes(content)
