"""`abreast serve`, by plain WebSockets and HTTP: the package openenv is not needed."""

import asyncio
import contextlib
import logging
import socket

import aiohttp
import pytest

from abreast.errors import ConfigError
from abreast.integrations.openenv import Server, server
from abreast.rollouts import EnvStateManager
from integrations.openenv.serving import COUNTING, Serving, connected, until


@pytest.fixture(scope="module")
def serving():
    with Serving(["FrozenLake", "Bandit", "Counting"], COUNTING) as each:
        yield each


def shown(answer):
    assert answer["type"] == "observation", answer
    return answer["data"]["observation"]["text"]


def test_a_session_plays_what_the_manager_plays(serving):
    async def play():
        async with connected(f"{serving.url}/Counting") as client:
            first = await client.ask("reset", {"seed": 7, "episode_id": "mine", "unknown_key": 1})
            steps = [await client.ask("step", {"action": "go"}) for _ in range(10)]
            return first, steps, await client.ask("state")

    first, steps, state = serving.ask(play())
    own = EnvStateManager.for_tag("Counting", config={"custom_envs": COUNTING}, use_multiprocessing=False)
    with own as manager, manager.episode(seed=7) as episode:
        assert shown(first) == episode.state
        for step in steps:
            mine = episode.step(["go"])
            assert (shown(step), step["data"]["reward"], step["data"]["done"]) == mine[:3]
    told = first["data"]["metadata"]
    assert first["data"]["observation"]["metadata"] == told
    assert (told["seed"], told["tag"], told["episode_id"]) == (7, "Counting", "mine")
    assert steps[-1]["data"]["metadata"]["success"]
    assert state["data"] | {"score": 0} == {
        "episode_id": "mine", "step_count": 10, "session_id": told["session_id"], "tag": "Counting", "seed": 7,
        "done": True, "score": 0,
    }  # fmt: skip


def test_an_answer_of_a_language_model_is_parsed_and_prompted_for(serving):
    async def play():
        async with connected(serving.url) as client:
            first = await client.ask("reset", {"seed": 1, "messages": True})
            answer = "<think>Down.</think><answer>Down || Right</answer>"
            return first["data"]["observation"], (await client.ask("step", {"message": answer}))["data"]

    first, step = serving.ask(play())
    assert first["messages"][-1]["role"] == "user"
    assert first["text"] in first["messages"][-1]["content"]
    assert first["metadata"]["info"]["available_actions"] == ["Left", "Down", "Right", "Up"]
    assert len(step["observation"]["messages"]) > len(first["messages"])
    assert step["metadata"]["invalid"] == []
    assert step["metadata"]["penalty"] == 0


def test_tools_are_told_and_an_answer_that_is_no_legal_call_costs_a_penalty():
    call = '<tool_call>{"name": "act", "arguments": {"action": "Down"}}</tool_call>'
    with Serving(["FrozenLake"], context={"tools": True}) as serving:

        async def play():
            async with connected(serving.url) as client, client.http.get(f"{serving.url}/metadata") as told:
                (tool,) = (await told.json())["tools"]
                await client.ask("reset", {"seed": 1})
                answers = (call, call.replace("Down", "Sideways"), call.replace("act", "fly"), "I go down.", "{", "")
                return tool["function"]["name"], [await client.ask("step", {"message": each}) for each in answers]

        name, steps = serving.ask(play())
    costs = [step["data"]["metadata"]["penalty"] for step in steps]
    assert name == "act" and costs == pytest.approx([0, *[-0.1] * 5]) and not serving.server.refusals
    assert [bool(step["data"]["metadata"]["invalid"]) for step in steps] == [False, *[True] * 5]


def test_an_unknown_action_costs_a_penalty_beside_the_reward(serving):
    async def play():
        async with connected(serving.url) as client:
            await client.ask("reset", {"seed": 1})
            return (await client.ask("step", {"action": "jump"}))["data"]

    step = serving.ask(play())
    assert (step["reward"], step["metadata"]["penalty"]) == (0.0, pytest.approx(-0.1))
    assert "jump" in step["metadata"]["invalid"][0]


