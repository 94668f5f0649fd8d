"""The real package: its clients against our server, and its server for our client."""

import asyncio
import socket
import threading
import time
import uuid

import pytest

pytest.importorskip("openenv", reason="the package openenv is not installed: pip install openenv")

from openenv.core.generic_client import GenericEnvClient

from abreast.rollouts import EnvStateManager
from integrations.openenv.serving import COUNTING, Serving, until


@pytest.fixture(scope="module")
def serving():
    with Serving(["Counting"], COUNTING, max_sessions=3) as each:
        yield each


def test_its_client_plays(serving):
    with GenericEnvClient(base_url=serving.url).sync() as env:
        first = env.reset(seed=4)
        steps = [env.step({"action": "a"}) for _ in range(10)]
        state = env.state()
    assert first.observation["text"] == "0 steps, 0 in all"
    assert [step.done for step in steps] == [False] * 9 + [True]
    assert steps[-1].metadata["success"]
    assert state["step_count"] == 10
    serving.ask(until(lambda: not len(serving.server.sessions)))


def test_its_client_is_refused_beyond_the_limit_and_seeds_are_honoured(serving):
    async def play():
        clients = [GenericEnvClient(base_url=serving.url) for _ in range(4)]
        shown = []
        for client in clients[:3]:
            await client.reset(seed=9)
            shown.append((await client.step({"action": "a"})).observation["text"])
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            await clients[3].reset()
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            await clients[0].step({"action": 3})
        for client in clients:
            await client.close()
        return shown

    assert len(set(asyncio.run(play()))) == 1
    serving.ask(until(lambda: not len(serving.server.sessions)))


def test_its_client_comes_back_to_a_session_that_it_names(serving):
    async def cut():
        for each in list(serving.server._sockets):
            each._req.transport.abort()

    async def play():
        async with GenericEnvClient(base_url=serving.url, headers={"X-Session-Id": uuid.uuid4().hex}) as env:
            await env.reset(seed=1)
            await env.step({"action": "a"})
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(cut(), serving.loop))
            await until(lambda: env._ws.state.name == "CLOSED")
            return await env.step({"action": "a"})

    assert asyncio.run(play()).observation["text"].startswith("2 steps")


def test_its_server_is_an_environment_for_us():
    uvicorn = pytest.importorskip("uvicorn", reason="it comes with openenv")
    from openenv.core.env_server.http_server import HTTPEnvServer
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State

    class Say(Action):
        message: str

    class Said(Observation):
        text: str

    class Echo(Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, seed=None, episode_id=None, **more):
            self.said = [f"seed {seed}"]
            return Said(text=self.said[0])

        def step(self, action, timeout_s=None, **more):
            self.said.append(action.message)
            return Said(text=" ".join(self.said), reward=len(action.message), done=len(self.said) == 4)

        @property
        def state(self):
            return State(step_count=len(self.said) - 1)

    from fastapi import FastAPI

    app = FastAPI()
    HTTPEnvServer(Echo, Say, Said, max_concurrent_envs=4).register_routes(app)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        name = f"openenv:http://127.0.0.1:{port}"
        with EnvStateManager.for_tag(name, use_multiprocessing=False) as manager, manager.episode(seed=6) as episode:
            assert episode.state == "seed 6"
            assert episode.step(["a", "bc"])[:3] == ("seed 6 a bc", 3.0, False)
            assert episode.step(["d"]).done
    finally:
        server.should_exit = True
        thread.join(20)
