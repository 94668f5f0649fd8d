"""The client: sends a chat to a server and returns the answer, again and again if that fails in a way that may pass.

fails in a way that may pass    no connection, broken off, too slow, cut off, status 408 409 425 429 5xx    sent again
this prompt is refused          status 400 413 422, too long for the model's context                        Unanswered
all would fail                  status 401 403 (key), 404 (model or address), 3xx (address)                 RolloutError
"""

import asyncio
import os
import random
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from abreast.errors import RolloutError
from abreast.rollouts.context.context import Message
from abreast.rollouts.drivers.client.answers import LARGEST, TOO_LARGE, Completion, error_text, read_stream, read_whole
from abreast.rollouts.drivers.client.retries import Backoff, RetryLog, Transient, retry_after_s
from abreast.rollouts.drivers.config import ServerConfig
from abreast.rollouts.drivers.policies.base import Answer, Counts, Tokens, Unanswered

if TYPE_CHECKING:
    import aiohttp

MAY_PASS = frozenset({408, 409, 425, 429})
CONNECT_S = 10.0
_TOO_LONG = re.compile(r"context.{0,2}(length|size|window)|too long|too many tokens", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"model.*(not found|not exist|unknown|invalid|not available)|(unknown|invalid).*model", re.I | re.S
)