BAD = {
    "no JSON": ("{", "INVALID_JSON"),
    "no object": ("[1]", "INVALID_JSON"),
    "too deep": ("[" * 100_000, "INVALID_JSON"),
    "unknown type": ('{"type": "dance"}', "UNKNOWN_TYPE"),
    "a type that is no text": ('{"type": {"a": 1}}', "UNKNOWN_TYPE"),
    "an action that is no text": ('{"type": "step", "data": {"action": 3}}', "VALIDATION_ERROR"),
    "an action of another environment": ('{"type": "step", "data": {"code": "x"}}', "VALIDATION_ERROR"),
    "both": ('{"type": "step", "data": {"action": "a", "message": "b"}}', "VALIDATION_ERROR"),
    "no data": ('{"type": "step", "data": null}', "VALIDATION_ERROR"),
    "a seed that is none": ('{"type": "reset", "data": {"seed": "x"}}', "VALIDATION_ERROR"),
    "a seed below 0": ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR"),
    "a seed too large": ('{"type": "reset", "data": {"seed": 1e300}}', "VALIDATION_ERROR"),
    "a step before reset": ('{"type": "step", "data": {"action": "Up"}}', "EXECUTION_ERROR"),
}


def test_bad_messages_are_refused_by_code_and_the_session_goes_on(serving):
    async def play():
        told = {}
        async with connected(serving.url) as client:
            for name, (text, _) in BAD.items():
                await client.socket.send_str(text)
                told[name] = await client.receive()
            return told, await client.ask("reset", {"seed": 3})

    told, after = serving.ask(play())
    assert {name: answer["data"]["code"] for name, answer in told.items()} == {n: code for n, (_, code) in BAD.items()}
    assert all(answer["type"] == "error" and answer["data"]["message"] for answer in told.values())
    assert shown(after)


@pytest.mark.parametrize("frame", [b"\x81\xff" + (2**40).to_bytes(8), b"\xff\xff rubbish"], ids=["huge", "malformed"])
def test_a_frame_that_is_not_taken_is_refused_by_its_close_code(frame, caplog):
    with Serving(["Bandit"], grace=0.1) as serving:

        async def play():
            async with connected(serving.url) as client:
                await client.ask("reset")
                client.socket._response.connection.transport.write(frame)
                closed = await client.socket.receive()
            await until(lambda: not len(serving.server.sessions))
            return closed.data

        with caplog.at_level(logging.WARNING, "abreast"):
            assert serving.ask(play()) == (1009 if frame[0] == 0x81 else 1002)
        assert serving.server.refusals == {"VALIDATION_ERROR": 1} and serving.manager.episodes_under_way == 0
        assert "a request was refused, VALIDATION_ERROR: no message of a WebSocket" in caplog.text


def test_a_client_that_does_not_read_is_cut_off(monkeypatch):
    monkeypatch.setattr(server, "SLOW_S", 0.2)
    with Serving(["Bandit"], grace=0.1) as serving:

        async def play():
            async with connected(serving.url) as client:
                client.socket._response.connection.transport.pause_reading()
                (theirs,) = serving.server._sockets.values()
                theirs.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
                sent = asyncio.create_task(flood(client))
                await until(lambda: not serving.server._sockets)
                sent.cancel()
            await until(lambda: not len(serving.server.sessions))

        async def flood(client):
            with contextlib.suppress(ConnectionError):
                while True:
                    await client.send("reset", {"seed": 1, "messages": True})
                    await asyncio.sleep(0)

        serving.ask(play())
        assert serving.manager.episodes_under_way == 0


