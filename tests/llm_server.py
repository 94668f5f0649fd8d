"""A real HTTP server on loopback that behaves like an OpenAI-compatible one, or as badly as a test asks it to.

    with LLMServer(lambda request: Text("<answer>Up</answer>")) as server:
        ask(server.url)
        assert len(server.requests) == 1

`behave` is called with every chat request, in the event loop of the server; it may be async, to hold an answer back.
"""

import asyncio
import inspect
import json
import threading
from dataclasses import dataclass, field


@dataclass
class Text:
    """An answer, whole or streamed as the request asks."""

    text: str
    usage: tuple[int, int] | None = (10, 5)
    delta: dict = field(default_factory=dict)
    """More keys of the message."""
    finish_reason: str = "stop"
    stays_open: bool = False
    """Whether the connection of a stream stays open after its end."""
    sampled: tuple[list[int], list[int], list[float]] | None = None
    """Tokens of the prompt, tokens of the answer, and log-probabilities; told as vLLM does, if the request asks for them."""


@dataclass
class Status:
    """An error."""

    code: int
    message: str = "no"
    headers: dict = field(default_factory=dict)


@dataclass
class Cut:
    """An answer that breaks off in its middle, and the connection with it."""

    text: str


@dataclass
class Drop:
    """No answer at all: the connection is closed."""


@dataclass
class Raw:
    """A body as it is, with status 200."""

    body: bytes


@dataclass
class Request:
    number: int
    body: dict
    headers: dict
    path: str

    @property
    def prompt(self):
        """What the last message says."""
        return self.body["messages"][-1]["content"]


class LLMServer:
    def __init__(self, behave=lambda request: Text("<answer>Up</answer>"), models=("tiny",), key=None, port=0):
        self._behave, self._models, self._key, self.port = behave, models, key, port
        self.requests = []
        """Chat requests, in the order of their arrival."""
        self.in_flight = 0
        self.most_in_flight = 0

    def __enter__(self):
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(30)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def call(self, function):
        """Run a function in the event loop of the server."""
        self._loop.call_soon_threadsafe(function)

    async def _run(self, ready):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(lambda *_: None)  # connections that break are what this is for
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()

    async def _serve(self, reader, writer):
        try:
            while await self._answer(reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader, writer):
        """Answer one request; whether the connection stays open."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split()
        headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if self._key is not None and headers.get("authorization") != f"Bearer {self._key}":
            return self._write(writer, Status(401, "wrong key"), {})
        if method == "GET":
            if isinstance(self._models, Status):
                return self._write(writer, self._models, {})
            listed = {"data": [{"id": name} for name in self._models or ()]}
            known = path == "/v1/models" and self._models is not None
            return self._write(writer, Raw(json.dumps(listed).encode()) if known else Status(404, "not found"), {})
        if path != "/v1/chat/completions":
            return self._write(writer, Status(404, "not found"), {})
        request = Request(len(self.requests), json.loads(body), headers, path)
        self.requests.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            reply = self._behave(request)
            reply = await reply if inspect.isawaitable(reply) else reply
        finally:
            self.in_flight -= 1
        return self._write(writer, reply, request.body)

    def _write(self, writer, reply, asked):
        if isinstance(reply, Drop):
            return False
        if isinstance(reply, Status):
            text = json.dumps({"error": {"message": reply.message}}).encode()
            return _send(writer, reply.code, "application/json", text, reply.headers)
        if isinstance(reply, Raw):
            return _send(writer, 200, "application/json", reply.body, {})
        if asked.get("stream"):
            return self._write_stream(writer, reply, asked)
        body = whole(reply, asked)
        if isinstance(reply, Cut):
            writer.write(_head(200, "application/json", {"Content-Length": len(body)}) + body[: len(body) // 2])
            return False
        return _send(writer, 200, "application/json", body, {})

    def _write_stream(self, writer, reply, asked):
        chunks = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in _pieces(reply.text)]
        if isinstance(reply, Text):
            whole_told, told = _sampled(reply, asked)
            for place in range(
                len(reply.sampled[1]) if told else 0
            ):  # one token an event; those of the prompt with the first
                each = {"index": 0, "delta": {}}
                if "token_ids" in told:
                    each["token_ids"] = told["token_ids"][place : place + 1]
                if "logprobs" in told:
                    each["logprobs"] = {"content": told["logprobs"]["content"][place : place + 1]}
                chunks.append({"choices": [each], **(whole_told if not place else {})})
            chunks[:0] = [{"choices": [{"index": 0, "delta": {key: value}}]} for key, value in reply.delta.items()]
            chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]})
            if reply.usage and asked.get("stream_options", {}).get("include_usage"):
                chunks.append({"choices": [], "usage": _usage(reply)})
        writer.write(_head(200, "text/event-stream", {"Transfer-Encoding": "chunked"}))
        for chunk in chunks:
            writer.write(_chunk(f"data: {json.dumps(chunk)}\n\n"))
        if isinstance(reply, Cut):
            return False
        writer.write(_chunk(": a comment\n\n") + _chunk("data: [DONE]\n\n"))
        if not (isinstance(reply, Text) and reply.stays_open):
            writer.write(b"0\r\n\r\n")
        return True


def whole(reply, asked=()):
    """The body of an answer that is not streamed."""
    more = {} if isinstance(reply, Cut) else reply.delta
    message = {"role": "assistant", "content": reply.text, **more}
    given = {"choices": [{"index": 0, "message": message, "finish_reason": getattr(reply, "finish_reason", "stop")}]}
    if isinstance(reply, Text) and reply.usage:
        given["usage"] = _usage(reply)
    if isinstance(reply, Text):
        whole_told, told = _sampled(reply, asked)
        given |= whole_told
        given["choices"][0] |= told
    return json.dumps(given).encode()


def _sampled(reply, asked):
    """The tokens that a request asks for: keys of the whole, and of the choice."""
    if reply.sampled is None:
        return {}, {}
    prompt, ids, logprobs = reply.sampled
    content = [{"token": str(token), "logprob": each} for token, each in zip(ids, logprobs, strict=False)]
    told = {"logprobs": {"content": content}} if "logprobs" in asked else {}
    by_id = "return_token_ids" in asked
    return ({"prompt_token_ids": prompt} if by_id else {}), {**told, **({"token_ids": ids} if by_id else {})}


def _usage(reply):
    return dict(zip(("prompt_tokens", "completion_tokens"), reply.usage, strict=True))


def _pieces(text):
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def _chunk(text):
    return f"{len(text.encode()):x}\r\n{text}\r\n".encode()


def _head(code, kind, headers):
    lines = [f"HTTP/1.1 {code} x", f"Content-Type: {kind}", *(f"{key}: {value}" for key, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _send(writer, code, kind, body, headers):
    writer.write(_head(code, kind, {"Content-Length": len(body), **headers}) + body)
    return True
