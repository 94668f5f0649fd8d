"""A server in a thread, and plain clients for it."""

import asyncio
import contextlib
import threading

import aiohttp

import villain_envs  # noqa: F401 (registers its environments)
from abreast.integrations.openenv import Server
from abreast.rollouts import EnvStateManager

PATIENCE_S = 60
"""For an answer. The first one of workers waits for the fork server, which imports torch: 15 s on a busy machine."""
COUNTING = {"Counting": {"env_type": "Counting", "max_actions_per_traj": 20}}


class Serving:
    """`with Serving(["Bandit"], max_sessions=2) as serving: serving.url`; `ask` runs a coroutine in its event loop."""

    def __init__(self, tags, custom=None, use_multiprocessing=False, context=None, **server):
        episodes = {"max": server.get("max_sessions", 256), "idle_timeout": None}
        own = {"use_multiprocessing": use_multiprocessing, "max_workers": 2, "episodes": episodes}
        self.manager = EnvStateManager(
            {"custom_envs": custom or {}, "es_manager": own, "context": context or {}}, tags=tags
        )
        self._server = server
        self._ready = threading.Event()

    def _run(self):
        async def serve():
            self.loop, self._end = asyncio.get_running_loop(), asyncio.Event()
            async with Server(self.manager, port=0, **self._server) as self.server:
                self.url = self.server.url
                self._ready.set()
                await self._end.wait()

        asyncio.run(serve())

    def __enter__(self):
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *error):
        self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(20)
        self.manager.close()
        assert not self._thread.is_alive()

    def ask_long(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def ask(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


class Client:
    """One connection; `send` without waiting, `receive`, or `ask` for both."""

    def __init__(self, http, socket):
        self.http, self.socket = http, socket

    async def send(self, kind, data=None):
        await self.socket.send_json({"type": kind, **({} if data is None else {"data": data})})

    async def receive(self):
        return await asyncio.wait_for(self.socket.receive_json(), PATIENCE_S)

    async def ask(self, kind, data=None):
        await self.send(kind, data)
        return await self.receive()

    def drop(self):
        """The network is gone: no closing frame, no farewell."""
        self.socket._response.connection.transport.abort()


@contextlib.asynccontextmanager
async def connected(url, http=None, query="", **headers):
    async with contextlib.AsyncExitStack() as stack:
        http = http or await stack.enter_async_context(aiohttp.ClientSession())
        socket = await http.ws_connect(f"{url}/ws{query}", headers=headers)
        try:
            yield Client(http, socket)
        finally:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(socket.close(), 1)


async def until(condition, limit_s=15.0):
    """Wait until something is so."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.01)