def test_http_has_the_routes_of_the_package(serving):
    async def play():
        async with aiohttp.ClientSession(serving.url) as http:

            async def ask(method, path, **more):
                async with http.request(method, path, **more) as response:
                    return response.status, await response.json(content_type=None)

            named = {"X-Session-Id": "by-http"}
            return {
                "health": await ask("GET", "/health"),
                "metadata": await ask("GET", "/Bandit/metadata"),
                "schema": await ask("GET", "/schema"),
                "reset": await ask("POST", "/reset", json={"seed": 5}),
                "again": await ask("POST", "/reset", json={"seed": 5}),
                "step": await ask("POST", "/step", json={"action": {"action": "Up"}}),
                "state": await ask("GET", "/state"),
                "begun": await ask("POST", "/Counting/reset", json={"seed": 5}, headers=named),
                "one": await ask("POST", "/Counting/step", json={"action": {"action": "a"}}, headers=named),
                "two": await ask(
                    "POST", "/Counting/step", json={"action": {"action": "a"}, "request_id": "r"}, headers=named
                ),
                "two again": await ask(
                    "POST", "/Counting/step", json={"action": {"action": "a"}, "request_id": "r"}, headers=named
                ),
                "bad": await ask("POST", "/reset", data="{"),
                "huge": await ask("POST", "/reset", data=b" " * (server.LARGEST + 1)),
                "bad metadata": await ask(
                    "POST", "/step", json={"action": {"action": "a", "metadata": [1]}, "request_id": "r"}
                ),
                "bad step": await ask("POST", "/step", json={}),
                "no tag": await ask("GET", "/FrozenLak/health"),
            }

    told = serving.ask(play())
    assert told["health"] == (200, {"status": "healthy"})
    assert told["metadata"][1]["name"] == "Bandit"
    assert {"action", "observation", "state"} == set(told["schema"][1])
    first, again = ({**told[key][1]["observation"], "metadata": None} for key in ("reset", "again"))
    assert first == again
    assert told["step"][0] == 200
    assert told["state"][1]["step_count"] == 0
    assert [told[key][1]["observation"]["text"][:7] for key in ("begun", "one", "two")] == [
        "0 steps",
        "1 steps",
        "2 steps",
    ]
    assert told["two again"] == told["two"]
    assert [told[key][0] for key in ("bad", "bad step", "bad metadata", "huge", "no tag")] == [422, 422, 422, 413, 404]
    assert told["huge"][1]["detail"]["code"] == told["bad metadata"][1]["detail"]["code"] == "VALIDATION_ERROR"
    assert "FrozenLake" in told["no tag"][1]["detail"]["message"]
    assert serving.manager.episodes_under_way <= 1  # that of the named session


def test_sessions_beyond_the_limit_are_refused_and_places_come_back():
    with Serving(["Bandit"], max_sessions=2) as serving:

        async def play():
            async with connected(serving.url) as one, connected(serving.url) as two:
                await one.ask("reset")
                await two.ask("reset")
                async with connected(serving.url) as three:
                    refused = await three.receive()
                await two.ask("reset")  # another episode of the same session
                await two.send("close")
                await until(lambda: len(serving.server.sessions) == 1)
                async with connected(serving.url) as four:
                    return refused, await four.ask("reset")

        refused, begun = serving.ask(play())
        assert refused["type"] == "error"
        told = refused["data"]
        assert (told["code"], told["active_sessions"], told["max_sessions"]) == ("CAPACITY_REACHED", 2, 2)
        assert shown(begun)


def test_a_lost_client_does_not_keep_a_place_that_another_wants():
    with Serving(["Bandit"], max_sessions=1, grace=600) as serving:

        async def play():
            async with connected(serving.url) as one:
                await one.ask("reset")
                one.drop()
                await until(lambda: next(iter(serving.server.sessions._open.values())).connection is None)
            async with connected(serving.url) as two:
                return await two.ask("reset")

        assert shown(serving.ask(play()))


