"""A session on an OpenEnv server, for callers that wait; and how it goes on after a lost connection.

Sockets belong to an event loop in a thread of its own, one for each process: environments are stepped in any thread, also in
one whose own event loop runs.
"""

import asyncio
import json
import os
import threading
import time
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from abreast.errors import RolloutError
from abreast.plugins import import_extra

LARGEST = 2**27
"""Bytes of a message."""
CONNECT_S = 10.0
PAUSE_S = 0.1
"""Before a lost connection is tried again."""
T = TypeVar("T")


class Lost(Exception):
    """The connection is gone, and with it perhaps an answer."""


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
"""By the number of the process."""


def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process. The first caller starts it; where several are the first, one of them."""
    pid = os.getpid()
    if pid not in _LOOPS:
        made = asyncio.new_event_loop()
        if _LOOPS.setdefault(pid, made) is made:
            threading.Thread(target=made.run_forever, name="abreast openenv", daemon=True).start()
        else:
            made.close()
    return _LOOPS[pid]


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine in the event loop of this process; if the caller is interrupted, it is cancelled."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result()
    finally:
        future.cancel()


class Connection:
    """One session of a server, under a name that the server may know again."""

    def __init__(self, base_url: str, timeout: float, reconnect: float) -> None:
        self._aiohttp = import_extra("aiohttp", "an OpenEnv server needs", "openenv", RolloutError)
        self._url, self._timeout, self._reconnect = base_url, timeout, reconnect
        self._http: Any = None
        self._socket: Any = None
        self._next: Any = None
        """The next message over the socket. It is always waited for: only then does aiohttp answer the server's pings."""
        self._closing = set[asyncio.Future[Any]]()
        self._name = uuid.uuid4().hex
        self.is_resumable = False
        """Whether the server has said that this session can be taken up again, and an action that is sent again is not
        executed again."""

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return the data of the answer."""
        until = time.monotonic() + self._reconnect
        while True:
            try:
                return wait_for(self._ask(message))
            except Lost as lost:
                if message["type"] == "step" and not self.is_resumable:
                    raise RolloutError(
                        f"the connection to {self._url} was lost ({lost}), and the server cannot take up a session again."
                    ) from None
                if time.monotonic() > until:
                    raise RolloutError(
                        f"no server answers at {self._url} ({lost}): start one, or correct base_url."
                    ) from None
                time.sleep(PAUSE_S)

    def schema(self) -> dict[str, Any]:
        """What the server says of its actions and observations."""
        told = wait_for(self._schema())
        if not all(isinstance(told.get(key), dict) for key in ("action", "observation")):
            raise RolloutError(
                f"{self._url} is no OpenEnv server, or of another version: its /schema has no action and observation."
            )
        return told

    def close(self) -> None:
        """End the session."""
        wait_for(self._close())

    # ---- in the event loop

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        aiohttp = self._aiohttp
        try:
            async with asyncio.timeout(self._timeout):
                if self._socket is not None and self._next.done() and message["type"] == "reset":
                    await self._drop()  # the server has ended the session: a reset begins another
                if self._socket is None:
                    await self._connect()
                if not self._next.done():
                    await self._socket.send_str(json.dumps(message))
                received = await self._next
                self._next = asyncio.ensure_future(self._socket.receive())
        except TimeoutError:
            await self._drop()
            raise RolloutError(f"{self._url} gave no answer to {message['type']} within {self._timeout:g} s.") from None
        except (aiohttp.ClientError, OSError) as error:
            await self._drop()
            raise Lost(str(error) or type(error).__name__) from None
        except BaseException:  # the caller was interrupted: an answer that comes later is not one to the next message
            await self._drop()
            raise
        if received.type is not aiohttp.WSMsgType.TEXT:
            await self._drop()
            raise Lost("it was closed")
        return await self._read(received.data, message["type"])

    async def _read(self, text: str, kind: str) -> dict[str, Any]:
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            answer = json.loads(text)
            told, data = answer["type"], answer["data"]
            if told == "error":
                code, said = data.get("code"), " ".join(str(data.get("message")).split())[:300].rstrip(".")
                if code in ("CAPACITY_REACHED", "SESSION_ERROR", "FACTORY_ERROR"):
                    await self._drop()
                raise RolloutError(f"the server at {self._url} refuses {kind}: {said} ({code}).")
            if told == "observation" and kind in ("reset", "step") and isinstance(data["observation"], dict):
                return dict(data)
        await self._drop()
        raise RolloutError(
            f"{self._url} answers {kind} otherwise than OpenEnv 0.10 does: it is no OpenEnv server, or of another version."
        )

    async def _connect(self) -> None:
        aiohttp = self._aiohttp
        if self._http is None:
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S))
        try:
            self._socket = await self._http.ws_connect(
                f"{self._url}/ws", headers={"X-Session-Id": self._name}, max_msg_size=LARGEST, heartbeat=20.0
            )
            self._next = asyncio.ensure_future(self._socket.receive())
        except aiohttp.WSServerHandshakeError as error:
            raise RolloutError(
                f"{self._url} is no OpenEnv server: it takes no WebSocket at /ws (status {error.status})."
            ) from None

    async def _schema(self) -> dict[str, Any]:
        aiohttp = self._aiohttp
        limit = aiohttp.ClientTimeout(total=self._timeout, sock_connect=CONNECT_S)
        try:
            async with aiohttp.ClientSession(timeout=limit) as http, http.get(f"{self._url}/schema") as response:
                if response.status != 200:
                    raise RolloutError(
                        f"{self._url} is no OpenEnv server: GET /schema has status {response.status}"
                        f" ({(await response.text())[:200].strip()})."
                    )
                told = json.loads(await response.read())
                return told if isinstance(told, dict) else {}
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = str(error) or f"nothing within {self._timeout:g} s"
            raise RolloutError(f"no server answers at {self._url} ({why}): start one, or correct base_url.") from None
        except ValueError:
            raise RolloutError(f"{self._url} is no OpenEnv server: GET /schema is no JSON.") from None

    async def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            self._next.cancel()
            task = asyncio.ensure_future(socket.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def _close(self) -> None:
        socket, self._socket = self._socket, None
        http, self._http = self._http, None
        if socket is not None:
            self._next.cancel()
            with suppress(self._aiohttp.ClientError, OSError):  # then it is closed
                await socket.send_str(json.dumps({"type": "close"}))
                await asyncio.wait_for(socket.close(), CONNECT_S)
        if http is not None:
            await http.close()
