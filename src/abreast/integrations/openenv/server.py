"""The server: OpenEnv's routes, for each tag under its name, and for the first also without one.

/ws                              a session; with ?session_id=… one whose connection was lost; see `_session_of`
/reset  /step  /state            the same by HTTP: of a session that the header X-Session-Id names, or of none
/health  /metadata  /schema      what there is
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from abreast import __version__
from abreast.errors import ConfigError, RolloutError, log, nearest
from abreast.integrations.openenv.messages import SCHEMA, STATUS, Refusal, dump, read, write
from abreast.integrations.openenv.sessions import Session, Sessions
from abreast.rollouts.context.context import Context
from abreast.rollouts.manager import EnvStateManager

try:
    from aiohttp import WSCloseCode, WSMsgType, web
except ImportError:
    raise RolloutError('serving environments needs the package aiohttp: pip install "abreast[openenv]".') from None


LARGEST = 2**24
"""Bytes of a message."""
NAME_HEADER = "X-Session-Id"
GOODBYE_S = 1.0
"""For clients to close their connections, when the server stops."""
REAP_S = 0.25
"""How often sessions are looked after, at most."""
SLOW_S = 30.0
"""For a client to read what it is sent: the same time as aiohttp gives it to answer a ping."""


class Server:
    """Serves the tags of a manager: `async with Server(manager, port=8000) as server: …`."""

    def __init__(
        self,
        manager: EnvStateManager,
        host: str = "127.0.0.1",
        port: int = 8000,
        max_sessions: int = 256,
        idle_timeout: float = 600.0,
        grace: float = 60.0,
    ) -> None:
        self._manager, self._host, self._port = manager, host, port
        self._tags = list(manager.tags)
        self._max_sessions = max_sessions
        self._reap_s = min(REAP_S, idle_timeout / 4, grace / 4) if min(idle_timeout, grace) > 0 else REAP_S
        self.sessions = Sessions(manager, max_sessions, idle_timeout, grace)
        self.refusals = Counter[str]()
        """How many there were, by code."""
        self.turns = 0

    @property
    def url(self) -> str:
        """Where clients find the first tag; the others are below it, under their names."""
        host, port = self._runner.addresses[0][:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def status(self) -> str:
        """What happens, in one line."""
        ended = ", ".join(f"{count:,} {how}" for how, count in sorted(self.sessions.counts.items()))
        refused = ", ".join(f"{count:,} {code}" for code, count in sorted(self.refusals.items()))
        return (
            f"{len(self.sessions)} of {self._max_sessions} sessions open ({ended or 'none begun'}); {self.turns:,} turns;"
            f" refused: {refused or 'nothing'}"
        )

    async def __aenter__(self) -> "Server":
        app = web.Application(client_max_size=LARGEST)
        for path in ("", "/{tag}"):
            app.router.add_get(f"{path}/ws", self._by_socket)
            app.router.add_post(f"{path}/reset", self._by_http("reset"))
            app.router.add_post(f"{path}/step", self._by_http("step"))
            app.router.add_get(f"{path}/state", self._by_http("state"))
            app.router.add_get(f"{path}/health", self._tell(lambda tag: {"status": "healthy"}))
            app.router.add_get(f"{path}/metadata", self._tell(self._metadata))
            app.router.add_get(f"{path}/schema", self._tell(lambda tag: SCHEMA))
        self._sending = dict[web.WebSocketResponse, float]()
        """Since when the clients have not read what they are sent."""
        self._sockets, self._closing = (
            dict[web.WebSocketResponse, asyncio.Transport | None](),
            set[asyncio.Future[Any]](),
        )
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=False, shutdown_timeout=2.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except (OSError, OverflowError, UnicodeError) as error:
            await self._runner.cleanup()
            raise ConfigError(
                f"{self._host}:{self._port} cannot be used ({getattr(error, 'strerror', None) or error}): give another"
                " --port or --host."
            ) from None
        self._keeper = asyncio.create_task(self._look_after())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._keeper.cancel()
        self.sessions.end_all()
        goodbyes = [socket.close(code=WSCloseCode.GOING_AWAY, message=b"the server stops") for socket in self._sockets]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*goodbyes, return_exceptions=True), GOODBYE_S)
        await self._runner.cleanup()

    # ---- routes

    async def _by_socket(self, request: web.Request) -> web.StreamResponse:
        """A connection: requests of one session, one after the other, until it is closed or lost."""
        socket = web.WebSocketResponse(heartbeat=20.0, max_msg_size=LARGEST)
        await socket.prepare(request)
        self._sockets[socket] = request.transport
        session: Session | None = None
        try:
            session = self._session_of(request)
            before, session.connection = session.connection, socket
            if isinstance(before, web.WebSocketResponse):
                log.info("a session of %s goes on over a new connection", session.tag)
                self._part_from(before)
            async for message in socket:
                if message.type is WSMsgType.ERROR:  # aiohttp has closed it, with the code that says why
                    self._refused(Refusal("VALIDATION_ERROR", f"no message of a WebSocket: {message.data}"))
                if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    break
                given = message.data if isinstance(message.data, str) else message.data.decode(errors="replace")
                answer = await self._answer(session, given)
                if answer is None:
                    self.sessions.end(session, "closed")
                    break
                with self._sending_to(socket):
                    await socket.send_str(answer)
            if socket.close_code == WSCloseCode.OK and session.connection is socket and not session.is_named:
                self.sessions.end(session, "closed")  # on purpose; the client of a named one may mean to come back
        except Refusal as refusal:  # there is no session
            with suppress(ConnectionError):
                await socket.send_str(write("error", self._refused(refusal)))
        except ConnectionError:
            pass  # the client is gone; the session waits for it
        finally:
            if session is not None:
                session.leave(socket)
            with suppress(ConnectionError), self._sending_to(socket):
                await socket.close()
            del self._sockets[socket]
        return socket

    async def _answer(self, session: Session, text: str) -> str | None:
        """The answer to a message; None: the session is to be closed."""
        try:
            message = read(text)
            kind, data = message.get("type"), message.get("data", {})
            if kind == "close":
                return None
            if kind not in ("reset", "step", "state"):
                raise Refusal(
                    "UNKNOWN_TYPE", f"Unknown message type: {str(kind)[:80]!r}; expected reset, step, state or close."
                )
            answer = await session.obey(kind, data)
            self.turns += kind == "step"
            return write("state" if kind == "state" else "observation", answer)
        except Exception as error:
            return write("error", self._refused(error))

    def _by_http(self, kind: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            session = None
            try:
                text = (await request.read()).decode(errors="replace")
                body = read(text) if text.strip() else {}
                session = self._session_of(request)
                session.connection = session.connection or "http"  # there is none to be lost
                if kind == "step" and NAME_HEADER not in request.headers:
                    await session.obey("reset", {})  # as OpenEnv's own server, which makes an environment for each call
                data = body.get("action") if kind == "step" else body
                if kind == "step" and isinstance(data, dict) and body.get("request_id"):
                    metadata = data.get("metadata", {})
                    known = {**metadata, "request_id": body["request_id"]} if isinstance(metadata, dict) else metadata
                    data = {**data, "metadata": known}
                answer = await session.obey(kind, data)
                self.turns += kind == "step"
                return web.Response(text=dump(answer), content_type="application/json")
            except ConnectionError:
                return web.Response(status=400)  # to no one: the client is gone
            except Exception as error:
                told = self._refused(error)
                status = error.status if isinstance(error, web.HTTPException) else STATUS.get(told["code"], 422)
                return web.json_response({"detail": told}, status=status)
            finally:
                if session is not None and NAME_HEADER not in request.headers:
                    self.sessions.end(session, "closed")

        return handle

    def _tell(self, what: Callable[[str], Any]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                return web.json_response(what(self._tag_of(request)))
            except Refusal as refusal:
                return web.json_response({"detail": self._refused(refusal)}, status=404)

        return handle

    # ---- inside

    def _metadata(self, tag: str) -> dict[str, Any]:
        context = Context(self._manager.tags[tag])
        told = {"name": tag, "description": context.tag.instruction or tag, "version": __version__, "author": "abreast"}
        return told if context.tools is None else {**told, "tools": context.tools.schemas}

    def _tag_of(self, request: web.Request) -> str:
        tag = request.match_info.get("tag", self._tags[0])
        if tag not in self._tags:
            raise Refusal("SESSION_ERROR", f"there is no tag {tag[:80]!r} here: {nearest(tag, self._tags)}")
        return tag

    def _session_of(self, request: web.Request) -> Session:
        """By `?session_id=`, as an observation has told it: that session or none. By the header X-Session-Id, a name that
        the client has chosen: that session, or a new one of this name; so a client whose headers are always the same comes
        back to its session whenever it connects.
        """
        wanted, name = request.query.get("session_id"), request.headers.get(NAME_HEADER)
        return self.sessions.take(self._tag_of(request), wanted, name)

    def _refused(self, error: Exception) -> dict[str, Any]:
        """Count it, and log the first of its code: `status` tells how many there were. What is no refusal is a fault of ours
        or of an environment: the others go on.
        """
        if isinstance(error, web.HTTPException):
            refusal = Refusal("VALIDATION_ERROR", f"{error.reason}: {error.text}")
        elif isinstance(error, Refusal):
            refusal = error
        else:
            log.error("a request failed", exc_info=error)
            refusal = Refusal("EXECUTION_ERROR", f"{type(error).__name__}: {error}")
        self.refusals[refusal.code] += 1
        if self.refusals[refusal.code] == 1:
            log.warning("a request was refused, %s: %s", refusal.code, " ".join(str(refusal).split())[:300])
        return refusal.data

    @contextmanager
    def _sending_to(self, socket: web.WebSocketResponse) -> Iterator[None]:
        """Within it, a client that does not read is cut off after a while: nothing else would ever end its connection."""
        self._sending.setdefault(socket, time.monotonic())
        try:
            yield
        finally:
            self._sending.pop(socket, None)

    def _part_from(self, socket: web.WebSocketResponse, told: str | None = None) -> None:
        """Close a connection, without waiting for a client that may be gone, or read slowly."""

        async def part() -> None:
            with suppress(ConnectionError), self._sending_to(socket):
                if told is not None:
                    await socket.send_str(told)
                await socket.close()

        task = asyncio.ensure_future(part())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(self._reap_s)
            for socket, since in list(self._sending.items()):
                if time.monotonic() - since > SLOW_S and (transport := self._sockets.get(socket)) is not None:
                    log.info("a connection was cut off: its client has read nothing for %g s", SLOW_S)
                    transport.abort()
            for connection in self.sessions.reap():
                if isinstance(connection, web.WebSocketResponse):
                    told = Refusal("SESSION_ERROR", "the session was idle for too long, and has ended.")
                    self._part_from(connection, write("error", self._refused(told)))