@pytest.mark.parametrize("by", ["query", "header"])
def test_a_session_goes_on_after_a_lost_connection_and_no_action_is_executed_twice(serving, by):
    async def play():
        headers = {} if by == "query" else {"X-Session-Id": "my own name"}
        async with connected(f"{serving.url}/Counting", **headers) as client:
            first = await client.ask("reset", {"seed": 2})
            await client.ask("step", {"action": "a"})
            await client.send("step", {"action": "a", "metadata": {"request_id": "second"}})
            client.drop()
        query = f"?session_id={first['data']['metadata']['session_id']}" if by == "query" else ""
        async with connected(f"{serving.url}/Counting", query=query, **headers) as client:
            again = await client.ask("step", {"action": "a", "metadata": {"request_id": "second"}})
            third = await client.ask("step", {"action": "a", "metadata": {"request_id": "third"}})
            await client.send("close")
        return again, third

    again, third = serving.ask(play())
    assert shown(again).startswith("2 steps")
    assert shown(third).startswith("3 steps")


def test_what_a_connection_still_holds_is_not_executed_once_there_is_a_newer_one(serving):
    async def play():
        async with connected(serving.url + "/Counting", **{"X-Session-Id": "twice"}) as older:
            await older.ask("reset", {"seed": 2})
            session = serving.server.sessions._open["twice"]
            await session.lock.acquire()  # as in a long turn
            await older.send("step", {"action": "a"})
            await older.send("step", {"action": "a"})
            await until(lambda: session.lock._waiters)
            async with connected(serving.url + "/Counting", **{"X-Session-Id": "twice"}) as newer:
                session.lock.release()
                while (await older.socket.receive()).type is aiohttp.WSMsgType.TEXT:
                    pass
                state = await newer.ask("state")
                await newer.send("close")
        return state["data"]["step_count"]

    assert serving.ask(play()) == 1


def test_a_request_by_http_that_is_not_sent_to_its_end_takes_no_place(caplog):
    with Serving(["Bandit"], max_sessions=1) as serving:

        async def play():
            port = int(serving.url.rpartition(":")[2])
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /reset HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n{")
            async with connected(serving.url) as client:
                begun = await client.ask("reset")
                writer.transport.abort()
                return begun, await client.ask("state")

        begun, _ = serving.ask(play())
        assert shown(begun)
    assert "Traceback" not in caplog.text and not serving.server.refusals


def test_an_unknown_session_is_refused(serving):
    async def play():
        async with connected(serving.url, query="?session_id=none") as client:
            return await client.receive()

    assert serving.ask(play())["data"]["code"] == "SESSION_ERROR"


def test_idle_and_lost_sessions_are_ended():
    with Serving(["Bandit"], idle_timeout=0.3, grace=0.1) as serving:

        async def play():
            async with connected(serving.url) as idle, connected(serving.url) as lost:
                await idle.ask("reset")
                await lost.ask("reset")
                lost.drop()
                told = await idle.receive()
                await until(lambda: not len(serving.server.sessions))
                return told

        assert serving.ask(play())["data"]["code"] == "SESSION_ERROR"
        assert serving.manager.episodes_under_way == 0
        assert serving.server.sessions.counts["idle"] == serving.server.sessions.counts["lost"] == 1
        assert "0 of 256 sessions open" in serving.server.status()


def test_a_port_in_use_is_one_sentence(serving):
    async def again():
        port = int(serving.url.rpartition(":")[2])
        async with Server(serving.manager, port=port):
            pass

    with pytest.raises(ConfigError, match=r"cannot be used .*: give another --port"):
        serving.ask(again())


@pytest.mark.parametrize("host", ["no such host.", "a..b", "203.0.113.7"])
def test_a_host_that_cannot_be_bound_is_one_sentence(serving, host):
    async def begin():
        async with Server(serving.manager, host, 0):
            pass

    with pytest.raises(ConfigError, match=r"cannot be used .*: give another --port or --host\.$"):
        serving.ask(begin())
