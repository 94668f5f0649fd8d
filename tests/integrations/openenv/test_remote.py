"""An OpenEnv server as an environment: `openenv:http://…`."""

import asyncio
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import aiohttp
import pytest
from aiohttp import web

from abreast.cli import run
from abreast.errors import ConfigError, RolloutError
from abreast.rollouts import EnvStateManager
from abreast.rollouts.check import check_environment
from abreast.rollouts.envs.openenv import connection
from abreast.rollouts.registry import find_tag
from integrations.openenv.serving import COUNTING, Serving, until


@pytest.fixture(scope="module")
def serving():
    with Serving(["Counting", "FrozenLake"], COUNTING) as each:
        yield each


class Stranger:
    """A server of another project: actions have `message`, observations `echoed_message`; or as odd as a test wants."""

    def __init__(self, schema=None, answer=None):
        properties = {"message": {"type": "string"}, "metadata": {"type": "object"}}
        self._schema = schema or {"action": {"properties": properties, "required": ["message"]}, "observation": {}}
        self._answer = answer or self.echo
        self.steps = 0
        self.drops = False
        self.ponged = threading.Event()

    def echo(self, message):
        said = message.get("data", {}).get("message", "Echo ready")
        self.steps += message["type"] == "step"
        data = {"observation": {"echoed_message": said}, "reward": float(len(said)), "done": said == "end"}
        return json.dumps({"type": "observation", "data": data})

    async def _socket(self, request):
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        async for message in socket:
            if message.type is aiohttp.WSMsgType.PONG:
                self.ponged.set()
                continue
            given = json.loads(message.data)
            if given["type"] == "close":
                break
            answer = self._answer(given)
            if self.drops and given["type"] == "step":
                request.transport.abort()
                break
            await socket.send_str(answer)
            await socket.ping()
        return socket

    async def start(self):
        app = web.Application()
        app.router.add_get("/ws", self._socket)
        app.router.add_get("/schema", self._tell)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _tell(self, request):
        return web.json_response(self._schema)

    async def stop(self):
        await self._runner.cleanup()


@pytest.fixture
def stranger(serving):
    """Starts strangers in the event loop of the server, and stops them in the end."""
    started = []

    def start(**more):
        each = Stranger(**more)
        started.append(each)
        return each, serving.ask(each.start())

    yield start
    for each in started:
        serving.ask(each.stop())


def manager_of(url, **env_config):
    custom = {"Far": {"env_type": "openenv", "max_actions_per_traj": 20, "env_config": {"base_url": url, **env_config}}}
    groups = {"env_groups": 3, "group_size": 1, "env_configs": {"tags": ["Far"], "n_groups": [3]}}
    return EnvStateManager({"custom_envs": custom, "es_manager": {"train": groups, "use_multiprocessing": False}})


def test_a_batch_over_the_network_equals_one_here(serving):
    groups = {"env_groups": 3, "group_size": 1, "env_configs": {"tags": ["Counting"], "n_groups": [3]}}
    near = {"custom_envs": COUNTING, "es_manager": {"train": groups, "use_multiprocessing": False}}
    with manager_of(f"{serving.url}/Counting") as far, EnvStateManager(near) as here:
        histories = []
        for manager in (far, here):
            outputs = manager.reset(seed=5)
            while outputs:
                outputs = manager.step([{"env_id": each["env_id"], "actions": ["a", "b"]} for each in outputs])
            histories.append([[(e["state"], e.get("reward")) for e in cache["history"]] for cache in manager.caches])
            assert manager.get_rollout_states()["tags"].popitem()[1]["success"] == 1.0
    assert histories[0] == histories[1]


def test_single_episodes_of_tasks_over_the_network(serving):
    async def one(manager, seed):
        async with manager.episode(seed=seed) as episode:
            while not episode.done:
                await episode.step(["a"])
            return episode.seed, episode.state, episode.reward, episode.cache["history"][-2]["info"]

    async def many(manager):
        return await asyncio.gather(*(one(manager, seed) for seed in (1, 2, 1)))

    name = f"openenv:{serving.url}/Counting"
    with EnvStateManager.for_tag(name, use_multiprocessing="threads") as manager:
        first, second, again = asyncio.run(many(manager))
    assert first == again
    assert first[1] != second[1]


def test_all_connections_of_a_process_are_in_one_event_loop_though_they_begin_at_once(monkeypatch):
    async def where():
        return asyncio.get_running_loop()

    def make_slowly():
        time.sleep(0.05)
        return make()

    make = asyncio.new_event_loop
    monkeypatch.setattr(connection, "_LOOPS", {})
    monkeypatch.setattr(asyncio, "new_event_loop", make_slowly)
    with ThreadPoolExecutor(4) as threads:
        (loop,) = {each.result() for each in [threads.submit(lambda: connection.wait_for(where())) for _ in range(4)]}
    loop.call_soon_threadsafe(loop.stop)


def test_a_lost_connection_is_taken_up_again(serving):
    async def cut():
        for socket in list(serving.server._sockets):
            socket._req.transport.abort()

    with manager_of(f"{serving.url}/Counting") as manager, manager.episode("Far", seed=3) as episode:
        for number in range(1, 5):
            serving.ask(cut())
            assert episode.step(["a"]).state.startswith(f"{number} steps")