class ChatClient:
    """A server, asked by any number of tasks of one event loop, at most `in_flight` at a time."""

    def __init__(self, config: ServerConfig, backoff: Backoff | None = None) -> None:
        if config.base_url is None:
            raise RolloutError(
                "the policy openai needs a server: give its address, say --base-url http://localhost:8000/v1."
            )
        self._aiohttp = _import_aiohttp()
        self._config, self._backoff = config, backoff or Backoff()
        self._url = config.base_url.rstrip("/")
        self._headers = _headers(config)
        self._model = config.model
        self._rng = random.Random()
        self._retry_log = RetryLog()
        self.counts = Counts()

    @property
    def model(self) -> str | None:
        """The name of the model; if none was given, it is known once `start` has asked the server."""
        return self._model

    async def start(self) -> None:
        """Connect, and look whether the server is there, and takes the key."""
        is_near = urlsplit(self._url).hostname in ("localhost", "127.0.0.1", "::1")
        self._http: aiohttp.ClientSession = self._aiohttp.ClientSession(
            headers=self._headers,
            connector=self._aiohttp.TCPConnector(limit=0),  # the semaphore limits them
            timeout=self._aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            trust_env=not is_near,  # a proxy does not know this machine's servers
            read_bufsize=2**20,
        )
        self._in_flight = asyncio.Semaphore(self._config.in_flight)
        try:
            models = await self._models(self._url)
            if models is None and not self._url.endswith("/v1") and await self._models(f"{self._url}/v1") is not None:
                raise RolloutError(
                    f"{self._url} is no OpenAI-compatible server, but {self._url}/v1 is: give that address."
                )
            if self._model is None:
                self._model = self._only_one_of(models)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connections."""
        self._retry_log.close()
        await self._http.close()

    async def ask(self, messages: Sequence[Message]) -> Answer:
        """The answer to a chat, and the tokens it took."""
        config = self._config
        body = {**config.sampling, "model": self._model, "messages": list(messages)}
        if config.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        for attempt in range(config.retries + 1):
            try:
                async with self._in_flight:
                    self.counts.requests += 1
                    self.counts.retries += attempt > 0
                    completion = await self._send(body)
            except Transient as fault:
                failure = fault
            else:
                return self._counted(completion)
            if attempt < config.retries:  # others may send meanwhile
                self._retry_log.note(str(failure))
                await asyncio.sleep(self._backoff.wait_s(attempt, failure.wait_s, self._rng))
        times = "1 request" if not config.retries else f"{config.retries + 1} requests"
        raise Unanswered(f"{self._url} gave no answer to {times}, the last time because {failure}.")

    def _counted(self, completion: Completion) -> Answer:
        tokens = completion.tokens or Tokens()
        self.counts.answers += 1
        self.counts.uncounted += completion.tokens is None
        self.counts.tokens = self.counts.tokens.plus(tokens)
        return Answer(completion.text, tokens, completion.is_cut)

    async def _send(self, body: dict[str, Any]) -> Completion:
        """One request."""
        limit_s = self._config.request_timeout
        try:
            async with (
                asyncio.timeout(limit_s),
                self._http.post(f"{self._url}/chat/completions", json=body, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    await self._refused(response.status, await _body(response), response.headers)
                if response.content_type == "text/event-stream":
                    return await read_stream(response.content)
                return read_whole(await _body(response))
        except TimeoutError:
            raise Transient(f"no complete answer came within {limit_s:g} s") from None
        except (self._aiohttp.ClientError, self._aiohttp.http_exceptions.HttpProcessingError, OSError) as error:
            raise Transient(f"the connection failed ({_words(error)})") from None

    async def _refused(self, status: int, body: bytes, headers: Mapping[str, str]) -> NoReturn:
        """Raise what a status other than 200 means."""
        said = error_text(body)
        if status in MAY_PASS or status >= 500:
            raise Transient(f"it answered with status {status} ({said})", retry_after_s(headers.get("Retry-After")))
        if 300 <= status < 400:
            raise RolloutError(
                f"{self._url} redirects to {headers.get('Location', 'another address')} (status {status}): give the address"
                " that answers itself with --base-url."
            )
        if status in (401, 403):
            raise RolloutError(self._key_refused(status))
        if status == 404 or (status in (400, 422) and _NO_MODEL.search(said)):
            models = await self._models(self._url)
            if models is None:
                raise RolloutError(f"{self._url} has no chat/completions (status {status}: {said}): check --base-url.")
            if self._model not in models:
                raise RolloutError(
                    f"the server at {self._url} has no model {self._model!r}: give --model one of {', '.join(models)}."
                )
        if _TOO_LONG.search(said):
            raise Unanswered(f"the prompt is too long for the model ({said}): shorten it with context.history_window.")
        raise Unanswered(f"{self._url} refuses the request (status {status}: {said}).")

    async def _models(self, url: str) -> list[str] | None:
        """The models that a server lists; None if it has no list."""
        aiohttp = self._aiohttp
        try:
            async with asyncio.timeout(2 * CONNECT_S), self._http.get(f"{url}/models") as response:
                if response.status in (401, 403):
                    raise RolloutError(self._key_refused(response.status))
                given = await response.json(content_type=None) if response.status == 200 else {}
                return [str(each["id"]) for each in given["data"]]
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
            raise RolloutError(
                f"no server answers at {self._url} ({_words(error)}): start one, or correct --base-url."
            ) from None
        except (
            aiohttp.ClientError,
            OSError,
            ValueError,
            KeyError,
            TypeError,
            RecursionError,
        ):  # it is there, but has no list
            return None

    def _only_one_of(self, models: list[str] | None) -> str:
        if models is None or len(models) != 1:
            names = "has no list of its models" if models is None else f"has the models {', '.join(models) or '(none)'}"
            raise RolloutError(f"the server at {self._url} {names}: name one with --model.")
        return models[0]

    def _key_refused(self, status: int) -> str:
        name = self._config.api_key_env
        given = "no key was given" if name is None else f"the key in {name} is not the right one"
        return f"the server at {self._url} refuses access (status {status}), {given}: name the variable with --api-key-env."


async def _body(response: "aiohttp.ClientResponse") -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > LARGEST:
            raise Transient(TOO_LARGE)
    return b"".join(parts)


def _words(error: Exception) -> str:
    """What the system says, if it was a system call that failed; else what the library says."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number)
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(said.split())[:300]


def _headers(config: ServerConfig) -> dict[str, str]:
    name = config.api_key_env
    if name is None:
        return {}
    key = os.environ.get(name, "").strip()
    if not key:
        raise RolloutError(
            f"the environment variable {name} (--api-key-env) is not set: put the key of the server into it."
        )
    if not key.isprintable():
        raise RolloutError(
            f"the environment variable {name} (--api-key-env) holds more than one line, or characters that no key has: put"
            " the key alone into it."
        )
    return {"Authorization": f"Bearer {key}"}


def _import_aiohttp() -> ModuleType:
    try:
        import aiohttp
    except ImportError:
        raise RolloutError('the policy openai needs the package aiohttp: pip install "abreast[llm]".') from None
    return aiohttp