def test_a_server_of_another_project_is_played_and_a_lost_step_is_not_sent_twice(stranger):
    server, url = stranger()
    with manager_of(url) as manager:
        with manager.episode("Far", seed=3) as episode:
            assert episode.state == "Echo ready"
            assert episode.step(["hello"])[:3] == ("hello", 5.0, False)
            assert episode.step(["end"]).done
            assert episode.success
        server.drops, server.steps = True, 0
        with manager.episode("Far", seed=3) as episode:
            step = episode.step(["hello"])
            assert step.done
            assert "the server cannot take up a session again" in step.info["error"]
    assert server.steps == 1


def test_pings_are_answered_while_nothing_is_asked(stranger):
    """A language model may think for minutes: a server takes a client that answers no pings for lost."""
    server, url = stranger()
    with manager_of(url) as manager, manager.episode("Far", seed=3) as episode:
        assert server.ponged.wait(20)
        assert episode.step(["hello"]).state == "hello"


def test_after_a_session_was_idle_for_too_long_a_step_says_so_and_an_episode_begins_another():
    with Serving(["Counting"], COUNTING, idle_timeout=0.2) as serving, manager_of(serving.url) as manager:

        def wait_for_the_end():
            serving.ask(until(lambda: not len(serving.server.sessions)))

        with manager.episode("Far", seed=3) as episode:
            wait_for_the_end()
            step = episode.step(["a"])
            assert step.done and "refuses step: the session was idle for too long" in step.info["error"]
        with manager.episode("Far", seed=3) as episode:
            assert episode.state.startswith("0 steps")
        wait_for_the_end()
        with manager.episode("Far", seed=3) as episode:
            assert episode.state.startswith("0 steps")


ODD = {
    "no action in the schema": ({"schema": {"detail": "?"}}, "is no OpenEnv server, or of another version"),
    "no text in actions": ({"schema": {"action": {"properties": {"id": {}}}, "observation": {}}}, "action_key"),
    "no JSON": ({"answer": lambda message: "hello"}, "otherwise than OpenEnv 0.10"),
    "another form": ({"answer": lambda message: '{"obs": 1}'}, "otherwise than OpenEnv 0.10"),
    "a refusal": (
        {"answer": lambda message: '{"type": "error", "data": {"code": "CAPACITY_REACHED", "message": "full."}}'},
        r"refuses reset: full \(CAPACITY_REACHED\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_odd_servers_are_refused_in_one_sentence(stranger, case):
    more, told = ODD[case]
    _, url = stranger(**more)
    with manager_of(url) as manager, pytest.raises(RolloutError, match=told):
        manager.episode("Far").begin()


def test_check_passes_and_says_what_cannot_be_replayed(serving, tmp_path, monkeypatch):
    verdicts = list(check_environment(f"openenv:{serving.url}"))
    assert [verdict for verdict in verdicts if verdict.outcome != "ok"] == []
    tag = find_tag(f"openenv:{serving.url}", {})
    assert tag.kind.env.replayable
    custom = {"Far": {"env_type": "openenv", "env_config": {"base_url": serving.url, "replayable": False}}}
    with pytest.raises(RolloutError, match="cannot be replayed"):
        EnvStateManager({"custom_envs": custom}, tags=["Far"], verify=True)


def test_no_server_is_one_sentence_and_exit_code_2(stranger, serving, capsys, tmp_path):
    _, page = stranger(schema=[1])
    for command, told in (
        (["rollout", "openenv:http://127.0.0.1:1", "--output", str(tmp_path / "run")], "no server answers at"),
        (["rollout", f"openenv:{page}", "--output", str(tmp_path / "run")], "is no OpenEnv server"),
        (["rollout", "openenv:nowhere"], "expected the address of a server"),
        (["rollout", f"openenv:{serving.url}/Nothing", "--output", str(tmp_path / "run")], "there is no tag 'Nothing'"),
        (["check", "openenv:http://127.0.0.1:1"], "no server answers at"),
        (["serve", "FrozenLakee"], "did you mean 'FrozenLake'"),
        (["serve", "Bandit", "Bandit"], "each once"),
        (["serve", "Bandit", "--max-sessions", "100000000"], "or lower --max-sessions from 100000000"),
        (["serve", "Bandit", "--port", serving.url.rpartition(":")[2]], "cannot be used"),
    ):
        assert run(command) == 2, command
        said = capsys.readouterr()
        assert told in " ".join((said.err + said.out).split()), command
    assert not (tmp_path / "run").exists()


def test_without_aiohttp_both_say_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    for name in [name for name in sys.modules if name.startswith("abreast.integrations.openenv")]:
        monkeypatch.delitem(sys.modules, name)
    for command in (
        ["serve", "Bandit", "--port", "0"],
        ["rollout", "openenv:http://127.0.0.1:1", "--output", str(tmp_path / "run")],
    ):
        assert run(command) == 2
        assert 'needs the package aiohttp: pip install "abreast[openenv]".' in " ".join(capsys.readouterr().err.split())


def test_an_address_is_checked_before_anything_is_asked():
    with pytest.raises(ConfigError, match="expected the address of a server"):
        find_tag("openenv:ftp://here", {})
    assert find_tag("openenv:ws://here:1/", {}).config.base_url == "http://here:1"
